"""What curricula and augmentations must be able to do. Both act on a whole batch, never on one transition."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sb3_webscale.data.transitions import Transitions

__all__ = ["Augmentation", "Curriculum"]


@runtime_checkable
class Curriculum(Protocol):
    """Says how much each transition should be sampled at a point of training."""

    def weights(self, transitions: Transitions, progress: float) -> npt.NDArray[np.float64]:
        """
        :param transitions: a batch of n transitions
        :param progress: share of training done, 0 to 1
        :return: float64 (n,), finite, at least 0, not all 0; the chance of a transition is its share of the sum
        """


@runtime_checkable
class Augmentation(Protocol):
    """Makes a batch of changed transitions out of a batch of recorded ones."""

    def augment(self, transitions: Transitions, rng: np.random.Generator) -> Transitions:
        """
        :param transitions: a batch of n transitions; it must not be changed in place
        :param rng: the only source of randomness to use, so that a seeded run repeats
        :return: n transitions in the same spaces
        """
