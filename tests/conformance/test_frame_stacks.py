"""Stacks of frames in every layout read back bit for bit as from SB3's buffers, and are stored once."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecTransposeImage
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from sb3_webscale import (
    MixedReplayBuffer,
    ShardedReplayBuffer,
    WebscaleDictReplayBuffer,
    WebscaleHerReplayBuffer,
    WebscaleReplayBuffer,
)

from .random_steps import RandomSteps
from .same_bits import assert_same_bits, assert_same_draws
from .sampled_spaces import ACTION_SPACES
from .stacked_frames import KINDS, N_FRAMES, StackKind

ACTIONS = ACTION_SPACES["discrete"]

frames = st.lists(st.integers(0, 5), min_size=N_FRAMES, max_size=N_FRAMES)
changes = st.fixed_dictionaries(
    {
        "moved": st.sampled_from([1, 1, 1, 1, 0, 2, 4]),  # frames by which the stack moves on
        "new": frames,
        # What follows: the same episode, its end, a time limit, or a jump within it.
        "ending": st.sampled_from(["", "", "", "", "terminated", "truncated", "jump"]),
        "restart": st.sampled_from(["blank", "repeated", "anything"]),
    }
)


class Stacks:
    """The stacks of several environments, as numbers of their frames."""

    def __init__(self, n_envs: int) -> None:
        self.now = [[0, 0, 0, env] for env in range(n_envs)]

    def step(self, changes_of_envs: list[dict[str, Any]]) -> tuple[list[list[int]], list[list[int]]]:
        """(stacks before, stacks after); restarts those whose episode ended."""
        before = self.now
        after = [
            stack[change["moved"] :] + change["new"][: change["moved"]]
            for stack, change in zip_(before, changes_of_envs)
        ]
        self.now = [_following(stack, change) for stack, change in zip_(after, changes_of_envs)]
        return before, after


def _following(stack: list[int], change: dict[str, Any]) -> list[int]:
    if change["ending"] == "":
        return stack
    first = change["new"][0]
    starts = {"blank": [0, 0, 0, first], "repeated": [first] * N_FRAMES, "anything": change["new"]}
    return starts[change["restart"]]


zip_ = partial(zip, strict=True)


def outcome(changes_of_envs: list[dict[str, Any]], step: int) -> tuple[Any, ...]:
    """Actions, rewards, dones and infos."""
    endings = [change["ending"] for change in changes_of_envs]
    done = np.array([ending in ("terminated", "truncated") for ending in endings])
    infos = [{"TimeLimit.truncated": True} if ending == "truncated" else {} for ending in endings]
    numbers = np.arange(len(endings)) + step
    return numbers % 4, numbers.astype(np.float32), done, infos


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(list(KINDS.values())),
    slots=st.integers(1, 7),
    n_steps=st.sampled_from([1, 3]),
    steps=st.integers(1, 4).flatmap(
        lambda n_envs: st.lists(st.lists(changes, min_size=n_envs, max_size=n_envs), min_size=1, max_size=25)
    ),
)
def test_stacks_are_those_of_a_plain_model(kind: StackKind, slots: int, n_steps: int, steps: Any) -> None:
    n_envs = len(steps[0])
    arguments = (slots * n_envs, kind.space, ACTIONS, "cpu", n_envs)
    ours = WebscaleReplayBuffer(*arguments, n_steps=n_steps, frame_stack=kind.frame_stack)
    theirs = ReplayBuffer(*arguments) if n_steps == 1 else NStepReplayBuffer(*arguments, n_steps=n_steps, gamma=0.99)
    model = np.zeros((2, slots, n_envs, *kind.shape), kind.dtype)
    stacks = Stacks(n_envs)
    for step, changes_of_envs in enumerate(steps):
        before, after = map(kind.stacks, stacks.step(changes_of_envs))
        for buffer in (ours, theirs):
            buffer.add(before.copy(), after.copy(), *outcome(changes_of_envs, step))
        model[:, step % slots] = before, after
    assert_same_bits(np.asarray(ours.observations), model[0], "observations")
    assert_same_bits(np.asarray(ours.next_observations), model[1], "next_observations")
    assert_same_draws(ours, theirs)


DICT_KINDS = {"grey": KINDS["grey, channels last"], "rgb": KINDS["RGB, channels last"], "state": KINDS["vector"]}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    slots=st.integers(1, 7),
    frame_stack=st.sampled_from([4, {"state": 4}, {"state": (4, 0), "grey": 1}, None]),
    steps=st.integers(1, 4).flatmap(
        lambda n_envs: st.lists(st.lists(changes, min_size=n_envs, max_size=n_envs), min_size=1, max_size=25)
    ),
)
def test_stacks_of_several_kinds(slots: int, frame_stack: Any, steps: Any) -> None:
    n_envs = len(steps[0])
    space = spaces.Dict({key: kind.space for key, kind in DICT_KINDS.items()})
    arguments = (slots * n_envs, space, ACTIONS, "cpu", n_envs)
    ours, theirs = WebscaleDictReplayBuffer(*arguments, frame_stack=frame_stack), DictReplayBuffer(*arguments)
    stacks = Stacks(n_envs)
    for step, changes_of_envs in enumerate(steps):
        before, after = stacks.step(changes_of_envs)
        for buffer in (ours, theirs):
            rows = [{key: kind.stacks(numbers) for key, kind in DICT_KINDS.items()} for numbers in (before, after)]
            buffer.add(*rows, *outcome(changes_of_envs, step))
    for name in ("observations", "next_observations"):
        for key in DICT_KINDS:
            assert_same_bits(np.asarray(getattr(ours, name)[key]), getattr(theirs, name)[key], f"{name}[{key}]")
    assert_same_draws(ours, theirs)


class Noise(gym.Env[np.ndarray, Any]):
    """Observations of any space, episodes of random lengths that end both ways."""

    def __init__(self, space: spaces.Box, seed: int) -> None:
        self.observation_space = space
        self.action_space = ACTIONS
        self._random = np.random.default_rng(seed)

    def _observation(self) -> np.ndarray:
        values = self._random.integers(0, 256, self.observation_space.shape)
        return values.astype(self.observation_space.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        kind = self._random.random()
        return self._observation(), kind, kind < 0.02, kind > 0.98, {}


def played(env: Any, steps: int, *buffers: Any) -> None:
    """Plays and stores as SB3's algorithms do."""
    obs = env.reset().copy()
    for step in range(steps):
        actions = np.full(env.num_envs, step % 4)
        next_obs, reward, done, infos = env.step(actions)
        stored = next_obs.copy()
        for i in np.flatnonzero(done):
            stored[i] = infos[i]["terminal_observation"]
        for buffer in buffers:
            buffer.add(obs, stored, actions, reward, done, copy.deepcopy(infos))
        obs = next_obs.copy()


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize(
    ("frame_shape", "channels_order", "transposed", "frame_stack"),
    [
        ((12, 12, 1), "last", False, None),
        ((12, 12, 1), "last", True, None),
        ((1, 12, 12), "first", False, None),
        ((14, 14, 3), "last", False, None),
        ((14, 14, 3), "last", True, None),
        ((3, 14, 14), "first", False, None),
        ((50,), "last", False, 4),
        ((50,), "first", False, 4),
        ((10, 6), "last", False, 4),
        ((10, 6), "first", False, (4, 0)),
    ],
)
def test_stacks_of_vec_frame_stack(
    frame_shape: tuple[int, ...], channels_order: str, transposed: bool, frame_stack: Any, n_envs: int
) -> None:
    dtype: Any = np.uint8 if len(frame_shape) == 3 else np.float32
    space = spaces.Box(0, 255, frame_shape, dtype)
    env: Any = DummyVecEnv([partial(Noise, space, seed) for seed in range(n_envs)])
    env = VecFrameStack(env, 4, channels_order)
    if transposed:
        env = VecTransposeImage(env)
    slots = 200
    arguments = (slots * n_envs, env.observation_space, ACTIONS, "cpu", n_envs)
    ours, theirs = WebscaleReplayBuffer(*arguments, frame_stack=frame_stack), ReplayBuffer(*arguments)
    played(env, int(1.7 * slots), ours, theirs)
    for name in ("observations", "next_observations"):
        assert_same_bits(np.asarray(getattr(ours, name)), getattr(theirs, name), name)
    assert_same_draws(ours, theirs)
    frame_bytes = int(np.prod(frame_shape)) * np.dtype(dtype).itemsize
    colours = 3 if frame_shape[0] == 3 or (transposed and frame_shape[-1] == 3) else 1  # each channel is then a frame
    references = 2 * 4 * N_FRAMES * colours
    assert ours.nbytes / (slots * n_envs) < 1.4 * frame_bytes + references + 64


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_saved_stacks(kind: StackKind) -> None:
    buffer = WebscaleReplayBuffer(30, kind.space, ACTIONS, "cpu", 2, frame_stack=kind.frame_stack)
    steps = RandomSteps(kind.space, ACTIONS, 2)
    steps.fill(20, buffer)
    again = pickle.loads(pickle.dumps(buffer))
    assert_same_draws(again, buffer)
    steps.fill(20, buffer, again)
    assert_same_draws(again, buffer)


