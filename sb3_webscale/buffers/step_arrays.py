"""Steps as arrays of the stored types, and what is wrong with them when they cannot be stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sb3_webscale.buffers.spaces import ActionLayout, ObservationLayout
from sb3_webscale.errors import DataError

__all__ = ["StepArrays", "StepConverter"]

_FINITE_FIX = "mend the environment or converter, or pass check_finite=False to store it as it is"


class StepArrays(NamedTuple):
    """T steps of n_envs environments, step after step.

    :param observations: for each observation array of the space, its dtype, T * n_envs rows
    :param next_observations: the same
    :param actions: dtype of the stored actions, T * n_envs rows of action_dim elements
    :param rewards: float32 (T * n_envs,)
    :param dones: float32 (T * n_envs,)
    :param timeouts: float32 (T * n_envs,)
    """

    observations: list[npt.NDArray[Any]]
    next_observations: list[npt.NDArray[Any]]
    actions: npt.NDArray[Any]
    rewards: npt.NDArray[np.float32]
    dones: npt.NDArray[np.float32]
    timeouts: npt.NDArray[np.float32]


class StepConverter:
    """
    :param layouts: observation arrays that are stored
    :param action_layout: how actions are stored
    :param n_envs: environments of a step
    :param check_finite: refuse NaN and infinite rewards and actions; native code looks at observations
    """

    def __init__(
        self, layouts: Sequence[ObservationLayout], action_layout: ActionLayout, n_envs: int, check_finite: bool
    ) -> None:
        self._layouts = layouts
        self._action_layout = action_layout
        self._n_envs = n_envs
        self._check_finite = check_finite

    def timeouts(self, infos: Any, handled: bool) -> npt.NDArray[np.float32]:
        """
        :param infos: one dict for each environment
        :param handled: whether time limits are told apart
        :return: float32 (n_envs,), 1 where the episode was truncated
        :raises DataError: when the number of dicts is wrong
        """
        if not handled:
            return np.zeros(self._n_envs, dtype=np.float32)
        if len(infos) != self._n_envs:
            msg = f"infos has {len(infos)} entries, but there are {self._n_envs} environments: give one dict for each"
            raise DataError(msg)
        return np.array([info.get("TimeLimit.truncated", False) for info in infos], dtype=np.float32)

    def convert(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, timeouts: npt.NDArray[np.float32]
    ) -> StepArrays:
        """
        :param obs: (T * n_envs, *obs_shape), or a dict of such arrays
        :param next_obs: the same
        :param action: T * n_envs rows of action_dim elements
        :param reward: (T * n_envs,)
        :param done: (T * n_envs,)
        :param timeouts: (T * n_envs,)
        :return: the same in the stored types
        :raises DataError: when a reward or action is NaN or infinite, or a shape is wrong
        """
        rows = len(timeouts)
        if rows % self._n_envs != 0:
            msg = f"{rows} rows were given, but their number must be a multiple of n_envs={self._n_envs}"
            raise DataError(msg)
        rewards = _contiguous(reward, np.dtype(np.float32), rows, "reward")
        if self._check_finite and not np.isfinite(rewards).all():
            row = int(np.flatnonzero(~np.isfinite(rewards))[0])
            msg = f"reward of {self._place(row)} is {rewards[row]}, but rewards must be finite: {_FINITE_FIX}"
            raise DataError(msg)
        actions = _contiguous(action, self._action_layout.dtype, rows * self._action_layout.dim, "action")
        if self._check_finite and actions.dtype.kind == "f" and not np.isfinite(actions).all():
            row = int(np.flatnonzero(~np.isfinite(actions))[0]) // self._action_layout.dim
            values = actions.reshape(rows, -1)[row]
            msg = f"action of {self._place(row)} is {values}, but actions must be finite: {_FINITE_FIX}"
            raise DataError(msg)
        return StepArrays(
            self._observation_arrays(obs, rows, "obs"),
            self._observation_arrays(next_obs, rows, "next_obs"),
            actions,
            rewards,
            _contiguous(done, np.dtype(np.float32), rows, "done"),
            np.ascontiguousarray(timeouts, dtype=np.float32),
        )

    def non_finite(self, found: tuple[int, bool, int, int], obs: Any, next_obs: Any) -> DataError:
        """
        :param found: (column, whether next, row, element), as native code reports it
        :param obs: what was given
        :param next_obs: what was given
        :return: the error that tells of it
        """
        column, following, row, element = found
        obs = next_obs if following else obs
        layout = self._layouts[column]
        part = np.asarray(obs if layout.key is None else obs[layout.key]).ravel()
        width = layout.row_bytes // layout.dtype.itemsize
        where = np.unravel_index(element, layout.shape)
        name = layout.named("next_obs" if following else "obs")
        feature = ", ".join(str(int(i)) for i in where)
        msg = (
            f"{name} of {self._place(row)} is {part[row * width + element]} at feature [{feature}], but observations "
            f"must be finite: {_FINITE_FIX}"
        )
        return DataError(msg)

    def _observation_arrays(self, obs: Any, rows: int, name: str) -> list[npt.NDArray[Any]]:
        arrays = []
        for layout in self._layouts:
            part = obs if layout.key is None else obs[layout.key]
            size = rows * (layout.row_bytes // layout.dtype.itemsize)
            array = _contiguous(part, layout.dtype, size, layout.named(name))
            self._check_shape(np.shape(part), rows, layout, name)
            arrays.append(array)
        return arrays

    @staticmethod
    def _check_shape(given: tuple[int, ...], rows: int, layout: ObservationLayout, name: str) -> None:
        # SB3 reshapes Discrete observations, and broadcasting lets a single environment leave its axis out.
        fitting = [(rows, *layout.shape)]
        fitting += [(rows,)] if layout.shape == (1,) else []
        fitting += [layout.shape] if rows == 1 else []
        if given not in fitting:
            msg = f"{layout.named(name)} has shape {given}, but {(rows, *layout.shape)} is needed"
            raise DataError(msg)

    def _place(self, row: int) -> str:
        return f"environment {row % self._n_envs}" + (f", step {row // self._n_envs}" if row >= self._n_envs else "")


def _contiguous(values: Any, dtype: np.dtype[Any], size: int, name: str) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind == "f" and dtype.kind != "f" and not np.isfinite(array).all():
        msg = f"{name} holds NaN or infinity, which {dtype} cannot store: {_FINITE_FIX.split(',')[0]}"
        raise DataError(msg)
    array = np.ascontiguousarray(array, dtype=dtype)
    if array.size != size:
        msg = f"{name} has shape {array.shape}, that is {array.size} elements, but {size} are needed"
        raise DataError(msg)
    return array.reshape(-1)
