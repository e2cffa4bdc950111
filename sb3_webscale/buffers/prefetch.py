"""Batches that are drawn ahead and copied out in the background.

Whatever decides what a batch holds (random numbers, priorities, rewards, n-step windows) happens on the calling thread
when a batch is requested; the thread in the background only copies observations, of rows that native code keeps from
being overwritten meanwhile. So its timing decides nothing but speed.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch as th

from sb3_webscale.buffers.device_copies import DeviceCopies
from sb3_webscale.errors import InvalidInputError

if TYPE_CHECKING:
    from sb3_webscale._native import NativeBatch, PendingBatch

__all__ = ["PrefetchQueue", "PreparedBatch", "copy_out"]


@dataclass(frozen=True)
class PreparedBatch:
    """A batch that is complete.

    :param arrays: what native code gathered
    :param copies: the same on its way to a CUDA device, or None
    """

    arrays: NativeBatch
    copies: DeviceCopies | None = None


def copy_out(batch: PendingBatch, device: th.device | None) -> PreparedBatch:
    """What the background does for each batch.

    :param batch: drawn, without its observations
    :param device: CUDA device to copy it to, or None
    :return: the batch
    :raises SpillError: when an observation on disk cannot be read
    """
    batch.copy_observations()
    arrays = batch.arrays()
    return PreparedBatch(arrays, None if device is None else DeviceCopies(arrays, device))


class PrefetchQueue:
    """Hands out batches in the order in which they were drawn, each ``size`` requests after its own.

    The first request draws ``size`` + 1 batches, and each further one a single batch. A copy or a pickle holds the same
    batches, copied out. One thread at a time may use it.

    :param size: batches that wait to be delivered, at least 1
    :raises InvalidInputError: when it is smaller
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            msg = f"prefetch_size is {size}, but must be at least 0: 8 is a good choice, 0 turns prefetching off"
            raise InvalidInputError(msg)
        self.size = size
        self._kind: Hashable = None
        self._batches: deque[Future[PreparedBatch]] = deque()

    def next_batch(self, kind: Hashable, draw: Callable[[], PendingBatch], device: th.device | None) -> PreparedBatch:
        """
        :param kind: what all batches in the queue share, such as their size; another than before empties it
        :param draw: draws a batch, without its observations
        :param device: CUDA device that batches are copied to in the background, or None
        :return: the oldest batch, as it was drawn
        :raises Exception: what its copying raised; that batch is lost, and the next request delivers the one after it
        """
        if kind != self._kind:
            self.clear()
            self._kind = kind
        while len(self._batches) <= self.size:
            self._batches.append(_background.submit(copy_out, draw(), device))
        return self._batches.popleft().result()

    def clear(self) -> None:
        """Drop what was drawn ahead."""
        for batch in self._batches:
            batch.cancel()
        self._batches.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "kind": self._kind,
            "batches": [batch.result().arrays for batch in self._batches],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.size = state["size"]
        self._kind = state["kind"]
        self._batches = deque()
        for arrays in state["batches"]:
            batch: Future[PreparedBatch] = Future()
            batch.set_result(PreparedBatch(arrays))
            self._batches.append(batch)


class _BackgroundThread:
    """The process's only thread that copies batches; it runs from the first job on, and ends with the interpreter.

    A fork happens between jobs and without the thread: a child of a process that copies would inherit rows that nobody
    lets go of. Both processes start it anew when they need it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        os.register_at_fork(before=self._stop, after_in_parent=self._lock.release, after_in_child=self._lock.release)

    def submit(self, job: Callable[..., PreparedBatch], *arguments: Any) -> Future[PreparedBatch]:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="sb3_webscale prefetch")
            return self._executor.submit(job, *arguments)

    def _stop(self) -> None:
        self._lock.acquire()
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None


_background = _BackgroundThread()
