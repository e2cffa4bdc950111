"""What the replay benchmarks share: streams of observations, the peers' buffers, and timing in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cpprb
import numpy as np
import torch as th
from gymnasium import spaces

BATCH = 256
TAPE = 4096
ACTION_DIM = 6
FRAMES = 4


@dataclass(frozen=True)
class Kind:
    """One kind of observation."""

    name: str
    space: spaces.Box
    transitions: int

    @property
    def batch_bytes(self) -> int:
        """Bytes of the observations of a batch, current and next."""
        return 2 * BATCH * int(np.prod(self.space.shape)) * self.space.dtype.itemsize


class Tape:
    """An endless stream of observations: vectors, or frames of which each is stacked with those before it."""

    def __init__(self, kind: Kind, n_envs: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        shape = kind.space.shape
        if kind.space.dtype == np.uint8:
            axis = 0 if shape[0] == FRAMES else 2
            frames = random.integers(0, 256, (TAPE + FRAMES - 1, *np.delete(shape, axis)), dtype=np.uint8)
            stacks = (np.moveaxis(frames[i : i + FRAMES], 0, axis) for i in range(min(TAPE, 512)))
            self._rows = [np.repeat(stack[None], n_envs, axis=0) for stack in stacks]
        else:
            self._rows = list(random.standard_normal((TAPE, n_envs, *shape)).astype(np.float32))

    def __getitem__(self, step: int) -> Any:
        return self._rows[step % len(self._rows)]


def fill(add: Callable[..., Any], tape: Tape, steps: int, n_envs: int) -> float:
    """Add steps one by one; seconds for each."""
    action = np.zeros((n_envs, ACTION_DIM), np.float32)
    reward, done, infos = np.zeros(n_envs, np.float32), np.zeros(n_envs, bool), [{} for _ in range(n_envs)]
    start = time.perf_counter()
    for step in range(steps):
        add(tape[step], tape[step + 1], action, reward, done, infos)
    return (time.perf_counter() - start) / steps


class Cpprb:
    """cpprb behind the calls that this benchmark makes."""

    def __init__(self, kind: Kind, prioritized: bool) -> None:
        observation = {"shape": kind.space.shape, "dtype": kind.space.dtype}
        fields = {
            "obs": observation,
            "next_obs": observation,
            "act": {"shape": ACTION_DIM, "dtype": np.float32},
            "rew": {"dtype": np.float32},
            "done": {"dtype": np.float32},
        }
        self._prioritized = prioritized
        self._buffer = (cpprb.PrioritizedReplayBuffer if prioritized else cpprb.ReplayBuffer)(kind.transitions, fields)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        self._buffer.add(obs=obs, next_obs=next_obs, act=action, rew=reward, done=done)

    def add_steps(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, timeouts: Any) -> None:
        self._buffer.add(obs=obs, next_obs=next_obs, act=action, rew=reward, done=done)

    def sample(self) -> Any:
        batch = self._buffer.sample(BATCH, beta=0.4) if self._prioritized else self._buffer.sample(BATCH)
        tensors = [th.as_tensor(batch[name]) for name in ("obs", "act", "next_obs", "done", "rew")]
        return tensors, batch.get("indexes")

    def sample_and_update(self, priorities: Any) -> None:
        _, indexes = self.sample()
        self.update(indexes, priorities)

    def update(self, indexes: Any, priorities: Any) -> None:
        self._buffer.update_priorities(indexes, priorities)


def measure(contestants: dict[str, Callable[[], Any]], rounds: int, calls: int) -> dict[str, float]:
    """Median microseconds of one call, the contestants taking turns in every round."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for call in contestants.values():
        call()
    for _ in range(rounds):
        for name, call in contestants.items():
            start = time.perf_counter()
            for _ in range(calls):
                call()
            times[name].append((time.perf_counter() - start) / calls * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}
