"""Writes the pickles in ``format_1``: prioritized buffers in use, and what each draws next.

They were written by the first version of format 1, before priorities had a temperature, a warm-up or a bound. Run it
again only with a version that is to be kept readable, into a directory of its own:
``python tests/data/write_format_1.py DIRECTORY``.
"""

from __future__ import annotations

import pickle
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_webscale import (
    MixedReplayBuffer,
    WebscaleDictReplayBuffer,
    WebscaleHerReplayBuffer,
    WebscaleReplayBuffer,
)
from sb3_webscale.data.transitions import ConversionReport, Transitions
from sb3_webscale.testing.counting_env import CountingEnv, CountingStream, CountingWorld

N_ENVS = 2
GOAL_WORLD = CountingWorld("goal", lengths=(7, 3, 5), endings=("terminated", "truncated"))
OPTIONS: dict[str, Any] = {"prioritized": True, "seed": 5, "alpha": 0.7, "beta_start": 0.3, "beta_steps": 500}


def goal_envs() -> DummyVecEnv:
    return DummyVecEnv([partial(CountingEnv, GOAL_WORLD, env) for env in range(N_ENVS)])  # type: ignore[arg-type]


def history() -> Transitions:
    steps = np.arange(1, 11, dtype=np.float32)
    return Transitions(
        observations=-steps[:, None],
        next_observations=-steps[:, None] - 1,
        actions=np.arange(10) % 4,
        rewards=-steps,
        terminated=steps % 5 == 0,
        truncated=np.zeros(10, bool),
        episode_ids=np.arange(10) // 5,
        propensities=None,
        observation_space=spaces.Box(-1e6, 1e6, (1,), np.float32),
        action_space=spaces.Discrete(4),
        report=ConversionReport(10, 2, 10, 0, 0, 0),
    )


def plain(kind: str) -> Any:
    world = CountingWorld(kind, lengths=(3, 7, 5))
    buffer_class = WebscaleDictReplayBuffer if kind == "dict" else WebscaleReplayBuffer
    buffer = buffer_class(20, world.observation_space, world.action_space, "cpu", N_ENVS, **OPTIONS)
    CountingStream(world, N_ENVS).fill(buffer, 14)
    return buffer


def hindsight() -> Any:
    arguments = (40, GOAL_WORLD.observation_space, GOAL_WORLD.action_space, goal_envs(), "cpu", N_ENVS)
    buffer = WebscaleHerReplayBuffer(*arguments, **OPTIONS)  # type: ignore[arg-type]
    CountingStream(GOAL_WORLD, N_ENVS).fill(buffer, 27)
    return buffer


def mixed() -> Any:
    past = history()
    buffer = MixedReplayBuffer(6, past.observation_space, past.action_space, "cpu", online_ratio=0.4, **OPTIONS)
    buffer.load_history(past)
    for step in range(1, 9):
        obs = np.full((1, 1), step, np.float32)
        buffer.add(obs, obs + 1, np.array([1]), np.array([float(step)]), np.array([False]), [{}])
    return buffer


def draws(buffer: Any, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ids and weights of the next batches, each followed by feedback."""
    found = []
    for _ in range(count):
        batch = buffer.sample(8)
        found.append((batch.indices.numpy().copy(), batch.weights.numpy().copy()))
        buffer.update_priorities(batch.indices, 0.1 + batch.indices.numpy() % 7)
    return found


def main(directory: Path) -> None:
    makers = {"flat": partial(plain, "float32"), "dict": partial(plain, "dict"), "her": hindsight, "mixed": mixed}
    for name, make in makers.items():
        buffer = make()
        draws(buffer, 5)
        saved = pickle.dumps(buffer, protocol=4)
        np.random.seed(0)  # goals of hindsight replay
        expected = {"draws": draws(buffer, 20), "beta": buffer.beta, "stale_updates": buffer._stale_updates}
        (directory / f"{name}.pkl").write_bytes(pickle.dumps({"buffer": saved, "expected": expected}, protocol=4))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
