"""The web page as people use it, in Chromium: `make test-app`. Screenshots go to results/app, to be looked at."""

from __future__ import annotations

import http.server
import json
import threading
import time
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import hynet
from browser import CHROMIUM, Browser
from conftest import shared_file
from hynet.images.example import example
from hynet.pages.app import visits
from test_app import Page

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")]

SHOTS = Path(__file__).parents[1] / "results" / "app"
LAPTOP, PHONE = (1400, 900), (390, 844)
HOSTILE = "<img src=x onerror=document.title='hacked'>&amp;.png"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    opened = Page(tmp_path_factory.mktemp("visits"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Real ones, small enough to be quick."""
    folder = tmp_path_factory.mktemp("photos")
    for name, grey in zip(("left.png", "right.png"), example().photos, strict=True):
        photo = Image.fromarray(grey)
        photo.thumbnail((600, 600))
        photo.save(folder / name)
    return folder / "left.png", folder / "right.png"


def visit_page(browser, page, tab="match", **screen):
    browser.errors.clear()
    browser.open("about:blank")
    browser.open(f"http://127.0.0.1:{page.door.port}/#{tab}", **screen)
    browser.wait("document.querySelector('#footer').textContent")


def set_to(browser, name, value, event="change"):
    browser.run(
        f"(field => {{ field.value = {value!r}; field.on{event}(); }})(document.querySelector('[name={name}]'))"
    )


def choose(browser, photos):
    """Both photos with a model that is quick."""
    browser.run("document.querySelector('[name=model]').value = 'rootsift'")
    for side, path in enumerate(photos):
        browser.choose_files(f".slot input[data-side='{side}']", path)
    finished(browser)


def finished(browser, runs=0):
    browser.wait(f"(document.body.dataset.runs ?? 0) > {runs} && !document.querySelector('.busy')")


def runs(browser) -> int:
    return int(browser.run("document.body.dataset.runs ?? 0"))


def text(browser, selector) -> str:
    return browser.run(f"document.querySelector({selector!r})?.textContent ?? ''")


def test_two_photos_are_matched_as_in_python(browser, page, photos):
    visit_page(browser, page)
    browser.screenshot(SHOTS / "empty-1400.png")
    choose(browser, photos)
    found = hynet.match_photos(*photos, model="rootsift")
    assert text(browser, "#match .verdict").startswith(
        f"{len(found.matches):,} matches, {len(found.inliers):,} inliers"
    )
    before = runs(browser)
    set_to(browser, "ratio", 0.7, "input")
    finished(browser, before)
    found = hynet.match_photos(*photos, model="rootsift", ratio=0.7)
    assert text(browser, "#match .verdict").startswith(
        f"{len(found.matches):,} matches, {len(found.inliers):,} inliers"
    )
    assert "read" in text(browser, ".times")
    assert "hynet.match_photos('left.png', 'right.png', model='rootsift', ratio=0.7" in text(browser, ".code code")
    assert not browser.errors


def test_a_match_shows_its_patches_by_mouse_keyboard_and_touch(browser, page, photos):
    visit_page(browser, page)
    choose(browser, photos)
    x, y = browser.run(
        """(async () => {
            const box = document.querySelector('#match canvas').getBoundingClientRect();
            window.canvas = document.querySelector('#match canvas');
            for (let y = 4; y < box.height; y += 6) for (let x = 4; x < box.width / 2; x += 6) {
                canvas.dispatchEvent(new PointerEvent('pointermove',
                    {clientX: box.left + x, clientY: box.top + y, pointerType: 'mouse', bubbles: true}));
                if (!document.querySelector('#match .seen')) continue;
                canvas.dispatchEvent(new PointerEvent('pointerleave', {pointerType: 'mouse'}));
                return [box.left + x, box.top + y];
            }
        })()"""
    )
    assert not browser.run("Boolean(document.querySelector('#match .seen'))")
    browser.mouse("mouseMoved", x, y)
    browser.wait("document.querySelector('#match .seen')?.naturalWidth === 64")
    assert browser.run("document.querySelectorAll('#match .patch').length") == 2
    assert 0 < float(browser.run("document.querySelector('#match dd').textContent")) < 2
    browser.screenshot(SHOTS / "patches-1400.png")
    browser.mouse("mouseMoved", 2, 2)
    browser.run("canvas.focus()")
    distances = []
    for _ in range(3):
        browser.key("ArrowRight")
        distances.append(float(browser.run("document.querySelector('#match dd').textContent")))
    assert distances == sorted(distances), "nearest first"
    browser.key("Escape")
    browser.wait("!document.querySelector('#match .seen')")
    browser.size(*LAPTOP, touch=True)
    browser.tap(x, y)
    browser.wait("document.querySelector('#match .seen')")
    assert not browser.errors


def test_the_pair_looks_good_on_laptop_and_phone(browser, page):
    pair = shared_file("example/noon.jpg"), shared_file("example/evening.jpg")
    visit_page(browser, page)
    choose(browser, pair)
    browser.screenshot(SHOTS / "match-1400.png")
    for dark in (False, True):
        browser.size(*PHONE, touch=True, dark=dark)
        time.sleep(0.5)
        assert browser.run("document.documentElement.scrollWidth") <= PHONE[0], "nothing hangs over the edge"
        browser.screenshot(SHOTS / f"match-390{'-dark' if dark else ''}.png")
    browser.size(*LAPTOP, dark=True)
    before = runs(browser)
    browser.run("document.querySelector('[name=model-0]').value = 'sift'")
    browser.run("document.querySelector('#tab-compare').click()")
    finished(browser, before)
    browser.screenshot(SHOTS / "compare-1400-dark.png")
    first, second = (hynet.match_photos(*pair, model=model) for model in ("sift", "rootsift"))
    captions = browser.run("[...document.querySelectorAll('#compare .verdict')].map(caption => caption.textContent)")
    for caption, found in zip(captions, (first, second), strict=True):
        assert caption.startswith(f"{len(found.inliers):,} inliers of {len(found.matches):,} matches")
    places = [{tuple(row) for row in found.points(found.inliers).round(1)} for found in (first, second)]
    assert f"{len(places[0] & places[1])} in both" in captions[0]
    browser.size(*PHONE, touch=True)
    time.sleep(0.5)
    assert browser.run("document.documentElement.scrollWidth") <= PHONE[0]
    browser.screenshot(SHOTS / "compare-390.png")
    assert not browser.errors


def test_hostile_names_and_files_are_only_text(browser, page, photos, tmp_path):
    evil, broken = tmp_path / HOSTILE, tmp_path / "<b>broken.jpg"
    evil.write_bytes(photos[0].read_bytes())
    broken.write_bytes(b"\xff\xd8\xff\xe0 no photo")
    visit_page(browser, page)
    choose(browser, (evil, photos[1]))
    assert text(browser, ".slot-name") == HOSTILE
    assert browser.run("document.title") == "hynet"
    assert browser.run("document.querySelectorAll('.slot img').length") == 2, "none came with the name"
    browser.choose_files(".slot input[data-side='0']", broken)
    browser.wait("!document.querySelector('#problem').hidden")
    assert text(browser, "#problem span").startswith("<b>broken.jpg is")
    assert not browser.run("document.querySelector('#match').checkVisibility()"), "matches of a photo that has gone"
    browser.screenshot(SHOTS / "problem-1400.png")
    browser.run("document.querySelector('#tab-many').click()")
    browser.choose_files("#many input[multiple]", evil)
    browser.wait("document.querySelector('.album figure')")
    assert browser.run("document.querySelectorAll('.album img').length") == 1
    assert browser.run("document.title") == "hynet"


def test_downloads_hold_what_is_shown(browser, page, photos):
    visit_page(browser, page)
    choose(browser, photos)
    browser.run(
        """(() => {
            window.saved = {};
            const make = URL.createObjectURL;
            URL.createObjectURL = blob => { window.last = blob; return make(blob); };
            HTMLAnchorElement.prototype.click = function () { saved[this.download] = last; };
            for (const button of document.querySelectorAll('#results .buttons button')) button.click();
        })()"""
    )
    browser.wait("Object.keys(saved).length === 3")
    rows = browser.run("saved['matches.csv'].text()").strip().split("\n")
    told = json.loads(browser.run("saved['matches.json'].text()"))
    found = hynet.match_photos(*photos, model="rootsift")
    assert rows[0] == "x1,y1,x2,y2,distance,inlier,confidence"
    assert len(rows) - 1 == told["matches"] == len(found.matches)
    assert told["points"] == found.points(found.inliers).round(3).tolist()
    assert browser.run("createImageBitmap(saved['matches.png']).then(image => image.width)") > 1000


def test_other_sites_cannot_use_the_page_behind_the_users_back(browser, page, tmp_path):
    (tmp_path / "index.html").write_text("<!doctype html><title>another site</title>")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args) -> None: ...

    def handler(*args) -> Quiet:
        return Quiet(*args, directory=str(tmp_path))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        browser.open("about:blank")
        browser.open(f"http://127.0.0.1:{other.server_port}/")
        wait_until(lambda: not len(page.visits))
        address = f"http://127.0.0.1:{page.door.port}"
        for options in ("{method: 'POST'}", "{method: 'POST', mode: 'no-cors'}"):
            browser.run(f"fetch('{address}/visits', {options}).then(() => 'answered', () => 'refused')")
        assert not len(page.visits), "nothing was begun"
        framed = browser.run(
            f"""new Promise(resolve => {{ const frame = document.createElement('iframe');
                frame.onload = () => setTimeout(() => resolve(true), 500);
                frame.src = '{address}/'; document.body.append(frame); }})"""
        )
        assert framed
        assert not len(page.visits), "nor in a frame"
        other.shutdown()


def wait_until(true, seconds=60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_many_photos_become_a_model_and_go_with_the_page(browser, page, tmp_path):
    pytest.importorskip("pycolmap")
    views = sorted(shared_file("data/eval/strecha/fountain-P11/images").glob("*.jpg"))[:4]
    for path in [*views, shared_file("example/noon.jpg")]:
        photo = Image.open(path)
        photo.thumbnail((480, 480))
        photo.save(tmp_path / path.name)
    files = sorted(tmp_path.glob("*.jpg"))
    visit_page(browser, page, "many")
    browser.screenshot(SHOTS / "many-empty-1400.png")
    browser.choose_files("#many input[multiple]", *files)
    press = "[...document.querySelectorAll('#many button')].find(button => button.textContent === {!r})"
    browser.wait(f"!{press.format('Reconstruct')}.hidden")
    browser.run("document.querySelector('[name=many-model]').value = 'rootsift'")
    browser.run("document.querySelector('[name=many-orientation]').value = 'upright'")
    set_to(browser, "many-keypoints", 768, "input")

    browser.run(f"{press.format('Reconstruct')}.click()")
    browser.wait("document.querySelector('.now')")
    browser.run(f"{press.format('Cancel')}.click()")
    browser.wait("document.querySelector('#many').textContent.includes('cancelled')")
    browser.run(f"{press.format('Reconstruct')}.click()")
    browser.wait("document.querySelector('.matrix:not([hidden])')")
    browser.screenshot(SHOTS / "many-working-1400.png")
    browser.wait("document.querySelector('.doctor')", 280)
    assert text(browser, ".wide-tiles .tile b") == "4 of 5"
    assert "noon.jpg" in text(browser, ".doctor")
    assert "/tmp" not in text(browser, ".doctor")
    assert browser.run("document.querySelectorAll('.album .in').length") == 4
    browser.run("document.querySelector('iframe').scrollIntoView()")
    time.sleep(5)  # the frame is a sandbox, which says nothing of when it has drawn
    browser.screenshot(SHOTS / "many-1400.png")
    browser.size(*PHONE, touch=True, dark=True)
    time.sleep(2)
    assert browser.run("document.documentElement.scrollWidth") <= PHONE[0]
    browser.screenshot(SHOTS / "many-390-dark.png")
    assert not [error for error in browser.errors if "favicon" not in error]
    browser.open("about:blank")
    wait_until(lambda: not len(page.visits))
    wait_until(lambda: not list(page.root.iterdir()))


def test_closing_the_page_ends_its_visit_at_once(browser, page, monkeypatch):
    monkeypatch.setattr(visits, "GRACE", 1e9)  # so that nothing but the page's own farewell can do it
    before = len(page.visits)
    visit_page(browser, page)
    assert len(page.visits) == before + 1
    browser.open("about:blank")
    wait_until(lambda: len(page.visits) == before)


def test_the_token_opens_the_page(browser, tmp_path):
    page = Page(tmp_path, "a long secret")
    try:
        browser.open(f"http://127.0.0.1:{page.door.port}/")
        for token, title in (("wrong", "That is not the token."), ("a long secret", "")):
            browser.wait("document.querySelector('[name=token]')")
            browser.run(
                f"document.querySelector('[name=token]').value = {token!r}; document.querySelector('form').submit()"
            )
            browser.wait(f"document.body?.textContent.includes({title or 'See what two photos'!r})")
        browser.wait("document.querySelector('#footer').textContent")
        assert len(page.visits) == 1
        assert "secret" not in browser.run("location.href + document.cookie")
    finally:
        page.close()


def test_a_page_that_was_forgotten_brings_its_photos_again(browser, page, photos, monkeypatch):
    visit_page(browser, page)
    choose(browser, photos)
    monkeypatch.setattr(visits, "GRACE", -1.0)
    for visit in list(page.visits._visits.values()):
        page.visits._visits.pop(visit.key)  # as a server that started anew
    monkeypatch.undo()
    before = runs(browser)
    set_to(browser, "keypoints", 512, "input")
    finished(browser, before)
    found = hynet.match_photos(*photos, model="rootsift", max_keypoints=512)
    assert text(browser, "#match .verdict").startswith(f"{len(found.matches):,} matches")
