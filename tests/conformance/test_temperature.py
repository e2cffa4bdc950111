"""A temperature blends priority and uniform sampling exactly, in every buffer, and leaves out what cannot be drawn."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from sb3_webscale.errors import BufferStateError, InvalidInputError
from sb3_webscale.testing.counting_env import CountingStream

from .same_bits import assert_same_bits
from .test_her import WORLD as GOAL_WORLD
from .test_her import finished_rows, her_buffer
from .test_priorities import SMALLEST_P_VALUE, WORLD, draws_one_by_one, filled
from .test_save_load import N_ENVS, world_and_buffer


def with_errors(**options: Any) -> tuple[Any, np.ndarray]:
    buffer = filled(50, alpha=0.6, **options)
    errors = 10.0 ** np.random.default_rng(1).uniform(-6, 6, size=50)
    buffer.update_priorities(np.arange(50), errors)
    masses = (errors + 1e-9) ** 0.6
    return buffer, masses / masses.sum()


@pytest.mark.parametrize("temperature", [0.01, 0.3, 1.0])
def test_frequencies_and_weights(temperature: float) -> None:
    buffer, by_priority = with_errors(temperature=temperature, beta_start=0.5)
    blended = (1 - temperature) * by_priority + temperature / 50
    counts = np.bincount(draws_one_by_one(buffer, 20_000), minlength=50)
    assert chisquare(counts, 20_000 * blended).pvalue > SMALLEST_P_VALUE
    samples = buffer.sample(64)
    weights = (50 * blended[samples.indices.numpy()]) ** -0.5
    np.testing.assert_allclose(samples.weights.numpy().ravel(), weights / weights.max(), rtol=1e-6)


def test_temperature_0_draws_what_a_buffer_without_draws() -> None:
    plain, _ = with_errors()
    blended, _ = with_errors(temperature=0.5)
    blended.set_temperature(0.0)
    for _ in range(20):
        assert_same_bits(tuple(blended.sample(32)), tuple(plain.sample(32)))
    assert blended.nbytes == plain.nbytes


def test_temperature_1_is_uniform_with_equal_weights() -> None:
    buffer, _ = with_errors(temperature=1.0, beta_start=1.0)
    samples = buffer.sample(500)
    assert (samples.weights == 1).all()
    assert np.bincount(samples.indices.numpy(), minlength=50).tolist() == [10] * 50


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan, np.inf])
def test_bad_temperature(bad: float) -> None:
    with pytest.raises(InvalidInputError, match="temperature is"):
        filled(8, temperature=bad)
    buffer = filled(8)
    with pytest.raises(InvalidInputError, match="temperature is"):
        buffer.set_temperature(bad)
    assert buffer.statistics()["temperature"] == 0.0
    uniform = world_and_buffer("float32")[1]
    with pytest.raises(BufferStateError, match="prioritized=True"):
        uniform.set_temperature(0.5)


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_hindsight_draws_finished_episodes_only(temperature: float) -> None:
    buffer = her_buffer(N_ENVS, prioritized=True, seed=1, temperature=temperature)
    stream = CountingStream(GOAL_WORLD, N_ENVS)
    for n_steps in range(5, 70, 5):
        stream.fill(buffer, 5)
        if not (buffer.ep_length > 0).any():
            continue
        rows = buffer._replay.draw(2000, 0.4)[0]
        finished = sum(len(finished_rows(n_steps, buffer.buffer_size, env)) for env in range(N_ENVS))
        assert len(np.unique(rows)) == finished == buffer.statistics()["drawable"]


@pytest.mark.parametrize("kind", ["float32", "dict"])
@pytest.mark.parametrize("copied", [lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_copies_draw_the_same(kind: str, copied: Any) -> None:
    world, buffer = world_and_buffer(
        kind, prioritized=True, seed=4, temperature=0.3, new_priority="max_ever", td_clip=20.0
    )
    stream, twin_stream = CountingStream(world, N_ENVS), CountingStream(world, N_ENVS)
    stream.fill(buffer, 27)
    twin_stream.fill(world_and_buffer(kind)[1], 27)
    buffer.update_priorities(buffer.recent(60), np.arange(60))
    buffer.update_priorities(buffer.recent(60), np.full(60, 0.5))
    twin = copied(buffer)
    stream.fill(buffer, 5)
    twin_stream.fill(twin, 5)
    np.testing.assert_allclose(twin.priorities(twin.recent(15)), 20.0)
    for _ in range(90):
        assert_same_bits(tuple(twin.sample(16)), tuple(buffer.sample(16)))
    assert twin.statistics() == buffer.statistics() | {"nbytes": twin.nbytes}


def test_new_rows_join_the_uniform_share() -> None:
    buffer, _ = with_errors(temperature=1.0)
    CountingStream(WORLD).fill(buffer, 7)
    assert set(buffer.sample(500).indices.tolist()) == set(range(7, 57))
    buffer.reset()
    CountingStream(WORLD).fill(buffer, 3)
    assert set(buffer.sample(100).indices.tolist()) == set(buffer.recent(3).tolist())
