"""Observations that a user searches for, as rows of the stored types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecNormalize

from sb3_webscale.buffers.prioritization import as_array
from sb3_webscale.buffers.spaces import ObservationLayout
from sb3_webscale.errors import InvalidInputError
from sb3_webscale.retrieval.encoder import Observations

__all__ = ["query_rows"]


def query_rows(observations: Any, layouts: Sequence[ObservationLayout], env: VecNormalize | None) -> Observations:
    """
    :param observations: one observation or n of them; a dict for a Dict space
    :param layouts: of the arrays that are needed
    :param env: what normalised them, or None
    :return: n rows in the types of the layouts
    :raises InvalidInputError: when a shape is wrong, a key is missing, a value is not finite, or does not suit its type
    """
    if layouts[0].key is None:
        if isinstance(observations, Mapping):
            msg = f"observations is a dict of {sorted(observations)}, but the observation space is no Dict"
            raise InvalidInputError(msg)
        array: Any = as_array(observations)
        if env is not None:
            array = env.unnormalize_obs(array)
        return _rows(array, layouts[0], rounded=env is not None)
    if not isinstance(observations, Mapping):
        kind = type(observations).__name__
        msg = f"observations is of type {kind}, but the observation space is a Dict: give a dict of arrays"
        raise InvalidInputError(msg)
    missing = [layout.key for layout in layouts if layout.key not in observations]
    if missing:
        msg = f"observations lacks {missing}, which the index encodes: give these keys too"
        raise InvalidInputError(msg)
    arrays: Any = {key: as_array(part) for key, part in observations.items()}
    if env is not None:
        arrays = env.unnormalize_obs(arrays)
    rows = {str(layout.key): _rows(arrays[layout.key], layout, rounded=env is not None) for layout in layouts}
    counts = {key: len(part) for key, part in rows.items()}
    if len(set(counts.values())) != 1:
        msg = f"observations has a different number of rows in each key: {counts}"
        raise InvalidInputError(msg)
    return rows


def _rows(array: npt.NDArray[Any], layout: ObservationLayout, rounded: bool) -> npt.NDArray[Any]:
    name = layout.named("observations")
    if array.dtype.kind not in "biuf":
        msg = f"{name} has dtype {array.dtype}, but observations are numbers"
        raise InvalidInputError(msg)
    if layout.shape == (1,) and array.ndim <= 1:  # Discrete observations, or a single number
        array = array.reshape(-1, 1)
    elif array.shape == layout.shape:
        array = array[None]
    if array.shape[1:] != layout.shape:
        msg = f"{name} has shape {array.shape}, but {layout.shape} is needed, or n of these"
        raise InvalidInputError(msg)
    if not np.isfinite(array).all():
        msg = f"{name} holds NaN or infinity, but must be finite"
        raise InvalidInputError(msg)
    if rounded and layout.dtype.kind != "f":
        array = np.rint(array)
    rows = array.astype(layout.dtype, copy=False)
    if layout.dtype.kind != "f" and not np.array_equal(rows, array):
        msg = (
            f"{name} does not fit the dtype {layout.dtype} of the observation space: give observations as the "
            "environment does, not scaled or normalised, or say with env= which VecNormalize has done it"
        )
        raise InvalidInputError(msg)
    return rows
