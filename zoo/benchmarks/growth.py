"""How the cost of add, sample and update grows with the number of transitions, beside Stable-Baselines3's and cpprb's.

Full buffers of 17 floats with 10^4 to 10^7 transitions. `add` stores one step of one environment; `sample` draws a
batch of 256 by priority (uniformly for Stable-Baselines3, which has no priorities) and hands it over as torch tensors;
`update` sets the 256 priorities of that batch. The contestants take turns within each round; a figure is the median
over rounds.

    python zoo/benchmarks/growth.py [--quick] [--plot FILE.png] [--output FILE.json]

--quick stops at 10^6 transitions. --plot needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
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

WIDTH = 17
CHUNK = 10_000  # steps stored at once while a buffer is filled
ADDED = 2_000  # steps timed at once
OPERATIONS = ("add", "sample", "update")


def filled_webscale(kind: Kind, action_space: spaces.Box, seed: int) -> WebscaleReplayBuffer:
    buffer = WebscaleReplayBuffer(kind.transitions, kind.space, action_space, device="cpu", prioritized=True, seed=seed)
    fill_in_chunks(buffer.add_steps, kind, seed)
    return buffer


def filled_cpprb(kind: Kind, seed: int) -> Cpprb:
    buffer = Cpprb(kind, prioritized=True)
    fill_in_chunks(buffer.add_steps, kind, seed)
    return buffer


def filled_sb3(kind: Kind, action_space: spaces.Box) -> ReplayBuffer:
    buffer = ReplayBuffer(kind.transitions, kind.space, action_space, device="cpu")
    for array in (buffer.observations, buffer.next_observations, buffer.actions, buffer.rewards):
        array[:] = 0.5  # every page is touched, as after adding
    buffer.full = True
    return buffer


def fill_in_chunks(add_steps: Callable[..., Any], kind: Kind, seed: int) -> None:
    observations = np.random.default_rng(seed).standard_normal((CHUNK + 1, WIDTH)).astype(np.float32)
    scalars = np.zeros(CHUNK, np.float32)
    for _ in range(kind.transitions // CHUNK):
        actions = np.zeros((CHUNK, ACTION_DIM), np.float32)
        add_steps(observations[:-1], observations[1:], actions, scalars, scalars, scalars)


def costs(transitions: int, seed: int, rounds: int) -> dict[str, dict[str, float]]:
    """Median microseconds of each operation for each contestant."""
    kind = Kind(f"{WIDTH} floats", spaces.Box(-np.inf, np.inf, (WIDTH,), np.float32), transitions)
    action_space = spaces.Box(-1, 1, (ACTION_DIM,), np.float32)
    tape = Tape(kind, 1, seed)
    sb3, peer = filled_sb3(kind, action_space), filled_cpprb(kind, seed)
    ours = filled_webscale(kind, action_space, seed)
    priorities = np.random.default_rng(seed).random((64, BATCH)) + 1e-3
    turn = [0]

    def next_priorities() -> Any:
        turn[0] += 1
        return priorities[turn[0] % len(priorities)]

    def sample_peer() -> Any:
        return peer.sample()[1]

    def sample_ours() -> Any:
        return ours.sample(BATCH).indices

    def update_sb3(batch: Any, priorities: Any) -> None:
        """It has no priorities."""

    contestants = {
        "sb3": (lambda: sb3.sample(BATCH), update_sb3),
        "cpprb": (sample_peer, peer.update),
        "webscale": (sample_ours, ours.update_priorities),
    }
    sampling, updating = measure_pairs(contestants, next_priorities, rounds)
    del updating["sb3"]
    adding = measure(
        {
            name: lambda add=add: fill(add, tape, ADDED, 1)
            for name, add in (("sb3", sb3.add), ("cpprb", peer.add), ("webscale", ours.add))
        },
        max(rounds // 4, 3),
        1,
    )
    return {
        "add": {name: value / ADDED for name, value in adding.items()},
        "sample": sampling,
        "update": updating,
    }


def measure_pairs(
    contestants: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any]]],
    next_priorities: Callable[[], Any],
    rounds: int,
) -> tuple[dict[str, float], dict[str, float]]:
    """Median microseconds of a sample and of the update that follows it, as in training, the contestants in turns."""
    calls = 20
    sampling: dict[str, list[float]] = {name: [] for name in contestants}
    updating: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds + 3):
        for name, (sample, update) in contestants.items():
            sampled = updated = 0.0
            for _ in range(calls):
                start = time.perf_counter()
                batch = sample()
                middle = time.perf_counter()
                update(batch, next_priorities())
                sampled += middle - start
                updated += time.perf_counter() - middle
            sampling[name].append(sampled / calls * 1e6)
            updating[name].append(updated / calls * 1e6)
    return tuple({name: statistics.median(times[3:]) for name, times in kept.items()} for kept in (sampling, updating))  # type: ignore[return-value]


def print_table(rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"Microseconds by number of transitions, {WIDTH} floats, batch {BATCH}")
    table.add_column("transitions", justify="right")
    for operation in OPERATIONS:
        for name in rows[0][operation]:
            table.add_column(f"{operation}\n{name}", justify="right")
    for row in rows:
        numbers = [f"{value:,.1f}" for operation in OPERATIONS for value in row[operation].values()]
        table.add_row(f"{row['transitions']:,}", *numbers)
    Console(width=130).print(table)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(OPERATIONS), figsize=(12, 3.6), layout="constrained")
    sizes = [row["transitions"] for row in rows]
    for axis, operation in zip(axes, OPERATIONS, strict=True):
        for name in rows[0][operation]:
            axis.loglog(sizes, [row[operation][name] for row in rows], marker="o", label=name)
        axis.set(title=operation, xlabel="transitions", ylabel="microseconds")
        axis.grid(visible=True, which="both", alpha=0.3)
        axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks/growth.json"))
    arguments = parser.parse_args()
    th.set_num_threads(1)
    rows = []
    for exponent in range(4, 7 if arguments.quick else 8):
        found = costs(10**exponent, arguments.seed, rounds=15 if arguments.quick else 40)
        rows.append({"transitions": 10**exponent, **found})
    print_table(rows)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"seed": arguments.seed, "rows": rows}, indent=2))
    if arguments.plot is not None:
        plot(rows, arguments.plot)


if __name__ == "__main__":
    main()
