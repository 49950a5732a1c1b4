"""The command line as a whole: version, help, suggestions, completion, the log."""

from __future__ import annotations

import json
import logging
import re
import subprocess

import pytest

import hynet
from hynet.cli import COMMANDS, main, terminal_width
from hynet.images.example import example
from hynet.training.recipes import RECIPES


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"hynet {hynet.__version__}\n"
    assert main(["--version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": hynet.__version__}


def test_help_is_a_command_too(capsys):
    assert main(["help"]) == 0
    overview = capsys.readouterr().out
    assert all(f"  {command} " in overview for command in COMMANDS)
    with pytest.raises(SystemExit):
        main(["help", "match"])
    assert "usage: hynet match" in capsys.readouterr().out
    assert main(["help", "matsh"]) == 2
    assert capsys.readouterr().err == (
        "hynet: no command 'matsh'; perhaps you meant match; `hynet --help` lists them.\n"
    )


def shown(capsys, *args: str) -> str:
    """The help, without the frame around it."""
    with pytest.raises(SystemExit):
        main([*args, "--help"])
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("command", ["match", "extract", "reconstruct"])
def test_detectors_and_models_are_listed_where_they_are_chosen(command, capsys):
    said = shown(capsys, command)
    assert "Names: dog, keynet. (default: dog)" in said
    assert "Names: default, default-float, light, commercial, default-int8, sift, rootsift" in said


def test_help_of_training_begins_with_the_recipes(capsys):
    said = shown(capsys, "train")
    assert said.index("RECIPE is one of:") < said.index("Example:")
    assert all(f" {name} " in said for name in [*RECIPES, "keynet"])


@pytest.mark.parametrize("command", ["match", "reconstruct"])
def test_short_help_shows_common_options_and_names_the_others(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    short = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([command, "--help-all"])
    full = capsys.readouterr().out
    assert len(short.splitlines()) <= 45
    assert max(len(line) for line in short.splitlines() if "hynet " not in line) <= 80
    options = [set(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE)) for text in (short, full)]
    assert "--model" in options[0] < options[1]
    named = short.partition(" more options: ")[2]
    assert all(option[2:] in named.replace("\n", " ") for option in options[1] - options[0])
    assert len(full.splitlines()) > len(short.splitlines())


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("train", "evaluate")])
def test_help_shows_types_as_people_read_them(command, capsys):
    said = shown(capsys, command)
    assert said.startswith(f"usage: hynet {command} ")
    for unreadable in ("None", "(default: )", "{", "default: True"):
        assert unreadable not in said


def test_help_of_a_dataclass_comes_from_its_comments(capsys):
    said = shown(capsys, "evaluate", "ubc")
    assert "--data PATH the folder with the benchmark's data" in said
    said = shown(capsys, "train", "hynet")
    assert "--minutes FLOAT wall-clock time; the time between" in said
    assert "--start-from TEXT weights to start from" in said


@pytest.mark.parametrize(
    ("args", "new"),
    [
        ("match a.jpg b.jpg --upright", "--upright is now --orientation upright"),
        ("extract photos --out f.h5 --affine", "--affine is now --shape baumberg"),
        ("extract photos --out f.h5 --descriptor sift", "--descriptor is now --model"),
        ("evaluate ubc --data liberty --pairs 50000", "--pairs is now --pair-list"),
        ("train hynet --data set --out run --lessons 0.5", "--lessons is now --distill-fraction"),
        ("patches castle --out set --workers 2", "--workers is now --jobs"),
        ("patches castle --out set --mapping-threads 2", "--mapping-threads is now --mapper-threads"),
    ],
)
def test_a_renamed_option_answers_with_its_new_form(args, new, capsys):
    assert main(args.split()) == 2
    assert capsys.readouterr().err.startswith(f"hynet: {new}. ")


def test_the_shell_completes_commands_recipes_benchmarks_and_options(capsys, tmp_path):
    assert main(["completion", "bash"]) == 0
    (tmp_path / "hynet").write_text(capsys.readouterr().out)
    ask = "COMP_WORDS=(hynet {0}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _hynet; echo ${{COMPREPLY[@]}}"
    typed = ("tr", "match --det", "train hynet-c", "train hynet-cpu --resu", "evaluate u", "evaluate imc --tas")
    asked = [
        f"source {tmp_path}/hynet",
        *(ask.format(words) for words in (*typed, "match a.j")),
        "echo ${#COMPREPLY[@]}",
    ]
    done = subprocess.run(["bash", "-c", "; ".join(asked)], capture_output=True, text=True)
    *found, nothing, count = done.stdout.splitlines()
    assert found == ["train", "--detector", "hynet-cpu", "--resume", "ubc", "--task"]
    assert (nothing, count) == ("", "0"), "so that bash looks for files"


def test_a_log_is_kept_for_those_who_turn_it_on(capsys, tmp_path):
    photos = [str(path) for path in example().paths]
    log, before = logging.getLogger("hynet"), logging.getLogger("hynet").handlers[:]
    command = ["match", *photos, "--model", "rootsift", "--max-keypoints", "100", "--out", str(tmp_path / "m.png")]
    try:
        assert main([*command, "-v", "--json"]) == 0
        captured = capsys.readouterr()
        assert "noon.jpg" in captured.err
        assert json.loads(captured.out)["matches"] >= 0
    finally:
        log.handlers[:] = before
        log.setLevel(logging.NOTSET)
    assert main([*command, "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_a_closed_output_has_no_width(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    assert terminal_width() is None
