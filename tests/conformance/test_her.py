"""Hindsight replay keeps episodes apart: over wrap-around, several environments, saving and loading."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from sb3_webscale import PriorityFeedback, WebscaleHerReplayBuffer
from sb3_webscale.errors import InvalidInputError
from sb3_webscale.testing.counting_env import GOAL_REWARD_SCALE, CountingEnv, CountingStream, CountingWorld

from .tiny_models import tiny_model

WORLD = CountingWorld("goal", lengths=(7, 3, 5), endings=("terminated", "truncated"))
BITS = 7


def counting_envs(n_envs: int, kind: type[VecEnv] = DummyVecEnv) -> VecEnv:
    return kind([partial(CountingEnv, WORLD, env) for env in range(n_envs)])  # type: ignore[call-arg]


def her_buffer(n_envs: int, slots: int = 30, env: VecEnv | None = None, **options: Any) -> Any:
    env = env if env is not None else counting_envs(n_envs)
    arguments = (slots * n_envs, WORLD.observation_space, WORLD.action_space, env, "cpu", n_envs)
    return WebscaleHerReplayBuffer(*arguments, **options)


def check_rows(samples: Any, strategy: str, relabelled: int) -> None:
    """Real rows are the environment's own; relabelled ones have a goal of the same episode, and the reward for it."""
    observed, following = (
        {k: v.numpy() for k, v in part.items()} for part in (samples.observations, samples.next_observations)
    )
    codes = WORLD.code.decode(observed)
    wanted = WORLD.expected(codes)
    goals = observed["desired_goal"].astype(np.int64)
    np.testing.assert_array_equal(goals[:, :2], codes[:, :2])
    np.testing.assert_array_equal(following["desired_goal"], observed["desired_goal"])
    for key in ("observation", "achieved_goal"):
        np.testing.assert_array_equal(observed[key], WORLD.code.encode(codes)[key])
        np.testing.assert_array_equal(following[key], wanted.next_observations[key])
    np.testing.assert_array_equal(samples.actions.numpy(), wanted.actions)
    np.testing.assert_array_equal(samples.dones.numpy(), wanted.dones)
    np.testing.assert_array_equal(samples.rewards.numpy().ravel(), codes[:, 2] + GOAL_REWARD_SCALE * goals[:, 2])
    virtual = goals[:, 2] > 0
    assert virtual.sum() == relabelled
    lengths = np.array([WORLD.length(env, episode) for env, episode, _ in codes.tolist()])
    first = {"future": codes[:, 2] + 1, "final": lengths, "episode": np.ones_like(lengths)}[strategy]
    assert (goals[virtual, 2] >= first[virtual]).all()
    assert (goals[virtual, 2] <= lengths[virtual]).all()


def finished_rows(n_steps: int, slots: int, env: int) -> set[tuple[int, int]]:
    """(episode, step) of the finished episodes of which nothing has been overwritten, by replaying the counting."""
    episodes: list[list[tuple[int, int, int]]] = [[]]
    episode = step = 0
    for t in range(n_steps):
        episodes[-1].append((t, episode, step))
        step += 1
        if step == WORLD.length(env, episode):
            episode, step = episode + 1, 0
            episodes.append([])
    whole = [rows for rows in episodes[:-1] if rows[0][0] >= n_steps - slots]
    return {(episode, step) for rows in whole for _, episode, step in rows}


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_every_row_and_no_other(strategy: str, n_envs: int, prioritized: bool) -> None:
    buffer = her_buffer(n_envs, goal_selection_strategy=strategy, prioritized=prioritized)
    stream = CountingStream(WORLD, n_envs)
    for n_steps in range(1, 75):
        stream.fill(buffer, 1)
        wanted = {(env, *row) for env in range(n_envs) for row in finished_rows(n_steps, 30, env)}
        if not wanted:
            with pytest.raises(RuntimeError, match="before the end of the first episode"):
                buffer.sample(4)
            continue
        samples = buffer.sample(20 * len(wanted) + 50)
        check_rows(samples, strategy, int(0.8 * len(samples.rewards)))
        seen = WORLD.code.decode({"observation": samples.observations["observation"].numpy()})
        assert {tuple(code) for code in seen.tolist()} == wanted


def test_ids_belong_to_their_rows() -> None:
    for prioritized in (False, True):
        buffer = her_buffer(3, slots=100, prioritized=prioritized)
        CountingStream(WORLD, 3).fill(buffer, 40)
        starts = {env: np.cumsum([0, *(WORLD.length(env, episode) for episode in range(15))]) for env in range(3)}
        samples = buffer.sample(200)
        codes = WORLD.code.decode({"observation": samples.observations["observation"].numpy()})
        wanted = [(starts[env][episode] + step) * 3 + env for env, episode, step in codes.tolist()]
        np.testing.assert_array_equal(samples.indices.numpy(), wanted)


