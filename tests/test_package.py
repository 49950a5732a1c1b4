"""The habits of the package: layers, public names, light imports, the command line's manners."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hynet
from hynet.cli import COMMANDS, main

SOURCE = Path(hynet.__file__).parent

# Who may import whom: strictly down. docs/architecture.md shows the same table.
LAYERS = [
    "errors",
    "runtime",
    "types",
    "images geometry losses",
    "features datasets",
    "matching",
    "sfm",
    "patchsets training",
    "evaluation interop",
    "paper pages",
    "cli",
    "__main__",
]
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names.split()}

# Third-party names stay where they belong.
HOMES = {
    "torch": "features losses training interop",
    "pycolmap": "sfm",
    "tyro": "cli",
    "onnxruntime": "runtime",
    "starlette": "pages",
    "uvicorn": "pages",
    "distributed": "runtime",
    "pyarrow": "features",
    "fsspec": "features",
    "faiss": "features matching sfm",
}


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room(path: Path) -> str:
    """The module or plug-in folder that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[tuple[str, ast.stmt]]:
    """Absolute names of all modules that a file imports, anywhere in it."""
    found = []
    package = ["hynet", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found.append((module, node))
            if module == "hynet":
                found += [(f"hynet.{alias.name}", node) for alias in node.names]
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_only_go_down_the_layers(path):
    assert room(path) in LAYER, f"give {room(path)} a layer, here and in docs/architecture.md"
    for name, _ in imports(path):
        parts = name.split(".")
        if parts[0] == "hynet" and len(parts) > 1 and parts[1] in LAYER and parts[1] != room(path):
            assert LAYER[parts[1]] < LAYER[room(path)], f"{path.name} imports {name}, which is not below it"


def test_every_room_with_a_name_exists():
    rooms = {room(path) for path in modules()}
    assert set(LAYER) == rooms
    documents = [*SOURCE.parents[1].glob("docs/*.md"), SOURCE.parents[1] / "README.md"]
    named = {
        (path.name, name)
        for path in documents
        for name in re.findall(r"`((?:src/hynet|tests)/[a-z_/]+\.py)`", path.read_text())
    }
    assert named
    for document, name in named:
        assert (SOURCE.parents[1] / name).exists(), f"{document} names {name}, which does not exist"


def test_every_error_is_where_the_list_of_errors_says():
    listed = re.findall(r"(?:\w+\.)+[A-Z]\w+", hynet.errors.__doc__)
    assert len(listed) > 3
    for name in listed:
        module, _, error = name.rpartition(".")
        assert issubclass(getattr(importlib.import_module(f"hynet.{module}"), error), hynet.HynetError)


def test_the_listing_is_short_and_the_layers_are_few():
    assert len([entry for entry in SOURCE.iterdir() if entry.name != "__pycache__"]) <= 20
    assert len(LAYERS) <= 12


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_third_party_names_stay_where_they_belong(path):
    for name, _ in imports(path):
        homes = HOMES.get(name.split(".")[0])
        assert homes is None or room(path) in homes.split(), f"{name} has no business in {path.name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_text_is_read_and_written_as_utf8_on_every_system(path):
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and _opens_text(call):
            assert "encoding" in {keyword.arg for keyword in call.keywords}, f"line {call.lineno} names no encoding"


def _opens_text(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    modes = [each.value for each in call.args if isinstance(each, ast.Constant)]
    return name in ("read_text", "write_text") or (name == "open" and not {"w", "r", "a", "x", "w+"}.isdisjoint(modes))


def test_public_names_are_the_contract():
    contract = {
        "load",
        "Extractor",
        "match",
        "verify",
        "losses",
        "descriptors",
        "detectors",
        "datasets",
        "benchmarks",
        "metrics",
        "similarity",
    }
    assert contract <= set(hynet.__all__) <= set(dir(hynet))
    for name in hynet.__all__:
        assert getattr(hynet, name) is not None
    for module, table in [
        (hynet.losses, "LOSSES"),
        (hynet.descriptors, "DESCRIPTORS"),
        (hynet.detectors, "DETECTORS"),
        (hynet.datasets, "DATASETS"),
        (hynet.benchmarks, "BENCHMARKS"),
    ]:
        assert isinstance(getattr(module, table), dict)
    with pytest.raises(AttributeError):
        hynet.no_such_name  # noqa: B018


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_hynet_loads_nothing_heavy():
    heavy = "{'torch', 'cv2', 'onnxruntime', 'pycolmap', 'tyro', 'numpy'}"
    assert python(f"import sys, hynet; print(sorted(set(sys.modules) & {heavy}))") == "[]"


def test_using_a_descriptor_never_imports_torch():
    code = "import sys, hynet, numpy; hynet.load('rootsift').describe(numpy.zeros((2, 64, 64), 'uint8'))"
    assert python(f"{code}; print('torch' in sys.modules)") == "False"


def test_info_lists_versions_descriptors_and_losses_without_torch():
    code = "import sys; from hynet.cli import main; main(['info', '--json']); print('torch' in sys.modules)"
    info, loaded = python(code).splitlines()
    assert loaded == "False"
    assert json.loads(info)["versions"]["hynet"] == hynet.__version__
    assert set(json.loads(info)["losses"]) == set(hynet.losses.LOSSES)
    assert set(json.loads(info)["descriptors"]) == set(hynet.descriptors.DESCRIPTORS)


def test_a_missing_extra_is_named_in_one_sentence():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import hynet\n"
        "try: hynet.descriptors.HyNet()\n"
        "except hynet.HynetError as error: print(error)"
    )
    assert python(code) == "HyNet as a network needs torch: pip install 'hynet-features[train]'"
    assert "hynet.losses needs torch" in python(code.replace("descriptors.HyNet()", "losses"))


def test_torch_weights_name_the_extra_where_torch_is_missing(tmp_path):
    (tmp_path / "aliked.pth").write_bytes(b"PK")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from hynet.features.extractors import open_extractor\n"
        "from hynet.errors import MissingExtra\n"
        f"try: open_extractor({str(tmp_path / 'aliked.pth')!r})\n"
        "except MissingExtra as error: print(error)"
    )
    assert "a file of torch weights, needs torch: pip install 'hynet-features[train]'" in python(code)


