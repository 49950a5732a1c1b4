"""Collections: lists of photos, shards with an index, and everything that reads them as one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest

from hynet import images
from hynet.cli import main, progress
from hynet.errors import BadData, BadInput, DataNotFound, UnreadableImage
from hynet.evaluation.methods import DetectorOptions, open_methods
from hynet.features import folder as features_folder
from hynet.features import sinks
from hynet.features.addresses import fetched, find_addresses
from hynet.features.collection import IndexRow, read_index, write_rows
from hynet.features.extractors import open_extractor
from hynet.features.folder import extract_all, extract_collection
from hynet.features.hloc_file import h5_fingerprints, h5_names, read_h5
from hynet.features.settings import FeatureSettings
from hynet.features.shards import part_of
from hynet.runtime.pool import open_pool
from test_features import write_photos

pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SETTINGS = FeatureSettings(model="rootsift", max_keypoints=40, orientation="upright")
NAMES = [f"{k}.png" for k in range(5)]


@pytest.fixture(scope="module")
def cluster():
    with open_pool("local", workers=2) as here:
        yield here


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    folder = write_photos(tmp_path_factory.mktemp("photos"), [*NAMES, "below/5.png"])
    (folder / "broken.jpg").write_bytes(b"\xff\xd8 not a photo")
    return folder


@pytest.fixture(scope="module")
def made(photos, cluster, tmp_path_factory) -> Path:
    """Two shards of four, the last of them not full."""
    out = tmp_path_factory.mktemp("made") / "collection"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sinks, "SHARD", 4)
        done = extract_collection([photos], out, SETTINGS, cluster=cluster)
    assert (done.photos, done.new, done.shards) == (6, 6, 2)
    assert list(done.unreadable) == ["broken.jpg"]
    assert done.quarantined == {}
    return out


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_collection_holds_what_one_file_holds(made, photos, tmp_path):
    extract_all(photos, tmp_path / "one.h5", SETTINGS)
    assert h5_names(made) == h5_names(tmp_path / "one.h5")
    assert h5_fingerprints(made) == h5_fingerprints(tmp_path / "one.h5")
    for name in h5_names(made):
        here, there = read_h5(made, name), read_h5(tmp_path / "one.h5", name)
        assert np.array_equal(here.descriptors, there.descriptors)
        assert np.array_equal(here.keypoints.frames, there.keypoints.frames)


def test_the_index_says_where_every_photo_is_and_the_shards_are_hlocs_layout(made):
    rows = parquet.read_table(made / "index.parquet").to_pylist()
    assert [row["photo"] for row in rows] == ["0.png", "1.png", "2.png", "3.png", "4.png", "below/5.png", "broken.jpg"]
    for row in rows[:-1]:
        with h5py.File(made / row["shard"]) as shard:
            assert shard[row["photo"]]["keypoints"].shape == (row["rows"], 2)
        assert row["status"] == "done"
    assert rows[-1]["status"] == "unreadable"
    assert "broken or cut short" in rows[-1]["error"] or "not a photo" in rows[-1]["error"]


def test_the_same_bytes_whatever_the_number_of_workers(made, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "SHARD", 4)
    monkeypatch.setattr(features_folder, "TOGETHER", 3)
    with open_pool("local", workers=1) as alone:
        extract_collection([photos], tmp_path / "again", SETTINGS, cluster=alone)
    assert files(tmp_path / "again") == files(made)


def test_a_second_run_redoes_nothing_and_new_photos_get_shards_of_their_own(made, photos, cluster, tmp_path):
    copy, more = shutil.copytree(made, tmp_path / "copy"), shutil.copytree(photos, tmp_path / "photos")
    before = files(copy)
    assert extract_collection([more], copy, SETTINGS, cluster=cluster).new == 0
    assert files(copy) == before
    write_photos(more, ["00.png"])
    done = extract_collection([more], copy, SETTINGS, cluster=cluster)
    assert (done.photos, done.new, done.shards) == (7, 1, 3)
    after = files(copy)
    assert {name: after[name] for name in before if name != "index.parquet"} == {
        name: content for name, content in before.items() if name != "index.parquet"
    }
    assert h5_names(copy) == sorted([*NAMES, "00.png", "below/5.png"])


def test_a_run_that_was_stopped_goes_on_with_what_is_done(made, photos, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "SHARD", 4)
    monkeypatch.setattr(features_folder, "TOGETHER", 1)

    def stop(done, total, what):
        if done == 5 and what.endswith(".png"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_pool("local", workers=1) as elsewhere:
        extract_collection([photos], tmp_path / "out", SETTINGS, cluster=elsewhere, progress=stop)
    status = read_index(tmp_path / "out" / "index.parquet")["status"]
    assert "waiting" in status
    told: list[int] = []

    def listen(done, total, what):
        if what != "checking":
            told.append(done)

    extract_collection([photos], tmp_path / "out", SETTINGS, cluster=cluster, progress=listen)
    assert min(told, default=7) > 4
    assert files(tmp_path / "out") == files(made)


def test_a_photo_that_has_left_the_list_does_not_keep_its_shard_from_being_finished(
    made, photos, cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(features_folder, "TOGETHER", 1)
    fewer, out = shutil.copytree(photos, tmp_path / "photos"), tmp_path / "out"

    def stop(done, total, what):
        if done == 2 and what.endswith(".png"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_pool("local", workers=1) as elsewhere:
        extract_collection([fewer], out, SETTINGS, cluster=elsewhere, progress=stop)
    (fewer / "4.png").unlink()
    done = extract_collection([fewer], out, SETTINGS, cluster=cluster)
    assert (done.photos, done.shards) == (5, 1)
    assert h5_names(out) == [name for name in h5_names(made) if name != "4.png"]
    write_photos(fewer, ["4.png"])
    assert extract_collection([fewer], out, SETTINGS, cluster=cluster).new == 1


def test_a_shard_that_was_deleted_is_made_again_and_so_are_the_vectors_of_its_photos(made, photos, cluster, tmp_path):
    copy = shutil.copytree(made, tmp_path / "copy")
    before = files(copy)
    (copy / "vectors").mkdir()
    for name in ("00000.npy", "00001.npy"):
        (copy / "vectors" / name).touch()
    (copy / "shards" / "00001.h5").unlink()
    extract_collection([photos], copy, SETTINGS, cluster=cluster)
    assert files(copy) == before | {"vectors/00000.npy": b""}


def replace_keeping_size_and_time(photo: Path, content: bytes) -> None:
    """As a careless tool does: only the content tells."""
    before = photo.stat()
    photo.write_bytes(content[: before.st_size].ljust(before.st_size, b"\0"))
    os.utime(photo, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def changed(photos, made, cluster, tmp_path, monkeypatch) -> tuple[Path, Path, dict[str, bytes]]:
    """A copy of the photos of which two have changed, one of them a broken one that was mended; a collection of how
    they were; and the files of one that is made from scratch."""
    monkeypatch.setattr(sinks, "SHARD", 4)
    now = shutil.copytree(photos, tmp_path / "now")
    large, small = sorted(now.glob("*.png"), key=lambda path: -path.stat().st_size)[:2]
    replace_keeping_size_and_time(large, small.read_bytes())
    shutil.copy(photos / "0.png", now / "broken.jpg")
    extract_collection([now], tmp_path / "fresh", SETTINGS, cluster=cluster)
    return now, shutil.copytree(made, tmp_path / "copy"), files(tmp_path / "fresh")


def test_photos_that_have_changed_are_extracted_again_as_from_scratch_and_the_others_are_kept(changed, cluster):
    now, copy, fresh = changed
    (copy / "vectors").mkdir()
    (copy / "vectors" / "00001.npy").touch()
    before = files(copy)
    assert extract_collection([now], copy, SETTINGS, cluster=cluster, recheck=False).new == 0
    assert files(copy) == before
    assert extract_collection([now], copy, SETTINGS, cluster=cluster).new == 2
    assert files(copy) == fresh  # the vectors of the mended photo's shard are gone
    unchanged = {path: path.stat().st_mtime_ns for path in (copy / "shards").iterdir()}
    assert extract_collection([now], copy, SETTINGS, cluster=cluster).new == 0
    assert {path: path.stat().st_mtime_ns for path in (copy / "shards").iterdir()} == unchanged


def test_a_run_that_is_stopped_while_it_replaces_photos_goes_on_with_those_that_are_still_so(
    changed, photos, cluster, tmp_path, monkeypatch
):
    now, copy, fresh = changed
    monkeypatch.setattr(features_folder, "TOGETHER", 2)
    later, part = shutil.copytree(now, tmp_path / "later"), part_of(copy / ".parts" / "00000", "0.png")
    for name in ("0.png", "1.png", "2.png"):
        shutil.copy(photos / "below" / "5.png", now / name)  # as they are only while the run is stopped

    def stop(done, total, what):
        if part.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_pool("local", workers=1) as elsewhere:
        extract_collection([now], copy, SETTINGS, cluster=elsewhere, progress=stop)
    assert part.exists()
    (part.parent / ".half-0123abcd.tmp").touch()  # as a writer that is killed leaves it
    extract_collection([later], copy, SETTINGS, cluster=cluster)
    assert files(copy) == fresh


def test_another_mask_is_another_photo(photos, cluster, tmp_path):
    masks = tmp_path / "masks"
    masks.mkdir()
    cv2.imwrite(str(masks / "0.png.png"), np.full(images.read(photos / "0.png").shape, 255, np.uint8))
    settings = replace(SETTINGS, mask=str(masks))
    extract_collection([photos], tmp_path / "out", settings, cluster=cluster)
    assert len(read_h5(tmp_path / "out", "0.png")) == 40
    cv2.imwrite(str(masks / "0.png.png"), np.zeros(images.read(photos / "0.png").shape, np.uint8))
    assert extract_collection([photos], tmp_path / "out", settings, cluster=cluster).new == 1
    assert len(read_h5(tmp_path / "out", "0.png")) == 0


def test_an_index_that_was_deleted_is_made_again_from_the_shards(made, photos, cluster, tmp_path):
    copy, more = shutil.copytree(made, tmp_path / "copy"), shutil.copytree(photos, tmp_path / "photos")
    (copy / "index.parquet").unlink()
    write_photos(more, ["00.png"])  # before all others in the list
    done = extract_collection([more], copy, SETTINGS, cluster=cluster)
    assert (done.photos, done.new, done.shards) == (7, 1, 3)
    (copy / "shards" / "00001.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(BadData, match=r"00001.parquet is not what belongs to 00001.h5"):
        extract_collection([more], copy, SETTINGS, cluster=cluster)


def test_a_photo_that_an_older_index_has_in_a_shard_is_extracted_even_if_the_shard_was_finished_without_it(
    photos, cluster, tmp_path
):
    some = [photos / name for name in NAMES[:3]]
    extract_collection(some, tmp_path / "fresh", SETTINGS, cluster=cluster)
    extract_collection(some[:2], tmp_path / "out", SETTINGS, cluster=cluster)
    # As when a run with the longer list was stopped, and one with the shorter killed before it wrote its index
    write_rows(tmp_path / "out" / "index.parquet", [IndexRow(name, "shards/00000.h5") for name in NAMES[:3]])
    assert extract_collection(some, tmp_path / "out", SETTINGS, cluster=cluster).photos == 3
    assert files(tmp_path / "out") == files(tmp_path / "fresh")


def test_other_settings_are_refused_and_replaced_only_when_asked(made, photos, cluster, tmp_path):
    copy = shutil.copytree(made, tmp_path / "copy")
    fewer = FeatureSettings(model="rootsift", max_keypoints=20, orientation="upright")
    with pytest.raises(BadInput, match=r"made with other settings \(max-keypoints was 40, now 20\)"):
        extract_collection([photos], copy, fewer, cluster=cluster)
    extract_collection([photos / "0.png"], copy, fewer, cluster=cluster, overwrite=True)
    assert h5_names(copy) == ["0.png"]
    assert len(read_h5(copy, "0.png")) == 20


# --- Lists ---


def test_lists_are_folders_patterns_and_tables(photos, tmp_path):
    import pyarrow

    everything = find_addresses([photos])
    assert everything["below/5.png"] == str(photos / "below" / "5.png")
    assert list(find_addresses([f"{photos}/*.png"])) == NAMES
    assert list(find_addresses([f"{photos}/**/5.png"])) == ["below/5.png"]
    (tmp_path / "list.csv").write_text(f"Path,name\n{photos}/1.png,one\n{photos}/2.png,two\n")
    assert find_addresses([tmp_path / "list.csv"]) == {"one": f"{photos}/1.png", "two": f"{photos}/2.png"}
    (tmp_path / "excel.csv").write_text("path,size\n/a.png,3\n", encoding="utf-8-sig")
    assert find_addresses([tmp_path / "excel.csv"]) == {"a.png": "/a.png"}
    table = pyarrow.table({"size": [1], "photo": ["3.png"]})
    parquet.write_table(table, photos.parent / "list.parquet")
    assert find_addresses([photos.parent / "list.parquet"]) == {"3.png": f"{photos.parent}/3.png"}
    remote = pyarrow.table({"path": ["s3://bucket/a/b.jpg", "/c/../d.jpg", "../e.jpg"]})
    parquet.write_table(remote, tmp_path / "list.parquet")
    assert find_addresses([tmp_path / "list.parquet"]) == {
        "bucket/a/b.jpg": "s3://bucket/a/b.jpg",
        "d.jpg": "/c/../d.jpg",
        "e.jpg": f"{tmp_path}/../e.jpg",
    }


@pytest.fixture
def server(photos, tmp_path):
    """The address of a folder with the photos, and the folder."""
    folder = shutil.copytree(photos, tmp_path / "served")
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


def test_photos_of_other_places_are_read_through_fsspec_and_http(photos, server):
    expected = images.read(photos / "0.png")
    assert np.array_equal(images.read(fetched(f"file://{photos}/0.png")), expected)
    assert "below/5.png" in find_addresses([f"file://{photos}"])
    assert list(find_addresses([f"file://{photos}/*.png"])) == NAMES
    address = f"{server[0]}/0.png"
    assert find_addresses([address]) == {address.removeprefix("http://"): address}
    assert np.array_equal(images.read(fetched(address)), expected)


def test_a_bucket_is_listed_and_read_by_folder_pattern_and_list(photos):
    bucket = pytest.importorskip("fsspec").filesystem("memory")
    bucket.put(str(photos), "/bucket/photos", recursive=True)
    bucket.pipe("/bucket/list.csv", b"path\nphotos/1.png\nmemory://bucket/photos/below/5.png\n")
    everything = find_addresses(["memory://bucket/photos"])
    assert list(everything) == [*NAMES, "below/5.png", "broken.jpg"]
    assert list(find_addresses(["memory://bucket/photos/**/5.png"])) == ["below/5.png"]
    assert list(find_addresses(["memory://bucket/photos/0.png"])) == ["bucket/photos/0.png"]
    listed = find_addresses(["memory://bucket/list.csv"])
    assert list(listed) == ["photos/1.png", "bucket/photos/below/5.png"]
    for address, photo in [
        *zip(listed.values(), ("1.png", "below/5.png"), strict=True),
        (everything["0.png"], "0.png"),
    ]:
        assert np.array_equal(images.read(fetched(address)), images.read(photos / photo))
    with pytest.raises(DataNotFound, match=r"no list memory://bucket/nowhere.csv; check the name\.$"):
        find_addresses(["memory://bucket/nowhere.csv"])
    with pytest.raises(DataNotFound, match="no photos in memory://bucket/empty/"):
        find_addresses(["memory://bucket/empty/"])


def test_a_list_on_a_web_server_becomes_a_collection(made, server, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "SHARD", 4)
    address, folder = server
    names = ["0.png", "1.png", f"{address}/2.png", f"file://{folder}/below/5.png", "gone.png"]
    (folder / "list.csv").write_text("path,name\n" + "".join(f"{name},{Path(name).name}\n" for name in names))
    done = extract_collection([f"{address}/list.csv"], tmp_path / "out", SETTINGS, cluster=cluster)
    assert done.photos == 4
    assert "answered 404" in done.unreadable["gone.png"]
    began = time.monotonic()
    with pytest.raises(UnreadableImage, match=r"gone.png answered 404 [^()]*; check the address\.$"):
        fetched(f"{address}/gone.png")
    assert time.monotonic() - began < 1  # such an answer is final
    for name in ("0.png", "2.png"):
        assert np.array_equal(read_h5(tmp_path / "out", name).descriptors, read_h5(made, name).descriptors)
    ours = h5_fingerprints(made)
    assert h5_fingerprints(tmp_path / "out") == {
        **{f"{k}.png": ours[f"{k}.png"] for k in range(3)},
        "5.png": ours["below/5.png"],
    }
    with pytest.raises(BadInput, match=r"nowhere.csv answered 404"):
        find_addresses([f"{address}/nowhere.csv"])


def test_a_package_that_a_worker_lacks_is_no_fault_of_the_photo(monkeypatch):
    from fsspec.registry import known_implementations

    storage = {"class": "no_such_package.FileSystem", "err": "install it"}
    monkeypatch.setitem(known_implementations, "lacking", storage)
    with pytest.raises(ImportError, match="install it"):
        fetched("lacking://bucket/a.jpg")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,b\n1,2\n", "has the columns a, b; call that of the paths `path`"),
        ("path\n", "no photos in"),
        ("a.jpg\nb.jpg\n", "has no header, only photos; let its first line be `path`"),
        ("path,name\nx.jpg\n", "not a table that can be read"),
        ("path,name\nx.jpg,one\ny.jpg,one\n", "two photos are named one"),
        ("path,name\nx.jpg,..\n", "leaves no name for the photo"),
    ],
)
def test_a_list_that_cannot_be_used_gets_one_sentence(tmp_path, content, sentence):
    (tmp_path / "list.csv").write_text(content)
    with pytest.raises((BadInput, DataNotFound), match=sentence):
        find_addresses([tmp_path / "list.csv"])


@pytest.mark.parametrize(
    "given", ["nowhere/", "nowhere/*.png", "nowhere.csv", "nowhere.parquet", "file:///nowhere/", "no-such://a/b.jpg"]
)
def test_what_is_not_there_gets_one_sentence(given):
    with pytest.raises((BadInput, DataNotFound, ImportError)) as told:
        find_addresses([given])
    assert "Errno" not in str(told.value)
    assert "Traceback" not in str(told.value)


# --- Readers ---


def test_a_collection_is_an_extractor_of_its_photos(made, photos):
    extract = open_extractor(made)
    assert len(extract(photos / "below" / "5.png")) == 40
    with pytest.raises(BadData, match="holds no features of"):
        extract(photos / "other.png")


def test_match_reads_a_collection(made, tmp_path, capsys):
    (tmp_path / "pairs.txt").write_text("0.png 1.png\n0.png below/5.png\n")
    args = f"match --pairs {tmp_path}/pairs.txt --extractor {made} --out {tmp_path}/matches.h5 --json"
    assert main(args.split()) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["features"] == str(made)
    assert len(told["pairs"]) == 2


def test_benchmarks_take_a_collection_for_a_features_file(made, photos):
    protocol = DetectorOptions(max_keypoints=30).shared()
    *_, method = open_methods(["rootsift"], protocol, files=[made], photos=[photos / "0.png", photos / "1.png"])
    assert method.name == "collection"
    assert len(method.features(photos / "0.png")) == 30
    assert method.fingerprint is not None


def test_an_index_that_is_broken_is_told(made, tmp_path):
    (tmp_path / "index.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(BadData, match="is not the index of a collection"):
        h5_names(tmp_path)


# --- The command ---


def test_the_command_writes_a_collection_where_out_is_a_folder(photos, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    options = "--model rootsift --max-keypoints 20 --orientation upright --jobs 1 --json"
    assert main(f"extract {photos} --out {tmp_path}/c/ {options}".split()) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert (told["photos"], told["shards"], list(told["unreadable"])) == (6, 1, ["broken.jpg"])
    lines = [json.loads(line) for line in said.err.splitlines()]
    assert lines[-1]["done"] == lines[-1]["total"] == 7
    assert set(lines[-1]) == {"step", "done", "total", "seconds", "left"}


EXTRACT = "--model rootsift --max-keypoints 20 --jobs 1"  # the orientation is not known until photos were looked at


@pytest.mark.parametrize("out", ["c/", "c"])
def test_a_collection_of_which_only_the_lock_was_written_is_begun_anew(photos, tmp_path, out):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / ".lock").touch()
    assert main(f"extract {photos} --out {tmp_path}/{out} {EXTRACT}".split()) == 0
    assert len(h5_names(tmp_path / "c")) == 6


@pytest.mark.parametrize("seconds", [None, 0.5])
def test_a_collection_that_was_killed_at_once_is_gone_on_with(photos, tmp_path, seconds):
    command = f"extract {photos} --out {tmp_path}/c/ {EXTRACT}".split()
    run = subprocess.Popen([sys.executable, "-m", "hynet", *command], stderr=subprocess.DEVNULL)
    started = time.monotonic()
    while time.monotonic() < started + seconds if seconds else not (tmp_path / "c" / ".lock").exists():
        time.sleep(0.001)
    run.kill()
    run.wait()
    assert main(command) == 0
    assert len(h5_names(tmp_path / "c")) == 6


def test_settings_are_written_before_the_photos_are_looked_at(photos, tmp_path):
    def stop(done, total, what):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_pool("local", workers=1) as pool:
        extract_collection([photos], tmp_path / "c", replace(SETTINGS, orientation="auto"), cluster=pool, progress=stop)
    assert json.loads((tmp_path / "c" / "settings.json").read_text())["orientation"] == "auto"
    assert main(f"extract {photos} --out {tmp_path}/c --model rootsift --max-keypoints 40 --jobs 1".split()) == 0
    assert json.loads((tmp_path / "c" / "settings.json").read_text())["orientation"] in ("upright", "gradient")


def test_a_wrong_path_in_a_list_is_told_by_the_exit_code_and_costs_the_other_photos_nothing(photos, tmp_path, capsys):
    listed, out = tmp_path / "list.csv", tmp_path / "c"
    command = (
        f"extract {listed} --out {out}/ --model rootsift --max-keypoints 20 --orientation upright --jobs 1".split()
    )
    listed.write_text(f"path,name\n{photos}/0.png,0.png\n{tmp_path}/wrong.png,wrong.png\n{photos}/broken.jpg,broken\n")
    for new in (1, 0):  # once more, nothing is done again, and it is still not there
        assert main([*command, "--json"]) == 2
        said = capsys.readouterr()
        told = json.loads(said.out)
        assert (told["photos"], told["new"], list(told["unreadable"])) == (1, new, ["wrong.png", "broken"])
        sentence = "wrong.png is not there; correct the path and run the same command again: the others are kept."
        assert said.err.splitlines()[-1] == f"hynet: {sentence}"
    listed.write_text(f"path,name\n{photos}/0.png,0.png\n{photos}/1.png,1.png\n{photos}/broken.jpg,broken\n")
    assert main(command) == 0
    said = capsys.readouterr()
    assert "holds the features of 2 photos" in said.out
    assert "wrong.png" not in said.out + said.err


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("--out f.h5 --cluster dask://here:1", "a cluster makes a collection"),
        ("--out c/ --cluster nowhere", "no cluster 'nowhere'"),
        ("--out c/ --watchdog 0", "more than 0 seconds"),
        ("--out c/ --model nothing", "nothing"),
    ],
)
def test_a_collection_that_cannot_be_made_is_refused_before_anything_is_written(
    photos, tmp_path, monkeypatch, capsys, args, sentence
):
    monkeypatch.chdir(tmp_path)
    assert main(["extract", str(photos), *args.split()]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
