"""Speed of the replay buffers against Stable-Baselines3's and cpprb's, side by side in one process.

Four kinds of observation: 17 floats and 256 floats (1,000,000 transitions), and stacked Atari frames with channels
first and last, (4, 84, 84) and (84, 84, 4) uint8 (50,000). Every figure is end to end: from the Python call to torch
tensors, batch 256. The contestants take turns within each round, so that a change of the machine's speed meets all of
them; a figure is the median over rounds.
`limit` is the time that one thread takes to copy as many bytes between two arrays too large for the caches.

    python zoo/benchmarks/replay.py [--quick] [--output FILE.json]

--quick uses a tenth of the transitions.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from rich.console import Console
from rich.table import Table
from side_by_side import ACTION_DIM, BATCH, Cpprb, Kind, Tape, fill, measure
from stable_baselines3.common.buffers import ReplayBuffer

from sb3_webscale import WebscaleReplayBuffer


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
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks/replay.json"))
    arguments = parser.parse_args()
    th.set_num_threads(1)
    shrink, rounds = (10, 15) if arguments.quick else (1, 40)
    kinds = [
        Kind("17 floats", spaces.Box(-np.inf, np.inf, (17,), np.float32), 1_000_000 // shrink),
        Kind("256 floats", spaces.Box(-np.inf, np.inf, (256,), np.float32), 1_000_000 // shrink),
        Kind("(4, 84, 84) uint8", spaces.Box(0, 255, (4, 84, 84), np.uint8), 50_000 // shrink),
        Kind("(84, 84, 4) uint8", spaces.Box(0, 255, (84, 84, 4), np.uint8), 50_000 // shrink),
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
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
