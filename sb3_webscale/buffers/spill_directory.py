"""A directory of spill files that lives as long as its buffer, and the removal of those whose process died."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from filelock import FileLock

from sb3_webscale.errors import SpillError

__all__ = ["SpillDirectory"]

_PREFIX = "webscale-spill-"
_OWNER = "owner.lock"


class SpillDirectory:
    """A new directory inside ``spill_dir``, removed with this object or at the interpreter's end.

    The process holds a lock on it that the system drops when the process dies, however it dies. Directories without
    such a lock are leftovers, of no use to anyone, and are removed when the next one is made.

    :param spill_dir: created if missing
    :raises SpillError: when it cannot be created or locked
    """

    def __init__(self, spill_dir: str) -> None:
        root = Path(spill_dir)
        try:
            root.mkdir(parents=True, exist_ok=True)
            # Between its making and its locking a directory looks like a leftover.
            with FileLock(root / ".webscale-spill.lock"):
                _remove_leftovers(root)
                self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
                lock = _locked(self.path / _OWNER)
        except OSError as error:
            msg = f"spill_dir {spill_dir!r} cannot be used: {error}. Name a writable directory on a local disk"
            raise SpillError(msg) from error
        assert lock is not None
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def close(self) -> None:
        """Remove the directory now."""
        self._finalizer()


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock, or None when another holds it."""
    import fcntl

    # Not a FileLock: a forked child that drops its copy of one would take its parent's lock away.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove_leftovers(root: Path) -> None:
    for path in root.glob(f"{_PREFIX}*"):
        lock = _locked(path / _OWNER)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _remove(path: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)
