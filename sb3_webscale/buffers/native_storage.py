"""Transitions in native memory behind the attributes that SB3's algorithms and callbacks touch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import psutil
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer

from sb3_webscale import _native
from sb3_webscale.buffers.frame_stacks import FrameStacks
from sb3_webscale.buffers.memory_budget import MemoryBudget
from sb3_webscale.buffers.observation_view import ObservationView
from sb3_webscale.buffers.spaces import ActionLayout, ObservationLayout, action_layout, observation_layouts
from sb3_webscale.buffers.spill_directory import SpillDirectory
from sb3_webscale.buffers.state import FORMAT, native_state, restore_native
from sb3_webscale.buffers.step_arrays import StepConverter
from sb3_webscale.errors import BufferStateError, InvalidInputError, SnapshotFormatError

if TYPE_CHECKING:
    from sb3_webscale.buffers.experience_index import ExperienceIndex

__all__ = ["NativeStorage", "transition_format"]


def transition_format(layouts: Sequence[ObservationLayout], actions: ActionLayout) -> _native.TransitionFormat:
    """
    :param layouts: observation arrays of a transition
    :param actions: layout of its action
    :return: the same for native code
    """
    columns = [(layout.key, layout.dtype, layout.shape, layout.stacking.frames, layout.parts) for layout in layouts]
    return _native.TransitionFormat(columns, actions.dtype, actions.dim)


class NativeStorage(ReplayBuffer):
    """The storing half of a replay buffer: adding, live views, saving. Each distinct observation or frame is kept once.

    Parameters as :class:`~sb3_webscale.buffers.native_replay.NativeReplayBuffer`.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: th.device | str,
        n_envs: int,
        optimize_memory_usage: bool,
        handle_timeout_termination: bool,
        check_finite: bool,
    ) -> None:
        for name, count in (("buffer_size", buffer_size), ("n_envs", n_envs)):
            if count < 1:
                msg = f"{name} is {count}, but must be at least 1"
                raise InvalidInputError(msg)
        self._check_observation_space(observation_space)
        self._native: _native.Replay | None = None
        self._layouts: list[ObservationLayout] = observation_layouts(observation_space, self._frame_stack)
        self._action_layout: ActionLayout = action_layout(action_space)
        # Not ReplayBuffer.__init__, which would allocate SB3's arrays.
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.check_finite = check_finite
        self._steps_added = 0
        self._warn_if_too_large()
        self._native = self._new_native()

    def _check_observation_space(self, space: spaces.Space[Any]) -> None:
        """Refuse what is another buffer class's to store."""

    def _new_native(self) -> _native.Replay:
        return self._new_ring(self.buffer_size, self.n_envs)

    def _new_ring(self, slots: int, n_envs: int) -> _native.Replay:
        form = transition_format(self._layouts, self._action_layout)
        try:
            return _native.Replay(slots, n_envs, form)
        except MemoryError as error:
            msg = (
                f"buffer_size is {self.buffer_size * self.n_envs}, which does not fit into memory: choose a smaller one"
            )
            raise MemoryError(msg) from error

    # Set before this class is constructed, like the budget, with which it does not warn about memory.
    _frame_stack: FrameStacks = None
    _budget: MemoryBudget | None = None
    _spill_directory: SpillDirectory | None = None
    # Follows the ring in the buffers that can be searched.
    _index: ExperienceIndex | None = None

    def _limit_memory(self, replay: _native.Replay) -> None:
        """Keep to the budget from now on; called while the buffer is empty and all but its frames has its memory."""
        if self._budget is None:
            return
        fixed, least = replay.nbytes, replay.minimum_allowance
        allowance = self._budget.bytes - fixed
        if allowance < least:
            msg = (
                f"memory_budget is {self._budget.bytes} bytes, but {self.buffer_size * self.n_envs} transitions take "
                f"{fixed} without their observations, and at least {least} of these stay in memory: give at least "
                f"{fixed + least}, or a smaller buffer_size"
            )
            raise InvalidInputError(msg)
        self._spill_directory = SpillDirectory(self._budget.spill_dir)
        replay.tier(str(self._spill_directory.path), allowance)

    @property
    def memory_budget(self) -> int | None:
        """Bytes that the buffer may hold in memory, or None."""
        return None if self._budget is None else self._budget.bytes

    def _warn_if_too_large(self) -> None:
        if self._budget is not None:
            return
        frame_bytes = sum(layout.frame_bytes for layout in self._layouts)
        rows = self.buffer_size * self.n_envs
        expected = rows * (frame_bytes + self._action_layout.dim * self._action_layout.dtype.itemsize + 12)
        available = psutil.virtual_memory().available
        if expected > available:
            fitting = int(rows * available / expected)
            warnings.warn(
                f"a full {type(self).__name__} of {rows} transitions needs at least {expected / 1e9:.2f} GB, "
                f"but {available / 1e9:.2f} GB are available: a buffer_size of {fitting} would fit, or set a "
                "memory_budget",
                stacklevel=2,
            )

    @property
    def _replay(self) -> _native.Replay:
        assert self._native is not None
        return self._native

    @property
    def _live_ring(self) -> _native.Replay:
        """The ring that live views show."""
        return self._replay

    @property
    def _stored(self) -> int:
        """Transitions stored now."""
        return self.size() * self.n_envs

    @property
    def _capacity(self) -> int:
        return self.buffer_size * self.n_envs

    @property
    def pos(self) -> int:
        """Slot that the next step is written to."""
        return self._native.position if self._native is not None else 0

    @pos.setter
    def pos(self, value: int) -> None:
        self._refuse_change("pos", self.pos, value)

    @property
    def full(self) -> bool:
        """Whether every slot holds a transition."""
        return self._native.full if self._native is not None else False

    @full.setter
    def full(self, value: bool) -> None:
        self._refuse_change("full", self.full, value)

    def _refuse_change(self, name: str, now: int, wanted: int) -> None:
        if now != wanted:
            msg = f"{name} is {now} and follows what was added, so it cannot be set to {wanted}: use add() or reset()"
            raise BufferStateError(msg)

    @property
    def actions(self) -> npt.NDArray[Any]:
        """Live view, shape (buffer_size, n_envs, action_dim)."""
        return self._live_ring.actions

    @actions.setter
    def actions(self, value: npt.ArrayLike) -> None:
        self.actions[...] = value

    @property
    def rewards(self) -> npt.NDArray[np.float32]:
        """Live view, shape (buffer_size, n_envs)."""
        return self._live_ring.rewards

    @rewards.setter
    def rewards(self, value: npt.ArrayLike) -> None:
        self.rewards[...] = value

    @property
    def dones(self) -> npt.NDArray[np.float32]:
        """Live view, shape (buffer_size, n_envs)."""
        return self._live_ring.dones

    @dones.setter
    def dones(self, value: npt.ArrayLike) -> None:
        self.dones[...] = value

    @property
    def timeouts(self) -> npt.NDArray[np.float32]:
        """Live view, shape (buffer_size, n_envs)."""
        return self._live_ring.timeouts

    @timeouts.setter
    def timeouts(self, value: npt.ArrayLike) -> None:
        self.timeouts[...] = value

    @property
    def observations(self) -> Any:
        """Read-only view, or one for each key of a Dict space."""
        return self._observation_views(following=False)

    @observations.setter
    def observations(self, value: Any) -> None:
        self._refuse_observations("observations")

    @property
    def next_observations(self) -> Any:
        """Read-only view, or one for each key of a Dict space."""
        return self._observation_views(following=True)

    @next_observations.setter
    def next_observations(self, value: Any) -> None:
        self._refuse_observations("next_observations")

    @staticmethod
    def _refuse_observations(name: str) -> None:
        msg = f"{name} is a view of stored transitions, which share observations, so it cannot be replaced: use add()"
        raise BufferStateError(msg)

    def _observation_views(self, following: bool) -> Any:
        shape = (self.buffer_size, self.n_envs)
        return self._keyed(
            [ObservationView(self._live_ring, i, layout, following, shape) for i, layout in enumerate(self._layouts)]
        )

    def _keyed(self, parts: list[Any]) -> Any:
        """The single part of a flat space, or a dict of the parts of a Dict space."""
        if self._layouts[0].key is None:
            return parts[0]
        return {layout.key: part for layout, part in zip(self._layouts, parts, strict=True)}

    @property
    def nbytes(self) -> int:
        """Bytes of native memory that the buffer holds now; untouched parts of empty slots are counted too."""
        return self._replay.nbytes

    def reset(self) -> None:
        """Forget every transition. Ids are not reused."""
        self._replay.clear()
        if self._index is not None:
            self._index.clear(self._replay)

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: npt.ArrayLike,
        reward: npt.ArrayLike,
        done: npt.ArrayLike,
        infos: Any,
    ) -> None:
        """Store one step of every environment.

        :param obs: (n_envs, *obs_shape), or a dict of them
        :param next_obs: the same after the step; at the end of an episode the terminal observation
        :param action: (n_envs, ...) of action_dim elements each
        :param reward: (n_envs,)
        :param done: (n_envs,), terminated or truncated
        :param infos: one dict for each environment, ``TimeLimit.truncated`` is read
        :raises DataError: when a value is NaN or infinite, or a shape is wrong; nothing is stored then
        """
        if self._replay.try_add_step(
            obs, next_obs, action, reward, done, infos,
            self.handle_timeout_termination, self.check_finite, self._withholds_new_rows,
        ):  # fmt: skip
            self._steps_added += self.n_envs
            if self._index is not None:
                self._index.follow(self._replay)
            return
        timeouts = self._converter(self.n_envs).timeouts(infos, self.handle_timeout_termination)
        self.add_steps(obs, next_obs, action, reward, done, timeouts)

    def add_steps(
        self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, timeouts: npt.NDArray[np.float32]
    ) -> None:
        """Store many consecutive steps of every environment at once. More than fit keep the newest.

        :param obs: (T * n_envs, *obs_shape) for T steps, step after step, or a dict of such arrays
        :param next_obs: the same
        :param action: T * n_envs rows of action_dim elements
        :param reward: (T * n_envs,)
        :param done: (T * n_envs,), terminated or truncated
        :param timeouts: (T * n_envs,), truncated and therefore bootstrapped
        :raises DataError: when a value is NaN or infinite, or a shape is wrong; nothing is stored then
        """
        converter = self._converter(self.n_envs)
        steps = converter.convert(obs, next_obs, action, reward, done, timeouts)
        found = self._replay.add_steps(*steps, self.check_finite, self._withholds_new_rows)
        if found is not None:
            raise converter.non_finite(found, obs, next_obs)
        self._steps_added += len(timeouts)
        if self._index is not None:
            self._index.follow(self._replay)

    def _converter(self, n_envs: int) -> StepConverter:
        return StepConverter(self._layouts, self._action_layout, n_envs, self.check_finite)

    # HER draws only from finished episodes.
    _withholds_new_rows = False

    @property
    def _saved_with_priorities(self) -> bool:
        return False

    def __getstate__(self) -> dict[str, Any]:
        attributes = self.__dict__.copy()
        del attributes["_native"]
        attributes.pop("_spill_directory", None)
        return {"format": FORMAT, "attributes": attributes, "native": self._saved_native()}

    def _saved_native(self) -> dict[str, Any]:
        return native_state(self._replay, len(self._layouts), self.n_envs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        found = state.get("format") if isinstance(state, dict) else None
        if found != FORMAT:
            msg = (
                f"this {type(self).__name__} was saved in format {found!r}, but this version reads "
                f"format {FORMAT}: load it with the version that wrote it and save it again"
            )
            raise SnapshotFormatError(msg)
        try:
            self.__dict__.update(state["attributes"])
            native = self._restored_native(state["native"])
        except InvalidInputError:  # a ValueError, but about the budget
            raise
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
            msg = f"the saved {type(self).__name__} is damaged: {error}. Use another copy of the file"
            raise SnapshotFormatError(msg) from error
        self._native = native

    def _restored_native(self, state: dict[str, Any]) -> _native.Replay:
        native = self._new_native()
        restore_native(native, state, len(self._layouts), self._saved_with_priorities, self._limit_memory)
        return native
