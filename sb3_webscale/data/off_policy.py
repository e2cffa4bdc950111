"""Off-policy estimates: what a policy would have earned on logged decisions that another policy made.

Estimators of the mean reward per decision, for n events with state x, action a, reward r and logged propensity p, and
a target policy pi, with weights w = pi(a | x) / p:

- IPS, the mean of w r. Unbiased when the propensities are right and positive wherever pi is (Horvitz and Thompson,
  "A generalization of sampling without replacement from a finite universe", 1952).
- SNIPS, the sum of w r over the sum of w. Slightly biased, usually of less variance (Swaminathan and Joachims, "The
  self-normalized estimator for counterfactual learning", 2015).
- DR, the mean of sum_a pi(a | x) q(x, a) + w (r - q(x, a)) with a reward model q. Unbiased when either propensities or
  model are right (Dudik, Langford and Li, "Doubly robust policy evaluation and learning", 2011).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sb3_webscale.data.bootstrap import cluster_sums, resampled_sums
from sb3_webscale.data.logged_events import LoggedEvents
from sb3_webscale.data.reward_model import cross_fitted_rewards
from sb3_webscale.errors import InvalidInputError

__all__ = ["Estimate", "OffPolicyReport", "estimate_policy_value"]

# Wide enough for rows that were normalised in 32-bit floats.
_SUM_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Estimate:
    """A number and its bootstrap interval.

    :param value: the estimate
    :param low: lower end of the interval
    :param high: upper end of the interval
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.5f} [{self.low:.5f}, {self.high:.5f}]"


@dataclass(frozen=True)
class OffPolicyReport:
    """Estimates of a target policy's mean reward per decision.

    :param ips: inverse propensity score estimate
    :param snips: self-normalised estimate
    :param dr: doubly robust estimate
    :param logging_value: mean reward of the logging policy, which needs no weights
    :param effective_sample_size: (sum of w)^2 / sum of w^2: how many events the weights are worth (Kish, Survey
        Sampling, 1965)
    :param n_events: number of events
    :param n_clusters: number of episodes that the bootstrap draws
    :param max_weight: largest weight, after clipping
    :param clipped: number of events whose weight was clipped
    :param confidence: coverage that the intervals aim at
    """

    ips: Estimate
    snips: Estimate
    dr: Estimate
    logging_value: Estimate
    effective_sample_size: float
    n_events: int
    n_clusters: int
    max_weight: float
    clipped: int
    confidence: float

    def as_dict(self) -> dict[str, float]:
        """:return: every number, flat: ``ips``, ``ips.low``, ``ips.high``, ..., ``effective_sample_size``, ..."""
        flat: dict[str, float] = {}
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                flat |= {name: value["value"], f"{name}.low": value["low"], f"{name}.high": value["high"]}
            else:
                flat[name] = float(value)
        return flat


def estimate_policy_value(
    events: LoggedEvents,
    target_probabilities: npt.NDArray[np.float64],
    *,
    seed: int = 0,
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    clip: float | None = None,
    n_folds: int = 5,
    ridge: float = 1.0,
) -> OffPolicyReport:
    """Estimate the mean reward per decision of a policy on a log that it did not make.

    The intervals are percentile bootstrap intervals over whole episodes. For DR the reward model is fitted once, so
    its own uncertainty is not in the interval. Few rewards or a small effective sample size make every interval rough:
    where no event with a weight has a reward, IPS and SNIPS are 0 with the interval [0, 0], which proves nothing.

    :param events: logged decisions with propensities and a Discrete action space
    :param target_probabilities: float64 (n, n_actions); row i is the target policy's distribution in event i's state
    :param seed: seeds the bootstrap and the folds; equal input and seed give equal numbers
    :param n_bootstrap: number of resamples, at least 1
    :param confidence: coverage of the intervals, in (0, 1)
    :param clip: largest weight allowed, above 0 (bias for variance); None leaves the weights alone
    :param n_folds: folds of the reward model, at least 2; lowered to the number of episodes where that is less
    :param ridge: penalty of the reward model, above 0
    :return: the estimates
    :raises InvalidInputError: naming the argument, the value and the rule, when one is wrong, or when the target policy
        never takes a logged action, so that the log says nothing about it
    """
    propensities = _check_events(events)
    target = _check_target(events, target_probabilities)
    _check_settings(n_bootstrap=n_bootstrap, confidence=confidence, clip=clip, n_folds=n_folds, ridge=ridge)
    rng = np.random.default_rng(seed)
    rows = np.arange(len(events))
    raw_weights = target[rows, events.actions] / propensities
    weights = raw_weights if clip is None else np.minimum(raw_weights, clip)
    if not weights.any():
        msg = (
            f"target_probabilities gives probability 0 to every one of the {len(events)} logged actions; "
            "the log says nothing about such a policy: evaluate one that overlaps with it"
        )
        raise InvalidInputError(msg)
    rewards = events.rewards.astype(np.float64)
    n_clusters = len(np.unique(events.episode_ids))
    predicted = cross_fitted_rewards(
        events.observations,
        events.actions,
        rewards,
        events.episode_ids,
        target.shape[1],
        n_folds=min(n_folds, n_clusters),
        ridge=ridge,
        rng=rng,
    )
    doubly_robust = (target * predicted).sum(axis=1) + weights * (rewards - predicted[rows, events.actions])
    quantities = np.stack((np.ones_like(rewards), rewards, weights, weights * rewards, doubly_robust), axis=1)
    sums = cluster_sums(quantities, events.episode_ids)
    resamples = _estimates(resampled_sums(sums, n_bootstrap, rng))
    points = _estimates(sums.sum(axis=0, keepdims=True))
    tail = (1.0 - confidence) / 2.0
    intervals = {
        # A resample in which every weight is 0 has no self-normalised value; it is left out of that interval.
        name: Estimate(float(points[name][0]), *(float(q) for q in np.nanquantile(values, (tail, 1.0 - tail))))
        for name, values in resamples.items()
    }
    return OffPolicyReport(
        **intervals,
        effective_sample_size=float(weights.sum() ** 2 / (weights**2).sum()),
        n_events=len(events),
        n_clusters=n_clusters,
        max_weight=float(weights.max()),
        clipped=int((raw_weights != weights).sum()),
        confidence=confidence,
    )


