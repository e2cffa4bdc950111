"""Percentile bootstrap over clusters: whole episodes are drawn, because events of one episode are not independent."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["cluster_sums", "resampled_sums"]


def cluster_sums(values: npt.NDArray[np.float64], clusters: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """
    :param values: float64 (n, k), k quantities of each event
    :param clusters: int64 (n,), the cluster of each event
    :return: float64 (n_clusters, k), the quantities summed within each cluster
    """
    _, place = np.unique(clusters, return_inverse=True)
    n_clusters = int(place.max()) + 1
    columns = [np.bincount(place, weights=column, minlength=n_clusters) for column in values.T]
    return np.stack(columns, axis=1)


def resampled_sums(
    sums: npt.NDArray[np.float64], n_bootstrap: int, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """
    :param sums: float64 (n_clusters, k) as from :func:`cluster_sums`
    :param n_bootstrap: number of resamples
    :param rng: source of randomness
    :return: float64 (n_bootstrap, k): for each resample, drawn with replacement and as large as the original, the
        totals (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13)
    """
    n_clusters = len(sums)
    totals = np.empty((n_bootstrap, sums.shape[1]))
    for resample in range(n_bootstrap):
        drawn = np.bincount(rng.integers(n_clusters, size=n_clusters), minlength=n_clusters)
        totals[resample] = drawn @ sums
    return totals
