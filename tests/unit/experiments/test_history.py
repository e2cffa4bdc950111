"""History is checked against the environment before it is loaded."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from sb3_webscale.data import ConversionReport, Transitions
from sb3_webscale.errors import DataError
from sb3_webscale.experiments.history import check_spaces


def transitions(observation_space, action_space):
    n = 2
    flags = np.zeros(n, dtype=bool)
    observations = np.zeros((n, *observation_space.shape), observation_space.dtype)
    return Transitions(
        observations,
        observations,
        np.zeros((n, *action_space.shape), action_space.dtype),
        np.zeros(n, np.float32),
        flags,
        flags,
        np.arange(n),
        None,
        observation_space,
        action_space,
        ConversionReport(n, n, n, 0, 0, n),
    )


def box(*shape, dtype=np.float32):
    return spaces.Box(0, 1, shape, dtype)


def test_equal_spaces_pass_whatever_their_bounds():
    check_spaces(transitions(spaces.Box(0, 5, (3,)), spaces.Discrete(4)), box(3), spaces.Discrete(4), "X-v0")


@pytest.mark.parametrize(
    ("observation_space", "action_space", "kind"),
    [
        (box(4), spaces.Discrete(4), "observation_space"),
        (box(3, dtype=np.float64), spaces.Discrete(4), "observation_space"),
        (box(3), spaces.Discrete(5), "action_space"),
        (box(3), spaces.Discrete(4, start=1), "action_space"),
        (box(3), box(1), "action_space"),
    ],
)
def test_other_spaces_are_refused_and_both_named(observation_space, action_space, kind):
    with pytest.raises(DataError, match=rf"{kind} of the log = .* differs from that of X-v0 after its wrappers"):
        check_spaces(transitions(observation_space, action_space), box(3), spaces.Discrete(4), "X-v0")
