"""The web page without a browser: a real server in a thread, asked over HTTP."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import re
import shlex
import socket
import struct
import tempfile
import threading
import time
import zlib
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import hynet
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadInput
from hynet.images import patches
from hynet.pages.app import pair, photo, visits
from hynet.pages.app.choice import Choice, Choices, command, snippet
from hynet.pages.app.desk import Desk, TooBusy
from hynet.pages.app.guard import Door
from hynet.pages.app.server import SCRIPTS, listen, server

TOKEN = "a long secret"
USUAL = {"model": "rootsift", "keypoints": 320}


class Page:
    """The server, and what a browser would send to it."""

    def __init__(self, root: Path, token: str | None = None) -> None:
        listening, self.door = listen(Door("127.0.0.1", 0, token))
        self.server = server(self.door, Choices.with_models(), root)
        self.root = root
        self.visits: visits.Visits = self.server.config.app.state.visits
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listening]})
        self._thread.start()

    def close(self) -> None:
        self.server.should_exit = True
        self._thread.join()

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.door.port, timeout=60)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return connection.getresponse()

    def post(self, path: str, value: object = None, status: int = 200) -> dict:
        answer = self.ask("POST", path, b"" if value is None else json.dumps(value).encode())
        told = json.loads(answer.read() or b"{}")
        assert answer.status == status, told
        return told

    def upload(self, path: str, content: bytes, name: str, status: int = 200) -> dict:
        answer = self.ask("POST", path, content, X_Name=quote(name))
        told = json.loads(answer.read())
        assert answer.status == status, told
        return told

    def begin(self) -> str:
        return f"/visits/{self.post('/visits')['visit']}"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    opened = Page(tmp_path_factory.mktemp("visits"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Two files with a known homography between them, in colour."""
    folder = tmp_path_factory.mktemp("photos")
    first, second, _ = synthetic.photo_pair(seed=0, size=(280, 210))
    for name, grey in (("a.png", first), ("b.png", second)):
        Image.fromarray(np.stack([grey, 255 - grey // 2, grey // 3], 2)).save(folder / name)
    return folder / "a.png", folder / "b.png"


@pytest.fixture
def visit(page, photos):
    """A visit with its two photos."""
    at = page.begin()
    for side, path in enumerate(photos):
        page.upload(f"{at}/photos/{side}", path.read_bytes(), path.name)
    yield at
    page.ask("POST", f"{at}/end")


# --- What the page says is what Python says ---


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"keypoints": 128},
        {"ratio": 0.7, "threshold": 3.0, "geometry": "homography"},
        {"orientation": "gradient", "geometry": "none"},
        {"detector": "keynet", "keypoints": 192, "orientation": "upright"},
    ],
    ids=str,
)
def test_the_page_finds_what_python_finds(page, visit, photos, asked):
    told = page.post(f"{visit}/match", {**USUAL, **asked})
    options = {**USUAL, **asked}
    found = hynet.match_photos(*photos, max_keypoints=options.pop("keypoints"), **options)
    assert told["keypoints"] == [len(each) for each in found.features]
    assert told["points"] == found.points(found.matches).round(3).tolist()
    assert told["is_inlier"] == found.is_inlier.tolist()
    assert told["matches"] == len(found.matches) > 10
    np.testing.assert_allclose(told["distances"], found.matches.distances, atol=1e-4)
    assert told["geometry"] == found.geometry.name
    assert told["why"] == found.geometry.why
    np.testing.assert_allclose(told["confidence"], found.matches.confidence, atol=1e-4)
    assert told["overlap"] == pytest.approx(found.overlap, abs=1e-4)


def test_sliders_do_not_describe_again(page, visit):
    first = page.post(f"{visit}/match", {**USUAL, "orientation": "upright"})
    assert {"read", "detect", "describe", "match", "refine", "verify"} <= set(first["worked"])
    fewer = page.post(f"{visit}/match", {**USUAL, "orientation": "upright", "keypoints": 256})
    assert fewer["keypoints"] == [256, 256]
    plane = {"geometry": "homography"}  # for which other keypoints are taken, once
    assert "detect" in page.post(f"{visit}/match", {**USUAL, "orientation": "upright", **plane})["worked"]
    for moved in ({}, {"keypoints": 256}, {"ratio": 0.8}, {"threshold": 4.0}, {"geometry": "fundamental"}, plane):
        told = page.post(f"{visit}/match", {**USUAL, "orientation": "upright", **moved})
        assert told["worked"] == ["match", "refine", "verify"]
    assert fewer["points"] != first["points"]