def test_weights_belong_to_their_rows() -> None:
    buffer = her_buffer(3, slots=100, prioritized=True, beta_start=1.0, alpha=1.0)
    CountingStream(WORLD, 3).fill(buffer, 40)
    ids = np.unique(buffer.sample(2000).indices.numpy())
    buffer.update_priorities(ids, np.random.default_rng(0).exponential(size=len(ids)))
    samples = buffer.sample(64)
    priorities = buffer.priorities(samples.indices)
    np.testing.assert_allclose(samples.weights.numpy().ravel(), priorities.min() / priorities, rtol=1e-6)
    np.testing.assert_array_equal(buffer.last_batch.ids, samples.indices.numpy())
    np.testing.assert_array_equal(buffer.last_batch.weights.numpy(), samples.weights.numpy())


def test_subclass_of_sb3s_buffer() -> None:
    buffer = her_buffer(1)
    assert isinstance(buffer, HerReplayBuffer)


def test_rewards_from_other_processes() -> None:
    env = counting_envs(2, SubprocVecEnv)
    try:
        buffer = her_buffer(2, env=env)
        CountingStream(WORLD, 2).fill(buffer, 40)
        check_rows(buffer.sample(200), "future", 160)
    finally:
        env.close()


class InfoEnv(CountingEnv):
    """A reward that only the info of the step can give."""

    def __init__(self) -> None:
        super().__init__(WORLD)

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> np.ndarray:
        return np.array([entry["bonus"] for entry in info], dtype=np.float32)


def test_infos_reach_the_reward_when_kept() -> None:
    buffer = her_buffer(1, env=DummyVecEnv([InfoEnv]), copy_info_dict=True, n_sampled_goal=10**9)
    stream = CountingStream(WORLD)
    for t in range(40):
        step = stream.step()
        buffer.add(*step._replace(infos=[{**info, "bonus": 1000 + t} for info in step.infos]))
    samples = buffer.sample(100)
    np.testing.assert_array_equal(samples.rewards.numpy().ravel()[1:], 1000 + samples.indices.numpy()[1:])


def bit_flipping_model(n_envs: int, prioritized: bool, **options: Any) -> Any:
    env = DummyVecEnv([partial(BitFlippingEnv, n_bits=BITS, continuous=True)] * n_envs)
    options = {"train_freq": 3, **options}
    return tiny_model(
        "SAC",
        env=env,
        policy="MultiInputPolicy",
        replay_buffer_class=WebscaleHerReplayBuffer,
        replay_buffer_kwargs={"prioritized": prioritized},
        buffer_size=100,
        **options,
    )


def feedback(prioritized: bool) -> PriorityFeedback | None:
    return PriorityFeedback() if prioritized else None


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_no_episode_is_glued_to_another_after_loading(
    n_envs: int, truncate: bool, prioritized: bool, tmp_path: Path
) -> None:
    model = bit_flipping_model(n_envs, prioritized)
    model.learn(135, callback=feedback(prioritized))
    model.save_replay_buffer(tmp_path / "buffer")
    if truncate and (model.replay_buffer._current_ep_start != model.replay_buffer.pos).any():
        with pytest.warns(UserWarning, match="last trajectory"):
            model.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=True)
    else:
        model.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=truncate)
    model.learn(50 * n_envs, callback=feedback(prioritized), reset_num_timesteps=truncate)
    buffer = model.replay_buffer
    assert 0 < buffer.ep_length.max() <= BITS
    for env in range(n_envs):
        for slot in np.flatnonzero(buffer.ep_length[:, env]):
            start, length = buffer.ep_start[slot, env], buffer.ep_length[slot, env]
            slots = np.arange(start, start + length) % buffer.buffer_size
            assert slot in slots
            assert buffer.dones[slots[-1], env] == 1
            assert not buffer.dones[slots[:-1], env].any()


def test_learning_starts_before_the_first_episode_has_ended() -> None:
    model = bit_flipping_model(1, False, learning_starts=2)
    with pytest.raises(RuntimeError, match="learning_starts"):
        model.learn(10)


def test_n_step_returns_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="n_steps is 3"):
        her_buffer(1, n_steps=3)


def test_distinct_rows_are_refused() -> None:
    buffer = her_buffer(1)
    CountingStream(WORLD).fill(buffer, 20)
    with pytest.raises(InvalidInputError, match="replace=False"):
        buffer.sample(3, replace=False)
