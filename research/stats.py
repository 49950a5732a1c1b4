"""The numbers of the architecture page, measured in the tree this file stands in: `make stats`, `make stats JSON=1`.

Each measure's docstring is its definition; every one gives the page's figure for the tree of commit 636d521.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .source import PACKAGE, Function, Route, Source

ROOT = Path(__file__).parents[1]
# journey -> the files it is read from, each under its new or its former name. Two photos are matched with parts that
# are opened by name, so the usual detector and matcher count as well.
JOURNEYS = {
    "match": (
        ("matching/two_photos.py", "matchers/two_photos.py"),
        ("features/detectors/dog.py", "detectors/dog.py"),
        ("matching/consensus.py", "matchers/consensus.py"),
    ),
    "train": (("training/train.py", "training/train.py"),),
    "reconstruct": (("sfm/reconstruct.py", "sfm/reconstruction.py"),),
    "evaluate": (
        ("evaluation/imc/evaluate.py", "evaluation/imc/__init__.py", "evaluation/imc.py", "benchmarks/imc/evaluate.py"),
    ),
}
EVALUATE = f"{PACKAGE}.evaluation.evaluate"  # the straight function of that journey, once there is one
SETTINGS = ("features/settings.py", "extractors/settings.py")
RUNTIME = ("runtime", "system")
# Fields of FeatureSettings. `descriptor`, `model` and `device` are left out: every network has them.
OPTIONS = {
    "detector",
    "max_keypoints",
    "longest",
    "score_threshold",
    "spread",
    "mask",
    "support",
    "orientation",
    "shape",
    "extractor",
    "precision",
}
STARTS = re.compile(
    r"\bimport (subprocess|multiprocessing)\b|\bfrom (subprocess|multiprocessing)\b|create_subprocess_|ProcessPool"
    r"|\bos\.(fork|spawn|exec|posix_spawn)|torch\.multiprocessing"
)
ODD = re.compile(r"(What|How|Where|Which|Of|As|By|From|Its|Those|Who|Whose|Why|That of|The same)\b")
LONGEST = 60  # lines of a function
SEVERAL = 4  # fields of FeatureSettings that make a list of options
PAPER = ("ablate", "figures", "tables")


@cache
def source() -> Source:
    return Source(ROOT / "src")


def entries() -> int:
    """Entries that `ls src/hynet` shows."""
    return sum(not each.name.startswith((".", "__pycache__")) for each in (ROOT / "src" / PACKAGE).iterdir())


def files() -> int:
    """Python files of the package."""
    return len(source().modules)


def lines() -> int:
    """Lines of these files."""
    return sum(module.lines for module in source().modules.values())


def code_lines() -> int:
    """Lines of these files that hold code: without blank lines, comments and docstrings."""
    return sum(count_code(module.text, module.tree) for module in source().modules.values())


def lines_together() -> int:
    """Lines of Python in src, and in bench and research: until they moved, campaign and studies."""
    folders = (ROOT / name for name in ("src", "bench", "research", "campaign", "studies"))
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for each in folders for path in each.rglob("*.py"))


def reachable(every_function: bool = False) -> dict[str, int]:
    """Lines of the modules that a journey's file imports at module level, directly or not, with their packages.

    Imports under TYPE_CHECKING never count; those inside functions count in the journey's own file, or everywhere with
    `every_function`.
    """
    found = {}
    for journey, groups in JOURNEYS.items():
        roots = [source().first(group) for group in groups]
        if journey == "evaluate" and EVALUATE in source().modules:
            roots.append(source().modules[EVALUATE])
        found[journey] = sum(module.lines for module in source().reached(roots, every_function))
    return found


def option_spellings() -> int:
    """Files other than the settings in which a signature, a class or a call names four or more feature options."""
    settings = source().first(SETTINGS)
    return sum(
        any(len(names & OPTIONS) >= SEVERAL for names in _lists(module.tree))
        for module in source().modules.values()
        if module is not settings
    )


def process_starts() -> int:
    """Files outside runtime that import subprocess or multiprocessing or call what starts a process."""
    return sum(
        bool(STARTS.search(module.text))
        for module in source().modules.values()
        if module.name.split(".")[1:2] not in [[name] for name in RUNTIME]
    )


def optimiser_steps() -> int:
    """Files that call `step()` of something named optimiser."""
    calls = re.compile(r"optimi[sz]er\w*\.step\(|\.step\(\w*optimi[sz]er")
    return sum(bool(calls.search(module.text)) for module in source().modules.values())


def commands() -> int:
    """Rows of the command line's table of commands."""
    from hynet.cli import COMMANDS

    return len(COMMANDS)


