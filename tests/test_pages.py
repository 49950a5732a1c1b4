"""Pages as a browser shows them; skipped where there is no Chromium."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hynet import pages
from hynet.pages import Cell, view
from hynet.sfm.colmap import Camera, Model, ModelPhoto

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")


def browse(page: str, tmp_path: Path, *options: str) -> str:
    """What the browser prints about a page."""
    file = tmp_path / "page.html"
    file.write_text(page, encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-background-networking",
        "--hide-scrollbars",
        "--enable-unsafe-swiftshader",
    ]
    place = f"--user-data-dir={tmp_path / 'browser'}"
    done = subprocess.run(
        [str(BROWSER), *flags, place, *options, file.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_a_page_is_whole_and_escapes_its_title():
    text = pages.page("<a & b>", "<p>body</p>", scripts=["let x = 1;"])
    assert text.startswith("<!doctype html>")
    assert "<title>&lt;a &amp; b&gt;</title>" in text
    assert text.rstrip().endswith("</html>")


@needs_browser
def test_a_click_on_a_heading_sorts_with_empty_places_last(tmp_path):
    rows = [
        [Cell(name, name), Cell(str(key), key)] for name, key in (("p10", 3), ("p9", 20), ("p1", None), ("p2", -1.5))
    ]
    clicks = """
      const [name, number] = document.querySelectorAll("thead button"), orders = [];
      for (const button of [number, number, name, name]) {
        button.click();
        orders.push([...document.querySelectorAll("tbody th")].map(cell => cell.textContent));
      }
      document.title = JSON.stringify(orders);
    """
    text = browse(
        pages.page("t", pages.table(["name", "number"], rows), scripts=[pages.asset("sort.js"), clicks]),
        tmp_path,
        "--dump-dom",
    )
    found = re.search(r"<title>(.*?)</title>", text)
    assert found
    assert json.loads(found[1]) == [
        ["p9", "p10", "p2", "p1"],
        ["p2", "p10", "p9", "p1"],
        ["p1", "p2", "p9", "p10"],
        ["p10", "p9", "p2", "p1"],
    ]


@needs_browser
@pytest.mark.slow  # two starts of a browser that draws in software
def test_a_model_is_drawn_and_a_camera_tells_its_photo(tmp_path):
    camera = Camera("SIMPLE_PINHOLE", (640, 480), (500.0, 320.0, 240.0))
    poses = [np.hstack([np.eye(3), [[x], [0.0], [4.0]]]) for x in (-1.0, 1.0)]
    photos = tuple(
        ModelPhoto(f"photo{k}.jpg", camera, pose, np.zeros((0, 2)), np.zeros(0, int)) for k, pose in enumerate(poses)
    )
    xyz = np.random.default_rng(0).uniform(-1, 1, (3000, 3))
    red = np.tile(np.array([[255, 0, 0]], np.uint8), (3000, 1))
    page = view.page(Model(photos, xyz, red, np.ones(3000, int), np.zeros(3000)), "two photos")
    sweep = """<script>
      const names = new Set();
      for (let x = 0; x < innerWidth; x += 6) for (let y = 0; y < innerHeight; y += 6) {
        canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: x, clientY: y}));
        if (!label.hidden) names.add(label.textContent);
      }
      document.title = [...names].sort().join("; ");
    </script></body>"""
    told = browse(page.replace("</body>", sweep), tmp_path, "--dump-dom")
    assert "<title>photo0.jpg (0 points); photo1.jpg (0 points)</title>" in told

    browse(page, tmp_path, f"--screenshot={tmp_path / 'shot.png'}", "--window-size=600,400")
    shot = np.asarray(Image.open(tmp_path / "shot.png").convert("RGB")).astype(int)
    red_pixels = (shot[..., 0] > 200) & (shot[..., 1] < 60) & (shot[..., 2] < 60)
    assert red_pixels.sum() > 500
