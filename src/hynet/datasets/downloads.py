"""Public data sets: mirrors, checksums, resumed downloads, safe unpacking.

Hosts of these sets have died before, so a checksum is a fact about one mirror's file (mirrors were zipped anew), and
None where nobody published one: then the archive's own checks and the number of patches must do.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import logging
import lzma
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath

from ..errors import BadData, BadInput, DataNotFound, choose
from ..types import Progress, silent

_LOG = logging.getLogger(__name__)

CHUNK = 1 << 20  # bytes
TRIES = 5  # connections to one mirror that bring nothing new before the next mirror has its turn
SECONDS = 30  # without an answer
BROKEN = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, ValueError)
SMALL, BOMB_RATIO = 100_000_000, 20  # bytes that any archive may unpack to, and times its size beyond


@dataclass(frozen=True)
class Mirror:
    """One archive on one host."""

    url: str
    checksum: str | None = None  # "md5:..." or "sha256:..."
    size: int | None = None  # bytes


@dataclass(frozen=True)
class PublicSet:
    """One public set and everywhere it can be had."""

    what: str
    mirrors: Sequence[Mirror]
    proof: str  # a file inside the set, as a pattern: where it is, the set is
    download: str  # how much, about
    patches: int | None = None  # rows that info.txt must have


# Their licences are for research: we link, we do not redistribute.
_PRAGUE = "https://cmp.felk.cvut.cz/~mishkdmy/datasets/BrownPhotoTour"  # zipped anew, by pytorch/vision#8960
_IMPERIAL = "http://icvl.ee.ic.ac.uk/vbalnt"  # down since 2024
_BROWN = "http://matthewalunbrown.com/patchdata"  # the original; the domain was sold, so only with a checksum
_HUGGING_FACE = "https://huggingface.co/datasets/vbalnt/hpatches/resolve/main"


def _phototour(what: str, name: str, md5: str, patches: int) -> PublicSet:
    mirrors = [Mirror(f"{_PRAGUE}/{name}.zip"), Mirror(f"{_IMPERIAL}/{name}.zip", f"md5:{md5}")]
    return PublicSet(f"PhotoTour, {what}, DoG keypoints", mirrors, "info.txt", "1-2 GB", patches)


def _harris(what: str, name: str, md5: str, patches: int) -> PublicSet:
    mirrors = [Mirror(f"{_BROWN}/{name}_harris.zip", f"md5:{md5}")]
    return PublicSet(f"PhotoTour, {what}, Harris corners", mirrors, "info.txt", "1-2 GB", patches)


SETS: Mapping[str, PublicSet] = {
    "liberty": _phototour("Statue of Liberty", "liberty", "fdd9152f138ea5ef2091746689176414", 450_092),
    "notredame": _phototour("Notre Dame", "notredame", "509eda8535847b8c0a90bbb210c83484", 468_159),
    "yosemite": _phototour("Half Dome", "yosemite", "533b2e8eb7ede31be40abc317b2fd4f0", 633_587),
    "liberty_harris": _harris("Statue of Liberty", "liberty", "c731fcfb3abb4091110d0ae8c7ba182c", 379_587),
    "notredame_harris": _harris("Notre Dame", "notredame", "69f8c90f78e171349abdf0307afefe4d", 325_295),
    "yosemite_harris": _harris("Half Dome", "yosemite", "a73253d1c6fbd3ba2613c45065c00d46", 450_912),
    "hpatches": PublicSet(
        "HPatches, 116 sequences as patches",
        [
            Mirror(f"{_HUGGING_FACE}/hpatches-release.zip"),
            Mirror(f"{_IMPERIAL}/hpatches/hpatches-release.tar.gz", "md5:0ab830d37fceb2b4c86cb1cc6cc79a61"),
        ],
        "*/ref.png",
        "4.2 GB",
    ),
    "hpatches_images": PublicSet(
        "HPatches, 116 sequences as photos with homographies",
        [
            Mirror(
                f"{_HUGGING_FACE}/hpatches-sequences-release.zip",
                "sha256:99cf7e1ca167896eb4ca2fe3d903beff6566243a3c0c8e07a13a2596648ad670",
                1_279_545_572,
            ),
        ],
        "*/H_1_2",
        "1.3 GB",
    ),
}


def get(name: str, to: str | Path = "data", progress: Progress = silent, sets: Mapping[str, PublicSet] = SETS) -> Path:
    """The folder `to`/`name` with the set in it, downloaded if it is not there. Stopped downloads go on."""
    wanted, to = choose(sets, name, "public data set"), Path(to)
    folder = to / name
    if any(folder.glob(wanted.proof)):
        return folder
    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"{folder} holds other files but no {wanted.proof}; move them away or choose --to.")
    _make(to)
    failures = []
    for mirror in wanted.mirrors:
        # Mirrors hold different bytes, so each has its own file to go on with.
        part = to / f"{name}-{zlib.crc32(mirror.url.encode()):08x}.part"
        try:
            _download(mirror, part, progress)
            _verify(mirror, part)
            _unpack(part, folder, wanted)
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            failures.append(f"{mirror.url}: {_reason(error)}")
            _LOG.info("no luck with %s", failures[-1])
        except BadData as error:
            part.unlink(missing_ok=True)  # going on with wrong bytes would never end
            failures.append(f"{mirror.url}: {error}")
        except OSError as error:
            raise BadInput(f"cannot write to {to}: {error.strerror or error}; make room or choose --to.") from None
        else:
            part.unlink()
            return folder
    raise DataNotFound(
        f"could not download {name} ({'; '.join(failures)}); "
        f"get it elsewhere and put its files in {folder}, so that {folder / wanted.proof} is there."
    )


def _download(mirror: Mirror, part: Path, progress: Progress) -> None:
    """Until the file is whole; a connection that breaks is taken up where it broke."""
    tries = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            if _fetch(mirror, part, progress):
                return
            broken: Exception = ConnectionError("the connection breaks again and again")
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            broken = error
        after = part.stat().st_size if part.exists() else 0
        tries = 0 if after > before > 0 else tries + 1
        dead = isinstance(broken, urllib.error.URLError)  # refused, unknown, not found: asking again does not help
        if dead or tries >= TRIES:
            raise broken


def _fetch(mirror: Mirror, part: Path, progress: Progress) -> bool:
    """One connection; whether the file is whole now."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(mirror.url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response: HTTPResponse
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            if response.status != 206:  # the host does not resume: from the start
                have = 0
            length = response.headers.get("Content-Length", "")
            total = have + int(length) if length.isascii() and length.isdigit() else mirror.size
            with part.open("ab" if have else "wb") as file:
                while chunk := _read(response):
                    file.write(chunk)
                    have += len(chunk)
                    progress(have, total or 0, f"downloading {part.stem.rsplit('-', 1)[0]}")
            return total is None or have >= total
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        # Nothing after what we have: whole, or not this file at all, which the checks will tell.
        return True


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK)
    except OSError as error:  # told apart from what goes wrong with our own disk
        raise ConnectionError(_reason(error)) from None


