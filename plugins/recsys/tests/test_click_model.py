"""The click model: shrinkage, lift, and refusal of what it cannot be fitted to."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from sb3_webscale_recsys import ClickModel

from sb3_webscale.data import LoggedEvents
from sb3_webscale.errors import DataError, InvalidInputError


def make_events(actions: list[int], clicks: list[float], affinity: list[list[float]], n: int = 2) -> LoggedEvents:
    observations = np.asarray(affinity, dtype=np.float32)
    return LoggedEvents(
        observations=observations,
        actions=np.asarray(actions, dtype=np.int64),
        rewards=np.asarray(clicks, dtype=np.float32),
        propensities=None,
        episode_ids=np.arange(len(actions), dtype=np.int64),
        observation_space=spaces.Box(0.0, 1.0, observations.shape[1:], dtype=np.float32),
        action_space=spaces.Discrete(n),
        feature_names=tuple(f"user-item_affinity_{i}" for i in range(observations.shape[1])),
    )


NONE = [0.0, 0.0]


def test_rates_are_shrunk_towards_the_overall_rate() -> None:
    model = ClickModel.fit(make_events([0, 0, 0, 1], [1, 1, 0, 0], [NONE] * 4), prior_impressions=4.0)
    # By hand: overall rate 1/2; item 0: (2 + 2) / (3 + 4); item 1: (0 + 2) / (1 + 4).
    assert model.rates == pytest.approx([4 / 7, 2 / 5])


def test_lift_compares_impressions_with_affinity_to_all() -> None:
    affinity = [[1.0, 0.0], [1.0, 0.0], NONE, NONE]
    model = ClickModel.fit(make_events([0, 0, 0, 1], [1, 1, 0, 0], affinity), prior_impressions=2.0)
    # By hand: with affinity 2 clicks of 2, shrunk (2 + 1) / (2 + 2) = 3/4, over the overall 1/2.
    assert model.lift == pytest.approx(1.5)
    liked, other = np.float32([1.0, 0.0]), np.float32([0.0, 1.0])
    assert model.probability(liked, 0) == pytest.approx(min(model.rates[0] * 1.5, 1.0))
    assert model.probability(other, 0) == pytest.approx(model.rates[0])


def test_an_item_never_shown_has_the_overall_rate() -> None:
    model = ClickModel.fit(make_events([0, 0], [1, 0], [[0.0] * 3] * 2, n=3))
    assert model.rates[2] == pytest.approx(0.5)


@pytest.mark.parametrize("prior", [0.0, -1.0, float("nan")])
def test_prior_must_weigh_something(prior: float) -> None:
    with pytest.raises(InvalidInputError, match="prior_impressions"):
        ClickModel.fit(make_events([0, 1], [1, 0], [NONE] * 2), prior)


@pytest.mark.parametrize("clicks", [[0.0, 0.0], [1.0, 1.0], [0.5, 0.0]])
def test_rewards_must_be_clicks(clicks: list[float]) -> None:
    with pytest.raises(DataError, match="clicks"):
        ClickModel.fit(make_events([0, 1], clicks, [NONE] * 2))


def test_missing_affinity_feature_is_named() -> None:
    with pytest.raises(DataError, match="user-item_affinity_2"):
        ClickModel.fit(make_events([0, 1], [1, 0], [NONE] * 2, n=3))
