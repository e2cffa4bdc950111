"""A sharded buffer draws exactly as an unsharded one would, whatever its shards, and survives a pickle bit for bit."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from stable_baselines3 import DQN, SAC

from sb3_webscale import PriorityFeedback, ShardedReplayBuffer, WebscaleReplayBuffer
from sb3_webscale.errors import BufferStateError, DataError, InvalidInputError
from sb3_webscale.testing.counting_env import CountingStream, CountingWorld
from sb3_webscale.testing.replay_buffer import ReplayBufferTestCase

WORLD = CountingWorld(lengths=(3, 7, 5))

# A right sampler exceeds this quantile once in a million tests.
SIGNIFICANCE = 1e-6


def sharded(size: int = 3000, n_envs: int = 3, **options: Any) -> ShardedReplayBuffer:
    return ShardedReplayBuffer(size, WORLD.observation_space, WORLD.action_space, "cpu", n_envs, **options)


def assert_proportional(counts: np.ndarray, shares: np.ndarray) -> None:
    """Pearson's test; stratified draws vary less than independent ones, so the bound holds for them too."""
    expected = counts.sum() * shares / shares.sum()
    assert expected.min() >= 5
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(SIGNIFICANCE, len(counts) - 1)


class TestShardedReplayBuffer(ReplayBufferTestCase):
    @pytest.fixture
    def buffer_class(self) -> type[ShardedReplayBuffer]:
        return ShardedReplayBuffer

    # Promises of a buffer with one ring: which transitions are left, and views into them.
    test_capacity_and_counters = None
    test_only_the_newest_transitions_are_left = None
    test_ends_written_from_outside_take_effect = None
    test_pickled_and_copied_buffers_go_on = None  # reads through views; see below


@pytest.mark.parametrize("shards", [1, 5])
@pytest.mark.parametrize("temperature", [0.0, 0.3])
def test_priorities_over_unequal_shards(shards: int, temperature: float) -> None:
    buffer = sharded(shards=shards, prioritized=True, alpha=0.6, temperature=temperature, seed=1)
    CountingStream(WORLD, 3).fill(buffer, 60)
    ids = buffer.recent(10_000)
    # Shares over four orders of magnitude, and one shard as heavy as the rest together.
    errors = 10.0 ** np.random.default_rng(0).uniform(-4, 0, size=len(ids))
    errors[ids % (3 * shards) < 3] *= 100
    buffer.update_priorities(ids, errors)
    masses = (errors + buffer.prioritization.epsilon) ** 0.6
    shares = (1 - temperature) * masses / masses.sum() + temperature / len(ids)
    place = {int(transition): i for i, transition in enumerate(ids)}
    counts = np.zeros(len(ids))
    smallest_and_weights = []
    for _ in range(400):
        batch = buffer.sample(512)
        rows = np.array([place[int(transition)] for transition in batch.indices])
        np.add.at(counts, rows, 1)
        smallest_and_weights.append((rows, batch.weights.numpy().ravel()))
        buffer._watch.fed()
    order = np.argsort(shares)
    groups = np.array_split(order, 40)  # rare rows together, so that each group is expected often enough
    groups = [group for group in groups if shares[group].sum() * counts.sum() >= 5]
    assert_proportional(
        np.array([counts[group].sum() for group in groups] + [counts.sum() - sum(counts[g].sum() for g in groups) + 5]),
        np.array([shares[g].sum() for g in groups] + [1 - sum(shares[g].sum() for g in groups) + 5 / counts.sum()]),
    )
    for rows, weights in smallest_and_weights[:20]:
        expected = (shares[rows] / shares[rows].min()) ** -buffer.beta
        np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_the_distribution_is_that_of_the_unsharded_buffer() -> None:
    """The same transitions and TD errors, one shard or many or none: each transition is drawn equally often."""
    counts = []
    for kind in (WebscaleReplayBuffer, ShardedReplayBuffer):
        options: dict[str, Any] = {"prioritized": True, "seed": 3}
        buffer = kind(900, WORLD.observation_space, WORLD.action_space, "cpu", 3, **options)
        CountingStream(WORLD, 3).fill(buffer, 40)
        ids = buffer.recent(120)
        every = {}
        for _ in range(200):
            batch = buffer.sample(600)
            codes = WORLD.check(batch)
            for row, code in zip(batch.indices.tolist(), map(tuple, codes.tolist()), strict=True):
                every[row] = code
            buffer._watch.fed()
        assert len(every) == 120
        # A TD error that follows from the transition itself.
        errors = [0.1 + (7 * every[row][0] + 3 * every[row][1] + every[row][2]) % 11 for row in ids.tolist()]
        buffer.update_priorities(ids, errors)
        found: dict[Any, int] = {}
        for _ in range(300):
            for row in buffer.sample(600).indices.tolist():
                found[every[row]] = found.get(every[row], 0) + 1
            buffer._watch.fed()
        counts.append(np.array([found[code] for code in sorted(found)], dtype=float))
    a, b = counts
    assert len(a) == len(b) == 120
    statistic = ((a - b) ** 2 / (a + b)).sum()  # two samples of the same size
    assert statistic < chi2.isf(SIGNIFICANCE, len(a) - 1)