def _verify(mirror: Mirror, path: Path) -> None:
    if mirror.size is not None and path.stat().st_size != mirror.size:
        raise BadData(f"the file has {path.stat().st_size} bytes instead of {mirror.size}")
    if mirror.checksum is not None:
        kind, expected = mirror.checksum.split(":")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, kind).hexdigest()
        if found != expected:
            raise BadData(f"the file's {kind} is {found} instead of {expected}")


def _unpack(archive: Path, folder: Path, wanted: PublicSet) -> None:
    """Into a folder beside, then renamed: a set is whole or not there."""
    beside = folder.with_name(f".{folder.name}-unpacking")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        _extract(archive, beside)
        root = _set_folder(beside, wanted)
        if wanted.patches is not None:
            with (root / "info.txt").open("rb") as file:
                rows = sum(1 for line in file if line.strip())
            if rows != wanted.patches:
                raise BadData(f"its info.txt lists {rows} patches instead of {wanted.patches}")
        os.replace(root, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _extract(archive: Path, folder: Path) -> None:
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                for name in zipped.namelist():
                    path = PurePosixPath(name.replace("\\", "/"))
                    if not name or path.is_absolute() or ".." in path.parts:
                        raise BadData(f"the archive wants to write outside its folder ({name})")
                _refuse_bomb(archive, (member.file_size for member in zipped.infolist()))
                zipped.extractall(folder)
        else:
            with tarfile.open(archive) as tarred:
                _refuse_bomb(archive, (member.size for member in tarred))
                tarred.extractall(folder, filter="data")  # refuses paths and links that lead outside
    except BadData:
        raise
    except tarfile.FilterError as error:
        raise BadData(f"the archive wants to write outside its folder ({error})") from None
    except RuntimeError as error:  # a password, or a method that Python does not know
        raise BadData(f"the archive cannot be unpacked ({error})") from None
    except (*BROKEN, OSError) as error:
        if isinstance(error, OSError) and not isinstance(error, BROKEN) and error.errno != errno.EINVAL:
            raise  # EINVAL: a place before the start of the file
        raise BadData("the file is not a whole archive") from None


def _refuse_bomb(archive: Path, sizes: Iterable[int]) -> None:
    """Stop before a disk is filled: patches and photos are never packed this tightly."""
    limit, total = SMALL + BOMB_RATIO * archive.stat().st_size, 0
    for size in sizes:
        total += size
        if total > limit:
            raise BadData(f"the archive unpacks to more than {limit / 1e9:.1f} GB, {BOMB_RATIO} times its size")


def _set_folder(unpacked: Path, wanted: PublicSet) -> Path:
    """The folder in which the proof lies: some archives have a top folder, some do not."""
    for folder in [unpacked, *sorted(path for path in unpacked.rglob("*") if path.is_dir())]:
        if any(folder.glob(wanted.proof)):
            return folder
    raise BadData(f"the archive has no {wanted.proof}")


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", error)  # a URLError wraps what happened
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make {folder}: {error.strerror}; choose --to another place.") from None
