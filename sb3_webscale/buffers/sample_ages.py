"""How old the transitions are that were sampled lately."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

__all__ = ["SampleAges"]


class SampleAges:
    """Ages in the latest batches. An age counts the steps of every environment added after the transition, so that of
    the newest is 0."""

    batches = 16

    def __init__(self) -> None:
        self._drawn: deque[tuple[npt.NDArray[np.int64], int]] = deque(maxlen=self.batches)

    def note(self, ids: npt.NDArray[np.int64], steps: int) -> None:
        """
        :param ids: int64 (B,), transitions of one batch; copied, since they share a block of memory with the batch
        :param steps: the ring's step counter when they were drawn
        """
        self._drawn.append((ids.copy(), steps))

    def statistics(self, n_envs: int) -> dict[str, float]:
        """
        :param n_envs: environments of the ring, of which ids are step * n_envs + env
        :return: mean and largest age over the latest batches; empty before the first
        """
        if not self._drawn:
            return {}
        ages = np.concatenate([steps - 1 - ids // n_envs for ids, steps in self._drawn])
        return {"sample_age_mean": float(ages.mean()), "sample_age_max": float(ages.max())}
