"""Stacks of frames in every layout that wrappers make them, from frames that are named by numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

N_FRAMES = 4


@dataclass(frozen=True)
class StackKind:
    """
    :param frame_shape: of one frame
    :param axis: along which four frames are concatenated
    :param frame_stack: what a buffer must be told; None where it finds out by itself
    """

    frame_shape: tuple[int, ...]
    axis: int
    dtype: type = np.uint8
    frame_stack: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        shape = list(self.frame_shape)
        shape[self.axis] *= N_FRAMES
        return tuple(shape)

    @property
    def space(self) -> spaces.Box:
        if self.dtype == np.uint8:
            return spaces.Box(0, 255, self.shape, np.uint8)
        return spaces.Box(-np.inf, np.inf, self.shape, self.dtype)  # type: ignore[arg-type]

    @property
    def frame_bytes(self) -> int:
        return int(np.prod(self.frame_shape)) * np.dtype(self.dtype).itemsize

    def frame(self, number: int) -> np.ndarray:
        """Frame 0 is blank, every other one has values of its own."""
        values = np.random.default_rng(number).integers(0, 256, self.frame_shape) if number else 0
        return np.broadcast_to(np.asarray(values, self.dtype), self.frame_shape)

    def stack(self, numbers: list[int]) -> np.ndarray:
        """One observation, oldest frame first."""
        return np.concatenate([self.frame(number) for number in numbers], axis=self.axis)

    def stacks(self, numbers: list[list[int]]) -> np.ndarray:
        """The observations of several environments."""
        return np.stack([self.stack(one) for one in numbers])


KINDS = {
    "grey, channels first": StackKind((1, 9, 8), 0),
    "grey, channels last": StackKind((9, 8, 1), 2),
    "RGB, channels first": StackKind((3, 9, 9), 0),
    "RGB, channels last": StackKind((13, 14, 3), 2),
    "float image, channels last": StackKind((5, 5, 1), 2, np.float32, frame_stack=4),
    "float RGB, channels last": StackKind((5, 6, 3), 2, np.float32, frame_stack=(4, -1)),
    "vector": StackKind((11,), 0, np.float32, frame_stack=4),
    "bytes": StackKind((33,), 0, np.uint8, frame_stack=4),
    "matrix, columns": StackKind((6, 2), 1, np.float64, frame_stack=4),
    "matrix, rows": StackKind((3, 4), 0, np.float32, frame_stack=(4, 0)),
    "vectors along a new axis": StackKind((1, 12), 0, np.float32, frame_stack=4),
}
