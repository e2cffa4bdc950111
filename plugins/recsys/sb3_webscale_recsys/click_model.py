"""A click model fitted to a log of impressions.

What it is. Each item has a click rate, shrunk towards the log's overall rate by a Beta prior worth
``prior_impressions`` impressions (posterior mean; Gelman et al., Bayesian Data Analysis, 3rd ed. 2013, section 2.4).
For an item the user has an affinity to (a past click, by the data set's description), the rate is multiplied by one
lift, shared by all items: the shrunk click rate of the log's impressions with affinity, divided by the overall rate.

What it cannot tell. Clicks are rare (42 in 10,000 impressions of the sample), so most rates are near the overall one
and differences between items are mostly noise. The log's policy chose the items, so items it seldom showed are known
least. Position, the other items on the page and what happened earlier in the session have no effect. A policy that does
well against this model does well against the model; how it does on real users is what off-policy estimates on a
held-out log are for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sb3_webscale.data import LoggedEvents
from sb3_webscale.errors import DataError, InvalidInputError

__all__ = ["ClickModel"]

_AFFINITY = "user-item_affinity_{}"


@dataclass(frozen=True)
class ClickModel:
    """
    :param rates: float64 (n_items,) click probability of each item without affinity, in (0, 1)
    :param lift: factor on the rate of an item that the user has an affinity to, above 0
    :param affinity_features: int64 (n_items,) place of each item's affinity in an observation
    """

    rates: npt.NDArray[np.float64]
    lift: float
    affinity_features: npt.NDArray[np.int64]

    @classmethod
    def fit(cls, events: LoggedEvents, prior_impressions: float = 200.0) -> ClickModel:
        """
        :param events: impressions with rewards 0 or 1 and one affinity feature an item
        :param prior_impressions: weight of the prior, above 0; the larger, the nearer all items are to the overall rate
        :return: the fitted model
        :raises InvalidInputError: when ``prior_impressions`` is not above 0
        :raises DataError: when rewards are not clicks, there is no click, or an affinity feature is missing
        """
        if not prior_impressions > 0.0:
            msg = f"prior_impressions = {prior_impressions} is not above 0; a prior weighs at least something"
            raise InvalidInputError(msg)
        affinity = _affinity_features(events)
        clicks = events.rewards.astype(np.float64)
        if not np.isin(clicks, (0.0, 1.0)).all() or not 0.0 < clicks.mean() < 1.0:
            msg = f"rewards must be clicks, 0 or 1, with some of each; their mean is {clicks.mean()}"
            raise DataError(msg)
        overall = float(clicks.mean())
        n_items = len(affinity)
        shown = np.bincount(events.actions, minlength=n_items)
        clicked = np.bincount(events.actions, weights=clicks, minlength=n_items)
        rates = (clicked + overall * prior_impressions) / (shown + prior_impressions)
        liked = events.observations[np.arange(len(events)), affinity[events.actions]] > 0.0
        with_affinity = (clicks[liked].sum() + overall * prior_impressions) / (liked.sum() + prior_impressions)
        return cls(rates, float(with_affinity / overall), affinity)

    def probability(self, observation: npt.NDArray[np.float32], item: int) -> float:
        """
        :param observation: float32 (n_features,)
        :param item: the item shown
        :return: probability of a click
        """
        lift = self.lift if observation[self.affinity_features[item]] > 0.0 else 1.0
        return float(min(self.rates[item] * lift, 1.0))


def _affinity_features(events: LoggedEvents) -> npt.NDArray[np.int64]:
    if not isinstance(events.action_space, spaces.Discrete):
        msg = f"the action space is {events.action_space}; items are Discrete"
        raise DataError(msg)
    places = {name: place for place, name in enumerate(events.feature_names)}
    names = [_AFFINITY.format(item) for item in range(int(events.action_space.n))]
    missing = [name for name in names if name not in places]
    if missing:
        msg = f"the observation has no feature {missing[0]!r}; add the column to the rule's state as numeric"
        raise DataError(msg)
    return np.array([places[name] for name in names], dtype=np.int64)
