"""Prioritized sampling: what is drawn how often, with which weight, and what a bad or late priority does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from sb3_webscale import WebscaleReplayBuffer, _native
from sb3_webscale.errors import BufferStateError, InvalidInputError
from sb3_webscale.testing.counting_env import CountingStream, CountingWorld

from .same_bits import assert_same_bits

WORLD = CountingWorld(lengths=(60,))
SMALLEST_P_VALUE = 1e-3


def filled(n_rows: int, capacity: int | None = None, **options: Any) -> WebscaleReplayBuffer:
    arguments = (capacity or n_rows, WORLD.observation_space, WORLD.action_space, "cpu")
    buffer = WebscaleReplayBuffer(*arguments, prioritized=True, **{"seed": 0, "priority_epsilon": 1e-9, **options})
    CountingStream(WORLD).fill(buffer, n_rows)
    return buffer


def draws_one_by_one(buffer: WebscaleReplayBuffer, count: int) -> np.ndarray:
    """Independent draws; the rows of one batch are stratified."""
    return np.array([buffer._replay.draw(1, 1.0)[0][0] for _ in range(count)])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_frequencies(alpha: float) -> None:
    buffer = filled(50, alpha=alpha)
    errors = np.random.default_rng(1).exponential(size=50)
    buffer.update_priorities(np.arange(50), errors)
    masses = (errors + 1e-9) ** alpha
    counts = np.bincount(draws_one_by_one(buffer, 20_000), minlength=50)
    assert chisquare(counts, 20_000 * masses / masses.sum()).pvalue > SMALLEST_P_VALUE


def test_frequencies_differ_from_other_exponents() -> None:
    """The bound above is tight enough to see an exponent that is applied twice, or not at all."""
    buffer = filled(50, alpha=0.6)
    errors = np.random.default_rng(1).exponential(size=50)
    buffer.update_priorities(np.arange(50), errors)
    counts = np.bincount(draws_one_by_one(buffer, 20_000), minlength=50)
    for wrong in (0.36, 0.0, 1.0):
        masses = errors**wrong
        assert chisquare(counts, 20_000 * masses / masses.sum()).pvalue < SMALLEST_P_VALUE


def test_a_batch_holds_each_row_as_often_as_its_share() -> None:
    """Stratified: off by less than 2 draws, where independent draws would be off by tens."""
    buffer = filled(30, alpha=1.0)
    errors = np.random.default_rng(1).exponential(size=30)
    buffer.update_priorities(np.arange(30), errors)
    shares = (errors + 1e-9) / (errors + 1e-9).sum()
    for _ in range(20):
        counts = np.bincount(buffer.sample(3000).indices.numpy(), minlength=30)
        assert np.abs(counts - 3000 * shares).max() < 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1.0, -1e-300, 1e200])
def test_bad_td_error_changes_nothing(bad: float) -> None:
    buffer = filled(8)
    ids = np.arange(8)
    buffer.update_priorities(ids, np.arange(1.0, 9.0))
    before = buffer.priorities(ids)
    errors = np.full(8, 5.0)
    errors[3] = bad
    with pytest.raises(InvalidInputError, match=r"td_errors\[3\] is"):
        buffer.update_priorities(ids, errors)
    assert_same_bits(buffer.priorities(ids), before)
    samples = buffer.sample(2000)
    assert len(np.unique(samples.indices.numpy())) == 8
    assert samples.weights is not None
    assert samples.weights.isfinite().all()


def test_other_bad_updates() -> None:
    buffer = filled(8)
    before = buffer.priorities(np.arange(8))
    with pytest.raises(InvalidInputError, match="2 elements, but there are 3 ids"):
        buffer.update_priorities([0, 1, 2], [1.0, 1.0])
    assert_same_bits(buffer.priorities(np.arange(8)), before)
    uniform = WebscaleReplayBuffer(8, WORLD.observation_space, WORLD.action_space, "cpu")
    for call in (lambda: uniform.update_priorities([0], [1.0]), lambda: uniform.priorities([0]), lambda: uniform.beta):
        with pytest.raises(BufferStateError, match="prioritized=True"):
            call()


@pytest.mark.parametrize(
    "ids", [[-1], [-8], [8], [10**12], [np.iinfo(np.int64).max], [np.iinfo(np.int64).min]], ids=str
)
def test_ids_that_never_were(ids: list[int]) -> None:
    buffer = filled(8)
    before = buffer.priorities(np.arange(8))
    assert buffer.update_priorities(ids, [7.0]) == 0
    assert_same_bits(buffer.priorities(np.arange(8)), before)
    assert np.isnan(buffer.priorities(ids)).all()


def test_late_feedback_is_skipped_and_counted() -> None:
    buffer = filled(8)
    stream = CountingStream(WORLD)
    stream.fill(buffer, 3)
    assert buffer.update_priorities(np.arange(8), np.arange(8.0)) == 5
    assert buffer.statistics()["stale_updates"] == 3
    np.testing.assert_allclose(buffer.priorities(np.arange(3, 8)), np.arange(3.0, 8.0) + 1e-9)
    assert np.isnan(buffer.priorities([0, 1, 2])).all()
    assert not np.isnan(buffer.priorities([8, 9, 10])).any()


def test_the_last_of_repeated_ids_counts() -> None:
    buffer = filled(8)
    assert buffer.update_priorities([2, 2, 3, 2], [1.0, 5.0, 4.0, 3.0]) == 4
    np.testing.assert_allclose(buffer.priorities([2, 3]), [3.0, 4.0], rtol=1e-8)


@pytest.mark.parametrize(("n_rows", "capacity"), [(100, 500), (64, 64), (512, 512), (1, 7), (8, 9)])
def test_no_draw_past_the_last_filled_slot(n_rows: int, capacity: int) -> None:
    buffer = filled(n_rows, capacity)
    buffer.update_priorities(np.arange(n_rows), np.random.default_rng(0).exponential(size=n_rows))
    for _ in range(20):
        rows, weights = buffer._replay.draw(50_000, 0.5)
        assert 0 <= rows.min() <= rows.max() < n_rows
        assert ((weights > 0) & (weights <= 1)).all()


@pytest.mark.parametrize(("n_filled", "size"), [(100, 500), (64, 64), (1, 8), (9, 64), (511, 512)])
def test_mass_at_and_above_the_total(n_filled: int, size: int) -> None:
    tree = _native.SumTree(size)
    masses = np.random.default_rng(0).exponential(size=n_filled)
    tree.assign(np.arange(n_filled), masses)
    total = tree.total
    edges = np.array([0.0, np.nextafter(total, 0), total, np.nextafter(total, np.inf), 2 * total])
    assert tree.find(edges).tolist() == [0, *[n_filled - 1] * 4]
    tree.assign(np.array([n_filled - 1]), np.zeros(1))
    if n_filled > 1:
        assert tree.find(np.array([tree.total, 2 * total])).tolist() == [n_filled - 2] * 2


def test_new_rows_take_the_largest_priority_stored() -> None:
    buffer = filled(10)
    np.testing.assert_array_equal(buffer.priorities(np.arange(10)), 1.0)
    stream = CountingStream(WORLD)
    buffer.update_priorities(np.arange(10), [1e3, *[1e-3] * 9])
    stream.fill(buffer, 1)  # overwrites the outlier
    np.testing.assert_allclose(buffer.priorities([10]), 1e-3, rtol=1e-5)
    buffer.update_priorities([10], [1e3])
    stream.fill(buffer, 9)
    np.testing.assert_allclose(buffer.priorities(np.arange(11, 20)), 1e3)
    buffer.update_priorities(np.arange(10, 20), np.full(10, 1e-3))
    stream.fill(buffer, 1)
    np.testing.assert_allclose(buffer.priorities([20]), 1e-3, rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_priorities_are_kept_without_the_exponent(alpha: float) -> None:
    buffer = filled(10, alpha=alpha)
    buffer.update_priorities(np.arange(10), np.arange(10.0))
    np.testing.assert_allclose(buffer.priorities(np.arange(10)), np.arange(10.0) + 1e-9, rtol=1e-12)


def test_alpha_can_be_changed_at_any_time() -> None:
    buffer = filled(10, alpha=0.6)
    errors = np.arange(1.0, 11.0)
    buffer.update_priorities(np.arange(10), errors)
    buffer._replay.set_alpha(0.4)
    np.testing.assert_allclose(buffer._replay.total_mass, (errors**0.4).sum(), rtol=1e-8)


def test_weights_by_hand() -> None:
    buffer = filled(40, alpha=0.7, beta_start=0.5)
    errors = np.random.default_rng(2).exponential(size=40)
    buffer.update_priorities(np.arange(40), errors)
    samples = buffer.sample(64)
    probabilities = (errors + 1e-9) ** 0.7 / ((errors + 1e-9) ** 0.7).sum()
    weights = (40 * probabilities[samples.indices.numpy()]) ** -0.5
    assert samples.weights is not None
    assert samples.weights.shape == (64, 1)
    np.testing.assert_allclose(samples.weights.numpy().ravel(), weights / weights.max(), rtol=1e-6)


def test_alpha_0_is_uniform_with_equal_weights() -> None:
    buffer = filled(40, alpha=0.0, beta_start=1.0)
    buffer.update_priorities(np.arange(40), np.random.default_rng(2).exponential(size=40))
    samples = buffer.sample(400)
    assert samples.weights is not None
    assert (samples.weights == 1).all()
    assert np.bincount(samples.indices.numpy(), minlength=40).tolist() == [10] * 40


def test_beta_0_gives_equal_weights() -> None:
    buffer = filled(40, beta_start=0.0)
    buffer.update_priorities(np.arange(40), np.random.default_rng(2).exponential(size=40))
    assert (buffer.sample(100).weights == 1).all()


def test_beta_stops_at_its_end() -> None:
    by_steps = filled(1, 10, beta_start=0.4, beta_end=0.9, beta_steps=20)
    betas = []
    for _ in range(60):
        CountingStream(WORLD).fill(by_steps, 1)
        betas.append(by_steps.beta)
    np.testing.assert_allclose(betas, np.minimum(0.4 + 0.5 * np.arange(2, 62) / 20, 0.9))
    by_progress = filled(1, 10, beta_start=0.4, beta_end=0.9)
    for progress in (0.0, 0.5, 1.0, 3.0, -1.0):
        by_progress.set_progress(progress)
        assert by_progress.beta == pytest.approx(0.4 + 0.5 * min(max(progress, 0), 1))


def test_batches_larger_than_the_content_repeat_rows() -> None:
    for prioritized in (False, True):
        buffer = WebscaleReplayBuffer(10, WORLD.observation_space, WORLD.action_space, "cpu", prioritized=prioritized)
        with pytest.raises(BufferStateError, match="none is stored"):
            buffer.sample(4)
        CountingStream(WORLD).fill(buffer, 3)
        samples = buffer.sample(32)
        assert len(samples.rewards) == 32
        WORLD.check(samples)
        buffer.reset()
        with pytest.raises(BufferStateError, match="none is stored"):
            buffer.sample(4)


def test_explicit_seed_decides_the_draws() -> None:
    draws = [filled(40, seed=seed).sample(64).indices.numpy() for seed in (3, 3, 4)]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_without_a_seed_draws_follow_numpys_without_using_it_up() -> None:
    draws = []
    for numpy_seed in (5, 5, 6):
        np.random.seed(numpy_seed)
        before = np.random.get_state(legacy=False)["state"]
        buffer = filled(40, seed=None)
        draws.append(buffer.sample(64).indices.numpy())
        assert_same_bits(np.random.get_state(legacy=False)["state"], before)
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
