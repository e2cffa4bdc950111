"""Array-like, read-only access to the observations in native memory, in the shape SB3's buffers have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sb3_webscale import _native
from sb3_webscale.buffers.spaces import ObservationLayout

__all__ = ["ObservationView"]


class ObservationView:
    """Observations of shape (buffer_size, n_envs, *obs_shape), assembled on access and never all at once.

    Slots that were never filled read as zeros. Indexing copies; writing is refused, since a stored frame may belong to
    several transitions.

    :param native: the ring that holds them
    :param column: which observation array of the ring
    :param layout: its shape and dtype
    :param following: True for the next observations
    :param shape: (buffer_size, n_envs)
    """

    def __init__(
        self,
        native: _native.Replay,
        column: int,
        layout: ObservationLayout,
        following: bool,
        shape: tuple[int, int],
    ) -> None:
        self._native = native
        self._column = column
        self._layout = layout
        self._following = following
        self.shape = (*shape, *layout.shape)
        self.dtype = layout.dtype

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the array that this view stands for; what is really stored is less."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        key = key if isinstance(key, tuple) else (key,)
        leading, trailing = key[:2], key[2:]
        if not all(isinstance(part, int | np.integer | np.ndarray | list | slice) for part in leading) or not all(
            isinstance(part, slice) for part in trailing
        ):
            everything: npt.NDArray[Any] = self.__array__()[key]  # rare: NumPy's own rules on a whole copy
            return everything
        rows = self._rows(leading)
        found = self._read(rows.ravel()).reshape(*rows.shape, *self._layout.shape)
        index = (Ellipsis, *trailing, *[slice(None)] * (len(self._layout.shape) - len(trailing)))
        selected: npt.NDArray[Any] = found[index]
        return selected

    def _rows(self, leading: tuple[Any, ...]) -> npt.NDArray[np.int64]:
        slots, n_envs = self.shape[:2]
        if any(not isinstance(part, slice) and np.asarray(part).dtype == bool for part in leading):
            return np.asarray(np.arange(slots * n_envs).reshape(slots, n_envs)[leading])
        slot, env = leading if len(leading) == 2 else (leading[0], slice(None))
        chosen_slots, chosen_envs = _chosen(slot, slots, "slot"), _chosen(env, n_envs, "environment")
        if isinstance(slot, slice) or isinstance(env, slice):
            return np.asarray(np.add.outer(chosen_slots * n_envs, chosen_envs))
        return np.asarray(chosen_slots * n_envs + chosen_envs)

    def _read(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        filled = rows < self._native.filled_slots * self.shape[1]
        out = np.empty((len(rows), *self._layout.shape), dtype=self.dtype)
        if filled.all():
            self._native.gather_observations(self._column, self._following, np.ascontiguousarray(rows), out)
        else:
            out[filled] = self._read(rows[filled])
            out[~filled] = 0
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            msg = "observations are stored without repeats, so an array of them is always a copy"
            raise ValueError(msg)
        everything = self[:]
        return everything if dtype is None else everything.astype(dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        msg = "stored observations are read-only, since transitions share them: use add()"
        raise TypeError(msg)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype})"


def _chosen(index: Any, length: int, name: str) -> npt.NDArray[np.int64]:
    """Positions that an integer, an array of integers or a slice stands for."""
    if isinstance(index, slice):
        return np.arange(*index.indices(length), dtype=np.int64)
    index = np.asarray(index, dtype=np.int64)
    outside = (index < -length) | (index >= length)
    if outside.any():
        msg = f"{name} index {index[outside].ravel()[0]} is out of bounds for {length}"
        raise IndexError(msg)
    return np.asarray(np.where(index < 0, index + length, index))
