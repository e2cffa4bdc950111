"""Random streams of transitions for any space: episodes of random lengths, ends of both kinds, resets in between."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces


class RandomStep(NamedTuple):
    obs: Any
    next_obs: Any
    action: np.ndarray
    reward: np.ndarray
    done: np.ndarray
    infos: list[dict[str, Any]]


def random_values(space: spaces.Space[Any], rng: np.random.Generator, count: int) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: random_values(part, rng, count) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return rng.integers(space.n, size=count)
    if isinstance(space, spaces.MultiDiscrete):
        return rng.integers(space.nvec, size=(count, *space.nvec.shape))
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(2, size=(count, *space.shape)).astype(np.int8)
    assert isinstance(space, spaces.Box)
    if np.issubdtype(space.dtype, np.floating):
        return rng.uniform(-1, 1, size=(count, *space.shape)).astype(space.dtype)
    low, high = space.low.astype(np.int64), space.high.astype(np.int64)
    return rng.integers(low, high, size=(count, *space.shape), endpoint=True).astype(space.dtype)


class RandomSteps:
    """
    :param end_probability: that an episode ends at a step
    :param truncated_share: of the ends that are time limits
    :param break_probability: that an observation is not the previous step's next observation though no episode ended
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        n_envs: int,
        seed: int = 0,
        *,
        end_probability: float = 0.15,
        truncated_share: float = 0.5,
        break_probability: float = 0.0,
    ) -> None:
        self._spaces = (observation_space, action_space)
        self._n_envs = n_envs
        self._rng = np.random.default_rng(seed)
        self._end_probability = end_probability
        self._truncated_share = truncated_share
        self._break_probability = break_probability
        self._obs = random_values(observation_space, self._rng, n_envs)

    def step(self) -> RandomStep:
        observation_space, action_space = self._spaces
        rng, n_envs = self._rng, self._n_envs
        next_obs = random_values(observation_space, rng, n_envs)
        done = rng.random(n_envs) < self._end_probability
        truncated = done & (rng.random(n_envs) < self._truncated_share)
        infos: list[dict[str, Any]] = [
            {"TimeLimit.truncated": bool(cut), "tag": int(tag)} if ended else {"tag": int(tag)}
            for ended, cut, tag in zip(done, truncated, rng.integers(1000, size=n_envs), strict=True)
        ]
        step = RandomStep(
            self._obs,
            next_obs,
            random_values(action_space, rng, n_envs),
            rng.normal(size=n_envs).astype(np.float32),
            done,
            infos,
        )
        restarted = done | (rng.random(n_envs) < self._break_probability)
        self._obs = _replaced(next_obs, random_values(observation_space, rng, n_envs), restarted)
        return step

    def fill(self, n_steps: int, *buffers: Any) -> None:
        """Adds the same steps to every buffer, each with its own copies: SB3's Dict buffer changes what it is given."""
        for _ in range(n_steps):
            step = self.step()
            for buffer in buffers:
                buffer.add(*copy.deepcopy(step))


def _replaced(values: Any, others: Any, where: np.ndarray) -> Any:
    if isinstance(values, dict):
        return {key: _replaced(values[key], others[key], where) for key in values}
    result = values.copy()
    result[where] = others[where]
    return result
