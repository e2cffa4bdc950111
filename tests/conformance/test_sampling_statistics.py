"""What ``statistics()`` says about fill, the spread of draws and the age of samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sb3_webscale import WebscaleReplayBuffer
from sb3_webscale.buffers.sample_ages import SampleAges
from sb3_webscale.testing.counting_env import CountingStream

from .test_her import WORLD as GOAL_WORLD
from .test_her import her_buffer
from .test_priorities import WORLD, filled


@pytest.mark.parametrize("temperature", [0.0, 0.25, 1.0])
def test_spread_by_hand(temperature: float) -> None:
    buffer = filled(60, 100, temperature=temperature)
    errors = 10.0 ** np.random.default_rng(1).uniform(-6, 6, size=60)
    buffer.update_priorities(np.arange(60), errors)
    masses = (errors + 1e-9) ** 0.6
    shares = (1 - temperature) * masses / masses.sum() + temperature / 60
    numbers = buffer.statistics()
    assert (numbers["fill"], numbers["drawable"], numbers["temperature"]) == (0.6, 60, temperature)
    entropy = -(shares * np.log(shares)).sum()
    assert numbers["entropy"] == pytest.approx(entropy, rel=1e-12)
    assert numbers["entropy_normalised"] == pytest.approx(entropy / math.log(60), rel=1e-12)
    assert numbers["effective_sample_size"] == pytest.approx(1 / (shares**2).sum(), rel=1e-12)


def test_equal_priorities_spread_fully_and_nothing_stored_not_at_all() -> None:
    numbers = filled(50).statistics()
    assert numbers["entropy_normalised"] == pytest.approx(1.0, rel=1e-12)
    assert numbers["effective_sample_size"] == pytest.approx(50.0, rel=1e-12)
    assert filled(1).statistics()["entropy_normalised"] == 1.0
    empty = filled(50)
    empty.reset()
    numbers = empty.statistics()
    names = ("fill", "drawable", "entropy", "entropy_normalised", "effective_sample_size")
    assert [numbers[name] for name in names] == [0.0] * 5


@pytest.mark.parametrize("prioritized", [False, True])
def test_ages_by_hand(prioritized: bool) -> None:
    buffer = WebscaleReplayBuffer(60, WORLD.observation_space, WORLD.action_space, "cpu", 3, prioritized=prioritized)
    stream = CountingStream(WORLD, 3)
    assert "sample_age_mean" not in buffer.statistics()
    ages: list[np.ndarray] = []
    for steps in range(1, 31):
        stream.fill(buffer, 1)
        ages.append(steps - 1 - buffer.sample(8).indices.numpy() // 3)
    latest = np.concatenate(ages[-SampleAges.batches :])
    numbers = buffer.statistics()
    assert numbers["sample_age_mean"] == pytest.approx(latest.mean())
    assert 0 < numbers["sample_age_max"] == latest.max() < 20
    buffer.reset()
    assert "sample_age_mean" not in buffer.statistics()


@pytest.mark.parametrize("prioritized", [False, True])
def test_ages_of_hindsight_samples(prioritized: bool) -> None:
    buffer = her_buffer(2, prioritized=prioritized)
    stream = CountingStream(GOAL_WORLD, 2)
    stream.fill(buffer, 20)
    ids: Any = buffer.sample(32).indices.numpy()
    numbers = buffer.statistics()
    assert numbers["sample_age_mean"] == pytest.approx((19 - ids // 2).mean())
    assert numbers["sample_age_max"] == (19 - ids // 2).max()
