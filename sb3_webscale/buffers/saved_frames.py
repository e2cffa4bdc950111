"""The frames of a stream for pickling, of which those on disk are mapped one chunk at a time."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SavedFrames"]


class _Mapping(mmap.mmap):
    """A part of a file that stays as it is while somebody looks at it."""

    owner: object


class SavedFrames:
    """Pickles as a list of uint8 arrays.

    A pickler keeps whatever it has pickled until its end. A read-only mapping costs it addresses only, once its pages
    are let go.

    :param runs: arrays, or (file descriptor, offset, bytes, owner) of parts of files, which stay while it is held
    """

    def __init__(self, runs: Sequence[npt.NDArray[np.uint8] | tuple[int, int, int, object]]) -> None:
        self._runs = runs

    def __iter__(self) -> Iterator[npt.NDArray[np.uint8]]:
        for run in self._runs:
            if not isinstance(run, tuple):
                yield run
                continue
            descriptor, offset, size, owner = run
            inside = offset % mmap.ALLOCATIONGRANULARITY
            mapped = _Mapping(descriptor, inside + size, access=mmap.ACCESS_READ, offset=offset - inside)
            mapped.owner = owner
            yield np.frombuffer(mapped, np.uint8, size, inside)
            mapped.madvise(mmap.MADV_DONTNEED)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (), None, iter(self)