@pytest.mark.parametrize("shape", [(4, 12, 12), (12, 12, 4), (5,)], ids=str)
def test_stacks_saved_before_there_were_others_than_along_the_first_axis(shape: tuple[int, ...]) -> None:
    space = spaces.Box(0, 255, shape, np.uint8)
    buffer = WebscaleReplayBuffer(30, space, ACTIONS, frame_stack=None if shape[0] == 4 else 1)
    RandomSteps(space, ACTIONS, 1).fill(20, buffer)
    stacking = buffer._layouts[0].stacking
    del buffer._layouts[0].__dict__["stacking"]
    again = pickle.loads(pickle.dumps(buffer))
    assert again._layouts[0].stacking == stacking
    assert_same_draws(again, buffer)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_stacks_on_disk(kind: StackKind, tmp_path: Any) -> None:
    n_envs, slots = 2, 800
    space = spaces.Dict({"stack": kind.space, "other": spaces.Box(-1, 1, (5,), np.float32)})
    options: Any = {} if kind.frame_stack is None else {"frame_stack": {"stack": kind.frame_stack}}
    arguments = (slots * n_envs, space, ACTIONS, "cpu", n_envs)
    plain = WebscaleDictReplayBuffer(*arguments, **options)
    budget = plain._replay.nbytes + plain._replay.minimum_allowance
    RandomSteps(space, ACTIONS, n_envs).fill(int(1.2 * slots), plain)
    budget += (plain.nbytes - budget) // 2
    tiered = WebscaleDictReplayBuffer(*arguments, **options, memory_budget=budget, spill_dir=tmp_path)
    RandomSteps(space, ACTIONS, n_envs).fill(int(1.2 * slots), tiered)
    assert tiered.statistics()["cold_segments"] > 0
    for seed in range(3):
        assert_same_draws(tiered, plain, batch_size=300, seed=seed)
    assert_same_draws(pickle.loads(pickle.dumps(tiered)), plain)


