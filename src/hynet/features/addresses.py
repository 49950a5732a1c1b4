"""A list of photos as people have it -> names and addresses: folders, patterns, tables of paths, here or in a bucket.

A photo of a folder or a pattern is named by its path below it, one of a file of paths by its column `name`, else by the
path as it stands there, without scheme, leading slash or dots.
"""

from __future__ import annotations

import csv
import glob
import io
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any

from .. import images
from ..errors import BadInput, DataNotFound, UnreadableImage, need
from ..images import Content
from ..runtime.files import as_path

PATHS = ("path", "photo", "image", "file", "url", "uri")  # what the column of paths may be called
MANIFESTS = (".csv", ".parquet")
REMOTE = re.compile(r"[a-z][a-z0-9+.-]*(::|://)", re.IGNORECASE)
WILD = re.compile(r"[*?\[]")
TRIES = 3  # of a photo that is fetched


def find_addresses(given: Sequence[str | Path]) -> dict[str, str]:
    """Name -> absolute path or URL, in the order of the list; each photo once."""
    named: dict[str, str] = {}
    for each in given:
        for name, address in _listed(str(each)):
            try:
                name.encode()
            except UnicodeEncodeError:
                readable = name.encode(errors="backslashreplace").decode()
                raise BadInput(f"{readable} has a name that is not UTF-8; rename it.") from None
            if not name:
                raise BadInput(f"{address} leaves no name for the photo; check {each}.")
            if named.setdefault(name, address) != address:
                raise BadInput(
                    f"two photos are named {name} ({named[name]} and {address}); give the folder above both, or a "
                    "column `name`."
                )
    if not named:
        raise DataNotFound(f"no photos in {', '.join(map(str, given)) or 'an empty list'}; give folders of them.")
    return named


def name_photos(photos: str | Path | Sequence[str | Path] | Mapping[str, Path]) -> dict[str, Path]:
    """Name -> path: a photo by its file name, those of a folder by their path below it."""
    if isinstance(photos, Mapping):
        return dict(photos)
    named: dict[str, Path] = {}
    several = isinstance(photos, Iterable) and not isinstance(photos, str)
    for given in photos if several else [photos]:  # type: ignore[union-attr]
        if images.is_url(given):
            raise BadInput(f"{given} is a URL, which only `hynet match` reads; download the photo first.")
        path = images.home(as_path(given, "a photo, or a folder of photos,"))
        for photo in images.list_photos(path) if path.is_dir() else [path]:
            name = photo.relative_to(path).as_posix() if path.is_dir() else photo.name
            if named.setdefault(name, photo) != photo:
                raise BadInput(f"two photos are named {name} ({named[name]} and {photo}); give the folder above both.")
    return named


def with_names(photos: Mapping[str, Path]) -> tuple[dict[str, Path], dict[str, str]]:
    """Split photos into those whose names can be written down, and what is wrong with the others."""
    named, unnamed = {}, {}
    for name, photo in photos.items():
        try:
            name.encode()
            named[name] = photo
        except UnicodeEncodeError:
            readable = str(photo).encode(errors="backslashreplace").decode()
            unnamed[name] = f"{readable} has a name that is not UTF-8; rename it."
    if not named:
        raise BadInput(f"none of the photos can be used: {next(iter(unnamed.values()))}")
    return named, unnamed


def find_masks(folder: str | tuple[str, str] | None, photos: Iterable[str]) -> dict[str, Path]:
    """Photo -> its mask, of those that have one."""
    if folder is None:
        return {}
    if isinstance(folder, tuple):
        raise BadInput("a mask for each of two photos does not suit many; give a folder of masks.")
    names = list(photos)
    found = {name: mask for name in names if (mask := images.home(folder) / f"{name}.png").is_file()}
    if not found:
        raise BadInput(f"no mask in {folder} is named after a photo; that of {names[0]} ends in .png after it.")
    return found


def is_remote(address: str | Path) -> bool:
    return REMOTE.match(str(address)) is not None


def fetched(address: str) -> Path | Content:
    """A photo as `images.read` takes it; what is not on this machine is fetched."""
    if not is_remote(address):
        return Path(address)
    for attempt in range(TRIES):
        try:
            return _content(address)
        except ImportError:
            raise  # this worker lacks a package, which is no fault of the photo
        except FileNotFoundError:
            raise UnreadableImage(f"{images.NO_PHOTO} {address}; check the name.") from None
        except Exception as error:  # each kind of storage has errors of its own
            if attempt + 1 == TRIES or _is_final(error):
                if isinstance(error, UnreadableImage):  # says so itself
                    raise
                why = str(error) or type(error).__name__
                raise UnreadableImage(f"{address} could not be fetched ({why}).") from None
            time.sleep(2**attempt)
    raise AssertionError


def _is_final(error: Exception) -> bool:
    """Whether a web server would answer the same again: not where it was slow, or asked too often."""
    code = getattr(error.__context__, "code", 0)
    return 400 <= code < 500 and code not in (408, 429)


