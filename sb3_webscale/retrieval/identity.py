"""Observations as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sb3_webscale.errors import InvalidInputError
from sb3_webscale.retrieval.encoder import Encoder, Observations, flat_rows, flat_width

__all__ = ["Identity"]

_MAX_WIDTH = 16384


class Identity:
    """Takes the elements of an observation as its vector. Scale them alike: the largest decide what is near."""

    def build(self, observation_space: spaces.Space[Any], seed: int) -> Encoder:
        """
        :param observation_space: with at most 16384 elements
        :param seed: not used
        :return: the encoder
        :raises InvalidInputError: when the space has more elements
        """
        width = flat_width(observation_space)
        if width > _MAX_WIDTH:
            msg = (
                f"encoder is 'identity', but an observation has {width} elements, more than {_MAX_WIDTH}: use "
                "'random_projection' or 'pca'"
            )
            raise InvalidInputError(msg)
        return _IdentityEncoder(width)


class _IdentityEncoder(Encoder):
    def encode(self, observations: Observations) -> npt.NDArray[np.float32]:
        return flat_rows(observations)
