"""Speed of the replay buffers against Stable-Baselines3's and cpprb's, side by side in one process.

Three kinds of observation: 17 floats and 256 floats (1,000,000 transitions), and stacked Atari frames (4, 84, 84)
uint8 (50,000). Every figure is end to end: from the Python call to torch tensors, batch 256. The contestants take turns
within each round, so that a change of the machine's speed meets all of them; a figure is the median over rounds.
`limit` is the time that one thread takes to copy as many bytes between two arrays too large for the caches.

    python zoo/benchmarks/replay.py [--quick] [--growth] [--output FILE.json]

--quick uses a tenth of the transitions. --growth measures 10^4 to 10^7 transitions of 17 floats (10^6 with --quick).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cpprb
import numpy as np
import torch as th
from gymnasium import spaces
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.buffers import ReplayBuffer

from sb3_webscale import WebscaleReplayBuffer

BATCH = 256
TAPE = 4096
ACTION_DIM = 6


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
    """An endless stream of observations: vectors, or frames of which each is stacked with the three before it."""

    def __init__(self, kind: Kind, n_envs: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        shape = kind.space.shape
        if kind.space.dtype == np.uint8:
            frames = random.integers(0, 256, (TAPE + 3, *shape[1:]), dtype=np.uint8)
            self._rows = [np.repeat(frames[None, i : i + 4], n_envs, axis=0) for i in range(min(TAPE, 512))]
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

    def sample(self) -> Any:
        batch = self._buffer.sample(BATCH, beta=0.4) if self._prioritized else self._buffer.sample(BATCH)
        tensors = [th.as_tensor(batch[name]) for name in ("obs", "act", "next_obs", "done", "rew")]
        return tensors, batch.get("indexes")

    def sample_and_update(self, priorities: Any) -> None:
        _, indexes = self.sample()
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


def copy_limit(byte_count: int) -> Callable[[], Any]:
    """Copies that many bytes between arrays of 512 MB, each time from and to another place."""
    size = 512 * 2**20
    source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)
    places = [0]

    def copy() -> None:
        places[0] = (places[0] + byte_count) % (size - byte_count)
        place = places[0]
        target[place : place + byte_count] = source[place : place + byte_count]

    return copy


def compare_sampling(kind: Kind, seed: int, rounds: int) -> dict[str, Any]:
    """Uniform sampling, and prioritized sampling with an update of the priorities."""
    action_space = spaces.Box(-1, 1, (ACTION_DIM,), np.float32)
    tape = Tape(kind, 1, seed)
    calls = 4 if kind.space.dtype == np.uint8 else 40
    priorities = np.random.default_rng(seed).random((64, BATCH)) + 1e-3
    turn = [0]

    def next_priorities() -> Any:
        turn[0] += 1
        return priorities[turn[0] % len(priorities)]

    def filled(buffer: Any) -> Any:
        fill(buffer.add, tape, kind.transitions, 1)
        return buffer

    def ours(**options: Any) -> Any:
        return filled(WebscaleReplayBuffer(kind.transitions, kind.space, action_space, device="cpu", **options))

    def compare_uniform() -> dict[str, float]:
        sb3 = filled(ReplayBuffer(kind.transitions, kind.space, action_space, device="cpu"))
        uniform, peer = ours(), filled(Cpprb(kind, prioritized=False))
        contestants = {
            "sb3": lambda: sb3.sample(BATCH),
            "cpprb": peer.sample,
            "webscale": lambda: uniform.sample(BATCH),
            "limit": copy_limit(kind.batch_bytes),
        }
        return measure(contestants, rounds, calls)

    result = {"uniform": compare_uniform()}  # its buffers are gone before the next are filled

    prioritized, prioritized_peer = ours(prioritized=True, seed=seed), filled(Cpprb(kind, prioritized=True))

    def sample_and_update() -> None:
        batch = prioritized.sample(BATCH)
        prioritized.update_priorities(batch.indices, next_priorities())

    result["prioritized"] = measure(
        {
            "cpprb": lambda: prioritized_peer.sample_and_update(next_priorities()),
            "webscale": sample_and_update,
            "limit": copy_limit(kind.batch_bytes),
        },
        rounds,
        calls,
    )
    return result


def compare_adding(kind: Kind, n_envs: int, seed: int) -> dict[str, float]:
    """Microseconds to add one step of all environments, one by one into an empty and then full buffer."""
    action_space = spaces.Box(-1, 1, (ACTION_DIM,), np.float32)
    steps = 2000 if kind.space.dtype == np.uint8 else 20000
    tape = Tape(kind, n_envs, seed)
    capacity = steps * n_envs // 2
    times: dict[str, list[float]] = {"sb3": [], "webscale": []}
    for _ in range(5):
        for name, buffer_class in (("sb3", ReplayBuffer), ("webscale", WebscaleReplayBuffer)):
            buffer = buffer_class(capacity, kind.space, action_space, device="cpu", n_envs=n_envs)
            times[name].append(fill(buffer.add, tape, steps, n_envs) * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def growth(largest: int, seed: int) -> list[dict[str, float]]:
    """Cost by size for 17 floats."""
    rows = []
    size = 10_000
    while size <= largest:
        kind = Kind("17 floats", spaces.Box(-np.inf, np.inf, (17,), np.float32), size)
        found = compare_sampling(kind, seed, rounds=15)
        rows.append(
            {"transitions": size}
            | {f"uniform {name}": value for name, value in found["uniform"].items() if name != "limit"}
            | {f"prioritized {name}": value for name, value in found["prioritized"].items() if name != "limit"}
        )
        size *= 10
    return rows


def print_sampling(results: list[dict[str, Any]]) -> None:
    table = Table(title=f"Sampling a batch of {BATCH} to torch tensors, microseconds")
    for column in ("observation", "mode", "SB3", "cpprb", "webscale", "vs SB3", "vs cpprb", "limit", "of limit"):
        table.add_column(column, justify="left" if column in ("observation", "mode") else "right")
    for result in results:
        for mode in ("uniform", "prioritized"):
            row = result[mode]
            ours = row["webscale"]
            numbers = [
                f"{row['sb3']:,.0f}" if "sb3" in row else "",
                f"{row['cpprb']:,.0f}",
                f"{ours:,.0f}",
                f"{row['sb3'] / ours:.2f}" if "sb3" in row else "",
                f"{row['cpprb'] / ours:.2f}",
                f"{row['limit']:,.0f}",
                f"{row['limit'] / ours:.0%}",
            ]
            label = mode if mode == "uniform" else "prioritized + update"
            table.add_row(f"{result['kind']}, {result['transitions']:,}", label, *numbers)
    Console(width=130).print(table)


def print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            *(f"{v:,.2f}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else v for v in row.values())
        )
    Console(width=130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks/replay.json"))
    arguments = parser.parse_args()
    th.set_num_threads(1)
    shrink, rounds = (10, 15) if arguments.quick else (1, 40)
    kinds = [
        Kind("17 floats", spaces.Box(-np.inf, np.inf, (17,), np.float32), 1_000_000 // shrink),
        Kind("256 floats", spaces.Box(-np.inf, np.inf, (256,), np.float32), 1_000_000 // shrink),
        Kind("(4, 84, 84) uint8", spaces.Box(0, 255, (4, 84, 84), np.uint8), 50_000 // shrink),
    ]
    adding = []
    for kind in kinds:
        for n_envs in (1, 16):
            times = compare_adding(kind, n_envs, arguments.seed)
            ratio = times["sb3"] / times["webscale"]
            adding.append({"observation": kind.name, "n_envs": n_envs, **times, "ratio": ratio})
    print_rows("Adding one step of all environments, microseconds", adding)
    sampling = []
    for kind in kinds:
        found = compare_sampling(kind, arguments.seed, rounds)
        sampling.append({"kind": kind.name, "transitions": kind.transitions, **found})
    print_sampling(sampling)
    report: dict[str, Any] = {"seed": arguments.seed, "adding": adding, "sampling": sampling}
    if arguments.growth:
        report["growth"] = growth(1_000_000 if arguments.quick else 10_000_000, arguments.seed)
        print_rows("Growth: microseconds by number of transitions, 17 floats", report["growth"])
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
