from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_webscale import MixedReplayBuffer, PriorityFeedback, WebscaleReplayBuffer
from sb3_webscale.data.transitions import ConversionReport, Transitions
from sb3_webscale.errors import BufferStateError, ConfigError, DataError, InvalidInputError

OBSERVATIONS = spaces.Box(-1e6, 1e6, (3,), np.float32)
ACTIONS = spaces.Discrete(4)
# History observations are negative, online ones positive, so that each sampled row tells where it comes from.


def history(n: int = 50, **changes: Any) -> Transitions:
    steps = np.arange(1, n + 1, dtype=np.float32)
    ends = np.arange(1, n + 1) % 5 == 0
    fields: dict[str, Any] = {
        "observations": np.repeat(-steps[:, None], 3, axis=1),
        "next_observations": np.repeat(-steps[:, None] - 1, 3, axis=1),
        "actions": np.arange(n) % 4,
        "rewards": -steps,
        "terminated": ends & (np.arange(n) % 2 == 0),
        "truncated": ends & (np.arange(n) % 2 == 1),
        "episode_ids": np.arange(n) // 5,
        "propensities": None,
        "observation_space": OBSERVATIONS,
        "action_space": ACTIONS,
        "report": ConversionReport(n, n // 5, n, 0, 0, 0),
    }
    return Transitions(**(fields | changes))


def mixed(**options: Any) -> MixedReplayBuffer:
    return MixedReplayBuffer(20, OBSERVATIONS, ACTIONS, device="cpu", **options)


def add_online(buffer: WebscaleReplayBuffer, steps: int) -> None:
    for step in range(1, steps + 1):
        obs = np.full((1, 3), step, np.float32)
        buffer.add(obs, obs + 1, np.array([1]), np.array([float(step)]), np.array([False]), [{}])


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize(("ratio", "online"), [(0.0, 0), (0.3, 19), (0.5, 32), (1.0, 64)])
def test_each_batch_holds_the_exact_share(prioritized: bool, ratio: float, online: int) -> None:
    buffer = mixed(online_ratio=ratio, prioritized=prioritized, seed=1)
    buffer.load_history(history())
    add_online(buffer, 30)
    for _ in range(5):
        batch = buffer.sample(64)
        assert len(batch.observations) == 64
        assert int((batch.observations[:, 0] > 0).sum()) == online


def test_the_share_follows_training() -> None:
    buffer = mixed(total_timesteps=100)
    buffer.load_history(history())
    shares = []
    for _ in range(10):
        add_online(buffer, 10)
        shares.append(int((buffer.sample(100).observations[:, 0] > 0).sum()))
    assert shares == [round(100 * (0.3 + 0.7 * step / 100)) for step in range(10, 101, 10)]


def test_before_anything_is_online_a_batch_is_all_history() -> None:
    buffer = mixed(online_ratio=0.9)
    buffer.load_history(history())
    assert bool((buffer.sample(32).observations < 0).all())


def test_history_is_never_overwritten() -> None:
    buffer = mixed(online_ratio=0.5)
    buffer.load_history(history())
    add_online(buffer, 500)
    seen = {float(value) for _ in range(200) for value in buffer.sample(64).rewards[:, 0] if value < 0}
    assert seen == set(-np.arange(1.0, 51.0))


def test_rows_of_history_are_whole_and_only_terminal_ones_stop_the_bootstrap() -> None:
    past = history()
    buffer = mixed(online_ratio=0.0)
    buffer.load_history(past)
    batch = buffer.sample(500)
    rows = (-batch.rewards[:, 0]).long().numpy() - 1
    assert np.array_equal(batch.observations.numpy(), past.observations[rows])
    assert np.array_equal(batch.next_observations.numpy(), past.next_observations[rows])
    assert np.array_equal(batch.actions[:, 0].numpy(), past.actions[rows])
    assert np.array_equal(batch.dones[:, 0].numpy(), past.terminated[rows].astype(np.float32))


def test_feedback_finds_both_parts() -> None:
    buffer = mixed(online_ratio=0.5, prioritized=True, alpha=1.0, seed=1)
    buffer.load_history(history())
    add_online(buffer, 20)
    batch = buffer.sample(32)
    td_errors = batch.rewards[:, 0].abs()
    assert buffer.update_priorities(batch.indices, td_errors) == 32
    np.testing.assert_allclose(buffer.priorities(batch.indices), td_errors.double().numpy() + 1e-6)


def test_bad_feedback_changes_neither_part() -> None:
    buffer = mixed(online_ratio=0.5, prioritized=True, seed=1)
    buffer.load_history(history())
    add_online(buffer, 20)
    ids = buffer.sample(32).indices
    before = buffer.priorities(ids)
    for bad in (np.nan, np.inf, -1.0):
        for place in (0, 31):
            td_errors = np.ones(32)
            td_errors[place] = bad
            with pytest.raises(InvalidInputError, match=rf"td_errors\[{place}\]"):
                buffer.update_priorities(ids, td_errors)
    np.testing.assert_array_equal(buffer.priorities(ids), before)


def test_without_history_it_is_the_plain_buffer() -> None:
    plain = WebscaleReplayBuffer(20, OBSERVATIONS, ACTIONS, device="cpu")
    buffer = mixed()
    for each in (plain, buffer):
        add_online(each, 30)
    np.random.seed(5)
    expected = plain.sample(64)
    np.random.seed(5)
    found = buffer.sample(64)
    assert all(a is b or th.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_a_pickle_keeps_the_history_and_its_draws() -> None:
    buffer = mixed(online_ratio=0.4, prioritized=True, seed=3)
    buffer.load_history(history())
    add_online(buffer, 12)
    restored = pickle.loads(pickle.dumps(buffer))
    for _ in range(20):
        assert th.equal(buffer.sample(16).indices, restored.sample(16).indices)


def test_continuous_actions_are_scaled_as_sb3_stores_them() -> None:
    space = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
    actions = np.array([[-2.0, 10.0], [0.0, 5.0], [1.0, 0.0]], np.float32)
    past = history(3, actions=actions, action_space=space)
    buffer = MixedReplayBuffer(20, OBSERVATIONS, space, device="cpu", online_ratio=0.5)
    buffer.load_history(past)
    assert buffer.history is not None
    np.testing.assert_allclose(buffer.history.actions[:, 0], [[-1, 1], [0, 0], [0.5, -1]])
    outside = history(3, actions=actions * 3, action_space=space)
    with pytest.raises(DataError, match=r"action 0 of the history is \[-6. 30.\], outside"):
        buffer.load_history(outside)


def test_history_that_does_not_fit_is_refused() -> None:
    buffer = mixed()
    with pytest.raises(DataError, match="no transitions"):
        buffer.load_history(history(0))
    other = spaces.Box(-1, 1, (4,), np.float32)
    with pytest.raises(DataError, match="observation_space of the history"):
        buffer.load_history(history(observation_space=other, observations=np.zeros((50, 4), np.float32)))
    with pytest.raises(DataError, match="action_space of the history"):
        buffer.load_history(history(action_space=spaces.MultiBinary(4)))


@pytest.mark.parametrize("action", [-1, 4])
def test_discrete_actions_outside_the_space_are_refused(action: int) -> None:
    actions = np.zeros(50, np.int64)
    actions[7] = action
    with pytest.raises(DataError, match=f"action 7 of the history is {action}, outside Discrete"):
        mixed(online_ratio=0.5).load_history(history(actions=actions))


def test_episodes_whose_end_is_not_marked_are_refused() -> None:
    unmarked = np.zeros(50, bool)
    with pytest.raises(DataError, match="episode 0 of the history ends at transition 4"):
        mixed(online_ratio=0.5).load_history(history(terminated=unmarked, truncated=unmarked))


def test_a_uniform_buffer_must_be_told_how_long_training_is() -> None:
    with pytest.raises(ConfigError, match="total_timesteps"):
        mixed().load_history(history())


def test_time_limits_of_history_follow_the_buffers_setting() -> None:
    buffer = MixedReplayBuffer(
        20, OBSERVATIONS, ACTIONS, device="cpu", handle_timeout_termination=False, online_ratio=0.0
    )
    past = history()
    buffer.load_history(past)
    batch = buffer.sample(500)
    rows = (-batch.rewards[:, 0]).long().numpy() - 1
    assert np.array_equal(batch.dones[:, 0].numpy(), (past.terminated | past.truncated)[rows].astype(np.float32))


def test_batches_of_history_alone_get_feedback() -> None:
    model = DQN(
        "MlpPolicy", DummyVecEnv([Walk()]), learning_starts=0, batch_size=16, buffer_size=100, seed=0, device="cpu",
        replay_buffer_class=MixedReplayBuffer, policy_kwargs={"net_arch": [8]},
        replay_buffer_kwargs={"prioritized": True, "online_ratio": 0.0},
    )  # fmt: skip
    buffer = model.replay_buffer
    assert isinstance(buffer, MixedReplayBuffer)
    buffer.load_history(history())
    model.learn(4)
    before = buffer.priorities(buffer.sample(64).indices)
    with PriorityFeedback.attached(model):
        model.train(gradient_steps=5, batch_size=64)
    assert before.std() == 0
    assert buffer.priorities(buffer.sample(64).indices).std() > 0


def test_ids_of_a_history_that_is_not_loaded_are_refused() -> None:
    full = mixed(online_ratio=0.5, prioritized=True, seed=1)
    full.load_history(history())
    ids = full.sample(8).indices
    empty = mixed(prioritized=True, seed=1)
    add_online(empty, 5)
    with pytest.raises(BufferStateError, match="8 ids belong to a history"):
        empty.update_priorities(ids, np.ones(8))


def test_statistics_tell_the_share_and_both_parts() -> None:
    buffer = mixed(total_timesteps=100)
    buffer.load_history(history())
    add_online(buffer, 50)
    numbers = buffer.statistics()
    assert numbers["online_share"] == pytest.approx(0.65)
    assert numbers["transitions"] == 20
    assert numbers["history/transitions"] == 50


class Walk:
    """Makes a tiny environment whose observations fit the history."""

    def __call__(self) -> Any:
        import gymnasium as gym

        class Env(gym.Env[Any, Any]):
            observation_space = OBSERVATIONS
            action_space = ACTIONS

            def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
                super().reset(seed=seed)
                self.step_count = 0
                return np.ones(3, np.float32), {}

            def step(self, action: Any) -> Any:
                self.step_count += 1
                return np.full(3, self.step_count, np.float32), float(action), self.step_count >= 7, False, {}

        return Env()


def test_dqn_trains_on_the_mixture_with_feedback() -> None:
    options = {"prioritized": True, "total_timesteps": 200}
    model = DQN(
        "MlpPolicy", DummyVecEnv([Walk()]), learning_starts=10, train_freq=1, batch_size=16, buffer_size=100, seed=0,
        replay_buffer_class=MixedReplayBuffer, replay_buffer_kwargs=options, policy_kwargs={"net_arch": [8]},
        device="cpu",
    )  # fmt: skip
    buffer = model.replay_buffer
    assert isinstance(buffer, MixedReplayBuffer)
    buffer.load_history(history())
    assert buffer.history is not None
    before = buffer.history.statistics()["max_priority"]
    model.learn(200, callback=PriorityFeedback())
    assert buffer.history.statistics()["max_priority"] != before
    assert buffer.history.beta == buffer.beta == pytest.approx(1.0)


def test_marks_and_temperature_reach_both_parts() -> None:
    buffer = mixed(online_ratio=0.5, prioritized=True, seed=1, temperature=0.2, warmup_fraction=0.1)
    add_online(buffer, 20)
    buffer.set_progress(0.5)
    buffer.set_temperature(0.75)
    buffer.load_history(history())
    numbers = buffer.statistics()
    for part in ("", "history/"):
        assert (numbers[f"{part}temperature"], numbers[f"{part}alpha"]) == (0.75, 0.6)
    ids = buffer.sample(32).indices
    before = buffer.priorities(ids)
    assert buffer.mark_for_replay(ids, 3.0) == 32
    np.testing.assert_allclose(buffer.priorities(ids), 3 * before)
    buffer.set_temperature(1.0)
    assert bool((buffer.sample(32).weights == 1).all())
    assert buffer.recent(3).tolist() == [17, 18, 19]


def test_marks_of_a_history_that_is_not_loaded_are_refused() -> None:
    full = mixed(online_ratio=0.5, prioritized=True, seed=1)
    full.load_history(history())
    ids = full.sample(8).indices
    empty = mixed(prioritized=True, seed=1)
    with pytest.raises(BufferStateError, match="8 ids belong to a history"):
        empty.mark_for_replay(ids)
