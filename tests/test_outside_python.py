"""The callers in examples/cpp and examples/browser, built and run. Minutes, and not everywhere: `make slow`."""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import hynet
from hynet.cli import main
from hynet.types import Features, Keypoints

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_the_caller_in_c_plus_plus_says_what_describe_says(patches, tmp_path):
    openvino = pytest.importorskip("openvino")
    if shutil.which("cmake") is None or shutil.which("g++") is None:
        pytest.skip("no cmake or compiler here")
    assert main(["export", "--model", "default", "--to", str(tmp_path / "m.openvino")]) == 0
    where = f"-DOpenVINO_DIR={Path(openvino.__file__).parent / 'cmake'}"
    for step in (
        ["-S", str(EXAMPLES / "cpp"), "-B", str(tmp_path / "build"), where],
        ["--build", str(tmp_path / "build")],
    ):
        subprocess.run(["cmake", *step], check=True, capture_output=True)
    patches.tofile(tmp_path / "patches.raw")
    program, model = str(tmp_path / "build" / "describe"), str(tmp_path / "m.openvino" / "model.xml")
    files = [str(tmp_path / "patches.raw"), str(tmp_path / "descriptors.raw")]
    ran = subprocess.run([program, model, *files], check=True, capture_output=True, text=True)
    assert ran.stdout == "24 patches, 128 numbers each\n"
    rows = np.fromfile(files[1], "float32").reshape(-1, 128)
    assert np.abs(rows - hynet.load("default", engine="torch").describe(patches)).max() < 1e-4
    (tmp_path / "patches.raw").write_bytes(b"cut short")
    refused = subprocess.run([program, model, *files], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "32 x 32 bytes" in refused.stderr


@pytest.mark.slow
def test_the_page_describes_and_matches_as_we_do_and_asks_nobody_else(tmp_path):
    """HYNET_NODE_MODULES: a folder where `npm install onnxruntime-web` was run."""
    modules = Path(os.environ.get("HYNET_NODE_MODULES", EXAMPLES / "browser" / "node_modules"))
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not (modules / "onnxruntime-web").is_dir() or browser is None:
        pytest.skip("needs chromium, and `npm install onnxruntime-web` in examples/browser")
    page = tmp_path / "page"
    prepare = [sys.executable, str(EXAMPLES / "browser" / "prepare.py"), "--out", str(page), "--keypoints", "300"]
    subprocess.run(prepare, check=True)
    (page / "node_modules").symlink_to(modules)
    asked: list[str] = []

    class Server(SimpleHTTPRequestHandler):
        extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

        def log_request(self, *_: object) -> None:
            asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=str(page)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/index.html"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--timeout=90000", "--virtual-time-budget=100000"]
        options += [
            f"--user-data-dir={tmp_path / 'profile'}",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ]
        shown = subprocess.run(
            [browser, *options, "--dump-dom", address], capture_output=True, text=True, timeout=280
        ).stdout
    finally:
        server.shutdown()
    text = re.search(r'<pre id="result"[^>]*>(.*?)</pre>', shown, re.DOTALL)
    assert text, shown[-2000:]
    assert text[1], re.search(r'id="said">(.*?)<', shown, re.DOTALL)
    result = json.loads(unescape(text[1]))
    pair = json.loads((page / "pair.json").read_text())
    features = []
    for view, told in zip(pair["views"], result["descriptors"], strict=True):
        patches = np.frombuffer(base64.b64decode(view["patches"]), np.uint8).reshape(-1, pair["side"], pair["side"])
        expected = hynet.load(page / "model.onnx").describe(patches)
        assert np.abs(np.array(told["values"]).reshape(-1, told["dim"]) - expected).max() < 1e-3
        places = Keypoints.from_circles(
            view["xy"], np.ones(len(expected)), np.zeros(len(expected)), np.ones(len(expected))
        )
        features.append(Features(places, expected, (1, 1)))
    ours = {tuple(pair) for pair in hynet.match(*features, pair["ratio"]).indices.tolist()}
    theirs = {tuple(pair) for pair in result["matches"]}
    assert len(ours & theirs) >= 0.98 * max(len(ours), len(theirs)) > 20
    assert any("ort" in path for path in asked)