def test_uniform_draws_and_different_rows() -> None:
    buffer = sharded(shards=4)
    CountingStream(WORLD, 3).fill(buffer, 20)
    ids = np.sort(buffer.recent(100))
    assert len(ids) == 60
    counts = np.zeros(len(ids))
    np.random.seed(0)
    for _ in range(100):
        np.add.at(counts, np.searchsorted(ids, buffer.sample(300).indices.numpy()), 1)
    assert_proportional(counts, np.ones(60))
    batch = buffer.sample(60, replace=False)
    assert sorted(batch.indices.tolist()) == ids.tolist()


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_history_keeps_rows_ids_and_windows(data: st.DataObject) -> None:
    shards, n_envs = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    buffer = sharded(
        data.draw(st.integers(1, 200)), n_envs, shards=shards, window_size=data.draw(st.integers(1, 20)),
        n_steps=1, prioritized=data.draw(st.booleans()), actor_streams=data.draw(st.integers(0, 2)),
    )  # fmt: skip
    stream, seen = CountingStream(WORLD, n_envs), {}
    for _ in range(data.draw(st.integers(1, 6))):
        stream.fill(buffer, data.draw(st.integers(1, 30)))
        if data.draw(st.integers(0, 5)) == 0:
            buffer.reset()
            continue
        ids = buffer.recent(10_000)
        assert len(set(ids.tolist())) == len(ids) == buffer._stored <= buffer._capacity
        assert (np.diff(buffer.window_of(ids)) >= 0).all()
        batch = buffer.sample(100)
        for row, code in zip(batch.indices.tolist(), WORLD.check(batch).tolist(), strict=True):
            assert seen.setdefault(row, code) == code  # an id never names another transition
        newest = buffer.newest_window
        assert set(buffer.window_of(buffer.sample(50, windows=range(newest, newest + 1)).indices)) == {newest}


@pytest.mark.parametrize("options", [{}, {"prioritized": True, "temperature": 0.2, "window_decay": 0.5}])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_pickles_go_on_bit_for_bit(copied: Any, options: dict[str, Any]) -> None:
    buffer = sharded(120, shards=3, window_size=20, actor_streams=1, n_steps=3, **options)
    stream = CountingStream(WORLD, 3)
    stream.fill(buffer, 50)
    if options:
        buffer.update_priorities(buffer.recent(80), np.linspace(0, 3, 80)[: len(buffer.recent(80))])
    twin, twin_stream = copied(buffer), copy.deepcopy(stream)
    for one, steps in ((buffer, stream), (twin, twin_stream)):
        np.random.seed(5)
        one.results = []
        for _ in range(5):
            one.results.append(one.sample(40))
            steps.fill(one, 7)
            one._watch.fed()
    for a, b in zip(buffer.results, twin.results, strict=True):
        for x, y in zip(a, b, strict=True):
            assert (x is None and y is None) or bool((x == y).all())