def help_lines() -> dict[str, int]:
    """Lines of help in a pipe of 80 columns."""
    found = {}
    for name in ("match", "reconstruct"):
        command = [sys.executable, "-m", PACKAGE, name, "--help"]
        env = os.environ | {"COLUMNS": "80", "PYTHONPATH": str(ROOT / "src")}
        found[name] = len(subprocess.run(command, env=env, check=True, capture_output=True).stdout.splitlines())
    return found


def options_untested() -> int:
    """Options of any command that no test, page, example or script outside the package writes as `--option`."""
    named = _text("tests") + _text("docs", *(path.name for path in ROOT.iterdir() if path.name not in ("tests", "src")))
    return len([name for name in all_options() if not _written(name, named)])


def options_without_a_test() -> int:
    """Options that no test gives on a command line."""
    tests = _text("tests")
    return len([name for name in all_options() if not _written(name, tests)])


def options_undocumented() -> int:
    """Options that neither the README nor a page of docs writes as `--option`, or as `option` in a table."""
    pages = _text("docs", "README.md")
    return len(
        [
            name
            for name in all_options()
            if not _written(name, pages) and not re.search(rf"^\|.*`{name.replace('-', '.')}`", pages, re.MULTILINE)
        ]
    )


def functions_over_60() -> int:
    """Functions and methods of more than 60 lines, from `def` to the last line, with their docstrings."""
    return sum(
        (node.end_lineno or 0) - node.lineno + 1 > LONGEST
        for module in source().modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, Function)
    )


def docstrings_odd() -> int:
    """Docstrings of modules, classes and functions that begin with a word that leans on the code beside them."""
    return sum(
        bool(ODD.match(ast.get_docstring(node) or ""))
        for module in source().modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, Function | ast.ClassDef | ast.Module)
    )


def files_to_first_pixel() -> int:
    """Files that `match_photos` leads its reader to until it names `images.read`.

    They are the package's `__init__`, which finds the function, and the files that define what the functions on the way
    mention, in the order of their lines.
    """
    module = source().first(JOURNEYS["match"][0])
    body = module.definitions["match_photos"]
    assert isinstance(body, Function)
    goals = {(name, "read") for name in source().modules if name.startswith(f"{PACKAGE}.images")}
    route = Route(source(), goals)
    if not route.follow(module.name, body):
        raise SystemExit("match_photos no longer leads to images.read by names; correct files_to_first_pixel.")
    return len(route.files | {PACKAGE})


@dataclass(frozen=True)
class Row:
    """One line of the table; a number by journey or command has one line for each."""

    key: str
    about: str
    today: Any  # of the tree before it was slimmed
    floor: Any
    measure: Callable[[], Any]


ROWS = (
    Row("entries", "entries in ls src/hynet", 32, 20, entries),
    Row("files", "files in src/hynet", 309, 230, files),
    Row("lines", "lines in src/hynet", 35735, 26500, lines),  # 29,000 with what later issues add
    Row("code_lines", "the same, only code", 25450, 18800, code_lines),
    Row("lines_together", "lines of src, bench and research", 40414, 40413, lines_together),
    Row(
        "reachable",
        "lines reachable by imports",
        {"match": 5226, "train": 4787, "reconstruct": 10043, "evaluate": 8480},
        {"match": 3200, "train": 3000, "reconstruct": 6000, "evaluate": 5500},
        reachable,
    ),
    Row(
        "reachable_anyhow",
        "the same with imports in functions",
        {"match": 5534, "train": 4787, "reconstruct": 10351, "evaluate": 8788},
        {"match": 5534, "train": 4787, "reconstruct": 10351, "evaluate": 8788},
        lambda: reachable(every_function=True),
    ),
    Row("option_spellings", "files that spell out feature options", 9, 0, option_spellings),
    Row("process_starts", "files outside runtime that start a process", 5, 0, process_starts),
    Row("optimiser_steps", "files that call an optimiser's step()", 3, 1, optimiser_steps),
    Row("commands", "commands", 27, 22, commands),
    Row("help_lines", "lines of help", {"match": 109, "reconstruct": 91}, {"match": 45, "reconstruct": 45}, help_lines),
    Row("options_untested", "options that nothing but src names", 14, 0, options_untested),
    Row("options_without_a_test", "options that no test gives", 48, 0, options_without_a_test),
    Row("options_undocumented", "options without a line of documentation", 22, 0, options_undocumented),
    Row("functions_over_60", "functions over 60 lines", 9, 0, functions_over_60),
    Row("docstrings_odd", "docstrings that lean on their neighbours", 443, 40, docstrings_odd),
    Row("files_to_first_pixel", "files opened before the first pixel", 12, 6, files_to_first_pixel),
)


