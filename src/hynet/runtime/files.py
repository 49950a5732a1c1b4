"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import BadInput, CannotWrite, HynetError

# Full disks, quotas, limits on a file's size, broken media
CANNOT_GROW = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
LONGEST_STEM = 32  # letters of a file's name that its temporary name repeats


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Give a temporary file beside `path`, renamed to it when the block ends well and removed when it does not.

    with atomic_write("set/info.txt") as temporary:
        temporary.write_text(...)
    """
    path = _ordinary(Path(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Keep the suffix: cv2.imwrite and others choose the format by it. Names may have 255 bytes in all.
        temporary = path.with_name(f".{path.stem[:LONGEST_STEM]}-{secrets.token_hex(4)}{path.suffix}")
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror}; choose another place.") from None
    try:
        try:
            yield temporary
        except OSError as error:
            # NumPy and HDF5 give no number when a file cannot grow.
            if isinstance(error, HynetError) or error.errno not in (*CANNOT_GROW, None):
                raise
            why = error.strerror or error
            raise CannotWrite(f"cannot write {path}: {why}; make room or choose another place.") from None
        _on_disk(temporary)  # a power cut after the renaming must not leave an empty file
        try:
            os.replace(temporary, path)
        except OSError as error:
            raise CannotWrite(f"cannot write {path}: {error.strerror}; choose another place.") from None
    finally:
        temporary.unlink(missing_ok=True)


def _ordinary(path: Path) -> Path:
    """Follow a link to the place to write; refuse devices, which renaming would replace by a file."""
    try:
        path = path.resolve() if path.is_symlink() else path
        special = path.exists() and not path.is_file() and not path.is_dir()
    except (OSError, RuntimeError):  # links in a circle
        raise CannotWrite(f"cannot write {path}: its links lead nowhere; choose another place.") from None
    if special:
        raise CannotWrite(f"cannot write {path}: it is a device or a pipe; choose the name of a file.")
    return path


def _on_disk(path: Path) -> None:
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
    except FileNotFoundError:
        raise  # the caller has removed the temporary file
    except OSError as error:
        if error.errno in CANNOT_GROW:
            raise CannotWrite(f"cannot write {path}: {error.strerror}; make room or choose another place.") from None


def as_path(given: Any, what: str) -> Path:
    """Convert an argument to a path, or raise BadInput where it is none."""
    if not isinstance(given, str | os.PathLike):
        raise BadInput(f"{what} must be a path, got {type(given).__name__}.")
    return Path(given)


def make_folder(path: str | Path) -> Path:
    """Make the folder if it is not there, or raise CannotWrite."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"cannot write to {path}: {error.strerror}; choose another folder.") from None
    return path
