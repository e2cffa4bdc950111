"""Gradient steps per second with and without prefetching, in the training loops of unmodified DQN and SAC.

DQN with Nature's convolutions on stacked frames (4, 84, 84) uint8, batch 32; SAC with two layers of 256 on 17 floats,
batch 256; and the same DQN with a tenth of the frames' memory (`memory_budget`), the rest in files. One environment,
train_freq=1, torch on one thread. The contestants take turns within each round; a figure is the median over rounds.
`sample` is the part of a gradient step that is spent in `sample()` without prefetching: prefetching can gain no more
than that, and moves it to another core.

    python zoo/benchmarks/prefetch.py [--quick] [--spill-dir DIRECTORY] [--output FILE.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from rich.console import Console
from rich.table import Table
from stable_baselines3 import DQN, SAC

from sb3_webscale import WebscaleReplayBuffer

PREFETCH_SIZES = (0, 2, 8)
GRADIENT_STEPS = (1, 4, 16)


class Recording(gym.Env[Any, Any]):
    """Plays the same observations for ever, so that a step costs next to nothing."""

    def __init__(self, space: spaces.Box, actions: spaces.Space[Any], seed: int) -> None:
        self.observation_space, self.action_space = space, actions
        rng = np.random.default_rng(seed)
        if space.dtype == np.uint8:
            frames = rng.integers(0, 256, (2051, *space.shape[1:]), dtype=np.uint8)
            self._rows: Any = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0).transpose(0, 3, 1, 2)
        else:
            self._rows = rng.standard_normal((2048, *space.shape)).astype(np.float32)
        self._step = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._step = 0
        return self._rows[0], {}

    def step(self, action: Any) -> Any:
        self._step += 1
        return self._rows[self._step], 1.0, self._step == len(self._rows) - 1, False, {}


class Contestant:
    """A model whose buffer is full, and what its gradient steps cost.

    :param model: trains from its first step on
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._in_sample = 0.0
        buffer, env = model.replay_buffer, model.get_env()
        obs = env.reset()
        action = np.array([env.action_space.sample()])
        for _ in range(buffer.buffer_size):
            next_obs, reward, done, infos = env.step(action)
            buffer.add(obs, next_obs, action, reward, done, infos)
            obs = next_obs
        sample = buffer.sample

        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            batch = sample(*arguments, **options)
            self._in_sample += time.perf_counter() - start
            return batch

        buffer.sample = timed

    def train(self, gradient_steps: int, per_round: int) -> tuple[float, float]:
        """
        :param gradient_steps: for each environment step
        :param per_round: gradient steps to make
        :return: seconds for each, in all and in ``sample()``
        """
        self._model.gradient_steps = gradient_steps
        self._in_sample = 0.0
        start = time.perf_counter()
        self._model.learn(per_round // gradient_steps, reset_num_timesteps=False)
        return (time.perf_counter() - start) / per_round, self._in_sample / per_round


def dqn(prefetch_size: int, transitions: int, seed: int, **options: Any) -> DQN:
    env = Recording(spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6), seed)
    return DQN(
        "CnnPolicy",
        env,
        buffer_size=transitions,
        learning_starts=0,
        train_freq=1,
        exploration_initial_eps=0.05,
        replay_buffer_class=WebscaleReplayBuffer,
        replay_buffer_kwargs={"prefetch_size": prefetch_size, **options},
        seed=seed,
        device="cpu",
    )


def sac(prefetch_size: int, transitions: int, seed: int) -> SAC:
    env = Recording(spaces.Box(-10, 10, (17,), np.float32), spaces.Box(-1, 1, (6,), np.float32), seed)
    return SAC(
        "MlpPolicy",
        env,
        buffer_size=transitions,
        learning_starts=0,
        train_freq=1,
        replay_buffer_class=WebscaleReplayBuffer,
        replay_buffer_kwargs={"prefetch_size": prefetch_size},
        seed=seed,
        device="cpu",
    )


def compare(name: str, make: Callable[[int], Any], rounds: int, per_round: int) -> list[dict[str, Any]]:
    """
    :param name: of the workload
    :param make: builds the model for a prefetch size
    :return: a row for each number of gradient steps
    """
    contestants = {size: Contestant(make(size)) for size in PREFETCH_SIZES}
    rows = []
    for gradient_steps in GRADIENT_STEPS:
        times: dict[int, list[tuple[float, float]]] = {size: [] for size in PREFETCH_SIZES}
        for contestant in contestants.values():
            contestant.train(gradient_steps, gradient_steps)
        for _ in range(rounds):
            for size, contestant in contestants.items():
                times[size].append(contestant.train(gradient_steps, per_round))
        whole = {size: statistics.median(t for t, _ in found) for size, found in times.items()}
        sampling = {size: statistics.median(t for _, t in found) for size, found in times.items()}
        rows.append(
            {
                "workload": name,
                "gradient_steps": gradient_steps,
                "steps_per_second": {size: 1 / seconds for size, seconds in whole.items()},
                "milliseconds_in_sample": {size: seconds * 1e3 for size, seconds in sampling.items()},
                "sample_share": sampling[0] / whole[0],
            }
        )
    return rows


def print_rows(rows: list[dict[str, Any]]) -> None:
    table = Table(title="Gradient steps per second by prefetch_size, and milliseconds of each in sample()")
    columns = ("workload", "gradient steps", "sample", *map(str, PREFETCH_SIZES), "gain of 8")
    for column in (*columns, *(f"ms, {size}" for size in PREFETCH_SIZES)):
        table.add_column(column, justify="left" if column == "workload" else "right")
    for row in rows:
        speed, waiting = row["steps_per_second"], row["milliseconds_in_sample"]
        table.add_row(
            row["workload"],
            str(row["gradient_steps"]),
            f"{row['sample_share']:.1%}",
            *(f"{speed[size]:,.1f}" for size in PREFETCH_SIZES),
            f"{speed[8] / speed[0] - 1:+.1%}",
            *(f"{waiting[size]:,.3f}" for size in PREFETCH_SIZES),
        )
    Console(width=130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--spill-dir", type=Path, default=None)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks/prefetch.json"))
    arguments = parser.parse_args()
    th.set_num_threads(1)
    seed, rounds = arguments.seed, 5 if arguments.quick else 15
    frames, vectors = (10_000, 100_000) if arguments.quick else (50_000, 1_000_000)
    rows = compare("SAC, 17 floats", lambda size: sac(size, vectors, seed), rounds, 96)
    rows += compare("DQN, frames", lambda size: dqn(size, frames, seed), rounds, 32)
    with tempfile.TemporaryDirectory(dir=arguments.spill_dir) as directory:
        budget = {"memory_budget": frames * 84 * 84 // 10 + frames * 100 + 50_000_000, "spill_dir": directory}
        rows += compare("DQN, frames in files", lambda size: dqn(size, frames, seed, **budget), rounds, 32)
    print_rows(rows)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"seed": seed, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
