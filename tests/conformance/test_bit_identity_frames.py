"""Stacks whose frames coincide by design or by accident are stored once, and still read back bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.buffers import ReplayBuffer

from sb3_webscale import WebscaleReplayBuffer

from .same_bits import assert_same_bits, assert_same_draws
from .sampled_spaces import ACTION_SPACES

N_FRAMES = 4
SPACE = spaces.Box(0, 255, (N_FRAMES, 8, 8), np.uint8)
ACTIONS = ACTION_SPACES["discrete"]


def painted(colours: list[int]) -> np.ndarray:
    return np.repeat(np.array(colours, dtype=np.uint8), 64).reshape(1, N_FRAMES, 8, 8)


frames = st.integers(0, 2)
stacks = st.lists(frames, min_size=N_FRAMES, max_size=N_FRAMES)
# How an observation follows another: moved on by some frames, changed in one place, or anything.
changes = st.one_of(
    st.tuples(st.just("move"), st.integers(0, N_FRAMES), st.lists(frames, min_size=N_FRAMES, max_size=N_FRAMES)),
    st.tuples(st.just("paint"), st.integers(0, N_FRAMES - 1), frames),
    st.tuples(st.just("replace"), stacks, st.none()),
)


def changed(stack: list[int], change: tuple[str, Any, Any]) -> list[int]:
    kind, where, what = change
    if kind == "move":
        return stack[where:] + what[:where]
    if kind == "paint":
        return [*stack[:where], what, *stack[where + 1 :]]
    return list(where)


@settings(max_examples=150, deadline=None)
@given(
    slots=st.integers(1, 6),
    first=stacks,
    steps=st.lists(st.tuples(changes, changes, st.sampled_from([0, 0, 0, 1, 2])), min_size=1, max_size=30),
)
def test_stacks_of_few_colours(slots: int, first: list[int], steps: list[tuple[Any, Any, int]]) -> None:
    """``ending`` is 0 to go on, 1 to end the episode, 2 to jump though the episode goes on."""
    ours, theirs = (cls(slots, SPACE, ACTIONS, "cpu") for cls in (WebscaleReplayBuffer, ReplayBuffer))
    stack = first
    for change, restart, ending in steps:
        following = changed(stack, change)
        for buffer in (ours, theirs):
            done = np.array([ending == 1])
            buffer.add(painted(stack), painted(following), np.array([0]), np.zeros(1), done, [{}])
        stack = changed(following, restart) if ending else following
    for name in ("observations", "next_observations"):
        assert_same_bits(np.asarray(getattr(ours, name)), getattr(theirs, name), name)
    assert_same_draws(ours, theirs)
