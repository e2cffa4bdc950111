"""Which observations are stacks of frames, and along which axis.

A stack of k frames is an array whose axis holds the parts of k frames one after another, oldest first, as
``VecFrameStack`` and Gymnasium's ``FrameStackObservation`` make it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space

from sb3_webscale.errors import InvalidInputError

__all__ = [
    "FrameStack",
    "FrameStacks",
    "Stacking",
    "detected_stacking",
    "leading_stacking",
    "requested_stack",
    "requested_stacking",
]

# Number of frames, or (number of frames, axis) where the axis would not be guessed.
FrameStack: TypeAlias = int | tuple[int, int]
# The same for every array of a space, or for some keys of a Dict space.
FrameStacks: TypeAlias = FrameStack | Mapping[str, FrameStack] | None

_MAX_FRAMES = 64
# Nobody has said that there are frames: only short axes, whose parts are much larger than the references to them.
_MAX_DETECTED_FRAMES = 16
_MIN_DETECTED_FRAME_BYTES = 64
_COLOURS = 3
# Each transition holds so many bytes for a frame of its two observations, beside the frames.
_REFERENCE_BYTES = 8


@dataclass(frozen=True)
class Stacking:
    """
    :param frames: stacked in an observation; 1 for those that are no stacks
    :param axis: along which they are stacked
    """

    frames: int = 1
    axis: int = 0


def detected_stacking(space: spaces.Space[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Stacking:
    """What an observation of at least two axes looks like: a short first axis is taken for frames, or their channels.

    So is the last axis of an image whose channels come last by SB3's rule. As colours cannot be told from frames, it is
    split into frames of three channels where that is possible, which leaves a single RGB image whole, and otherwise
    into frames of one.

    :param space: one array's space
    :param shape: of an observation as it is stored
    :param dtype: of its elements
    """
    if not _channels_last(space, shape):
        return leading_stacking(shape, dtype)
    channels = shape[-1]
    frames = channels // _COLOURS if channels % _COLOURS == 0 else channels
    return _worthwhile(Stacking(frames, len(shape) - 1), shape, dtype)


def leading_stacking(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Stacking:
    """As :func:`detected_stacking`, by the first axis alone."""
    return _worthwhile(Stacking(shape[0]), shape, dtype) if len(shape) > 1 else Stacking()


def _channels_last(space: spaces.Space[Any], shape: tuple[int, ...]) -> bool:
    return is_image_space(space) and shape[-1] < min(shape[:-1])


def _worthwhile(stacking: Stacking, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Stacking:
    frame_bytes = math.prod(shape) * dtype.itemsize // stacking.frames
    found = 2 <= stacking.frames <= _MAX_DETECTED_FRAMES and frame_bytes >= _MIN_DETECTED_FRAME_BYTES
    return stacking if found else Stacking()


def requested_stack(frame_stack: FrameStacks, space: spaces.Space[Any], key: str | None) -> FrameStack | None:
    """
    :param frame_stack: the buffer's parameter
    :param space: the whole observation space
    :param key: key of the array in question, None in a flat space
    :return: what was requested for this array; None leaves it to :func:`detected_stacking`
    :raises InvalidInputError: when keys are given that the space does not have
    """
    if not isinstance(frame_stack, Mapping):
        return frame_stack
    if not isinstance(space, spaces.Dict):
        msg = f"frame_stack is {dict(frame_stack)}, but observation_space is no Dict: give the number of frames alone"
        raise InvalidInputError(msg)
    for name in frame_stack:
        if name not in space.spaces:
            msg = f"frame_stack has the key {name!r}, but observation_space has {sorted(space.spaces)}: use these"
            raise InvalidInputError(msg)
    return frame_stack.get(key) if key is not None else None


def requested_stacking(
    stack: FrameStack, space: spaces.Space[Any], shape: tuple[int, ...], dtype: np.dtype[Any], key: str | None
) -> Stacking:
    """
    Without an axis, the frames lie along an image's channels, else along a first axis that is as long as there are
    frames, else along the last axis, else along the first. Stacks of frames so small that references to them would take
    more memory than they save are left whole.

    :param stack: number of frames, or (number of frames, axis)
    :param space: one array's space
    :param shape: of an observation as it is stored
    :param dtype: of its elements
    :param key: key of the array in a Dict space, or None
    :raises InvalidInputError: when the number is out of range, or no axis can be split into so many frames
    """
    name = "frame_stack" if key is None else f"frame_stack[{key!r}]"
    frames, axis = _parsed(stack, name)
    if axis is not None and not -len(shape) <= axis < len(shape):
        msg = f"{name} has axis {axis}, but observations have shape {shape}: give one of their axes"
        raise InvalidInputError(msg)
    candidates = [axis % len(shape)] if axis is not None else _axes_by_likelihood(frames, space, shape)
    fitting = [candidate for candidate in candidates if shape[candidate] % frames == 0]
    if not fitting:
        tried = " or ".join(map(str, candidates))
        fix = "give the number that was stacked" + ("" if key is None else "; keys with another one need a dict")
        msg = f"{name} is {stack}, but shape {shape} does not split into {frames} frames along axis {tried}: {fix}"
        raise InvalidInputError(msg)
    row_bytes = math.prod(shape) * dtype.itemsize
    if row_bytes // frames + _REFERENCE_BYTES * frames >= row_bytes + _REFERENCE_BYTES:
        return Stacking()
    return Stacking(frames, fitting[0])


def _parsed(stack: FrameStack, name: str) -> tuple[int, int | None]:
    # A list is what a YAML file makes of a pair.
    numbers = tuple(stack) if isinstance(stack, tuple | list) else (stack,)
    if not 1 <= len(numbers) <= 2 or not all(
        isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers
    ):
        msg = f"{name} is {stack!r}, but must be a number of frames, or (number of frames, axis)"
        raise InvalidInputError(msg)
    if not 1 <= numbers[0] <= _MAX_FRAMES:
        msg = f"{name} is {stack!r}, but a stack holds 1 to {_MAX_FRAMES} frames: 1 is for observations without frames"
        raise InvalidInputError(msg)
    return int(numbers[0]), int(numbers[1]) if len(numbers) == 2 else None


def _axes_by_likelihood(frames: int, space: spaces.Space[Any], shape: tuple[int, ...]) -> list[int]:
    last = len(shape) - 1
    if is_image_space(space):
        return [last if _channels_last(space, shape) else 0]
    if shape[0] == frames:
        return [0]
    return [last] if last == 0 else [last, 0]
