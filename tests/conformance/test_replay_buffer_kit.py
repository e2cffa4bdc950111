"""Our buffers, and SB3's own, pass the published kit; buffers with a typical mistake do not."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from sb3_webscale import MixedReplayBuffer, WebscaleDictReplayBuffer, WebscaleReplayBuffer
from sb3_webscale.testing.replay_buffer import ReplayBufferTestCase


class TestWebscaleReplayBuffer(ReplayBufferTestCase):
    @pytest.fixture
    def buffer_class(self) -> type[ReplayBuffer]:
        return WebscaleReplayBuffer


class TestWebscaleDictReplayBuffer(ReplayBufferTestCase):
    @pytest.fixture
    def buffer_class(self) -> type[ReplayBuffer]:
        return WebscaleDictReplayBuffer


class TestPrioritizedReplayBuffer(TestWebscaleReplayBuffer):
    buffer_options: ClassVar[dict[str, Any]] = {"prioritized": True}


class TestPrioritizedDictReplayBuffer(TestWebscaleDictReplayBuffer):
    buffer_options: ClassVar[dict[str, Any]] = {"prioritized": True}


class TestMixedReplayBufferWithoutHistory(ReplayBufferTestCase):
    @pytest.fixture
    def buffer_class(self) -> type[ReplayBuffer]:
        return MixedReplayBuffer


class TestReplayBufferOfSB3(ReplayBufferTestCase):
    @pytest.fixture
    def buffer_class(self) -> type[ReplayBuffer]:
        return ReplayBuffer


class TestDictReplayBufferOfSB3(ReplayBufferTestCase):
    @pytest.fixture
    def buffer_class(self) -> type[ReplayBuffer]:
        return DictReplayBuffer


class WrongNeighbour(ReplayBuffer):
    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> Any:
        kept, self.next_observations = self.next_observations, np.roll(self.observations, -1, axis=0)
        samples = super()._get_samples(batch_inds, env)
        self.next_observations = kept
        return samples


class NoTimeouts(ReplayBuffer):
    def add(self, *args: Any) -> None:
        super().add(*args)
        self.timeouts[:] = 0


class FewerRows(ReplayBuffer):
    def sample(self, batch_size: int, env: Any = None) -> Any:
        return super().sample(min(batch_size, self.size()), env)


class OneSlotTooMany(ReplayBuffer):
    def __init__(self, buffer_size: int, *args: Any, n_envs: int = 1, **kwargs: Any) -> None:
        super().__init__(buffer_size + n_envs, *args, n_envs=n_envs, **kwargs)


class FloatObservations(ReplayBuffer):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.observations = self.observations.astype(np.float32)


class NormalisedWhenAdded(ReplayBuffer):
    def sample(self, batch_size: int, env: Any = None) -> Any:
        return super().sample(batch_size)


class CopiedDones(ReplayBuffer):
    @property
    def dones(self) -> np.ndarray:
        return self._dones.copy()

    @dones.setter
    def dones(self, value: np.ndarray) -> None:
        self._dones = value

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        self._dones[self.pos] = done
        super().add(obs, next_obs, action, reward, done, infos)


class OwnRandomness(ReplayBuffer):
    def sample(self, batch_size: int, env: Any = None) -> Any:
        return self._get_samples(np.random.default_rng().integers(self.size(), size=batch_size), env)


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (WrongNeighbour, "test_rows_of_every_kind_of_observation"),
        (NoTimeouts, "test_time_limits_bootstrap_only_when_asked"),
        (FewerRows, "test_batch_has_as_many_rows_as_asked"),
        (OneSlotTooMany, "test_capacity_and_counters"),
        (OneSlotTooMany, "test_only_the_newest_transitions_are_left"),
        (FloatObservations, "test_rows_of_every_kind_of_observation"),
        (NormalisedWhenAdded, "test_normalisation_uses_the_statistics_of_the_moment"),
        (CopiedDones, "test_ends_written_from_outside_take_effect"),
        (OwnRandomness, "test_equal_seeds_give_equal_samples"),
    ],
)
def test_kit_finds_the_mistake(broken: type[ReplayBuffer], test: str) -> None:
    with pytest.raises(AssertionError):
        getattr(ReplayBufferTestCase(), test)(broken)