def _estimates(totals: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
    """Estimates from totals of (events, rewards, weights, weighted rewards, doubly robust terms), a row each."""
    count, reward, weight, weighted, doubly_robust = totals.T
    return {
        "ips": weighted / count,
        "snips": np.divide(weighted, weight, out=np.full_like(weight, np.nan), where=weight > 0.0),
        "dr": doubly_robust / count,
        "logging_value": reward / count,
    }


def _check_events(events: LoggedEvents) -> npt.NDArray[np.float64]:
    if events.propensities is None:
        msg = (
            "events.propensities is None; off-policy estimates need the logging policy's probabilities: "
            "give the rule a propensity"
        )
        raise InvalidInputError(msg)
    if not isinstance(events.action_space, spaces.Discrete):
        msg = f"events.action_space = {events.action_space} is not Discrete; these estimators are for discrete actions"
        raise InvalidInputError(msg)
    if len(np.unique(events.episode_ids)) < 2:
        msg = f"events holds {len(np.unique(events.episode_ids))} episodes; intervals and cross-fitting need at least 2"
        raise InvalidInputError(msg)
    outside = np.flatnonzero((events.actions < 0) | (events.actions >= events.action_space.n))
    if len(outside):
        msg = f"events.actions[{outside[0]}] = {events.actions[outside[0]]} lies outside {events.action_space}"
        raise InvalidInputError(msg)
    if not np.isfinite(events.rewards).all():
        row = int(np.flatnonzero(~np.isfinite(events.rewards))[0])
        msg = f"events.rewards[{row}] = {events.rewards[row]} is not finite; repair the log"
        raise InvalidInputError(msg)
    propensities = np.asarray(events.propensities, dtype=np.float64)
    wrong = np.flatnonzero(~((propensities > 0.0) & (propensities <= 1.0)))
    if len(wrong):
        msg = f"events.propensities[{wrong[0]}] = {propensities[wrong[0]]} lies outside (0, 1]; repair the log"
        raise InvalidInputError(msg)
    return propensities


def _check_target(events: LoggedEvents, target_probabilities: Any) -> npt.NDArray[np.float64]:
    target = np.asarray(target_probabilities, dtype=np.float64)
    shape = (len(events), int(events.action_space.n))  # type: ignore[attr-defined]
    if target.shape != shape:
        msg = f"target_probabilities has shape {target.shape}; it must be (events, actions) = {shape}"
        raise InvalidInputError(msg)
    wrong = np.argwhere(~(target >= 0.0))
    if len(wrong):
        event, action = wrong[0]
        value = target[event, action]
        msg = f"target_probabilities[{event}, {action}] = {value} is not a probability; give numbers in [0, 1]"
        raise InvalidInputError(msg)
    totals = target.sum(axis=1)
    rows = np.flatnonzero(~(np.abs(totals - 1.0) <= _SUM_TOLERANCE))
    if len(rows):
        msg = f"target_probabilities[{rows[0]}] sums to {totals[rows[0]]}; each row must sum to 1: normalise it"
        raise InvalidInputError(msg)
    return target


def _check_settings(*, n_bootstrap: int, confidence: float, clip: float | None, n_folds: int, ridge: float) -> None:
    rules = (
        ("n_bootstrap", n_bootstrap, n_bootstrap >= 1, "at least 1"),
        ("confidence", confidence, 0.0 < confidence < 1.0, "in (0, 1)"),
        ("clip", clip, clip is None or clip > 0.0, "above 0, or None"),
        ("n_folds", n_folds, n_folds >= 2, "at least 2"),
        ("ridge", ridge, ridge > 0.0, "above 0"),
    )
    for name, value, holds, rule in rules:
        if not holds:
            msg = f"{name} = {value} is not allowed; it must be {rule}"
            raise InvalidInputError(msg)
