"""A replay buffer whose batches mix imported history with online experience."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecNormalize

from sb3_webscale.buffers import WebscaleReplayBuffer, WebscaleReplayBufferSamples
from sb3_webscale.buffers.memory_budget import parse_memory_budget
from sb3_webscale.buffers.prioritization import as_ids, checked_td_errors
from sb3_webscale.data.transitions import Transitions
from sb3_webscale.errors import BufferStateError, ConfigError, DataError, InvalidInputError
from sb3_webscale.replay.online_ratio import ConstantOnlineRatio, parse_online_ratio

__all__ = ["MixedReplayBuffer"]

# Ids of history rows carry this bit, so that TD errors find their way back.
_HISTORY_BIT = np.int64(1) << np.int64(62)


class MixedReplayBuffer(WebscaleReplayBuffer):
    """Online ring and protected history side by side; each batch holds an exact share of both.

    History is never overwritten by online experience. A batch of B has ``round(ratio * B)`` online transitions, once
    any are stored, and the rest from history. In prioritized mode each part is drawn by priority, and its importance
    weights are divided by the largest of its part. Without history it is a :class:`WebscaleReplayBuffer`.

    :param online_ratio: ``"linear"`` for min(1, 0.3 + 0.7 * progress), a number for a constant share,
        ``{"start": ..., "end": ...}``, or a schedule object
    :param total_timesteps: environment steps of the whole training, to which ``progress`` refers; None takes the
        progress that the ``PriorityFeedback`` callback reports

    :param memory_budget: as in the other buffers; online ring and history have one half each
    :param spill_dir: as in the other buffers

    Other parameters as :class:`~sb3_webscale.buffers.native_replay.NativeReplayBuffer`; ``prefetch_size`` and
    ``index`` are refused.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        online_ratio: Any = "linear",
        total_timesteps: int | None = None,
        memory_budget: int | str | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        budget = parse_memory_budget(memory_budget, spill_dir)
        if budget is not None:
            options |= {"memory_budget": budget.bytes // 2, "spill_dir": budget.spill_dir}
        super().__init__(
            buffer_size, observation_space, action_space, device, n_envs,
            optimize_memory_usage, handle_timeout_termination, **options,
        )  # fmt: skip
        if total_timesteps is not None and total_timesteps < 1:
            msg = f"total_timesteps is {total_timesteps}, but must be at least 1, or None"
            raise InvalidInputError(msg)
        self.online_ratio = parse_online_ratio(online_ratio)
        self.total_timesteps = total_timesteps
        self.history: WebscaleReplayBuffer | None = None
        self._options = options

    _can_prefetch = False
    _instead_of_index = (
        "its history is no part of the ring that an index follows; use WebscaleReplayBuffer, or fill one with the "
        "history through add_steps()"
    )

    def load_history(self, transitions: Transitions) -> int:
        """Keep ``transitions`` as the history, replacing an earlier one.

        Continuous actions are scaled from the action space's bounds to [-1, 1], as SB3 stores them.

        :param transitions: what a converter made of a log
        :return: number of transitions kept
        :raises DataError: when there are none, or their spaces are not the buffer's
        """
        self._check_transitions(transitions)
        self._check_schedule()
        history = _History(len(transitions), self.observation_space, self.action_space, self.device, 1, **self._options)
        bootstrapped = transitions.truncated if self.handle_timeout_termination else np.zeros(len(transitions))
        history.add_steps(
            transitions.observations,
            transitions.next_observations,
            _as_stored(transitions.actions, self.action_space),
            transitions.rewards,
            transitions.terminated | transitions.truncated,
            bootstrapped.astype(np.float32),
        )
        history.set_progress(self._progress)
        if self.prioritization is not None:
            history.set_temperature(self.prioritization.temperature)
        self.history = history
        return len(transitions)

    def _check_transitions(self, transitions: Transitions) -> None:
        if len(transitions) == 0:
            msg = "the history holds no transitions: look at its conversion report, or train without history"
            raise DataError(msg)
        for name in ("observation_space", "action_space"):
            stored, given = getattr(self, name), getattr(transitions, name)
            if type(stored) is not type(given) or stored.shape != given.shape or stored.dtype != given.dtype:
                msg = (
                    f"{name} of the history is {given}, but the buffer's is {stored}: convert with a rule that fits it"
                )
                raise DataError(msg)
        ended = transitions.terminated | transitions.truncated
        unmarked = np.flatnonzero((np.diff(transitions.episode_ids) != 0) & ~ended[:-1])
        if len(unmarked):
            episode, row = transitions.episode_ids[unmarked[0]], unmarked[0]
            msg = (
                f"episode {episode} of the history ends at transition {row}, which is neither terminated nor truncated "
                f"({len(unmarked)} episodes are like it): mark the last transition of each"
            )
            raise DataError(msg)

    def _check_schedule(self) -> None:
        # Progress is reported by the PriorityFeedback callback, which a uniform buffer does without.
        if (
            self.total_timesteps is None
            and not self.prioritized
            and not isinstance(self.online_ratio, ConstantOnlineRatio)
        ):
            msg = (
                "online_ratio changes with training, but nothing tells this buffer how long training is: write "
                "replay_buffer_kwargs=dict(total_timesteps=...) with the number given to learn()"
            )
            raise ConfigError(msg)

    def set_progress(self, progress: float) -> None:
        super().set_progress(progress)
        if self.history is not None:
            self.history.set_progress(progress)

    def set_temperature(self, temperature: float) -> None:
        super().set_temperature(temperature)
        if self.history is not None:
            self.history.set_temperature(temperature)

    @property
    def online_share(self) -> float:
        """Share of online rows that the schedule gives now."""
        progress = self._progress if self.total_timesteps is None else self._steps_added / self.total_timesteps
        share = self.online_ratio(progress)
        if not 0.0 <= share <= 1.0:
            msg = f"online_ratio gave {share} at progress {progress}, but a share of a batch lies in [0, 1]"
            raise ConfigError(msg)
        return share

    def _draw(self, batch_size: int, env: VecNormalize | None, replace: bool) -> Any:
        history = self.history
        online_rows = round(self.online_share * batch_size) if self.size() > 0 else 0
        if history is None or online_rows == batch_size:
            return super()._draw(batch_size, env, replace)
        history.device = self.device
        past = history._draw(batch_size - online_rows, env, replace)
        past = past._replace(indices=past.indices | int(_HISTORY_BIT))
        return past if online_rows == 0 else _joined(super()._draw(online_rows, env, replace), past)

    def _from_history(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        from_history = (ids & _HISTORY_BIT) != 0
        if self.history is None and from_history.any():
            msg = f"{int(from_history.sum())} ids belong to a history that is not loaded: call load_history() first"
            raise BufferStateError(msg)
        return np.asarray(from_history)

    def update_priorities(self, ids: Any, td_errors: Any) -> int:
        ids = as_ids(ids)
        values = checked_td_errors(td_errors, len(ids))  # all of them, before either part is changed
        from_history = self._from_history(ids)
        if self.history is None or not from_history.any():
            return super().update_priorities(ids, values)
        updated = self.history.update_priorities(ids[from_history] & ~_HISTORY_BIT, values[from_history])
        return updated + super().update_priorities(ids[~from_history], values[~from_history])

    def mark_for_replay(self, ids: Any, boost: float = 1.5) -> int:
        ids = as_ids(ids)
        from_history = self._from_history(ids)
        raised = super().mark_for_replay(ids[~from_history], boost)
        if self.history is not None:
            raised += self.history.mark_for_replay(ids[from_history] & ~_HISTORY_BIT, boost)
        return raised

    def priorities(self, ids: Any) -> npt.NDArray[np.float64]:
        ids = as_ids(ids)
        from_history = (ids & _HISTORY_BIT) != 0
        found = np.full(len(ids), np.nan)
        found[~from_history] = super().priorities(ids[~from_history])
        if from_history.any() and self.history is not None:
            found[from_history] = self.history.priorities(ids[from_history] & ~_HISTORY_BIT)
        return found

    def statistics(self) -> dict[str, float]:
        numbers = super().statistics() | {"online_share": self.online_share}
        if self.history is not None:
            numbers |= {f"history/{name}": value for name, value in self.history.statistics().items()}
        return numbers

    @property
    def nbytes(self) -> int:
        return super().nbytes + (self.history.nbytes if self.history is not None else 0)


class _History(WebscaleReplayBuffer):
    """Store of the history; a class of its own, so that its generator differs from the online ring's."""


def _as_stored(actions: npt.NDArray[Any], space: spaces.Space[Any]) -> npt.NDArray[Any]:
    low, high = _bounds(space)
    flat = actions.reshape(len(actions), -1)
    inside = (flat >= low) & (flat <= high)  # false for NaN
    if not inside.all():
        row = int(np.flatnonzero(~inside.all(axis=1))[0])
        msg = f"action {row} of the history is {actions[row]}, outside {space}: clip or rescale it in the rule"
        raise DataError(msg)
    if not isinstance(space, spaces.Box):
        return actions
    return np.asarray(2.0 * (flat - low) / (high - low) - 1.0)


def _bounds(space: spaces.Space[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Smallest and largest action, one axis."""
    if isinstance(space, spaces.Box):
        return space.low.ravel(), space.high.ravel()
    if isinstance(space, spaces.Discrete):
        return np.array([space.start]), np.array([space.start + space.n - 1])
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return np.array([0]), np.array([1])  # MultiBinary; the buffer refuses other spaces


def _joined(online: WebscaleReplayBufferSamples, past: WebscaleReplayBufferSamples) -> WebscaleReplayBufferSamples:
    parts: Any = zip(online, past, strict=True)
    joined: Any = (None if a is None else th.cat((a, b)) for a, b in parts)
    return WebscaleReplayBufferSamples(*joined)
