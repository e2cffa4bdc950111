"""A reward model for doubly robust estimates: ridge regression on state and one-hot action, cross-fitted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import Ridge

__all__ = ["cross_fitted_rewards"]


def cross_fitted_rewards(
    observations: npt.NDArray[np.float32],
    actions: npt.NDArray[np.int64],
    rewards: npt.NDArray[np.float64],
    clusters: npt.NDArray[np.int64],
    n_actions: int,
    *,
    n_folds: int,
    ridge: float,
    rng: np.random.Generator,
) -> npt.NDArray[np.float64]:
    """Predicted reward of every action in every event, by a model that has seen no event of the same cluster.

    Cross-fitting keeps the doubly robust estimate from reusing its own noise (Chernozhukov et al., "Double/debiased
    machine learning for treatment and structural parameters", 2018).

    :param observations: float32 (n, n_features)
    :param actions: int64 (n,), 0 to n_actions - 1
    :param rewards: float64 (n,)
    :param clusters: int64 (n,), events with one number stay in one fold
    :param n_actions: number of actions
    :param n_folds: number of folds, 2 to the number of clusters
    :param ridge: weight of the squared penalty on the coefficients, above 0
    :param rng: deals the clusters to the folds
    :return: float64 (n, n_actions)
    """
    _, place = np.unique(clusters, return_inverse=True)
    fold_of_cluster = rng.permutation(np.arange(place.max() + 1) % n_folds)
    folds = fold_of_cluster[place]
    chosen = np.eye(n_actions)[actions]
    design = np.concatenate((observations.astype(np.float64), chosen), axis=1)
    predicted = np.empty((len(actions), n_actions))
    n_features = observations.shape[1]
    for fold in range(n_folds):
        held_out = folds == fold
        model = Ridge(alpha=ridge).fit(design[~held_out], rewards[~held_out])
        # Linear in a one-hot action: the state's part once an event, plus one number an action.
        state_part = design[held_out, :n_features] @ model.coef_[:n_features] + model.intercept_
        predicted[held_out] = state_part[:, None] + model.coef_[n_features:]
    return predicted
