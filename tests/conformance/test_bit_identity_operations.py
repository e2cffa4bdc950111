"""Whatever a script does with a buffer, in whatever order, ours and SB3's stay bit for bit the same."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer

from sb3_webscale import WebscaleDictReplayBuffer, WebscaleReplayBuffer

from .random_steps import RandomSteps
from .same_bits import assert_same_bits, assert_same_draws
from .sampled_spaces import ACTION_SPACES, DICT_SPACE, FLAT_SPACES

ACTIONS = ACTION_SPACES["multi-discrete"]


class SameAsSB3(RuleBasedStateMachine):
    @initialize(
        kind=st.sampled_from(["float32", "image", "discrete", "dict", "n-step"]),
        slots=st.integers(1, 9),
        n_envs=st.integers(1, 3),
        seed=st.integers(0, 1000),
        breaks=st.sampled_from([0.0, 0.3]),
    )
    def build(self, kind: str, slots: int, n_envs: int, seed: int, breaks: float) -> None:
        space: Any = DICT_SPACE if kind == "dict" else FLAT_SPACES["float32" if kind == "n-step" else kind]
        arguments = (slots * n_envs, space, ACTIONS, "cpu", n_envs)
        options = {"n_steps": 3, "gamma": 0.9} if kind == "n-step" else {}
        self.theirs: Any = {"dict": DictReplayBuffer, "n-step": NStepReplayBuffer}.get(kind, ReplayBuffer)(
            *arguments, **options
        )
        ours = WebscaleDictReplayBuffer if kind == "dict" else WebscaleReplayBuffer
        self.ours: Any = ours(*arguments, **options)
        self.steps = RandomSteps(space, ACTIONS, n_envs, seed, end_probability=0.3, break_probability=breaks)

    @rule(n_steps=st.integers(1, 12))
    def add(self, n_steps: int) -> None:
        self.steps.fill(n_steps, self.ours, self.theirs)

    @precondition(lambda self: self.theirs.size() > 0)
    @rule(batch_size=st.integers(1, 40), seed=st.integers(0, 1000))
    def sample(self, batch_size: int, seed: int) -> None:
        assert_same_draws(self.ours, self.theirs, batch_size, seed=seed)

    @rule(
        name=st.sampled_from(["dones", "timeouts", "rewards"]), slot=st.integers(-9, 8), value=st.sampled_from([0, 1])
    )
    def write(self, name: str, slot: int, value: int) -> None:
        slot %= self.theirs.buffer_size
        for buffer in (self.ours, self.theirs):
            getattr(buffer, name)[slot] = value

    @rule()
    def reset(self) -> None:
        for buffer in (self.ours, self.theirs):
            buffer.reset()

    @rule()
    def pickle(self) -> None:
        self.ours = pickle.loads(pickle.dumps(self.ours))

    @rule()
    def copy(self) -> None:
        self.ours = copy.deepcopy(self.ours)

    @rule()
    def look(self) -> None:
        stored = self.theirs.size()
        assert (self.ours.pos, self.ours.full, self.ours.size()) == (self.theirs.pos, self.theirs.full, stored)
        for name in ("rewards", "dones", "timeouts", "actions"):
            assert_same_bits(getattr(self.ours, name)[:stored], getattr(self.theirs, name)[:stored], name)
        for name in ("observations", "next_observations"):
            ours, theirs = getattr(self.ours, name), getattr(self.theirs, name)
            if not isinstance(theirs, dict):
                ours, theirs = {name: ours}, {name: theirs}
            for key in theirs:
                assert_same_bits(np.asarray(ours[key][:stored]), theirs[key][:stored], key)


TestSameAsSB3 = SameAsSB3.TestCase
TestSameAsSB3.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
