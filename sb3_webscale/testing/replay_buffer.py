"""Conformance kit for replay buffers: the contract that Stable-Baselines3's algorithms rely on, as tests to inherit.

.. code-block:: python

    class TestMyBuffer(ReplayBufferTestCase):
        @pytest.fixture
        def buffer_class(self):
            return MyReplayBuffer
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_webscale.testing.counting_codes import OBSERVATION_KINDS
from sb3_webscale.testing.counting_env import CountingEnv, CountingStream, CountingWorld

__all__ = ["ReplayBufferTestCase"]

BufferClass = type[ReplayBuffer]

ACTION_SPACES: tuple[spaces.Space[Any], ...] = (
    spaces.Discrete(16),
    spaces.MultiDiscrete([4, 4]),
    spaces.MultiBinary(4),
    spaces.Box(-1, 1, (2, 3), np.float64),
)


class ReplayBufferTestCase:
    """Tests that any replay buffer for SB3's off-policy algorithms must pass.

    Subclass it in a test module and give it the fixture ``buffer_class``, a subclass of SB3's ``ReplayBuffer`` or
    ``DictReplayBuffer``. Every sampled row is checked on its own against what a counting environment says it must be.

    :cvar buffer_options: keyword arguments for the constructor, beyond SB3's
    """

    buffer_options: ClassVar[dict[str, Any]] = {}

    def make(self, buffer_class: BufferClass, world: CountingWorld, size: int, n_envs: int = 1, **options: Any) -> Any:
        """
        :param buffer_class: class under test
        :param world: gives the spaces
        :param size: capacity over all environments
        :param n_envs: number of environments
        :param options: further constructor arguments
        :return: the buffer, built as SB3's algorithms build it
        """
        arguments = (size, world.observation_space, world.action_space)
        return buffer_class(*arguments, device="cpu", n_envs=n_envs, **{**self.buffer_options, **options})

    def worlds(self, buffer_class: BufferClass, **rules: Any) -> Iterator[CountingWorld]:
        """
        :param buffer_class: class under test
        :param rules: arguments of :class:`CountingWorld`
        :return: one world for each kind of observation that the class is for
        """
        takes_dict = issubclass(buffer_class, DictReplayBuffer)
        for kind in OBSERVATION_KINDS:
            if (kind in ("dict", "goal")) == takes_dict:
                yield CountingWorld(kind, **rules)

    def world(self, buffer_class: BufferClass, **rules: Any) -> CountingWorld:
        """One world that the class is for; arguments as :meth:`worlds`."""
        return CountingWorld("dict" if issubclass(buffer_class, DictReplayBuffer) else "float32", **rules)

    def check_all(self, buffer: Any, world: CountingWorld, *, timeouts_bootstrap: bool = True) -> npt.NDArray[np.int64]:
        """Samples until every stored transition has very probably been seen, and checks every row.

        :param buffer: a buffer filled from ``world``
        :param world: the world
        :param timeouts_bootstrap: as :meth:`CountingWorld.expected`
        :return: int64 (n, 3), environment, episode and step of each distinct row
        """
        rows = buffer.size() * buffer.n_envs
        samples = buffer.sample(20 * rows + 50)
        return np.unique(world.check(samples, timeouts_bootstrap=timeouts_bootstrap), axis=0)

    def test_rows_of_every_kind_of_observation(self, buffer_class: BufferClass) -> None:
        for world in self.worlds(buffer_class, lengths=(3, 7, 5)):
            for n_envs in (1, 3):
                buffer = self.make(buffer_class, world, 12 * n_envs, n_envs)
                stream = CountingStream(world, n_envs)
                for _ in range(4):
                    stream.fill(buffer, 7)
                    self.check_all(buffer, world)

    def test_rows_of_every_kind_of_action(self, buffer_class: BufferClass) -> None:
        for actions in ACTION_SPACES:
            world = self.world(buffer_class, action_space=actions)
            buffer = self.make(buffer_class, world, 30, 3)
            CountingStream(world, 3).fill(buffer, 15)
            self.check_all(buffer, world)

    def test_capacity_and_counters(self, buffer_class: BufferClass) -> None:
        for size, n_envs, slots in ((10, 3, 3), (2, 8, 1), (1, 1, 1), (7, 1, 7)):
            world = self.world(buffer_class)
            buffer = self.make(buffer_class, world, size, n_envs)
            stream = CountingStream(world, n_envs)
            _require(buffer.buffer_size == slots, f"{size} over {n_envs} environments: {buffer.buffer_size} slots")
            for step in range(1, 2 * slots + 2):
                stream.fill(buffer, 1)
                state = (int(buffer.pos), bool(buffer.full), buffer.size())
                wanted = (step % slots, step >= slots, min(step, slots))
                _require(state == wanted, f"pos, full and size are {state} after {step} steps, not {wanted}")

    def test_only_the_newest_transitions_are_left(self, buffer_class: BufferClass) -> None:
        world = self.world(buffer_class, lengths=(5,))
        for filled in (1, 9, 10, 11, 20, 37):
            buffer = self.make(buffer_class, world, 30, 3)
            CountingStream(world, 3).fill(buffer, filled)
            newest = range(max(filled - 10, 0), filled)
            wanted = sorted((env, step // 5, step % 5) for env in range(3) for step in newest)
            found = sorted(map(tuple, self.check_all(buffer, world).tolist()))
            _require(found == wanted, f"after {filled} steps the buffer holds {found}, not {wanted}")

    def test_batch_has_as_many_rows_as_asked(self, buffer_class: BufferClass) -> None:
        world = self.world(buffer_class)
        buffer = self.make(buffer_class, world, 30, 3)
        CountingStream(world, 3).fill(buffer, 2)
        for size in (1, 2, 37):
            rows = len(buffer.sample(size).rewards)
            _require(rows == size, f"sample({size}) returned {rows} rows")

    def test_time_limits_bootstrap_only_when_asked(self, buffer_class: BufferClass) -> None:
        for handled in (True, False):
            world = self.world(buffer_class, lengths=(3,))
            buffer = self.make(buffer_class, world, 40, 2, handle_timeout_termination=handled)
            CountingStream(world, 2).fill(buffer, 20)
            self.check_all(buffer, world, timeouts_bootstrap=handled)

    def test_memory_saving_mode_never_returns_a_wrong_neighbour(self, buffer_class: BufferClass) -> None:
        """Refusing the mode is right. Next observations that no target uses, where dones is 1, are not looked at."""
        world = self.world(buffer_class, lengths=(5,))
        for handled in (True, False):
            try:
                options = {"optimize_memory_usage": True, "handle_timeout_termination": handled}
                buffer = self.make(buffer_class, world, 30, 3, **options)
            except (ValueError, AssertionError, NotImplementedError):
                continue
            stream = CountingStream(world, 3)
            for _ in range(3):
                stream.fill(buffer, 7)
                samples = buffer.sample(400)
                keep = samples.dones.flatten() == 0
                kept = type(samples)(*(_selected(part, keep) for part in samples))
                world.check(kept, timeouts_bootstrap=handled)

    def test_added_arrays_may_be_reused(self, buffer_class: BufferClass) -> None:
        world = self.world(buffer_class)
        buffer = self.make(buffer_class, world, 30, 3)
        stream = CountingStream(world, 3)
        for _ in range(5):
            step = copy.deepcopy(stream.step())
            buffer.add(*step)
            for array in _arrays((step.obs, step.next_obs, step.action, step.reward, step.done)):
                array[...] = 0
        self.check_all(buffer, world)

    def test_samples_may_be_changed(self, buffer_class: BufferClass) -> None:
        world = self.world(buffer_class)
        buffer = self.make(buffer_class, world, 30, 3)
        CountingStream(world, 3).fill(buffer, 5)
        for tensor in _arrays(tuple(buffer.sample(100))):
            tensor[...] = 0
        self.check_all(buffer, world)

    def test_ends_written_from_outside_take_effect(self, buffer_class: BufferClass) -> None:
        """SB3 writes ``dones[pos - 1]`` when ``learn`` is called again in memory-saving mode."""
        world = self.world(buffer_class, lengths=(60,))
        buffer = self.make(buffer_class, world, 10)
        CountingStream(world).fill(buffer, 4)
        buffer.dones[buffer.pos - 1] = True
        samples = buffer.sample(200)
        steps = world.code.decode(_as_arrays(samples.observations))[:, 2]
        _require(bool(((steps == 3) == (samples.dones.numpy().ravel() == 1)).all()), "dones is not a live view")

    def test_normalisation_uses_the_statistics_of_the_moment(self, buffer_class: BufferClass) -> None:
        dict_space = issubclass(buffer_class, DictReplayBuffer)
        world = CountingWorld("goal" if dict_space else "float32", lengths=(5,))
        env = VecNormalize(DummyVecEnv([lambda: CountingEnv(world)]))
        buffer = self.make(buffer_class, world, 10)
        CountingStream(world).fill(buffer, 6)
        env.reset()
        for _ in range(3):
            env.step(np.zeros((1, 2), dtype=np.float32))
            normalized = buffer.sample(1, env=env)
            self._check_normalized(buffer, normalized, world, env)
            world.check(buffer.sample(50))

    def _check_normalized(self, buffer: Any, sample: Any, world: CountingWorld, env: VecNormalize) -> None:
        found = _as_arrays(sample.observations)
        for code in self.check_all(buffer, world):
            wanted = env.normalize_obs(world.code.encode(code[None]))
            pairs = zip(_arrays((found,)), _arrays((wanted,)), strict=True)
            if all(np.array_equal(a, b) for a, b in pairs):
                reward = env.normalize_reward(np.array([[float(code[2])]], dtype=np.float32)).astype(np.float32)
                _require(bool((sample.rewards.numpy() == reward).all()), "rewards are not normalised")
                return
        msg = "a normalised sample is none of the stored transitions with the present statistics"
        raise AssertionError(msg)

    def test_pickled_and_copied_buffers_go_on(self, buffer_class: BufferClass) -> None:
        for copied in (_pickled, copy.deepcopy):
            world = self.world(buffer_class, lengths=(3, 7, 5))
            buffer, stream = self.make(buffer_class, world, 30, 3), CountingStream(world, 3)
            for _ in range(3):
                stream.fill(buffer, 6)
                twin = copied(buffer)
                found, wanted = self.check_all(twin, world), self.check_all(buffer, world)
                _require(np.array_equal(found, wanted), "the copy holds other transitions")
                _require((twin.pos, twin.full) == (buffer.pos, buffer.full), "the copy has another position")
                before = twin.rewards.copy()
                buffer.rewards[...] += 1
                _require(np.array_equal(twin.rewards, before), "the copy shares memory with the original")
                buffer = twin

    def test_equal_seeds_give_equal_samples(self, buffer_class: BufferClass) -> None:
        world = self.world(buffer_class)
        first, second = (self._sampled_steps(buffer_class, world) for _ in range(2))
        _require(np.array_equal(first, second), "the same NumPy seed gave other samples")

    def _sampled_steps(self, buffer_class: BufferClass, world: CountingWorld) -> npt.NDArray[np.float32]:
        np.random.seed(7)  # noqa: NPY002
        buffer = self.make(buffer_class, world, 30, 3)
        CountingStream(world, 3).fill(buffer, 10)
        return np.concatenate([buffer.sample(50).rewards.numpy() for _ in range(3)])


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _pickled(buffer: Any) -> Any:
    return pickle.loads(pickle.dumps(buffer, protocol=pickle.HIGHEST_PROTOCOL))


def _arrays(parts: tuple[Any, ...]) -> Iterator[Any]:
    for part in parts:
        if isinstance(part, dict):
            yield from part.values()
        elif part is not None:
            yield part


def _as_arrays(values: Any) -> Any:
    return {key: value.numpy() for key, value in values.items()} if isinstance(values, dict) else values.numpy()


def _selected(values: Any, keep: Any) -> Any:
    if isinstance(values, dict):
        return {key: value[keep] for key, value in values.items()}
    return None if values is None else values[keep]
