"""Environments whose transitions can be checked one by one, without knowing how they were stored.

The observation encodes (env, episode, step), the reward the step, the action the environment. So a row
alone says what its next observation, reward, done flag and action must be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sb3_webscale.testing.counting_codes import (
    MAX_ENVS,
    MAX_EPISODES,
    MAX_STEPS,
    Codes,
    ObservationCode,
    observation_code,
)

__all__ = [
    "CountingEnv",
    "CountingStep",
    "CountingStream",
    "CountingWorld",
    "ExpectedRows",
    "SampledRows",
    "assert_rows_equal",
]

GOAL_REWARD_SCALE = 100


class SampledRows(Protocol):
    """What a replay buffer returns, as far as it is checked: SB3's ``ReplayBufferSamples``, flat or Dict."""

    @property
    def observations(self) -> Any: ...
    @property
    def actions(self) -> Any: ...
    @property
    def next_observations(self) -> Any: ...
    @property
    def dones(self) -> Any: ...
    @property
    def rewards(self) -> Any: ...


class ExpectedRows(NamedTuple):
    """What n transitions must hold.

    :param next_observations: (n, *shape), or a dict of them
    :param actions: (n, action_dim), in the type SB3 stores
    :param rewards: float32 (n, 1)
    :param dones: float32 (n, 1), as ``sample`` returns them
    """

    next_observations: Any
    actions: npt.NDArray[Any]
    rewards: npt.NDArray[np.float32]
    dones: npt.NDArray[np.float32]


class CountingStep(NamedTuple):
    """Arguments of SB3's ``ReplayBuffer.add`` for one step of every environment."""

    obs: Any
    next_obs: Any
    action: npt.NDArray[Any]
    reward: npt.NDArray[np.float32]
    done: npt.NDArray[np.bool_]
    infos: list[dict[str, Any]]


