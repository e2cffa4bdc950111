"""Rates of a sharded replay buffer under 1 to 4 writers, threads or actor processes, with and without a sampler.

Each writer adds steps of one environment (17 floats) as fast as it can, for as long as a measurement lasts. Threads
share one interpreter, so they scale only in the parts that release its lock; processes write to shared memory, which
the learner drains. The sampler draws prioritized batches of 256 to torch tensors and feeds TD errors back.

    python zoo/benchmarks/concurrency.py [--quick] [--seed N] [--output FILE.json]

--quick measures for 0.5 instead of 3 seconds. The number of cores is printed: with fewer cores than writers and
sampler, rates are shares of the same cores.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from rich.console import Console
from rich.table import Table

from sb3_webscale import ShardedReplayBuffer
from sb3_webscale.actors import ActorFeed, ActorHandle, ActorWriter
from sb3_webscale.errors import ActorError

BATCH = 256
TAPE = 1024
EPISODE = 200
CAPACITY = 200_000
OBSERVATIONS = spaces.Box(-np.inf, np.inf, (17,), np.float32)
ACTIONS = spaces.Box(-1, 1, (6,), np.float32)


def steps(seed: int) -> Iterator[tuple[Any, ...]]:
    """An endless stream of steps of one environment, in the form of ``add``."""
    observations = np.random.default_rng(seed).standard_normal((TAPE + 1, 1, 17)).astype(np.float32)
    action, reward, infos = np.zeros((1, 6), np.float32), np.zeros(1, np.float32), [{}]
    ends = [np.array([step % EPISODE == EPISODE - 1]) for step in range(EPISODE)]
    step = 0
    while True:
        place = step % TAPE
        yield observations[place], observations[place + 1], action, reward, ends[step % EPISODE], infos
        step += 1


def new_buffer(streams: int, seed: int) -> ShardedReplayBuffer:
    buffer = ShardedReplayBuffer(
        CAPACITY, OBSERVATIONS, ACTIONS, "cpu", 1, shards=4, actor_streams=streams, prioritized=True, seed=seed
    )
    stream = steps(seed)
    for _ in range(10_000):  # something to sample from the start
        buffer.add(*next(stream))
    return buffer


class Sampler(threading.Thread):
    """Samples and feeds back until it is told to stop."""

    def __init__(self, buffer: ShardedReplayBuffer, seed: int) -> None:
        super().__init__(daemon=True)
        self.batches = 0
        self.stop = False
        self._buffer = buffer
        self._errors = np.random.default_rng(seed).random(BATCH)

    def run(self) -> None:
        while not self.stop:
            batch = self._buffer.sample(BATCH)
            self._buffer.update_priorities(batch.indices, self._errors)
            self.batches += 1


@contextmanager
def sampling(buffer: ShardedReplayBuffer, wanted: bool, seed: int) -> Iterator[Sampler]:
    sampler = Sampler(buffer, seed)
    if wanted:
        sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop = True
        if wanted:
            sampler.join()


def measure_threads(writers: int, with_sampler: bool, seconds: float, seed: int) -> tuple[float, float]:
    """(transitions added, batches sampled) per second by threads."""
    buffer = new_buffer(writers, seed)
    stop = threading.Event()

    def write(stream: int) -> None:
        source = steps(seed + stream)
        while not stop.is_set():
            buffer.add_streams(stream, *next(source))

    threads = [threading.Thread(target=write, args=(stream,), daemon=True) for stream in range(1, writers + 1)]
    with sampling(buffer, with_sampler, seed) as sampler:
        before, start = buffer._sharded.arrivals, time.perf_counter()
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        stop.set()
        for thread in threads:
            thread.join()
        elapsed = time.perf_counter() - start
        added, batches = buffer._sharded.arrivals - before, sampler.batches
    return added / elapsed, batches / elapsed


def act(handle: ActorHandle, seed: int) -> None:
    """An actor process: writes until the feed is closed."""
    writer, source = ActorWriter(handle), steps(seed)
    try:
        while True:
            writer.add(*next(source))
    except ActorError:
        return


def measure_processes(writers: int, seconds: float, seed: int) -> list[tuple[bool, float, float]]:
    """The same by actor processes: (whether beside a sampler, transitions added, batches sampled) per second."""
    buffer = new_buffer(writers, seed)
    context = multiprocessing.get_context("spawn")
    found = []
    with ActorFeed(buffer, [1] * writers, records=1024) as feed:
        processes = [
            context.Process(target=act, args=(handle, seed + actor), daemon=True)
            for actor, handle in enumerate(feed.handles)
        ]
        for process in processes:
            process.start()
        while not all(status.pending for status in feed.status()):  # starting up does not count
            time.sleep(0.01)
        for with_sampler in (False, True):
            feed.drain()
            with sampling(buffer, with_sampler, seed) as sampler:
                added, start = 0, time.perf_counter()
                while time.perf_counter() - start < seconds:
                    moved = feed.drain()
                    added += moved
                    if moved == 0:
                        time.sleep(0.0005)
                elapsed, batches = time.perf_counter() - start, sampler.batches
            found.append((with_sampler, added / elapsed, batches / elapsed))
        feed.close()
        for process in processes:
            process.join()
    return found


def print_rates(rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"Rates of a sharded buffer, 17 floats, batches of {BATCH}; {os.cpu_count()} cores")
    for column in ("writers", "number", "sampler", "transitions added / s", "batches sampled / s"):
        table.add_column(column, justify="left" if column in ("writers", "sampler") else "right")
    for row in rows:
        sampled = f"{row['batches_per_second']:,.0f}" if row["sampler"] else ""
        sampler = "beside" if row["sampler"] else "none"
        table.add_row(row["kind"], str(row["writers"]), sampler, f"{row['transitions_per_second']:,.0f}", sampled)
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks/concurrency.json"))
    arguments = parser.parse_args()
    th.set_num_threads(1)
    seconds = 0.5 if arguments.quick else 3.0
    rows = []
    for writers in (1, 2, 3, 4):
        by_threads = [
            (with_sampler, *measure_threads(writers, with_sampler, seconds, arguments.seed))
            for with_sampler in (False, True)
        ]
        by_processes = measure_processes(writers, seconds, arguments.seed)
        for kind, found in (("threads", by_threads), ("processes", by_processes)):
            for with_sampler, added, batches in found:
                rates = {"transitions_per_second": added, "batches_per_second": batches}
                rows.append({"kind": kind, "writers": writers, "sampler": with_sampler, **rates})
    rows.sort(key=lambda row: (row["kind"], row["sampler"], row["writers"]))
    print_rates(rows)
    report = {"seed": arguments.seed, "cores": os.cpu_count(), "seconds": seconds, "rates": rows}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
