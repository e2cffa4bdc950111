"""Points of curves are sent in batches, and none is lost silently."""

from __future__ import annotations

import threading

import pytest

from sb3_webscale.reproducibility.metric_sender import MetricSender


def test_points_arrive_in_order_and_in_few_batches():
    batches = []
    sender = MetricSender(lambda points: batches.append(list(points)), interval=60)
    for step in range(1200):
        sender.put({"loss": step / 2}, step)
    sender.close()
    points = [point for batch in batches for point in batch]
    assert [(point.name, point.value, point.step) for point in points] == [("loss", s / 2, s) for s in range(1200)]
    assert len(batches) == 3


def test_points_are_sent_while_the_run_goes_on():
    arrived = threading.Event()
    sender = MetricSender(lambda points: arrived.set(), interval=0.01)
    sender.put({"loss": 1.0}, 1)
    assert arrived.wait(10)
    sender.close()


def test_points_wait_while_the_store_is_away():
    received = []
    failures = iter([ConnectionError("away"), ConnectionError("away")])

    def send(points):
        error = next(failures, None)
        if error is not None:
            raise error
        received.extend(points)

    sender = MetricSender(send, interval=0.01)
    for step in range(10):
        sender.put({"loss": 0.0}, step)
    sender.close()
    assert [point.step for point in received] == list(range(10))


def test_points_that_never_arrive_are_counted_in_a_warning():
    def send(points):
        raise ConnectionError("no route")

    sender = MetricSender(send, interval=0.01)
    sender.put({"loss": 0.0, "reward": 1.0}, 0)
    with pytest.warns(UserWarning, match="2 points of training curves could not be sent .*no route"):
        sender.close()


def test_a_full_queue_counts_what_it_drops():
    sender = MetricSender(lambda points: None, capacity=3, interval=60)
    for step in range(5):
        sender.put({"loss": 0.0}, step)
    with pytest.warns(UserWarning, match="2 points"):
        sender.close()