def _content(address: str) -> Content:
    """Content of a file in other places; http needs no package."""
    if images.is_url(address):
        found = images.at_hand(address)
        assert isinstance(found, Content)
        return found
    with need("fsspec", "cluster", address).open(address, "rb") as file:
        return Content(file.read(), address)


def _listed(given: str) -> Iterator[tuple[str, str]]:
    if given.lower().endswith(MANIFESTS) and not images.home(given).is_dir():
        yield from _of_manifest(given)
    elif images.is_url(given):
        yield _plain_name(given), given
    elif is_remote(given):
        yield from _of_storage(given)
    elif WILD.search(given) and not Path(given).exists():
        yield from _of_pattern(str(images.home(given)))
    else:
        path = images.home(given)
        if path.is_dir():
            yield from (
                (photo.relative_to(path).as_posix(), str(photo.absolute())) for photo in images.list_photos(path)
            )
        elif not path.exists():
            raise DataNotFound(f"no photo, folder or list {given}; check the name.")
        else:
            yield path.name, str(path.absolute())


def _of_pattern(pattern: str) -> Iterator[tuple[str, str]]:
    fixed = Path(*takewhile(lambda part: not WILD.search(part), Path(pattern).parts))
    found = sorted(Path(each) for each in glob.glob(pattern, recursive=True))
    photos = [path for path in found if path.suffix.lower() in images.SUFFIXES and path.is_file()]
    if not photos:
        raise DataNotFound(f"no photos match {pattern}; put it in quotes, so that the shell leaves it alone.")
    yield from ((photo.relative_to(fixed).as_posix(), str(photo.absolute())) for photo in photos)


def _of_storage(given: str) -> Iterator[tuple[str, str]]:
    """A photo, a folder or a pattern in a bucket."""
    try:
        system, path = need("fsspec", "cluster", given).core.url_to_fs(given)
        if WILD.search(path):
            above, found = (
                str(PurePosixPath(*takewhile(lambda part: not WILD.search(part), PurePosixPath(path).parts))),
                system.glob(path),
            )
        elif system.isdir(path):
            above, found = path, system.find(path)
        else:
            above, found = "", [path]
    except (BadInput, ImportError):
        raise
    except Exception as error:
        raise BadInput(f"{given} cannot be listed ({error}); check the address and your access to it.") from None
    photos = sorted(each for each in found if PurePosixPath(each).suffix.lower() in images.SUFFIXES)
    if not photos:
        raise DataNotFound(f"no photos in {given}; it needs files that end in {', '.join(sorted(images.SUFFIXES))}.")
    for photo in photos:
        name = photo.removeprefix(above).strip("/") if above else _plain_name(photo)
        yield name, system.unstrip_protocol(photo)


def _of_manifest(given: str) -> Iterator[tuple[str, str]]:
    columns = _columns(given)
    known = {name.strip().lower(): name for name in columns}
    found = next((known[name] for name in PATHS if name in known), None)
    if found is None and len(columns) == 1:
        found = next(iter(columns))
        if PurePosixPath(found).suffix.lower() in images.SUFFIXES:
            raise BadInput(f"{given} has no header, only photos; let its first line be `path`.")
    if found is None:
        raise BadInput(f"{given} has the columns {', '.join(columns) or 'none'}; call that of the paths `path`.")
    names = columns[known["name"]] if "name" in known and known["name"] != found else columns[found]
    folder = given.rpartition("/")[0] if is_remote(given) else str(images.home(given).absolute().parent)
    for row, (name, path) in enumerate(zip(names, columns[found], strict=True), start=1):
        if not isinstance(path, str) or not path.strip() or not isinstance(name, str):
            raise BadInput(f"row {row} of {given} has no path; leave it out.")
        absolute = is_remote(path) or os.path.isabs(path)
        yield _plain_name(name), path if absolute else f"{folder}/{path}"


def _columns(given: str) -> dict[str, Iterable[Any]]:
    content = _list_content(given)
    try:
        if given.lower().endswith(".parquet"):
            table = need("pyarrow.parquet", "cluster", given).read_table(io.BytesIO(content))
            return {name: table[name].to_pylist() for name in table.column_names}
        header, *rows = [row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"))) if row]
        return {name: [row[column] for row in rows] for column, name in enumerate(header)}
    except ImportError:
        raise
    except Exception as error:  # each reader has its own
        raise BadInput(f"{given} is not a table that can be read ({type(error).__name__}: {error}).") from None


def _list_content(given: str) -> bytes:
    try:
        return _content(given).data if is_remote(given) else images.home(given).read_bytes()
    except FileNotFoundError:
        raise DataNotFound(f"no list {given}; check the name.") from None
    except (ImportError, BadInput):
        raise
    except Exception as error:  # each kind of storage has errors of its own
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise BadInput(f"{given} cannot be read ({why}); check the name and your access to it.") from None


def _plain_name(path: str) -> str:
    without_scheme = REMOTE.sub("", path.rpartition("::")[2], count=1)
    parts = PurePosixPath(os.path.normpath(without_scheme)).parts
    return "/".join(part for part in parts if part not in ("/", "..", "."))
