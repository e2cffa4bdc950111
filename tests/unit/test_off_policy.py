"""Off-policy estimators on synthetic logs of which the target policy's true value is known.

Statistical bounds are stated beside each test; seeds are fixed, so a pass repeats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gymnasium import spaces

from sb3_webscale.data import LoggedEvents
from sb3_webscale.data.off_policy import estimate_policy_value
from sb3_webscale.errors import InvalidInputError

N_ACTIONS = 5
N_FEATURES = 3
Array = npt.NDArray[np.float64]


@dataclass
class World:
    """Linear rewards with noise; softmax policies over the state."""

    rng: np.random.Generator
    weights: Array
    offsets: Array
    logging: Array

    def policy(self, observations: Array, coefficients: Array) -> Array:
        logits = observations @ coefficients
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def means(self, observations: Array) -> Array:
        return (observations @ self.weights)[:, None] + self.offsets

    def log(self, n: int, per_episode: int = 1) -> tuple[LoggedEvents, Array]:
        observations = self.rng.normal(size=(n, N_FEATURES)).astype(np.float32).astype(np.float64)
        probabilities = self.policy(observations, self.logging)
        draws = self.rng.random(n)[:, None]
        actions = (probabilities.cumsum(axis=1) < draws).sum(axis=1).clip(max=N_ACTIONS - 1)
        rows = np.arange(n)
        rewards = self.means(observations)[rows, actions] + self.rng.normal(scale=0.5, size=n)
        events = LoggedEvents(
            observations=observations.astype(np.float32),
            actions=actions.astype(np.int64),
            rewards=rewards.astype(np.float32),
            propensities=probabilities[rows, actions],
            episode_ids=rows // per_episode,
            observation_space=spaces.Box(-np.inf, np.inf, (N_FEATURES,), dtype=np.float32),
            action_space=spaces.Discrete(N_ACTIONS),
            feature_names=tuple("xyz"),
        )
        return events, observations


def make_world(seed: int) -> World:
    rng = np.random.default_rng(seed)
    return World(
        rng,
        weights=rng.normal(size=N_FEATURES),
        offsets=np.linspace(0.0, 2.0, N_ACTIONS),
        logging=rng.normal(scale=0.3, size=(N_FEATURES, N_ACTIONS)),
    )


TARGET = np.random.default_rng(99).normal(scale=0.8, size=(N_FEATURES, N_ACTIONS))


def errors_over_logs(n_logs: int, n: int) -> dict[str, Array]:
    """Estimate minus truth for each log; the truth is the exact expectation given the log's states."""
    world = make_world(0)
    errors: dict[str, list[float]] = {"ips": [], "snips": [], "dr": []}
    for _ in range(n_logs):
        events, observations = world.log(n)
        target = world.policy(observations, TARGET)
        truth = float((target * world.means(observations)).sum(axis=1).mean())
        report = estimate_policy_value(events, target, n_bootstrap=1)
        for name, values in errors.items():
            values.append(getattr(report, name).value - truth)
    return {name: np.array(values) for name, values in errors.items()}


@pytest.fixture(scope="module")
def errors() -> dict[str, Array]:
    return errors_over_logs(n_logs=200, n=400)


@pytest.mark.parametrize("name", ["ips", "dr"])
def test_unbiased(errors: dict[str, Array], name: str) -> None:
    """The mean error over 200 logs lies within 3.5 of its standard errors of 0."""
    standard_error = errors[name].std(ddof=1) / np.sqrt(len(errors[name]))
    assert abs(errors[name].mean()) < 3.5 * standard_error


def test_snips_bias_is_small(errors: dict[str, Array]) -> None:
    """SNIPS is biased by O(1/n): below a fifth of its standard deviation at n = 400."""
    assert abs(errors["snips"].mean()) < 0.2 * errors["snips"].std()


def test_dr_varies_less_than_ips(errors: dict[str, Array]) -> None:
    """With a reward model of the right form, DR's variance is below half of that of IPS."""
    assert errors["dr"].var() < 0.5 * errors["ips"].var()