def test_the_patches_of_a_match_are_those_that_were_described(page, visit, photos):
    told = page.post(f"{visit}/match", USUAL)
    answer = page.ask("GET", f"{visit}/patches/{told['run']}/3")
    shown = np.asarray(Image.open(io.BytesIO(answer.read())))
    found = hynet.match_photos(*photos, model="rootsift", max_keypoints=320)
    row = found.features[0].keypoints[found.matches.indices[3:4, 0]]
    expected = patches.cut(found.photos[0], row, found.patch_size, found.support)[0]
    np.testing.assert_array_equal(shown[:, : found.patch_size], expected)
    assert page.ask("GET", f"{visit}/patches/{told['run']}/100000").status == 422
    assert page.ask("GET", f"{visit}/patches/999/0").status == 422


def test_the_snippet_and_the_command_give_the_same_numbers(page, visit, photos, tmp_path, monkeypatch, capsys):
    told = page.post(f"{visit}/match", {**USUAL, "ratio": 0.8, "geometry": "homography"})
    monkeypatch.chdir(photos[0].parent)
    assert "model='rootsift'" in told["python"]
    names: dict = {}
    exec(told["python"].replace('"matches.png"', repr(str(tmp_path / "m.png"))), names)
    assert len(names["found"].inliers) == told["inliers"] > 10
    capsys.readouterr()
    words = shlex.split(told["command"].replace("matches.png", str(tmp_path / "m.png")))
    assert words[0] == "hynet"
    assert main([*words[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inliers"] == told["inliers"]


def test_the_example_needs_no_upload(page):
    at = page.begin()
    told = page.post(f"{at}/example")
    assert told["example"]
    assert [each["name"] for each in told["photos"]] == ["example, first photo", "example, second photo"]
    preview = Image.open(io.BytesIO(page.ask("GET", f"{at}/photos/0").read()))
    assert preview.format == "JPEG"
    assert np.ptp(np.asarray(preview), axis=2).max() > 50, "in colour"
    assert "example().paths" in snippet(Choice(), None)
    assert command(Choice(), None) == "hynet match --out matches.png"
    page.post(f"{at}/match", {"model": "no-such"}, 422)
    page.ask("POST", f"{at}/end")


# --- Who may ask ---


def test_the_page_loads_nothing_from_elsewhere(page):
    answer = page.ask("GET", "/")
    text = answer.read().decode()
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert answer.headers["cache-control"] == "no-store"
    for name in re.findall(r'(?:href|src)="(/[^"]+)"', text):
        file = page.ask("GET", name)
        assert file.status == 200
        text += file.read().decode()
    for name in SCRIPTS:
        text += page.ask("GET", f"/{name}").read().decode()
    assert set(re.findall(r'from "\./(\w+\.js)"', text)) <= set(SCRIPTS)
    assert set(re.findall(r"https?://[^'\" ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "innerHTML" not in text


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}"},
        {"Host": "localhost:1"},
        {"Host": "localhost"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:1"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    ],
    ids=str,
)
def test_requests_for_or_from_another_site_are_refused(page, headers):
    before = len(page.visits)
    given = {name: value.format(port=page.door.port) for name, value in headers.items()}
    assert page.ask("POST", "/visits", **given).status == 403
    assert len(page.visits) == before


def test_listening_everywhere_addresses_and_our_own_name_are_known(monkeypatch):
    door = Door("0.0.0.0", 7860, TOKEN)
    assert door.knows("192.168.1.7:7860")
    assert door.knows(f"{socket.gethostname()}:7860")
    for own, asked in (("DESKTOP-4F2A", "desktop-4f2a"), ("anns-mac.local", "anns-mac.local"), ("box", "box.local")):
        monkeypatch.setattr(socket, "gethostname", lambda own=own: own)
        assert door.knows(f"{asked}:7860")
    assert door.knows("[fe80::1]:7860")
    assert not door.knows("rebound.example:7860")
    assert not Door("127.0.0.1", 7860).knows("192.168.1.7:7860")
    assert Door("::1", 80).knows("[::1]")


def test_a_token_is_asked_for_once_and_leaves_the_address(tmp_path):
    page = Page(tmp_path, TOKEN)
    try:
        assert page.ask("POST", "/visits").status == 401
        assert b'name="token"' in page.ask("GET", "/").read()
        assert page.ask("GET", "/?token=wrong").status == 401
        assert page.ask("POST", "/visits", Cookie="hynet-app=wrong").status == 401
        form = {"Content_Type": "application/x-www-form-urlencoded"}
        assert page.ask("POST", "/enter", b"token=wrong", **form).status == 401
        for answer in (
            page.ask("GET", f"/?token={quote(TOKEN)}"),
            page.ask("POST", "/enter", f"token={quote(TOKEN)}".encode(), **form),
        ):
            assert (answer.status, answer.headers["location"]) == (303, "/")
            cookie = answer.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "samesite=lax" in cookie.lower()
            assert TOKEN not in cookie
        assert page.ask("POST", "/visits", Cookie=cookie.split(";")[0]).status == 200
    finally:
        page.close()


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("--host 0.0.0.0", "give a --token that they must know"),
        ("--host 0.0.0.0 --token short", "a token of 5 letters can be guessed"),
        ("--port 99999", "cannot listen at 127.0.0.1:99999"),
        ("--models no-such.onnx", "no model 'no-such.onnx'"),
    ],
)
def test_what_cannot_be_served_is_told_before_anything_starts(args, sentence, capsys):
    assert main(["app", *args.split()]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1


def test_a_port_in_use_is_told(page, capsys):
    assert main(["app", "--port", str(page.door.port)]) == 2
    assert "choose another --port" in capsys.readouterr().err


# --- Hostile uploads and requests ---


def bomb() -> bytes:
    """A PNG of 2 kB that says it has 10^10 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


def test_bad_photos_are_answered_in_the_page_by_the_name_their_owner_gave(page, visit, photos, monkeypatch):
    content = photos[0].read_bytes()
    too_large = io.BytesIO()
    Image.new("L", (400, 300)).save(too_large, "png")
    monkeypatch.setattr(photo, "MAX_PIXELS", 100_000)
    monkeypatch.setattr(photo, "MAX_BYTES", 2_000_000)
    cases = {
        "notes.jpg": (b"hello", "is not a photo that can be read"),
        "empty.png": (b"", "is empty"),
        "cut short.png": (content[: len(content) // 2], "is broken or cut short"),
        "bomb.png": (bomb(), "pixels"),
        "large.png": (too_large.getvalue(), "has 400 x 300 pixels"),
        "<script>alert(1)</script>.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not a photo"),
        "many bytes.jpg": (b"\xff" * 2_000_001, "more than 2 MB"),
    }
    for name, (body, sentence) in cases.items():
        problem = page.upload(f"{visit}/photos/0", body, name, 422)["problem"]
        assert sentence in problem
        assert str(page.root) not in problem
        if "more than" not in problem:
            assert name in problem
    assert not [path for path in page.root.rglob("*") if path.is_file()], "nothing of them stays"
    page.post(f"{visit}/match", USUAL)  # the photos that were there are still there


def test_an_upload_without_end_is_cut_off(page, visit, monkeypatch):
    monkeypatch.setattr(photo, "MAX_BYTES", 100_000)
    with socket.create_connection(("127.0.0.1", page.door.port), timeout=20) as connection:
        head = f"POST {visit}/photos/0 HTTP/1.1\r\nHost: 127.0.0.1:{page.door.port}\r\nX-Name: a.jpg\r\n"
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(OSError, match=r"Broken pipe|reset"):  # noqa: PT012 - it hangs up at some piece
            for _ in range(1000):
                connection.sendall(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")
    page.post(f"{visit}/match", USUAL)


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "/etc/passwd"},
        {"model": ["default"]},
        {"detector": "../../keynet.onnx"},
        {"keypoints": 10**9},
        {"keypoints": True},
        {"keypoints": 512.5},
        {"ratio": float("nan")},
        {"ratio": 2},
        {"threshold": -1},
        {"threshold": "1"},
        {"colour": "red"},
        [],
        "x" * 20_000,
    ],
    ids=lambda asked: str(asked)[:40],
)
def test_settings_that_make_no_sense_are_refused(page, visit, asked):
    assert page.post(f"{visit}/match", asked, 422)["problem"].endswith(".")


def test_names_from_outside_are_quoted_for_shell_and_python():
    evil = ("$(touch hacked) '\"`.jpg", "-rf.png")
    words = shlex.split(command(Choice(), evil))
    assert words[2:4] == [evil[0], "./-rf.png"]
    called: list = []
    code = snippet(Choice(), evil).replace("import hynet\n", "")
    shown = type("Shown", (), {"points": lambda *a: 0, "save": lambda *a: 0, "inliers": 0})()
    fake = type("hynet", (), {"match_photos": staticmethod(lambda *photos: called.append(photos) or shown)})
    exec(code, {"hynet": fake, "print": lambda *a: None})
    assert called == [evil]


def test_names_on_disk_are_plain():
    taken: set[str] = set()
    given = [
        "../../etc/cron.d/x.jpg",
        "C:\\photos\\a.JPG",
        "a.JPG",
        "<img src=x onerror=alert(1)>.png",
        ".hidden.jpg",
        "-rf.jpg",
    ]
    given += ["\u202egpj.exe.jpg", "..jpg", "x" * 500 + ".jpg", "Straße 1 (2).jpeg"]
    for name in given:
        made = photo.file_name(name, taken)
        taken.add(made.lower())
        assert re.fullmatch(r"[\w()+@][\w.()+@ -]*\.\w+", made), made
        assert len(made) < 80
    assert len(taken) == len(given)
    assert "straße 1 (2).jpeg" in taken
    for name in ("page.html", "x.jpg/", "photo", ""):
        with pytest.raises(BadInput):
            photo.file_name(name, taken)


# --- Visits ---


def test_one_visit_sees_nothing_of_another(page, visit):
    other = page.begin()
    assert page.ask("GET", f"{other}/photos/0").status == 422
    assert "two photos" in page.post(f"{other}/match", USUAL, 422)["problem"]
    page.ask("POST", f"{other}/end")
    assert page.post(f"{other}/match", USUAL, 410)["problem"]
    page.post(f"{visit}/match", USUAL)


def test_several_people_at_once_all_get_their_own_answer(page, photos):
    told: dict[int, dict] = {}

    def use(number: int) -> None:
        at = page.begin()
        order = photos if number % 2 else photos[::-1]
        for side, path in enumerate(order):
            page.upload(f"{at}/photos/{side}", path.read_bytes(), path.name)
        told[number] = page.post(f"{at}/match", {**USUAL, "keypoints": 128 + 64 * number, "orientation": "upright"})
        page.ask("POST", f"{at}/end")

    people = [threading.Thread(target=use, args=(number,)) for number in range(3)]
    [person.start() for person in people]
    [person.join() for person in people]
    for number in range(3):
        order = photos if number % 2 else photos[::-1]
        found = hynet.match_photos(*order, model="rootsift", max_keypoints=128 + 64 * number, orientation="upright")
        assert told[number]["points"] == found.points(found.matches).round(3).tolist()


def test_a_page_that_is_gone_leaves_nothing(page, monkeypatch):
    monkeypatch.setattr(visits, "GRACE", 0.3)
    monkeypatch.setattr(visits, "HEARTBEAT", 0.1)
    at = page.begin()
    listening = page.ask("GET", f"{at}/events")
    assert listening.readline() == b'data: {"stage": "idle"}\n'
    page.upload(f"{at}/album", b"\xff\xd8 not decoded yet", "one.jpg")
    folder = page.root / at.rpartition("/")[2]
    assert (folder / "photos" / "one.jpg").exists()
    time.sleep(1.5)
    assert page.post(f"{at}/album/empty")["photos"] == 0, "a page that listens stays"
    page.upload(f"{at}/album", b"\xff\xd8", "one.jpg")
    listening.close()
    end = time.monotonic() + 20
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not folder.exists()
    page.post(f"{at}/match", USUAL, 410)


def test_more_pages_than_it_can_serve_are_told_so(page, monkeypatch):
    monkeypatch.setattr(visits, "MOST_VISITS", len(page.visits))
    assert "try again" in page.post("/visits", None, 503)["problem"]


def test_work_of_a_closed_page_is_not_finished(photos):
    closed = threading.Event()
    both = tuple(photo.open_photo(path, path.name) for path in photos)
    memory = pair.Memory((both[0], both[1]), closed, example=False)
    closed.set()
    with pytest.raises(pair.PageClosed):
        pair.find(memory, Choice(model="rootsift"))


def test_nobody_waits_for_ever():
    async def busy() -> None:
        desk, hold = Desk(at_once=1, waiting=1, seconds=0.2), asyncio.Event()

        async def work() -> None:
            async with desk.turn():
                await hold.wait()

        first = asyncio.create_task(work())
        await asyncio.sleep(0.01)
        second = asyncio.create_task(work())
        await asyncio.sleep(0.01)
        with pytest.raises(TooBusy, match="busy"):
            await work()
        with pytest.raises(TooBusy, match="too long"):
            await second
        hold.set()
        await first
        async with desk.turn():  # and everything is free again
            pass

    asyncio.run(busy())


def test_folders_of_servers_that_were_killed_go_with_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "hynet-app-killed" / "photos").mkdir(parents=True)
    with visits.folder_of_visits() as first, visits.folder_of_visits() as second:
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([first.name, second.name])
        assert first.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.iterdir())


# --- Many photos ---


def test_an_album_is_limited_and_its_settings_checked(page, monkeypatch):
    at = page.begin()
    assert "two photos" in page.post(f"{at}/reconstruct", USUAL, 422)["problem"]
    assert page.upload(f"{at}/album", b"x", "../a.jpg")["name"] == "a.jpg"
    assert page.upload(f"{at}/album", b"x", "A.jpg")["name"] == "A-2.jpg"
    assert "not a photo by its name" in page.upload(f"{at}/album", b"x", "a.html", 422)["problem"]
    page.post(f"{at}/reconstruct", {"model": "/etc/passwd"}, 422)
    monkeypatch.setattr("hynet.pages.app.answers.MOST_PHOTOS", 2)
    assert "hynet reconstruct" in page.upload(f"{at}/album", b"x", "b.jpg", 422)["problem"]
    assert page.ask("GET", f"{at}/results/view.html").status == 422
    assert page.ask("GET", f"{at}/results/..%2Fphotos%2Fa.jpg").status in (404, 422)
    page.ask("POST", f"{at}/end")


def test_a_reconstruction_is_under_way_once_asked_for_and_can_be_cancelled_at_once(page):
    pytest.importorskip("pycolmap")
    at = page.begin()
    visit = page.visits.find(at.rpartition("/")[2])
    for name in ("a.jpg", "b.jpg"):
        page.upload(f"{at}/album", b"x", name)
    page.post(f"{at}/reconstruct", USUAL)
    assert visit.news["stage"] != "idle"
    page.post(f"{at}/cancel")
    assert visit.news["stage"] == "cancelled"
    page.ask("POST", f"{at}/end")


@pytest.mark.slow
def test_a_reconstruction_ends_with_its_page(page, photos):
    pytest.importorskip("pycolmap")
    at = page.begin()
    for name in ("a.png", "b.png", "c.png"):
        page.upload(f"{at}/album", photos[0].read_bytes(), name)
    visit = page.visits.find(at.rpartition("/")[2])
    page.post(f"{at}/reconstruct", {**USUAL, "orientation": "upright"})
    end = time.monotonic() + 120
    while visit.news["stage"] == "waiting" and time.monotonic() < end:
        time.sleep(0.1)
    assert visit.news["stage"] in ("features", "matching", "mapping")
    page.ask("POST", f"{at}/end")
    assert not visit.folder.exists()
    assert visit.news["stage"] == "cancelled"


def test_a_folder_that_somebody_else_left_is_not_opened(tmp_path, monkeypatch):
    """It may hold a lock that is a link to a file of ours."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (tmp_path / f"{visits.PREFIX}x").mkdir()
    (tmp_path / f"{visits.PREFIX}x" / ".lock").symlink_to(precious)
    with visits.folder_of_visits():
        assert precious.read_text() == "keep"
    linked = tmp_path / f"{visits.PREFIX}y"
    linked.symlink_to(tmp_path / "elsewhere")
    with visits.folder_of_visits():
        assert linked.is_symlink()
