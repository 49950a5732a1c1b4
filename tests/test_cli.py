"""The command line as a whole: version, help, suggestions, completion, the log."""

from __future__ import annotations

import json
import logging
import subprocess

import pytest

import hynet
from hynet.cli import COMMANDS, main, terminal_width
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
    assert "What finds keypoints: dog, keynet, or the path" in said
    assert "What describes keypoints: default, default-float, light, commercial, default-int8, sift, rootsift" in said


def test_help_of_training_begins_with_the_recipes(capsys):
    said = shown(capsys, "train")
    assert said.index("RECIPE is one of:") < said.index("Example:")
    assert all(f" {name} " in said for name in [*RECIPES, "keynet"])


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
    photos = [str(path) for path in hynet.images.example.sacre_coeur().paths]
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
