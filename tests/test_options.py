"""Options that no other test gives: each arrives at what it is an option of."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

import pytest

import hynet.cli
from hynet.cli import main

NUMBERS = {
    **{"--alpha": 3.0, "--gamma": 0.2, "--sosr": 0.5, "--z": 2.7, "--dropout": 0.1, "--warmup": 0.1},
    **{"--average": 0.9, "--balance": 0.5, "--hard": 0.3, "--jitter": 0.4, "--light": 0.5, "--night": 0.2},
    **{"--blur": 0.1, "--noise": 0.2, "--jpeg": 0.3, "--distill-fraction": 0.5, "--checkpoint-minutes": 2.0},
    "--group-size": 4,
}
WORDS = {"--teacher": "default", "--schedule": "cosine"}
FLAGS = {"--certain": True, "--no-flips": False}
OTHERS = [
    ("extract photos --out c/ --longest 1200", "longest", 1200),
    ("extract photos --out c/ --no-recheck", "recheck", False),
    ("pairs c/ --out p.txt --exact", "exact", True),
    ("patches castle --out set --hard-share 0.5", "hard_share", 0.5),
    ("patches castle --out set --elliptic 0.25", "elliptic", 0.25),
    ("view model --photos photos", "photos", "photos"),
    ("app --no-browser", "browser", False),
    ("export --model m.pt --to m.onnx --licence CC0", "licence", "CC0"),
    ("export --model m.pt --to m.onnx --trained-on Liberty", "trained_on", "Liberty"),
]


class Parsed(Exception):
    """Raised with the values of a command in place of its work."""


@pytest.fixture
def values(monkeypatch):
    """Return what a command line asks for, by name, without doing it."""

    def parse_value(*args: Any, **options: Any) -> Any:
        raise Parsed(flat(really(*args, **options).keywords))

    def read(line: str) -> dict[str, Any]:
        with pytest.raises(Parsed) as parsed:
            main(line.split())
        return parsed.value.args[0]

    really = hynet.cli.parse_value
    monkeypatch.setattr(hynet.cli, "parse_value", parse_value)
    return read


def flat(given: dict[str, Any]) -> dict[str, Any]:
    """Values by name, those inside dataclasses among them."""
    inner = [flat(vars(value)) for value in given.values() if is_dataclass(value)]
    return {name: value for each in [given, *inner] for name, value in each.items()}


@pytest.mark.parametrize(("option", "value"), [*NUMBERS.items(), *WORDS.items()])
def test_an_option_of_training_becomes_a_setting_of_the_run(option, value, values):
    given = values(f"train hynet --data set --out run {option} {value}")
    assert given[option[2:].replace("-", "_")] == value


@pytest.mark.parametrize(("flag", "value"), FLAGS.items())
def test_a_flag_of_training_becomes_a_setting_of_the_run(flag, value, values):
    assert values(f"train hynet --data set --out run {flag}")[flag[2:].removeprefix("no-")] is value


@pytest.mark.parametrize(("line", "name", "value"), OTHERS)
def test_an_option_is_what_its_command_is_called_with(line, name, value, values):
    assert str(values(line)[name]) == str(value)
