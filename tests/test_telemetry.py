"""Nothing is sent or stored unasked: ONNX Runtime does both by default."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

SECONDS = 12  # ONNX Runtime 1.31 writes files on import and looks up its vendor's host 9 seconds later
COLLECTS = sys.platform == "linux" and tuple(map(int, version("onnxruntime").split(".")[:2])) >= (1, 31)

# Preloaded into a process, it stands before libc: it writes down who is looked up, and lets nothing out.
WATCHER = r"""
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static void note(const char *what) {
    FILE *log = fopen(getenv("WATCHER_LOG"), "a");
    fprintf(log, "%s\n", what);
    fclose(log);
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    note(host ? host : "no host");
    return EAI_FAIL;
}

int connect(int socket, const struct sockaddr *address, socklen_t length) {
    if (address->sa_family != AF_UNIX) note("an address");
    errno = ECONNREFUSED;
    return -1;
}
"""


@pytest.fixture
def watcher(tmp_path) -> Path:
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    source, library = tmp_path / "watcher.c", tmp_path / "watcher.so"
    source.write_text(WATCHER)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def started(code: str, home: Path, **variables: str) -> subprocess.Popen[str]:
    """Python with an empty home, and without the variables by which ONNX Runtime knows CI, where it is silent."""
    home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
    places = {"HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "always::UserWarning", "-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=home, env=kept | places | variables, text=True, **pipes)


@pytest.mark.skipif(not COLLECTS, reason="this ONNX Runtime collects nothing")
def test_the_library_and_the_command_line_store_and_look_up_nothing_but_onnx_runtime_alone_does(watcher, tmp_path):
    codes = {
        "alone": "import onnxruntime",
        "library": "import hynet, numpy; hynet.load('default').describe(numpy.zeros((2, 32, 32), 'uint8'))",
        "later": "import hynet, onnxruntime; hynet.load('default')",
        "command": "from hynet.cli import main; main('match --detector keynet --max-keypoints 100'.split())",
    }
    processes = {
        name: started(
            f"{code}; import time; time.sleep({SECONDS})",
            tmp_path / name,
            LD_PRELOAD=str(watcher),
            WATCHER_LOG=str(tmp_path / f"{name}.log"),
        )
        for name, code in codes.items()
    }
    for name, process in processes.items():
        _, complaints = process.communicate()
        assert (process.returncode, complaints) == (0, ""), name
    stored = {name: {path.name for path in (tmp_path / name).rglob("*") if path.is_file()} for name in codes}
    looked_up = {name for name in codes if (tmp_path / f"{name}.log").exists()}
    assert "deviceid" in stored.pop("alone")
    assert (looked_up, stored) == ({"alone"}, {"library": set(), "later": set(), "command": {"matches.png"}})


@pytest.mark.parametrize(
    ("variables", "switched_off", "warnings"),
    [({}, 1, 1), ({"ORT_DISABLE_TELEMETRY": "1"}, 1, 0), ({"ORT_DISABLE_TELEMETRY": "0"}, 0, 0)],
)
def test_who_imports_onnxruntime_first_is_told_once_unless_they_have_chosen(
    variables, switched_off, warnings, tmp_path
):
    code = (
        "import onnxruntime\n"
        "disable = onnxruntime.disable_telemetry_events\n"
        "onnxruntime.disable_telemetry_events = lambda: print('off') or disable()\n"
        "import hynet\n"
        "hynet.load('default'), hynet.load('default-int8'), hynet.detectors.KeyNet()\n"
    )
    process = started(code, tmp_path / "home", CI="1", **variables)  # so that this one sends nothing either
    said, complaints = process.communicate()
    assert process.returncode == 0, complaints
    assert said.count("off") == switched_off
    assert complaints.count("onnxruntime was imported before hynet") == warnings
