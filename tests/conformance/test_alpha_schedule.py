"""Warm-up and ramp of the priority exponent, and the bounds of what feedback may set."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

from sb3_webscale import PriorityFeedback, WebscaleReplayBuffer
from sb3_webscale.buffers.prioritization import Prioritization
from sb3_webscale.errors import InvalidInputError
from sb3_webscale.testing.counting_env import CountingStream

from .test_her import her_buffer
from .test_priorities import WORLD, filled
from .tiny_models import tiny_model


def test_exponent_by_progress() -> None:
    buffer = filled(30, alpha=0.8, warmup_fraction=0.1, alpha_ramp_fraction=0.4)
    errors = np.random.default_rng(1).exponential(size=30)
    buffer.update_priorities(np.arange(30), errors)
    exponents = []
    for progress in np.linspace(0, 1, 1001):
        buffer.set_progress(progress)
        exponents.append(buffer.statistics()["alpha"])
        np.testing.assert_allclose(buffer._replay.total_mass, ((errors + 1e-9) ** exponents[-1]).sum(), rtol=1e-12)
    assert exponents[:100] == [0.0] * 100
    assert exponents[500:] == [0.8] * 501
    assert exponents == sorted(exponents)
    np.testing.assert_allclose(np.unique(exponents), 0.8 * np.arange(21) / 20)


def test_warm_up_is_uniform_with_equal_weights() -> None:
    buffer = filled(30, warmup_fraction=0.05, beta_start=1.0)
    buffer.update_priorities(np.arange(30), np.random.default_rng(1).exponential(size=30))
    samples = buffer.sample(300)
    assert (samples.weights == 1).all()
    assert np.bincount(samples.indices.numpy(), minlength=30).tolist() == [10] * 30
    buffer.set_progress(0.05)
    assert len(buffer.sample(300).weights.unique()) > 5


def test_without_a_schedule_the_exponent_stays() -> None:
    settings = Prioritization()
    assert [settings.alpha_at(progress) for progress in (0.0, 0.02, 1.0)] == [0.6] * 3


@pytest.mark.parametrize(("warmup", "ramp"), [(-0.1, 0), (1.0, 0), (np.nan, 0), (0, -0.1), (0, np.nan), (0.5, 0.6)])
def test_bad_schedule(warmup: float, ramp: float) -> None:
    with pytest.raises(InvalidInputError, match=r"warmup_fraction is .* alpha_ramp_fraction"):
        filled(4, warmup_fraction=warmup, alpha_ramp_fraction=ramp)


def test_a_warm_up_without_progress_is_reported_once() -> None:
    buffer = filled(4, warmup_fraction=0.05)

    def sample_and_feed(count: int) -> None:
        for _ in range(count):
            buffer.update_priorities(buffer.sample(4).indices, np.ones(4))

    sample_and_feed(99)
    with pytest.warns(UserWarning, match="no progress of training was reported") as caught:
        sample_and_feed(200)
    assert len(caught) == 1
    told = filled(4, warmup_fraction=0.05)
    told.set_progress(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(300):
            told.update_priorities(told.sample(4).indices, np.ones(4))


def test_learn_moves_the_exponent_and_a_pickle_keeps_it() -> None:
    options = {"prioritized": True, "warmup_fraction": 0.5, "alpha_ramp_fraction": 0.4}
    model = tiny_model("SAC", replay_buffer_class=WebscaleReplayBuffer, replay_buffer_kwargs=options)
    buffer = model.replay_buffer
    assert isinstance(buffer, WebscaleReplayBuffer)
    assert buffer.statistics()["alpha"] == 0.0
    model.learn(60, callback=PriorityFeedback())
    assert buffer.statistics()["alpha"] == 0.6
    buffer.set_progress(0.7)
    twin = pickle.loads(pickle.dumps(buffer))
    assert twin.statistics()["alpha"] == buffer.statistics()["alpha"] == pytest.approx(0.3)
    twin.set_progress(1.0)
    assert twin.statistics()["alpha"] == 0.6


def test_hindsight_follows_the_schedule() -> None:
    buffer = her_buffer(2, prioritized=True, warmup_fraction=0.1, td_clip=3.0, new_priority="max_ever")
    assert buffer.statistics()["alpha"] == 0.0
    buffer.set_progress(0.1)
    assert buffer.statistics()["alpha"] == 0.6


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_td_errors_above_the_bound_count_as_the_bound(dtype: type) -> None:
    buffer = filled(6, td_clip=2.5)
    assert buffer.update_priorities(np.arange(6), np.array([0, 1, 2.5, 3, 60000, 2.5], dtype)) == 6
    np.testing.assert_array_equal(buffer.priorities(np.arange(6)), np.array([0, 1, 2.5, 2.5, 2.5, 2.5]) + 1e-9)
    assert buffer.statistics()["clipped_td_errors"] == 2
    for bad in (np.nan, np.inf, -1.0, -1e-7):
        with pytest.raises(InvalidInputError, match=r"td_errors\[0\]"):
            buffer.update_priorities([0], np.array([bad], dtype))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_bound(bad: float) -> None:
    with pytest.raises(InvalidInputError, match="td_clip is"):
        filled(4, td_clip=bad)


def test_new_rows_may_take_the_largest_priority_ever_fed_back() -> None:
    buffer = filled(10, new_priority="max_ever")
    np.testing.assert_array_equal(buffer.priorities(np.arange(10)), 1.0)
    buffer.update_priorities(np.arange(10), [1e-1, *[1e-3] * 9])
    CountingStream(WORLD).fill(buffer, 5)  # overwrites the largest
    np.testing.assert_allclose(buffer.priorities(np.arange(10, 15)), 1e-1)
    with pytest.raises(InvalidInputError, match="new_priority is 'largest'"):
        filled(10, new_priority="largest")