def test_n_step_windows_stay_in_their_episode() -> None:
    buffer = sharded(600, n_steps=3, gamma=0.5, shards=3)
    CountingStream(WORLD, 3).fill(buffer, 64)
    batch = buffer.sample(300)
    codes = WORLD.code.decode(batch.observations.numpy())
    for (env, episode, step), reward in zip(codes.tolist(), batch.rewards.numpy().ravel().tolist(), strict=True):
        window = range(step, min(step + 3, WORLD.length(env, episode)))
        full = sum(0.5 ** (later - step) * later for later in window)
        newest = any(reward == sum(0.5 ** (k - step) * k for k in window[:n]) for n in (1, 2))
        assert reward == full or newest


def test_writer_threads_beside_a_sampler() -> None:
    buffer = sharded(2000, 4, prioritized=True, window_size=100, window_decay=0.9)

    def write(env: int) -> None:
        # A stream of its own for each thread, taken out of the streams of all.
        stream = CountingStream(WORLD, 4)
        for _ in range(400):
            step = stream.step()
            one = slice(env, env + 1)
            buffer.add_streams(
                env, step.obs[one], step.next_obs[one], step.action[one], step.reward[one], step.done[one],
                step.infos[one],
            )  # fmt: skip

    threads = [threading.Thread(target=write, args=(env,)) for env in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if buffer._stored > 0:
            batch = buffer.sample(64)
            WORLD.check(batch)
            buffer.update_priorities(batch.indices, np.ones(64))
            buffer.statistics()
    assert buffer._sharded.arrivals == 1600
    codes = WORLD.check(buffer.sample(500))
    assert set(codes[:, 0].tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("algorithm", [DQN, SAC])
def test_trains_with_priority_feedback(algorithm: Any) -> None:
    options = {"prioritized": True, "shards": 3}
    env = "CartPole-v1" if algorithm is DQN else "Pendulum-v1"
    weights = []
    for _ in range(2):
        model = algorithm(
            "MlpPolicy", env, learning_starts=20, seed=4, buffer_size=500, device="cpu",
            replay_buffer_class=ShardedReplayBuffer, replay_buffer_kwargs=options,
        )  # fmt: skip
        model.learn(80, callback=PriorityFeedback())
        numbers = model.replay_buffer.statistics()
        assert numbers["transitions"] == 80
        assert numbers["entropy_normalised"] < 1.0
        weights.append([parameter.detach().clone() for parameter in model.policy.parameters()])
    assert all(bool((a == b).all()) for a, b in zip(*weights, strict=True))


def test_what_is_refused() -> None:
    for options in (
        {"shards": 0}, {"actor_streams": -1}, {"window_size": 0}, {"keep_windows": 0}, {"window_decay": 0.0},
        {"optimize_memory_usage": True}, {"memory_budget": "1GB", "spill_dir": "x"},
    ):  # fmt: skip
        with pytest.raises(InvalidInputError):
            sharded(**options)
    buffer = sharded(keep_windows=2, window_size=10)
    with pytest.raises(BufferStateError, match="none is stored"):
        buffer.sample(1)
    stream = CountingStream(WORLD, 3)
    stream.fill(buffer, 40)
    with pytest.raises(BufferStateError, match="newest window"):
        buffer.sample(1, windows=range(3))
    with pytest.raises(InvalidInputError, match="replace"):
        buffer.sample(1, replace=False)
    with pytest.raises(BufferStateError, match="no single ring"):
        _ = buffer.rewards
    step = stream.step()
    with pytest.raises(InvalidInputError, match="streams 2 to 4"):
        buffer.add_streams(2, *step)
    step.obs[1] = np.nan
    with pytest.raises(DataError, match="environment 1"):
        buffer.add(*step)
    assert buffer._sharded.arrivals == 120
