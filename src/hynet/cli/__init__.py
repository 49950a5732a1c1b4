"""The command line: parses, calls, prints; no logic.

ADD A COMMAND: a file in this folder with a function `run(...) -> Report`, and a row in COMMANDS. Only the chosen
command's file is imported, so `hynet --help` answers at once.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial, wraps
from typing import Any, TypeVar

from .. import __version__
from ..errors import BadInput, HynetError
from .progress import for_machines
from .stopping import leave_stdout, listen_to_sigterm, refusal, stopped

Value = TypeVar("Value")

# command -> what it does, in one line
COMMANDS = {
    "match": "match two photos and draw the matches",
    "extract": "extract features of photos into one HDF5 file that hloc reads, or into a collection",
    "pairs": "choose which photos of a collection to match, by how alike they look",
    "tune": "find the detector, model, keypoints and thresholds that suit your photos and machine",
    "reconstruct": "build a 3-D model from a folder of photos, in COLMAP's format",
    "colmap-features": "add our features and matches to a COLMAP database, beside those in it",
    "localize": "find where new photos were taken, in an existing reconstruction",
    "patches": "make a patch set in PhotoTour's format from your own photos",
    "train": "train a descriptor, Key.Net or a shape network with a named recipe",
    "adapt": "fine-tune a model on your own photos, and keep it if it is better",
    "paper": "make the paper's ablations, figures and tables, with its numbers beside ours",
    "view": "see a reconstruction's points and cameras in one web page",
    "doctor": "see why photos are missing from a reconstruction, and what to try",
    "app": "serve a web page to match photos, compare models and reconstruct",
    "report": "make one web page of results of `hynet evaluate` and of training runs",
    "export": "write a network as one file that runs without torch, or as weights to share with a model card",
    "compress": "compress a descriptor: fewer dimensions, float16 or int8, binary codes, or a product code",
    "data": "list and download the public patch sets",
    "evaluate": "evaluate models on a benchmark, beside the paper's numbers, with intervals",
    "info": "show versions, models, descriptors and losses",
    "completion": "print a completion script for your shell",
}


# command that was renamed -> its new form
RENAMED = {
    "calibrate": "hynet tune PHOTOS",
    "choose": "hynet tune PHOTOS",
    "ablate": "hynet paper ablate",
    "figures": "hynet paper figures",
    "reproduce": "hynet paper tables",
    "plot": "hynet report RUN... --out page.html",
    "push": "hynet export --model RUN --to model.safetensors --card",
    "bench": "python -m bench NAME (in a clone of the repository)",
}
# option that was renamed -> its new forms, of which the first that a command has is named
RENAMED_OPTIONS = {
    "--upright": ("--orientation upright",),
    "--affine": ("--shape baumberg",),
    "--descriptor": ("--model",),
    "--pairs": ("--pair-list", "--max-pairs"),
    "--workers": ("--jobs",),
    "--lessons": ("--distill-fraction",),
    "--together": ("--group-size",),
    "--mapping-threads": ("--mapper-threads",),
}


@dataclass(frozen=True)
class Report:
    """The result of a command: a text for people, a JSON object for machines."""

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""  # a sentence, where part of the input was bad: exit code 2


# What every command understands, wherever it stands
EVERYWHERE = ("--json", "-v", "--verbose")


def main(args: list[str] | None = None) -> int:
    """Run one command; 0 on success, 2 with a sentence on stderr where any input was bad, 130 or 143 if interrupted."""
    # Threads that spin while they wait are several times slower than sleeping ones where a core is shared.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.filterwarnings("ignore", module="PIL")  # broken EXIF is no news to a user whose photo was read
    as_program = args is None
    args = sys.argv[1:] if args is None else args
    listen_to_sigterm()
    try:
        as_json, verbose = "--json" in args, not {"-v", "--verbose"}.isdisjoint(args)
        args = [arg for arg in args if arg not in EVERYWHERE]
        for_machines(as_json)
        if args[:1] == ["help"]:
            args = [*args[1:2], "--help"]
        if not args or args[0] in ("-h", "--help"):
            _say(_overview())
            return 0
        if args[0] in ("-V", "--version"):
            _say(json.dumps({"version": __version__}) if as_json else f"hynet {__version__}")
            return 0
        if args[0] in RENAMED:
            return _complain(f"`hynet {args[0]}` is now {RENAMED[args[0]]}.")
        if args[0] not in COMMANDS:
            return _complain(
                f"no command {args[0]!r}{perhaps(args[0], [*COMMANDS, 'help'])}; `hynet --help` lists them."
            )
        if verbose:
            _log_to_stderr()
        report = _call(args[0], args[1:])
        _say(json.dumps(report.data) if as_json else report.text)
        if as_program:
            gc.freeze()  # or Python would look through all that was ever imported before it ends
        return _complain(report.problem) if report.problem else 0
    except HynetError as error:
        return _complain(str(error))
    except (OSError, MemoryError) as error:
        leave_stdout()
        return _complain(refusal(error))
    except KeyboardInterrupt as stop:
        return stopped(stop, args, at_once=as_program)


def absence(unreadable: Mapping[str, str]) -> str:
    """That photos were asked for which are not there: unlike a broken one, a wrong path is a mistake in the command."""
    from ..images import is_absence

    absent = [name for name, why in unreadable.items() if is_absence(why)]
    if not absent:
        return ""
    who = f"{absent[0]} is" if len(absent) == 1 else f"{absent[0]} and {len(absent) - 1} more are"
    return f"{who} not there; correct the path and run the same command again: the others are kept."


def _say(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # `hynet ... | head` has read enough
        leave_stdout()
    except UnicodeEncodeError:  # names of files that are not text
        encoding = sys.stdout.encoding
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def _call(name: str, args: list[str]) -> Report:
    command = importlib.import_module(f".{name.replace('-', '_')}", __package__)
    if hasattr(command, "main"):  # a command whose options depend on its first argument parses for itself
        return command.main(args)
    common = getattr(command, "COMMON", ())
    return parse(command.run, args, prog=f"hynet {name}", description=command.__doc__, common=common)()


def parse(
    function: Callable[..., Value], args: list[str], prog: str, description: str | None, common: Collection[str] = ()
) -> Callable[[], Value]:
    """Return the call that the arguments ask for, not yet made; `common` names the options of the short help."""

    @wraps(function)
    def later(*values: Any, **options: Any) -> Callable[[], Value]:
        return partial(function, *values, **options)

    return parse_value(later, args, prog, description, common)


def parse_value(
    asked: Callable[..., Value], args: list[str], prog: str, description: str | None, common: Collection[str] = ()
) -> Value:
    """Return the arguments as a value of that class; wrong ones get one sentence, and --help a page of our own."""
    import tyro

    from .help import HELP, help_text

    if wanted := {*HELP} & {*args}:
        _say(help_text(asked, prog, description or "", common, everything="--help-all" in wanted))
        raise SystemExit(0)
    try:
        with redirect_stderr(io.StringIO()):
            return tyro.cli(asked, args=list(_plain(asked, args)), prog=prog)
    except SystemExit:
        from .complaints import complaint

        raise BadInput(f"{complaint(asked, args)}. `{prog} --help` shows what there is.") from None


def _plain(asked: Any, args: list[str]) -> Iterator[str]:
    """The arguments with --no-spread as `--spread False`: tyro has no flags with a third state."""
    from .arguments import arguments

    third = [each for each in arguments(asked) if each.is_flag and each.kind is not bool]
    values = {flag: (each.name, str(flag == each.name)) for each in third for flag in each.flags}
    for arg in args:
        yield from values.get(arg, (arg,))


def perhaps(given: str, known: Iterable[str]) -> str:
    """Return a suggestion to end a sentence with: the known names most like the given one; "" if none is near."""
    near = get_close_matches(given, known, n=2, cutoff=0.6)
    return f"; perhaps you meant {' or '.join(near)}" if near else ""


def terminal_width() -> int | None:
    """Characters a line where a person looks; None where a file or a program reads."""
    watched = sys.stdout is not None and sys.stdout.isatty()  # None where it was closed
    return shutil.get_terminal_size().columns if watched else None


def _log_to_stderr() -> None:
    """Print the package's log on stderr, each line with the milliseconds since the start."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(relativeCreated)7.0f ms  %(message)s"))
    log = logging.getLogger("hynet")
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def _complain(sentence: str, code: int = 2) -> int:
    print(f"hynet: {sentence}", file=sys.stderr)
    return code


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        [
            "usage: hynet COMMAND [OPTIONS]",
            "",
            "HyNet local features: use them, train them, measure them.",
            "",
            *lines,
            "",
            "`hynet help COMMAND` shows a command's options and an example; `--json` prints one JSON object,",
            "`-v` logs to stderr what is being done; `hynet --version` prints the version, and",
            "`hynet completion bash` (or zsh, fish) prints a completion script for your shell.",
        ]
    )
