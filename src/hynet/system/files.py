"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import BadInput


@contextmanager
def whole(path: str | Path) -> Iterator[Path]:
    """A temporary file beside `path`, renamed to it when the block ends well and removed when it does not.

    with whole("set/info.txt") as temporary:
        temporary.write_text(...)
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Keep the suffix: cv2.imwrite and others choose the format by it.
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}; choose another place.") from None
    os.close(handle)
    temporary = Path(name)
    try:
        try:
            yield temporary
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise BadInput(f"cannot write {path}: {error.strerror}; make room or choose another place.") from None
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes files private; the result is an ordinary file
        try:
            os.replace(temporary, path)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}; choose another place.") from None
    finally:
        temporary.unlink(missing_ok=True)


def make_folder(path: str | Path) -> Path:
    """The folder, made if it is not there, or the sentence that says why not."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot write to {path}: {error.strerror}; choose another folder.") from None
    return path


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
