"""Environments repeat under their seed, in one process and in several, and the record finds the first difference."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sb3_webscale.errors import InvalidInputError, ReproductionError
from sb3_webscale.reproducibility.deterministic_env import DeterministicEnv, collect_records


class MakeCartPole:
    def __init__(self, seed):
        self.seed = seed

    def __call__(self):
        return DeterministicEnv(gym.make("CartPole-v1"), self.seed)


def play(vec_env_class, seeds, steps=60):
    """Several episodes with fixed actions: (records, observations)."""
    vec_env = vec_env_class([MakeCartPole(seed) for seed in seeds])
    rng = np.random.default_rng(0)
    observations = [vec_env.reset()]
    for _ in range(steps):
        observations.append(vec_env.step(rng.integers(2, size=len(seeds)))[0])
    records = collect_records(vec_env)
    vec_env.close()
    return records, np.stack(observations)


@pytest.mark.parametrize("n_envs", [1, 4])
def test_the_same_seeds_give_the_same_run_in_one_process_and_in_many(n_envs):
    seeds = range(10, 10 + n_envs)
    runs = [play(kind, seeds) for kind in (DummyVecEnv, DummyVecEnv, SubprocVecEnv)]
    for records, observations in runs[1:]:
        np.testing.assert_array_equal(observations, runs[0][1])
        for mine, other in zip(records, runs[0][0], strict=True):
            mine.verify(other)
            assert mine.digest == other.digest


def test_environments_and_episodes_differ_from_each_other():
    records, _ = play(DummyVecEnv, range(4))
    assert len({record.digest for record in records}) == 4
    env = MakeCartPole(0)()
    starts = [env.reset()[0].tobytes() for _ in range(5)]
    assert len(set(starts)) == 5


def test_only_the_first_reset_is_seeded():
    env = MakeCartPole(3)()
    env.reset()
    env.reset()
    assert env.environment_record().seeds == (3,)
    plain = gym.make("CartPole-v1")
    plain.reset(seed=3)
    np.testing.assert_array_equal(env.reset()[0], [plain.reset()[0], plain.reset()[0]][1])


def test_an_explicit_seed_is_respected_and_recorded():
    env = MakeCartPole(3)()
    first, _ = env.reset(seed=9)
    np.testing.assert_array_equal(first, gym.make("CartPole-v1").reset(seed=9)[0])
    env.reset()
    env.reset(seed=4)
    assert env.environment_record().seeds == (9, 4)


def test_spaces_are_seeded():
    one, two = MakeCartPole(1)(), MakeCartPole(1)()
    assert [one.action_space.sample() for _ in range(20)] == [two.action_space.sample() for _ in range(20)]
    np.testing.assert_array_equal(one.observation_space.sample(), two.observation_space.sample())


def test_the_first_difference_is_named():
    def record(actions):
        env = MakeCartPole(0)()
        env.reset()
        for action in actions:
            env.step(action)
        return env.environment_record()

    with pytest.raises(ReproductionError, match=r"environment 2: call 3 is the first that differs .*6 calls against 6"):
        record([0, 1, 0, 1, 0]).verify(record([0, 1, 1, 1, 0]), "environment 2")
    with pytest.raises(ReproductionError, match=r"call 2 is the first that differs .*2 calls against 3"):
        record([0]).verify(record([0, 1]))
    other = MakeCartPole(1)()
    other.reset()
    with pytest.raises(ReproductionError, match="seeds differ"):
        record([]).verify(other.environment_record())


def test_every_part_of_a_step_is_in_the_record():
    class Fixed(gym.Env):
        observation_space = gym.spaces.Dict({"a": gym.spaces.Box(0, 9, (1,)), "b": gym.spaces.Discrete(9)})
        action_space = gym.spaces.Discrete(9)

        def __init__(self, **changed):
            self.values = {"a": 0.0, "b": 0, "reward": 0.0, "terminated": False, "truncated": False} | changed

        def _observe(self):
            return {"b": self.values["b"], "a": np.array([self.values["a"]], np.float32)}

        def reset(self, *, seed=None, options=None):
            return {"b": 0, "a": np.zeros(1, np.float32)}, {}

        def step(self, action):
            return self._observe(), *(self.values[key] for key in ("reward", "terminated", "truncated")), {}

    def digest(action=0, **changed):
        env = DeterministicEnv(Fixed(**changed), 0)
        env.reset()
        env.step(action)
        return env.environment_record().digest

    changes = [{"a": 1.0}, {"b": 1}, {"reward": 1.0}, {"terminated": True}, {"truncated": True}, {"action": 1}]
    digests = [digest(), *(digest(**change) for change in changes)]
    assert len(set(digests)) == len(digests)
    assert digest() == digests[0]


def test_recording_can_be_left_out():
    env = DeterministicEnv(gym.make("CartPole-v1"), 0, record=False)
    env.reset()
    env.step(0)
    record = env.environment_record()
    assert (record.seeds, len(record.digests), record.digest) == ((0,), 0, "")


def test_an_environment_without_the_wrapper_is_named():
    vec_env = DummyVecEnv([lambda: gym.make("CartPole-v1")])
    with pytest.raises(InvalidInputError, match="without DeterministicEnv"):
        collect_records(vec_env)
