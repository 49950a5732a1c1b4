"""Public sets are got from whatever mirror lives, resumed, verified and unpacked safely: against a real server here."""

from __future__ import annotations

import hashlib
import io
import re
import socket
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hynet.cli import data as command
from hynet.datasets import downloads as registry
from hynet.datasets.downloads import Mirror, PublicSet
from hynet.errors import BadInput, DataNotFound, UnknownName


class Server(ThreadingHTTPServer):
    """Serves `files`; hangs up after `limit` bytes of an answer; remembers where each answer began."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.limit, self.resumes, self.starts = {}, None, True, []
        self.length = None  # what it says in place of the true one

    def url(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.server.files.get(self.path[1:])
        if body is None:
            return self.send_error(404)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and self.server.resumes else 0
        if start >= len(body):
            return self.send_error(416)
        self.server.starts.append(start)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", self.server.length or str(len(body) - start))
        self.end_headers()
        stop = None if self.server.limit is None else start + self.server.limit
        self.wfile.write(body[start:stop])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def zipped(files):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return archive.getvalue()


def tarred(files):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as file:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            file.addfile(entry, io.BytesIO(text.encode()))
    return archive.getvalue()


GOOD = {"top/info.txt": "0 0\n0 0\n1 0\n", "top/patches0000.bmp": "x" * 50_000}


def sets(*mirrors, patches=3):
    return {"tiny": PublicSet("a set for tests", mirrors, "info.txt", "0 GB", patches)}


def md5(content):
    return f"md5:{hashlib.md5(content).hexdigest()}"


def left_over(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != "tiny")


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_set_is_downloaded_verified_and_unpacked_without_its_top_folder(server, tmp_path, pack):
    server.files["a"] = pack(GOOD)
    seen = []
    mirror = Mirror(server.url("a"), md5(server.files["a"]), len(server.files["a"]))
    folder = registry.get("tiny", tmp_path, lambda *step: seen.append(step), sets(mirror))
    assert folder == tmp_path / "tiny"
    assert (folder / "info.txt").read_text() == GOOD["top/info.txt"]
    assert seen[-1][:2] == (len(server.files["a"]), len(server.files["a"]))
    assert left_over(tmp_path) == []


def test_a_set_that_is_there_is_not_downloaded_again(server, tmp_path):
    server.files["a"] = zipped(GOOD)
    for _ in range(2):
        registry.get("tiny", tmp_path, sets=sets(Mirror(server.url("a"))))
    assert server.starts == [0]


def test_a_connection_that_breaks_is_taken_up_where_it_broke(server, tmp_path):
    server.files["a"], server.limit = zipped(GOOD), 20_000
    registry.get("tiny", tmp_path, sets=sets(Mirror(server.url("a"), md5(server.files["a"]))))
    assert server.starts == [0, 20_000, 40_000]


@pytest.mark.parametrize("length", ["many", "-5", "1e9", "\u00b2"])
def test_a_length_that_is_no_number_is_passed_over(server, tmp_path, length):
    server.files["a"], server.length = zipped(GOOD), length
    folder = registry.get("tiny", tmp_path, sets=sets(Mirror(server.url("a"), md5(server.files["a"]))))
    assert (folder / "info.txt").read_text() == GOOD["top/info.txt"]


def test_a_length_that_is_never_reached_is_told(server, tmp_path):
    server.files["a"], server.length = zipped(GOOD), "99999999999999999999"
    server.resumes = False
    with pytest.raises(DataNotFound, match="the connection breaks again and again"):
        registry.get("tiny", tmp_path, sets=sets(Mirror(server.url("a"))))


def test_a_download_stopped_by_the_user_goes_on_the_next_time(server, tmp_path):
    server.files["a"] = zipped({"info.txt": "0 0\n0 0\n1 0\n", "x": "y" * 3 * registry.CHUNK})

    def stop(done, total, what):
        raise KeyboardInterrupt

    known = sets(Mirror(server.url("a"), md5(server.files["a"])))
    with pytest.raises(KeyboardInterrupt):
        registry.get("tiny", tmp_path, stop, known)
    assert not (tmp_path / "tiny").exists()
    registry.get("tiny", tmp_path, sets=known)
    assert server.starts == [0, registry.CHUNK]


def test_a_whole_file_that_was_not_yet_unpacked_is_not_downloaded_again(server, tmp_path):
    server.files["a"] = zipped(GOOD)
    known = sets(Mirror(server.url("a"), md5(server.files["a"])))

    def stop_at_the_end(done, total, what):
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        registry.get("tiny", tmp_path, stop_at_the_end, known)
    registry.get("tiny", tmp_path, sets=known)
    assert server.starts == [0]


def test_a_host_that_cannot_resume_is_asked_for_the_whole_file(server, tmp_path):
    server.files["a"], server.limit = zipped(GOOD), 20_000
    known = sets(Mirror(server.url("a"), md5(server.files["a"])))
    server.resumes = False
    with pytest.raises(DataNotFound, match="the connection breaks again and again"):
        registry.get("tiny", tmp_path, sets=known)
    server.limit = None
    registry.get("tiny", tmp_path, sets=known)
    assert set(server.starts) == {0}


def test_a_dead_mirror_and_one_without_the_file_are_passed_over(server, tmp_path):
    server.files["good"] = zipped(GOOD)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but nobody listens
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}/x.zip"
        mirrors = [Mirror(dead), Mirror(server.url("missing")), Mirror(server.url("good"))]
        assert (registry.get("tiny", tmp_path, sets=sets(*mirrors)) / "info.txt").exists()
    assert left_over(tmp_path) == []


def test_a_wrong_checksum_is_refused_and_the_next_mirror_asked(server, tmp_path):
    server.files["wrong"] = zipped({"info.txt": "9 9\n9 9\n9 9\n"})
    server.files["good"] = zipped(GOOD)
    expected = md5(server.files["good"])
    wrong, good = Mirror(server.url("wrong"), expected), Mirror(server.url("good"), expected)
    with pytest.raises(DataNotFound, match=rf"md5 is \w+ instead of {expected[4:]}.*put its files in .*tiny"):
        registry.get("tiny", tmp_path, sets=sets(wrong))
    assert list(tmp_path.iterdir()) == []
    folder = registry.get("tiny", tmp_path, sets=sets(wrong, good))
    assert (folder / "info.txt").read_text() == GOOD["top/info.txt"]


BAD_ARCHIVES = {
    "a zip that climbs out": (zipped({"../evil.txt": "x", "info.txt": "0 0\n"}), "wants to write outside its folder"),
    "a zip with an absolute path": (zipped({"/evil.txt": "x"}), "wants to write outside its folder"),
    "a tar that climbs out": (tarred({"../evil.txt": "x", "info.txt": "0 0\n"}), "wants to write outside its folder"),
    "an error page": (b"<html>moved</html>", "is not a whole archive"),
    "half a zip": (zipped(GOOD)[:30_000], "is not a whole archive"),
    "another set": (zipped({"readme.txt": "x"}), "the archive has no info.txt"),
    "patches missing": (zipped({"info.txt": "0 0\n"}), "lists 1 patches instead of 3"),
}


@pytest.mark.parametrize("what", BAD_ARCHIVES)
def test_a_bad_archive_is_refused_and_leaves_nothing(server, tmp_path, what):
    server.files["a"], sentence = BAD_ARCHIVES[what]
    with pytest.raises(DataNotFound, match=sentence) as caught:
        registry.get("tiny", tmp_path / "data", sets=sets(Mirror(server.url("a"))))
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.rglob("*")] == ["data"]


def test_other_files_in_the_way_are_not_touched(server, tmp_path):
    server.files["a"] = zipped(GOOD)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="holds other files"):
        registry.get("tiny", tmp_path, sets=sets(Mirror(server.url("a"))))
    assert server.starts == []
    assert (tmp_path / "tiny" / "notes.txt").read_text() == "mine"


def test_the_registry_has_a_checksum_of_the_right_length_or_none():
    lengths = {"md5": 32, "sha256": 64}
    for known in registry.SETS.values():
        assert known.mirrors
        for mirror in known.mirrors:
            kind, digest = (mirror.checksum or f"md5:{'0' * 32}").split(":")
            assert re.fullmatch(rf"[0-9a-f]{{{lengths[kind]}}}", digest)
            # Without a checksum only an encrypted connection says whose file it is.
            assert mirror.checksum or mirror.url.startswith("https:")


def test_the_command_lists_the_sets_and_takes_one_that_is_there(tmp_path):
    assert set(command.run("list").data["sets"]) == set(registry.SETS)
    (tmp_path / "liberty").mkdir()
    (tmp_path / "liberty" / "info.txt").touch()
    assert command.run("get", "liberty", to=tmp_path).data["folder"] == str(tmp_path / "liberty")
    with pytest.raises(UnknownName, match="no public data set 'libertine'; choose liberty, notredame"):
        command.run("get", "libertine")