def measured() -> dict[str, Any]:
    """Every number by its key."""
    return {row.key: row.measure() for row in ROWS}


def flat(value: Any) -> dict[str, int]:
    """A number, or numbers by journey or command, as the lines of a table."""
    return {f" ({name})": number for name, number in value.items()} if isinstance(value, dict) else {"": value}


def table(numbers: dict[str, Any]) -> str:
    """The page's table with the numbers of now; rows above their floor are marked."""
    out = [f"{'':52}{'before':>8}{'now':>8}{'at most':>9}"]
    for row in ROWS:
        before, floors = flat(row.today), flat(row.floor)
        for part, now in flat(numbers[row.key]).items():
            mark = "  above" if now > floors[part] else ""
            out.append(f"{row.about + part:52}{before[part]:8,}{now:8,}{floors[part]:9,}{mark}")
    return "\n".join([*out, f"{'minutes of the suite on two cores (see `make test`)':52}{8.5:8}{'':8}{7:9}"])


@cache
def help_of(*command: str, option: str = "--help") -> str:
    """What a command prints for --help or another option that asks for help."""
    os.environ["COLUMNS"] = "80"
    from hynet.cli import main

    printed = io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(io.StringIO()):
            main([*command, option])
    except SystemExit:
        pass
    return printed.getvalue()


@cache
def all_options() -> frozenset[str]:
    """Options of all commands, recipes and benchmarks, without their dashes."""
    import hynet
    from hynet.cli import COMMANDS, main

    printed = io.StringIO()
    with redirect_stdout(printed):
        main(["train", "--list", "--json"])
    asked: list[tuple[str, ...]] = [(name,) for name in COMMANDS]
    asked += [("train", name) for name in _recipes(printed.getvalue())]
    asked += [("evaluate", name) for name in hynet.benchmarks.BENCHMARKS]
    asked += [("paper", name) for name in PAPER if "paper" in COMMANDS]
    texts = [text for each in asked for text in (help_of(*each), help_of(*each, option="--help-all"))]
    rows = re.compile(r"^[│ ]+(?:-\w, )?--([a-z][a-z0-9-]*)", re.MULTILINE)
    return frozenset(name for text in texts for name in rows.findall(text)) - {"help", "help-all"}


def _recipes(listed: str) -> list[str]:
    """Recipes with options of their own stand in the overview of `hynet train`."""
    plain = json.loads(listed)["recipes"]
    overview = help_of("train")
    own = re.findall(r"`hynet train ([a-z-]+) --help`", overview)
    return [name for name in own if name not in plain]


def _lists(tree: ast.Module) -> Iterator[set[str]]:
    """Names of each signature, of each class's fields, and of the keywords of each call."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        elif isinstance(node, ast.ClassDef):
            fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            yield {each.id for each in fields if isinstance(each, ast.Name)}
        elif isinstance(node, ast.Call):
            yield {each.arg for each in node.keywords if each.arg}


def count_code(text: str, tree: ast.Module) -> int:
    """Lines with code on them."""
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in layout:
            found |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef | ast.Module) and ast.get_docstring(node) is not None:
            found -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(found)


@cache
def _text(*names: str) -> str:
    """All text of these files and folders of the repository."""
    endings = {".py", ".md", ".sh", ".yml", ".toml", ".ipynb", ".txt", ""}
    paths = [
        path for name in names for path in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"))
    ]
    hidden = [path for path in paths if any(part.startswith(".") for part in path.relative_to(ROOT).parts)]
    kept = [path for path in paths if path not in set(hidden) and path.is_file() and path.suffix in endings]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in kept)


def _written(option: str, text: str) -> bool:
    """Whether the text has --option, or --no-option."""
    return re.search(rf"--(no-)?{option}(?![\w-])", text) is not None


def main() -> None:
    """Print the table, or one JSON object with --json."""
    sys.path.insert(0, str(ROOT / "src"))
    numbers = measured()
    print(json.dumps(numbers) if "--json" in sys.argv[1:] else table(numbers))


if __name__ == "__main__":
    main()