def test_every_missing_package_is_blamed_on_an_extra_that_brings_it():
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]
    brought = {
        extra: {re.split(r"[><=\[]", each)[0] for each in packages}
        for extra, packages in project["optional-dependencies"].items()
    }
    asked = [
        (ast.literal_eval(node.args[0]).split(".")[0], ast.literal_eval(node.args[1]), path.name)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "need"
        and isinstance(node.args[0], ast.Constant)
    ]
    assert len(asked) > 20
    for package, extra, file in asked:
        name = {"rerun": "rerun-sdk", "faiss": "faiss-cpu", "pillow_heif": "pillow-heif"}.get(package, package)
        assert name in brought[extra], f"{file} says that [{extra}] brings {name}"


def test_ctrl_c_leaves_with_code_130(monkeypatch, capsys):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("hynet.cli._call", interrupted)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "hynet: stopped.\n"


def test_a_reader_that_has_read_enough_is_no_error():
    done = subprocess.run(f"{sys.executable} -m hynet --help | head -1", shell=True, capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert f"Example: hynet {command}" in shown
    assert "--json" in shown


@pytest.mark.parametrize("args", [["matsh"], ["bench", "nonsense"], ["info", "--colour"]])
def test_bad_arguments_leave_with_code_two_and_a_hint(args, capsys):
    try:
        code = main(args)
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("hynet: ")
    assert captured.err.count("\n") == 1
    assert not captured.out


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("match --ratio abc", "--ratio cannot be 'abc': it takes FLOAT"),
        ("match --max-keypoints 1.5", "--max-keypoints cannot be '1.5': it takes INT"),
        ("match --ratio", "--ratio has no value: it takes FLOAT"),
        ("match --geometry round", "--geometry cannot be 'round': it takes auto or fundamental or homography or"),
        ("match --rat 3", "no option --rat; perhaps you meant --ratio. `"),
        ("match --max_keypoint 3", "no option --max-keypoint; perhaps you meant --max-keypoints"),
        ("match a.jpg b.jpg --no-refin", "no option --no-refin; perhaps you meant --no-refine"),
        ("export --to m.onnx", "missing: --model PATH"),
        ("export --modle m.pt --to m.onnx", "no option --modle; perhaps you meant --model"),
        ("data fetch liberty", "ACTION cannot be 'fetch': it takes list or get"),
        ("info now", "unexpected: 'now'"),
        ("train hynet --data a --out b --steps x", "--steps cannot be 'x': it takes INT"),
        ("evaluate imc --data a --task mono", "--task cannot be 'mono': it takes stereo or multiview"),
        ("evaluate imc --data a --bag 3", "no option --bag; perhaps you meant --bags"),
        ("doctor", "missing: MODEL"),
        ("evaluate ubc --model sift", "missing: --data PATH"),
    ],
)
def test_a_wrong_option_gets_one_short_sentence(args, sentence, capsys):
    assert main(args.split()) == 2
    prog = " ".join(args.split()[: 2 if args.startswith(("evaluate", "train")) else 1])
    told = capsys.readouterr().err
    assert told.startswith(f"hynet: {sentence}")
    assert told.endswith(f". `hynet {prog} --help` shows what there is.\n")
    assert told.count("\n") == 1


def test_both_ways_to_start_the_command_line_agree():
    ways = [[sys.executable, "-m", "hynet"], [str(Path(sys.executable).with_name("hynet"))]]
    outputs = [subprocess.run([*way, "--help"], capture_output=True, text=True).stdout for way in ways]
    assert outputs[0] == outputs[1]
    assert "usage: hynet" in outputs[0]
