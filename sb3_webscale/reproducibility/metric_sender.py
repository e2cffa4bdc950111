"""Sending points of curves in batches from another thread, so that training never waits for the store."""

from __future__ import annotations

import queue
import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["MetricPoint", "MetricSender"]

_BATCH_POINTS = 500
_INTERVAL_SECONDS = 2.0
_FINAL_ATTEMPTS = 3

_REFUSED = re.compile(r"[^A-Za-z0-9_\-. :/]")


class MetricPoint(NamedTuple):
    """One point of a curve: name, value, time in milliseconds since 1970, environment steps."""

    name: str
    value: float
    milliseconds: int
    step: int


class MetricSender:
    """Collects points and hands them to ``send`` every few seconds; a failure keeps them for the next attempt.

    Points wait in memory (about 100 bytes each) while the store is away, up to ``capacity``; what no longer fits
    is counted, and the count is warned about when the sender closes. Nothing is lost silently.

    :param send: sends one batch; may raise
    :param capacity: points kept at most
    :param interval: seconds between two batches
    """

    def __init__(
        self,
        send: Callable[[list[MetricPoint]], None],
        capacity: int = 1_000_000,
        interval: float = _INTERVAL_SECONDS,
    ) -> None:
        self._send = send
        self._queue: queue.Queue[MetricPoint] = queue.Queue(capacity)
        self._interval = interval
        self._closing = threading.Event()
        self._unsent: list[MetricPoint] = []
        self._error: Exception | None = None
        self._names: dict[str, str] = {}
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="metric-sender", daemon=True)
        self._thread.start()

    def put(self, metrics: Mapping[str, float], step: int) -> None:
        """Queue one point for each metric.

        :param metrics: values by name
        :param step: environment steps
        """
        now = int(time.time() * 1000)
        for name, value in metrics.items():
            try:
                self._queue.put_nowait(MetricPoint(self._accepted(name), float(value), now, int(step)))
            except queue.Full:
                self.dropped += 1

    def _accepted(self, name: str) -> str:
        """The name as MLflow takes it: one that it refuses would hold up everything behind it."""
        if name not in self._names:
            self._names[name] = _REFUSED.sub("_", name)
            if self._names[name] != name:
                msg = f"metric {name!r} is recorded as {self._names[name]!r}, since MLflow refuses some characters"
                warnings.warn(msg, stacklevel=4)
        return self._names[name]

    def close(self) -> None:
        """Send all that is left, and warn about what could not be sent."""
        self._closing.set()
        self._thread.join()
        missing = self.dropped + len(self._unsent) + self._queue.qsize()
        if missing:
            msg = f"{missing} points of training curves could not be sent to the tracking store: {self._error}"
            warnings.warn(msg, stacklevel=2)

    def _run(self) -> None:
        while not self._closing.wait(self._interval):
            self._flush()
        for attempt in range(_FINAL_ATTEMPTS):
            if self._flush():
                return
            time.sleep(self._interval * attempt)

    def _flush(self) -> bool:
        """:return: whether everything queued so far has been sent"""
        while True:
            while len(self._unsent) < _BATCH_POINTS and not self._queue.empty():
                self._unsent.append(self._queue.get_nowait())
            if not self._unsent:
                return True
            try:
                self._send(self._unsent)
            except Exception as error:
                # Whatever the store raises, training goes on; the points stay for the next attempt.
                self._error = error
                return False
            self._unsent = []
