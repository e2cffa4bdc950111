"""The frames of a stream for pickling, of which those on disk are mapped one chunk at a time."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SavedFrames"]


class SavedFrames:
    """Pickles as a list of uint8 arrays.

    A pickler keeps whatever it has pickled until its end. A read-only mapping costs it addresses only, once its pages
    are let go.

    :param runs: arrays, or (path, offset, bytes, owner) of parts of files, which stay while their owner is held
    """

    def __init__(self, runs: Sequence[npt.NDArray[np.uint8] | tuple[str, int, int, object]]) -> None:
        self._runs = runs

    def __iter__(self) -> Iterator[npt.NDArray[np.uint8]]:
        for run in self._runs:
            if not isinstance(run, tuple):
                yield run
                continue
            path, offset, size, _ = run
            with open(path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            yield np.frombuffer(mapped, np.uint8, size, offset)
            mapped.madvise(mmap.MADV_DONTNEED)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (), None, iter(self)