def test_history_and_shards_have_the_same_stacks() -> None:
    kind = KINDS["vector"]
    mixed = MixedReplayBuffer(30, kind.space, ACTIONS, online_ratio=0.5, frame_stack=4)
    assert mixed._layouts[0].stacking.frames == mixed._options["frame_stack"] == 4
    sharded = ShardedReplayBuffer(300, kind.space, ACTIONS, n_envs=2, shards=2, frame_stack=4, prioritized=True)
    plain = WebscaleReplayBuffer(300, kind.space, ACTIONS, n_envs=2)
    RandomSteps(kind.space, ACTIONS, 2).fill(100, sharded, plain)
    assert sharded._layouts[0].stacking.frames == 4
    samples = sharded.sample(64)
    stored = {row.tobytes() for row in np.asarray(plain.observations)[:100].reshape(-1, *kind.shape)}
    assert all(row.tobytes() in stored for row in samples.observations.numpy())


def test_hindsight_replay_of_stacks() -> None:
    env = DummyVecEnv([partial(BitFlippingEnv, n_bits=64, continuous=True, max_steps=4)])
    arguments = (40, env.observation_space, env.action_space, env, "cpu")
    ours = WebscaleHerReplayBuffer(*arguments, frame_stack={"observation": 2})  # type: ignore[arg-type]
    theirs = HerReplayBuffer(*arguments)  # type: ignore[arg-type]
    assert [layout.stacking.frames for layout in ours._layouts] == [1, 1, 2]
    steps = RandomSteps(env.observation_space, env.action_space, 1)
    steps.fill(60, ours, theirs)
    assert_same_draws(ours, theirs)
