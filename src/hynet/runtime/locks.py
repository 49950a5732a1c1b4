"""One writer at a time. The system drops a lock together with its process, however that ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import BadInput, CannotWrite

try:
    import fcntl
except ImportError:
    import msvcrt

    fcntl = None  # type: ignore[assignment]

BEYOND = 1 << 20  # Windows locks bytes, even against reading: one far behind the holder's number


class InUse(BadInput):
    """Another process writes to the same file or folder."""


@contextmanager
def exclusive_lock(target: str | Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a file, or of all that is in a folder: the second writer waits, or gets the number of the first.

    The lock is a hidden file in the folder or beside the file, and goes when the block ends.
    """
    target = Path(target)
    lock = target / ".lock" if target.is_dir() else target.with_name(f".{target.name}.lock")
    file = _locked(lock, target, wait)
    try:
        yield
    finally:
        if file is not None:
            if fcntl:
                _remove(lock)  # while we hold it: whoever has opened it sees that it is gone, and makes a new one
            os.close(file)
            if not fcntl:  # Windows removes no file that anyone has open
                _remove(lock)


def _locked(lock: Path, target: Path, wait: bool) -> int | None:
    """Open and lock the lock file; None where the file system knows no locks."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(lock, flags, 0o666)
        except OSError as error:
            raise CannotWrite(f"cannot write {target}: {error.strerror}; choose another place.") from None
        try:
            _wait_for(file, wait)
        except BlockingIOError:
            holder = os.read(file, 32).decode(errors="replace").strip()
            os.close(file)
            raise InUse(
                f"another run is at work in {target}{f' (process {holder})' if holder.isdigit() else ''}; "
                "wait until it is done, or choose another place."
            ) from None
        except OSError:  # such as a network drive without locks
            os.close(file)
            return None
        except BaseException:  # Ctrl-C while we wait
            os.close(file)
            raise
        if _is_there(lock, file):
            with suppress(OSError):  # a full disk
                os.ftruncate(file, 0)
                os.write(file, f"{os.getpid()}\n".encode())
            return file
        os.close(file)  # the holder before us has just removed it


def _wait_for(file: int, wait: bool) -> None:
    """Lock the open file, or raise BlockingIOError where another process has it and we do not wait."""
    if fcntl:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return
    while True:
        os.lseek(file, BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
            return
        except PermissionError:
            if not wait:
                raise BlockingIOError from None
            time.sleep(0.1)
        finally:
            os.lseek(file, 0, os.SEEK_SET)


def _remove(lock: Path) -> None:
    with suppress(OSError):
        lock.unlink()


def _is_there(lock: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(lock), os.fstat(file))
    except FileNotFoundError:
        return False