def test_estimates_come_near_the_truth() -> None:
    """At n = 50,000 each estimate lies within 0.05 of the truth, where rewards range over about 4."""
    world = make_world(1)
    events, observations = world.log(50_000)
    target = world.policy(observations, TARGET)
    truth = float((target * world.means(observations)).sum(axis=1).mean())
    report = estimate_policy_value(events, target, n_bootstrap=20)
    for estimate in (report.ips, report.snips, report.dr):
        assert abs(estimate.value - truth) < 0.05
    assert abs(report.logging_value.value - truth) > 0.05


def test_the_logging_policy_has_its_own_mean() -> None:
    world = make_world(2)
    events, observations = world.log(1000)
    report = estimate_policy_value(events, world.policy(observations, world.logging), n_bootstrap=50)
    mean = float(events.rewards.astype(np.float64).mean())
    assert report.ips.value == pytest.approx(mean, rel=1e-6)
    assert report.snips.value == pytest.approx(mean, rel=1e-6)
    assert report.logging_value.value == pytest.approx(mean)
    # DR replaces the drawn action by its expectation, so it differs by noise: 0.05 is 3 standard errors here.
    assert report.dr.value == pytest.approx(mean, abs=0.05)
    assert report.effective_sample_size == pytest.approx(1000, rel=1e-6)


@pytest.mark.parametrize("name", ["ips", "snips", "dr"])
def test_intervals_cover_the_truth(name: str) -> None:
    """90% intervals cover in 76 to 98 of 100 logs: four standard deviations below, and not always."""
    world = make_world(3)
    population, covered = world.rng.normal(size=(200_000, N_FEATURES)), 0
    truth = float((world.policy(population, TARGET) * world.means(population)).sum(axis=1).mean())
    for _ in range(100):
        events, observations = world.log(400)
        report = estimate_policy_value(events, world.policy(observations, TARGET), n_bootstrap=200, confidence=0.9)
        estimate = getattr(report, name)
        covered += estimate.low <= truth <= estimate.high
    assert 76 <= covered <= 98


def test_episodes_are_drawn_whole() -> None:
    """Ten copies of each event in one episode: the interval is that of the events alone, not narrower."""
    world = make_world(4)
    events, observations = world.log(200)
    tenfold = {
        name: np.repeat(getattr(events, name), 10, axis=0)
        for name in ("observations", "actions", "rewards", "propensities", "episode_ids")
    }
    target = world.policy(observations, TARGET)
    single = estimate_policy_value(events, target, seed=7)
    repeated = estimate_policy_value(replace(events, **tenfold), np.repeat(target, 10, axis=0), seed=7)
    assert repeated.ips.value == pytest.approx(single.ips.value)
    assert repeated.ips.high - repeated.ips.low == pytest.approx(single.ips.high - single.ips.low, rel=0.1)


def small() -> tuple[LoggedEvents, Array]:
    world = make_world(5)
    events, observations = world.log(60, per_episode=3)
    return events, world.policy(observations, TARGET)


def test_by_hand() -> None:
    events, _ = small()
    events = replace(
        events,
        observations=events.observations[:4],
        actions=np.array([0, 1, 0, 1]),
        rewards=np.float32([1.0, 0.0, 2.0, 4.0]),
        propensities=np.array([0.5, 0.5, 0.25, 1.0]),
        episode_ids=np.arange(4),
        action_space=spaces.Discrete(2),
    )
    report = estimate_policy_value(events, np.array([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [0.0, 1.0]]))
    # Weights 2, 1, 2, 1.
    assert report.ips.value == pytest.approx((2.0 + 0.0 + 4.0 + 4.0) / 4)
    assert report.snips.value == pytest.approx(10.0 / 6.0)
    assert report.logging_value.value == pytest.approx(7.0 / 4)
    assert report.effective_sample_size == pytest.approx(36.0 / 10.0)
    assert report.max_weight == 2.0


