"""Prioritized replay under a memory budget against the same buffer wholly in memory.

Vectors of 17 and of 256 floats and stacked Atari frames (4, 84, 84) uint8 of which each is new. The whole buffer has
ten times the bytes of the budget; with 17 floats, whose records and priorities alone are more than that, the
observations have ten times the bytes that the budget leaves for them. Each buffer is filled past its capacity and then
sampled in turns, batch 256, end to end to torch tensors and with an update of the priorities: at even priorities (all
rows matter alike, the hard case) and at skewed ones (a tenth of the rows, side by side, holds nine tenths of the mass).

`cached` is the throughput against memory while the system's page cache, which is no part of the process, can hold the
files; `uncached` the same when the cache forgets them before every batch, so that the disk alone decides. `resident` is
by how much the process grew while it filled and sampled the tiered buffer, a batch's memory not counted.

    python zoo/benchmarks/tiering.py [--quick] [--spill-dir DIRECTORY] [--output FILE.json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
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


def set_priorities(buffer: WebscaleReplayBuffer, skewed: bool) -> None:
    rows = buffer.size()
    errors = np.ones(rows)
    if skewed:
        errors[rows // 2 : rows // 2 + rows // 10] *= 81.0 ** (1 / 0.6)
    buffer.update_priorities(buffer._replay.ids_of_rows(np.arange(rows)), errors)


def turn(buffer: WebscaleReplayBuffer) -> None:
    batch = buffer.sample(BATCH)
    # The same priorities again: what is drawn stays as even, or skewed, as it was.
    buffer.update_priorities(batch.indices, buffer.priorities(batch.indices) - 1e-6)


def forget_files(spill_dir: str) -> None:
    """Takes the spill files out of the system's page cache."""
    for path in Path(spill_dir).glob("*/*.frames"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def median_us(call: Callable[[], None], rounds: int, before: Callable[[], None] = lambda: None) -> float:
    times = []
    for _ in range(rounds):
        before()
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def compare(name: str, space: spaces.Box, rows: int, arguments: argparse.Namespace, spill_dir: str) -> list[Any]:
    def build(capacity: int, **options: Any) -> WebscaleReplayBuffer:
        return WebscaleReplayBuffer(
            capacity, space, ACTIONS, device="cpu", prioritized=True, seed=arguments.seed, **options
        )

    stream = Stream(space, arguments.seed)
    fixed = build(rows).nbytes
    frame_bytes = rows * space.dtype.itemsize * int(np.prod(space.shape)) // (4 if space.dtype == np.uint8 else 1)
    budget = (fixed + frame_bytes) // 10
    if budget < fixed + frame_bytes // 100:
        budget = fixed + frame_bytes // 10
    trial = build(1000)  # what code, threads and batches take is not the buffer's
    fill(trial, stream, 1000)
    for _ in range(100):
        turn(trial)
    base = resident()
    del trial  # its memory for batches makes room for that of the next one
    tiered = build(rows, memory_budget=budget, spill_dir=spill_dir)
    add_tiered = fill(tiered, stream, rows + rows // 10)
    set_priorities(tiered, False)
    for _ in range(400 if arguments.quick else 3000):  # reads every block once, as training would before long
        turn(tiered)
    grown = resident() - base
    memory = build(rows)
    add_memory = fill(memory, stream, rows + rows // 10)
    results = []
    for skewed in (False, True):
        for buffer in (memory, tiered):
            set_priorities(buffer, skewed)
        for _ in range(1000):
            turn(tiered)
        before = tiered.statistics()
        in_turns = [(median_us(lambda: turn(memory), 5), median_us(lambda: turn(tiered), 5)) for _ in range(40)]
        after = tiered.statistics()
        memory_us, tiered_us = (statistics.median(times) for times in zip(*in_turns, strict=True))
        uncached_us = median_us(lambda: turn(tiered), 30, lambda: forget_files(spill_dir))
        hot, cold = (after[key] - before[key] for key in ("hot_reads", "cold_reads"))
        results.append(
            {
                "observation": name,
                "transitions": rows,
                "priorities": "skewed" if skewed else "even",
                "bytes": fixed + frame_bytes,
                "frame_bytes": frame_bytes,
                "budget": budget,
                "nbytes": tiered.nbytes,
                "resident_growth": grown,
                "hot_bytes": after["hot_bytes"],
                "cold_bytes": after["cold_bytes"],
                "hit_rate": hot / (hot + cold),
                "add_memory_us": add_memory,
                "add_tiered_us": add_tiered,
                "memory_us": memory_us,
                "tiered_us": tiered_us,
                "uncached_us": uncached_us,
                "cached_share": memory_us / tiered_us,
                "uncached_share": memory_us / uncached_us,
            }
        )
    return results


def print_table(results: list[dict[str, Any]]) -> None:
    table = Table(title=f"Prioritized sample({BATCH}) and update under a memory budget; microseconds, MB")
    for column in ("observation", "priorities", "all MB", "budget", "times", "resident", "hit rate", "memory us",
                   "tiered us", "cached", "uncached", "add us", "add tiered"):  # fmt: skip
        table.add_column(column, justify="left" if column in ("observation", "priorities") else "right")
    for row in results:
        table.add_row(
            f"{row['observation']}, {row['transitions']:,}", row["priorities"], f"{row['bytes'] / 1e6:,.0f}",
            f"{row['budget'] / 1e6:,.0f}", f"{row['bytes'] / row['budget']:.1f}",
            f"{row['resident_growth'] / 1e6:,.0f}", f"{row['hit_rate']:.0%}",
            f"{row['memory_us']:,.0f}", f"{row['tiered_us']:,.0f}",
            f"{row['cached_share']:.0%}", f"{row['uncached_share']:.0%}",
            f"{row['add_memory_us']:,.0f}", f"{row['add_tiered_us']:,.0f}",
        )  # fmt: skip
    Console(width=150).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--spill-dir", type=Path, help="on a disk, not tmpfs; a temporary directory when not given")
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks/tiering.json"))
    arguments = parser.parse_args()
    th.set_num_threads(1)
    shrink = 10 if arguments.quick else 1
    results = []
    for name, space, rows in (
        ("17 floats", spaces.Box(-np.inf, np.inf, (17,), np.float32), 1_000_000 // shrink),
        ("256 floats", spaces.Box(-np.inf, np.inf, (256,), np.float32), 1_000_000 // shrink),
        ("(4, 84, 84) uint8", spaces.Box(0, 255, (4, 84, 84), np.uint8), 200_000 // shrink),
    ):
        with tempfile.TemporaryDirectory(dir=arguments.spill_dir) as spill_dir:
            results += compare(name, space, rows, arguments, spill_dir)
    print_table(results)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
