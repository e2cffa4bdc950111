"""Prioritized replay under a memory budget against the same buffer wholly in memory.

Stacked Atari frames (4, 84, 84) uint8 of which each is new, and vectors of 256 floats; the budget leaves a tenth of the
frames' bytes for frames. Each buffer is filled past its capacity and then sampled in turns, batch 256, end to end to
torch tensors and with an update of the priorities, at random priorities (all rows matter) and at skewed ones (a tenth
of the rows, side by side, holds nine tenths of the mass). `system cache` says how many of the spilled bytes the
operating system could keep in its cache at best: when it is less than all, the disk's speed decides.

    python zoo/benchmarks/tiering.py [--quick] [--spill-dir DIRECTORY] [--output FILE.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch as th
from gymnasium import spaces
from rich.console import Console
from rich.table import Table

from sb3_webscale import WebscaleReplayBuffer

BATCH = 256
ACTIONS = spaces.Box(-1, 1, (6,), np.float32)


class Stream:
    """An endless stream of observations that do not repeat within a buffer."""

    def __init__(self, space: spaces.Box, seed: int) -> None:
        self._space = space
        random = np.random.default_rng(seed)
        if space.dtype == np.uint8:
            self._rows = random.integers(0, 256, (1021, *space.shape[1:]), dtype=np.uint8)
        else:
            self._rows = random.standard_normal((1021, *space.shape)).astype(np.float32)

    def _row(self, step: int) -> Any:
        turn, place = divmod(step, len(self._rows))
        row = self._rows[place]
        return row ^ np.uint8(turn % 256) if row.dtype == np.uint8 else row + np.float32(turn)

    def __getitem__(self, step: int) -> Any:
        if self._space.dtype == np.uint8:
            return np.stack([self._row(step + i) for i in range(4)])[None]
        return self._row(step)[None]


def fill(buffer: WebscaleReplayBuffer, stream: Stream, steps: int) -> float:
    """Add steps one by one; microseconds for each, those of the stream included."""
    action, zero, done = np.zeros((1, 6), np.float32), np.zeros(1, np.float32), np.zeros(1, bool)
    start = time.perf_counter()
    obs = stream[0]
    for step in range(steps):
        following = stream[step + 1]
        buffer.add(obs, following, action, zero, done, [{}])
        obs = following
    return (time.perf_counter() - start) / steps * 1e6


def set_priorities(buffer: WebscaleReplayBuffer, skewed: bool, seed: int) -> None:
    rows = buffer.size()
    errors = np.random.default_rng(seed).random(rows) + 0.1
    if skewed:
        errors[rows // 2 : rows // 2 + rows // 10] *= 81.0 ** (1 / 0.6)
    ids = buffer._replay.ids_of_rows(np.arange(rows))
    buffer.update_priorities(ids, errors)


def measure(buffers: dict[str, WebscaleReplayBuffer], rounds: int, warm_up: int) -> dict[str, float]:
    """Median microseconds of one batch, the buffers taking turns, after every file was read once."""

    def turn(buffer: WebscaleReplayBuffer) -> None:
        batch = buffer.sample(BATCH)
        # The same priorities again: what is drawn stays as skewed as it was.
        buffer.update_priorities(batch.indices, buffer.priorities(batch.indices) - 1e-6)

    times: dict[str, list[float]] = {name: [] for name in buffers}
    for buffer in buffers.values():
        for _ in range(warm_up):
            turn(buffer)
    for _ in range(rounds):
        for name, buffer in buffers.items():
            start = time.perf_counter()
            for _ in range(5):
                turn(buffer)
            times[name].append((time.perf_counter() - start) / 5 * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def compare(name: str, space: spaces.Box, rows: int, arguments: argparse.Namespace, spill_dir: str) -> list[Any]:
    def build(**options: Any) -> WebscaleReplayBuffer:
        return WebscaleReplayBuffer(
            rows, space, ACTIONS, device="cpu", prioritized=True, seed=arguments.seed, **options
        )

    stream = Stream(space, arguments.seed)
    memory = build()
    fixed = memory.nbytes
    add_memory = fill(memory, stream, rows + rows // 10)
    frame_bytes = memory.nbytes - fixed
    budget = fixed + frame_bytes // 10
    tiered = build(memory_budget=budget, spill_dir=spill_dir)
    add_tiered = fill(tiered, stream, rows + rows // 10)
    results = []
    for skewed in (False, True):
        for buffer in (memory, tiered):
            set_priorities(buffer, skewed, arguments.seed)
        times = measure({"memory": memory, "tiered": tiered}, 15, 400 if arguments.quick else 3000)
        results.append(
            {
                "observation": name,
                "transitions": rows,
                "priorities": "skewed" if skewed else "random",
                "frame_bytes": frame_bytes,
                "budget": budget,
                "nbytes": tiered.nbytes,
                "add_memory_us": add_memory,
                "add_tiered_us": add_tiered,
                "memory_us": times["memory"],
                "tiered_us": times["tiered"],
                "share": times["memory"] / times["tiered"],
                "system_cache": min(1.0, psutil.virtual_memory().available / frame_bytes),
                **{key: tiered.statistics()[key] for key in ("hot_segments", "cold_segments", "cold_bytes")},
            }
        )
    return results


def print_table(results: list[dict[str, Any]]) -> None:
    table = Table(title=f"Prioritized sample({BATCH}) and update under a memory budget, microseconds")
    for column in ("observation", "priorities", "frames MB", "budget MB", "hot/cold", "memory", "tiered", "throughput",
                   "add memory", "add tiered", "system cache"):  # fmt: skip
        table.add_column(column, justify="left" if column in ("observation", "priorities") else "right")
    for row in results:
        table.add_row(
            f"{row['observation']}, {row['transitions']:,}", row["priorities"], f"{row['frame_bytes'] / 1e6:,.0f}",
            f"{row['budget'] / 1e6:,.0f}", f"{row['hot_segments']:.0f}/{row['cold_segments']:.0f}",
            f"{row['memory_us']:,.0f}", f"{row['tiered_us']:,.0f}", f"{row['share']:.0%}",
            f"{row['add_memory_us']:,.0f}", f"{row['add_tiered_us']:,.0f}", f"{row['system_cache']:.0%}",
        )  # fmt: skip
    Console(width=150).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--spill-dir", type=Path, help="a temporary directory when not given")
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks/tiering.json"))
    arguments = parser.parse_args()
    th.set_num_threads(1)
    shrink = 10 if arguments.quick else 1
    results = []
    with tempfile.TemporaryDirectory(dir=arguments.spill_dir) as spill_dir:
        for name, space, rows in (
            ("(4, 84, 84) uint8", spaces.Box(0, 255, (4, 84, 84), np.uint8), 200_000 // shrink),
            ("256 floats", spaces.Box(-np.inf, np.inf, (256,), np.float32), 1_000_000 // shrink),
        ):
            results += compare(name, space, rows, arguments, spill_dir)
    print_table(results)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