def test_clipping_bounds_weights_and_is_counted() -> None:
    events, target = small()
    plain, clipped = estimate_policy_value(events, target), estimate_policy_value(events, target, clip=1.0)
    assert plain.clipped == 0
    assert clipped.clipped == (target[np.arange(60), events.actions] / events.propensities > 1.0).sum() > 0
    assert clipped.max_weight == 1.0
    assert clipped.effective_sample_size > plain.effective_sample_size


def test_a_seed_repeats() -> None:
    events, target = small()
    first = estimate_policy_value(events, target, seed=3)
    assert first == estimate_policy_value(events, target, seed=3)
    assert first != estimate_policy_value(events, target, seed=4)


def test_report_is_flat_numbers() -> None:
    events, target = small()
    report = estimate_policy_value(events, target)
    numbers = report.as_dict()
    assert numbers["dr.low"] == report.dr.low
    assert numbers["ips"] == report.ips.value
    assert numbers["n_clusters"] == 20.0
    assert all(isinstance(value, float) for value in numbers.values())


def change(target: Array, row: int, values: Any) -> Array:
    changed = target.copy()
    changed[row] = values
    return changed


@pytest.mark.parametrize(
    ("row", "values", "part"),
    [
        (3, [0.5, 0.5, 0.5, 0.0, 0.0], r"target_probabilities\[3\] sums to 1\.5"),
        (2, [1.5, -0.5, 0.0, 0.0, 0.0], r"target_probabilities\[2, 1\] = -0\.5"),
        (1, [np.nan, 1.0, 0.0, 0.0, 0.0], r"target_probabilities\[1, 0\] = nan"),
        (0, [np.inf, 0.0, 0.0, 0.0, 0.0], r"target_probabilities\[0\] sums to inf"),
    ],
)
def test_target_must_be_probabilities(row: int, values: list[float], part: str) -> None:
    events, target = small()
    with pytest.raises(InvalidInputError, match=part):
        estimate_policy_value(events, change(target, row, values))


def test_target_must_have_a_row_an_event_and_a_column_an_action() -> None:
    events, target = small()
    for wrong in (target[:-1], target[:, :-1], target[0]):
        with pytest.raises(InvalidInputError, match=r"\(events, actions\) = \(60, 5\)"):
            estimate_policy_value(events, wrong)


def test_propensities_are_needed() -> None:
    events, target = small()
    with pytest.raises(InvalidInputError, match="propensities is None"):
        estimate_policy_value(replace(events, propensities=None), target)


@pytest.mark.parametrize("value", [0.0, -0.1, 1.5, np.nan])
def test_propensities_must_be_probabilities(value: float) -> None:
    events, target = small()
    propensities = np.asarray(events.propensities).copy()
    propensities[4] = value
    with pytest.raises(InvalidInputError, match=r"propensities\[4\]"):
        estimate_policy_value(replace(events, propensities=propensities), target)


def test_continuous_actions_are_refused() -> None:
    events, target = small()
    box = replace(events, action_space=spaces.Box(-1.0, 1.0, (1,)))
    with pytest.raises(InvalidInputError, match="not Discrete"):
        estimate_policy_value(box, target)


def test_a_policy_that_never_meets_the_log_is_refused() -> None:
    events, _ = small()
    target = np.eye(N_ACTIONS)[(events.actions + 1) % N_ACTIONS]
    with pytest.raises(InvalidInputError, match="60 logged actions"):
        estimate_policy_value(events, target)


def test_one_episode_is_too_few() -> None:
    events, target = small()
    with pytest.raises(InvalidInputError, match="at least 2"):
        estimate_policy_value(replace(events, episode_ids=np.zeros(60, dtype=np.int64)), target)


@pytest.mark.parametrize(
    "setting",
    [
        {"n_bootstrap": 0},
        {"confidence": 0.0},
        {"confidence": 1.0},
        {"confidence": float("nan")},
        {"clip": 0.0},
        {"clip": float("nan")},
        {"n_folds": 1},
        {"ridge": 0.0},
    ],
)
def test_settings_out_of_range_are_named(setting: dict[str, Any]) -> None:
    events, target = small()
    with pytest.raises(InvalidInputError, match=next(iter(setting))):
        estimate_policy_value(events, target, **setting)