@dataclass(frozen=True)
class CountingWorld:
    """The rules that all environments of a test share.

    :param kind: how observations look, one of ``counting_codes.OBSERVATION_KINDS``
    :param lengths: steps of an episode, each in [1, 63]; episode p of environment e takes entry
        (e + p) % len(lengths)
    :param endings: how episodes end, "terminated" or "truncated", taken in the same way
    :param action_space: Box, Discrete, MultiDiscrete or MultiBinary with room for 16 different actions
    """

    kind: str = "float32"
    lengths: Sequence[int] = (7,)
    endings: Sequence[str] = ("terminated", "truncated")
    action_space: spaces.Space[Any] = field(default_factory=lambda: spaces.Box(-1, 1, (2,), np.float32))

    def __post_init__(self) -> None:
        if not self.lengths or not all(0 < length < MAX_STEPS for length in self.lengths):
            msg = f"lengths is {self.lengths}, but every episode must have from 1 to {MAX_STEPS - 1} steps"
            raise ValueError(msg)
        if not self.endings or not set(self.endings) <= {"terminated", "truncated"}:
            msg = f"endings is {self.endings}, but each must be 'terminated' or 'truncated'"
            raise ValueError(msg)

    @cached_property
    def code(self) -> ObservationCode:
        """How observations are written."""
        return observation_code(self.kind)

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Space of one observation."""
        return self.code.space

    def length(self, env: int, episode: int) -> int:
        """Steps of an episode."""
        return self.lengths[(env + episode) % len(self.lengths)]

    def ending(self, env: int, episode: int) -> str:
        """How an episode ends."""
        return self.endings[(env + episode) % len(self.endings)]

    def actions(self, envs: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """
        :param envs: int64 (n,), numbers of environments
        :return: (n, *action_shape), the action that each of them always takes
        """
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return envs % int(space.n)
        if isinstance(space, spaces.MultiDiscrete):
            return np.stack([envs % 4, envs // 4], axis=1).astype(space.dtype)
        if isinstance(space, spaces.MultiBinary):
            return ((envs[:, None] // 2 ** np.arange(4)) % 2).astype(np.int8)
        shape = space.shape or (1,)
        flat = np.repeat(envs[:, None] / MAX_ENVS, int(np.prod(shape)), axis=1)
        return flat.reshape(len(envs), *shape).astype(space.dtype)

    def expected(self, codes: Codes, *, timeouts_bootstrap: bool = True) -> ExpectedRows:
        """
        :param codes: int64 (n, 3), environment, episode and step of each row
        :param timeouts_bootstrap: whether a truncated end counts as not done
        :return: what those transitions must hold
        """
        following = codes + np.array([0, 0, 1])
        ends = np.array([step == self.length(env, episode) for env, episode, step in following])
        if timeouts_bootstrap:
            ends &= np.array([self.ending(env, episode) == "terminated" for env, episode, _ in codes])
        actions = self.actions(codes[:, 0]).reshape(len(codes), -1)
        return ExpectedRows(
            next_observations=self.code.encode(following),
            actions=actions.astype(np.float32) if actions.dtype == np.float64 else actions,
            rewards=codes[:, 2:].astype(np.float32),
            dones=ends[:, None].astype(np.float32),
        )

    def check(self, samples: SampledRows, *, timeouts_bootstrap: bool = True) -> Codes:
        """Compares sampled rows with what they must be, each on its own, bit for bit.

        :param samples: what ``sample`` returned, not normalised
        :param timeouts_bootstrap: whether a truncated end counts as not done
        :return: int64 (n, 3), environment, episode and step of each row
        :raises AssertionError: when a row is wrong
        """
        codes = self.code.decode(_to_numpy(samples.observations))
        wanted = self.expected(codes, timeouts_bootstrap=timeouts_bootstrap)
        assert_rows_equal(_to_numpy(samples.observations), self.code.encode(codes), "observations")
        assert_rows_equal(_to_numpy(samples.next_observations), wanted.next_observations, "next_observations")
        for name in ("actions", "rewards", "dones"):
            assert_rows_equal(_to_numpy(getattr(samples, name)), getattr(wanted, name), name)
        return codes


class CountingEnv(gym.Env[Any, Any]):
    """One environment of a counting world, for Gymnasium and SB3.

    :param world: its rules
    :param env: its number, from 0 to 15
    """

    def __init__(self, world: CountingWorld, env: int = 0) -> None:
        self.observation_space = world.observation_space
        self.action_space = world.action_space
        self._world = world
        self._env = env
        self._episode = -1
        self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts the next episode."""
        super().reset(seed=seed)
        self._episode = (self._episode + 1) % MAX_EPISODES
        self._step = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Counts on, whatever the action."""
        self._step += 1
        ended = self._step == self._world.length(self._env, self._episode)
        terminated = ended and self._world.ending(self._env, self._episode) == "terminated"
        return self._observe(), float(self._step - 1), terminated, ended and not terminated, {}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> npt.NDArray[np.float32]:
        """
        :param achieved_goal: (n, 3) or (3,), goal achieved by the step
        :param desired_goal: like ``achieved_goal``
        :param info: not used
        :return: float32 (n,), a number from which both steps can be read; for the goal that the environment
            set, the step itself
        """
        achieved, desired = np.asarray(achieved_goal)[..., 2], np.asarray(desired_goal)[..., 2]
        return np.asarray(achieved - 1 + GOAL_REWARD_SCALE * desired, dtype=np.float32)

    def _observe(self) -> Any:
        return _first_row(self._world.code.encode(np.array([[self._env, self._episode, self._step]])))


class CountingStream:
    """The transitions of several environments of a world, in the form SB3 adds them to a buffer.

    :param world: rules of the environments
    :param n_envs: how many of them, at most 16
    """

    def __init__(self, world: CountingWorld, n_envs: int = 1) -> None:
        if not 0 < n_envs <= MAX_ENVS:
            msg = f"n_envs is {n_envs}, but must be from 1 to {MAX_ENVS}"
            raise ValueError(msg)
        self._world = world
        self._codes = np.zeros((n_envs, 3), dtype=np.int64)
        self._codes[:, 0] = np.arange(n_envs)

    def step(self) -> CountingStep:
        """Takes one step in every environment, starting a new episode where one has ended."""
        world, codes = self._world, self._codes
        following = codes + np.array([0, 0, 1])
        done = np.array([step == world.length(env, episode) for env, episode, step in following])
        truncated = done & np.array([world.ending(env, episode) == "truncated" for env, episode, _ in codes])
        obs, next_obs = world.code.encode(codes), world.code.encode(following)
        infos: list[dict[str, Any]] = [
            {"TimeLimit.truncated": bool(cut), "terminal_observation": _row(next_obs, env)} if ended else {}
            for env, (ended, cut) in enumerate(zip(done, truncated, strict=True))
        ]
        self._codes = following.copy()
        self._codes[done, 1] = (codes[done, 1] + 1) % MAX_EPISODES
        self._codes[done, 2] = 0
        return CountingStep(obs, next_obs, world.actions(codes[:, 0]), codes[:, 2].astype(np.float32), done, infos)

    def fill(self, buffer: Any, n_steps: int) -> None:
        """Adds steps of every environment to a buffer.

        :param buffer: an SB3 replay buffer
        :param n_steps: how many
        """
        for _ in range(n_steps):
            buffer.add(*self.step())


def assert_rows_equal(found: Any, wanted: Any, name: str) -> None:
    """Compares arrays, or dicts of arrays, in type and in every bit.

    :param found: what a buffer returned
    :param wanted: what it should have returned
    :param name: what is compared, for the message
    :raises AssertionError: when they differ
    """
    if isinstance(wanted, dict):
        if sorted(found) != sorted(wanted):
            msg = f"{name} has keys {sorted(found)}, but should have {sorted(wanted)}"
            raise AssertionError(msg)
        for key in wanted:
            assert_rows_equal(found[key], wanted[key], f"{name}[{key!r}]")
        return
    found = np.asarray(found)
    wanted = np.asarray(wanted).reshape(found.shape) if np.size(wanted) == found.size else np.asarray(wanted)
    if found.dtype != wanted.dtype:
        msg = f"{name} has dtype {found.dtype}, but should have {wanted.dtype}"
        raise AssertionError(msg)
    np.testing.assert_array_equal(found, wanted, err_msg=f"{name} is wrong")


def _to_numpy(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: _to_numpy(value) for key, value in values.items()}
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def _row(values: Any, index: int) -> Any:
    return {key: value[index] for key, value in values.items()} if isinstance(values, dict) else values[index]


def _first_row(values: Any) -> Any:
    return _row(values, 0)
