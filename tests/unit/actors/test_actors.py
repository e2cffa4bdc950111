"""Actor processes: exact transport, back-pressure, deaths on either side, and no shared memory left behind."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_webscale import ShardedReplayBuffer
from sb3_webscale.actors import ActorFeed, ActorHandle, ActorWriter
from sb3_webscale.errors import ActorError, DataError, InvalidInputError
from sb3_webscale.testing.counting_env import CountingStream, CountingWorld

WORLD = CountingWorld("float32", lengths=(3, 7, 5))
SHARED = Path("/dev/shm")


def learner_buffer(streams: int, world: CountingWorld = WORLD, size: int = 20_000, **options: Any) -> Any:
    options = {"shards": 2, "actor_streams": streams, **options}
    return ShardedReplayBuffer(size, world.observation_space, world.action_space, "cpu", 1, **options)


def act(handle: ActorHandle, steps: int) -> None:
    writer, stream = ActorWriter(handle), CountingStream(WORLD, handle.n_envs)
    for _ in range(steps):
        writer.add(*stream.step())


def leftovers() -> set[str]:
    return {path.name for path in SHARED.glob("webscale-*")} if SHARED.exists() else set()


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    before = leftovers()
    yield
    assert leftovers() <= before


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_actors_at_different_speeds(method: str) -> None:
    context = multiprocessing.get_context(method)
    buffer = learner_buffer(3, n_steps=3, gamma=0.5)
    with ActorFeed(buffer, [1, 2], records=16) as feed:
        steps = (400, 150)
        processes = [
            context.Process(target=act, args=(handle, count), daemon=True)
            for handle, count in zip(feed.handles, steps, strict=True)
        ]
        for process in processes:
            process.start()
        moved = 0
        while moved < 400 + 2 * 150:
            moved += feed.drain()
            time.sleep(0.001)
        for process in processes:
            process.join()
            assert process.exitcode == 0
        assert feed.dead_actors() == [0, 1]
        assert [status.added for status in feed.status()] == [400, 150]
    ids = buffer.recent(1000)
    assert len(ids) == 700
    batch = buffer.sample(700, replace=False)
    codes = WORLD.code.decode(batch.observations.numpy())
    assert len(set(map(tuple, codes.tolist()))) == 400 + 150  # stream 0 of each actor counts as environment 0
    for (env, episode, step), reward, final in zip(
        codes.tolist(), batch.rewards.numpy().ravel(), batch.dones.numpy().ravel(), strict=True
    ):
        length = WORLD.length(env, episode)
        window = range(step, min(step + 3, length))
        rewards = [sum(0.5 ** (k - step) * k for k in window[:n]) for n in range(1, len(window) + 1)]
        assert reward in rewards  # shorter at the newest transition of a stream only
        if reward == rewards[-1] and window[-1] == length - 1:
            assert final == (WORLD.ending(env, episode) == "terminated")


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_killed_actor_loses_at_most_its_last_step_and_is_replaced() -> None:
    context = multiprocessing.get_context("fork")
    random = np.random.default_rng(0)
    with ActorFeed(learner_buffer(2), [2], records=8) as feed:
        expected = 0
        for _ in range(8):
            process = context.Process(target=act, args=(feed.handles[0], 10**9), daemon=True)
            process.start()
            # At any moment: in the middle of a copy, or asleep because the channel is full.
            target = feed.status()[0].added + int(random.integers(1, 40))
            while feed.status()[0].added < target:
                expected += feed.drain()
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            assert feed.dead_actors() == [0]
            added = feed.status()[0].added
            expected += feed.drain()
            assert expected == 2 * added
            assert feed.status()[0].pending == 0
            batch = feed._buffer.sample(200)
            codes = WORLD.code.decode(batch.observations.numpy())
            # Where an actor was killed its episode ends as truncated; all else is as it was added.
            np.testing.assert_array_equal(batch.rewards.numpy().ravel(), codes[:, 2].astype(np.float32))
            assert feed._buffer._sharded.arrivals == expected


def test_an_episode_that_was_cut_ends_where_it_was_cut() -> None:
    world = CountingWorld("float32", lengths=(60,))
    buffer = learner_buffer(1, world, n_steps=5, gamma=1.0, shards=1)
    with ActorFeed(buffer, [1]) as feed:
        for _ in range(2):
            stream, writer = CountingStream(world), ActorWriter(feed.handles[0])
            for _ in range(7):
                writer.add(*stream.step())
        feed.drain()
        batch = buffer.sample(14, replace=False)
        steps = world.code.decode(batch.observations.numpy())[:, 2]
        wanted = [sum(range(step, min(step + 5, 7))) for step in steps.tolist()]
        assert batch.rewards.numpy().ravel().tolist() == wanted
        assert not batch.dones.any()


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_interleaving_keeps_every_step_in_order(data: st.DataObject) -> None:
    world = CountingWorld(data.draw(st.sampled_from(["float32", "image", "dict"])), lengths=(3, 7))
    envs = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    records = data.draw(st.integers(1, 6))
    buffer = learner_buffer(sum(envs), world)
    with ActorFeed(buffer, envs, records) as feed:
        writers = [ActorWriter(pickle.loads(pickle.dumps(handle))) for handle in feed.handles]
        streams = [CountingStream(world, count) for count in envs]
        added = moved = 0
        for _ in range(data.draw(st.integers(1, 40))):
            actor = data.draw(st.integers(0, len(envs) - 1))
            if writers[actor].pending == records:
                with pytest.raises(ActorError, match="no room"):
                    writers[actor].add(*CountingStream(world, envs[actor]).step(), timeout=0.0)
                moved += feed.drain(data.draw(st.integers(1, 3)))
            writers[actor].add(*streams[actor].step(), timeout=0.0)
            added += envs[actor]
        moved += feed.drain()
        assert moved == added == buffer._stored
        world.check(buffer.sample(100))


def test_bad_steps_are_refused_in_the_actor() -> None:
    with ActorFeed(learner_buffer(2), [2]) as feed:
        writer, stream = ActorWriter(feed.handles[0]), CountingStream(WORLD, 2)
        good = stream.step()
        bad = good.obs.copy()
        bad[1].flat[0] = np.nan
        for step, message in (
            (good._replace(obs=bad), "obs of environment 1 is nan"),
            (good._replace(next_obs=bad.astype(np.float64)), "next_obs of environment 1 is nan"),
            (good._replace(reward=np.array([0.0, np.inf])), "reward of environment 1"),
            (good._replace(action=np.full_like(good.action, np.nan)), "action of environment 0"),
            (good._replace(obs=good.obs[:1]), "shape"),
            (good._replace(infos=[{}]), "infos has 1"),
        ):
            with pytest.raises(DataError, match=message):
                writer.add(*step)
        assert writer.pending == 0
        writer.add(*good._replace(obs=good.obs.astype(np.float64)))  # converted, as the buffer would
        assert feed.drain() == 2
        with pytest.raises(InvalidInputError):
            ActorFeed(feed._buffer, [1])


def test_a_closed_feed_stops_its_actors() -> None:
    feed = ActorFeed(learner_buffer(1), [1], records=1)
    handle, writer, stream = feed.handles[0], ActorWriter(feed.handles[0]), CountingStream(WORLD)
    writer.add(*stream.step())
    feed.close()
    feed.close()
    assert writer.closed
    with pytest.raises(ActorError, match="closed"):
        writer.add(*stream.step())
    with pytest.raises(ActorError, match="cannot be attached"):
        ActorWriter(handle)
    with pytest.raises(ActorError, match="is closed"):
        feed.drain()


LEARNER = """
import pickle, sys, time
from tests_actors import learner_buffer
from sb3_webscale.actors import ActorFeed
feed = ActorFeed(learner_buffer(1), [1], records=2)
pickle.dump(feed.handles[0], sys.stdout.buffer)
sys.stdout.flush()
time.sleep(600)
"""


def test_a_killed_learner_stops_its_actors_and_leaves_no_memory(tmp_path: Path) -> None:
    (tmp_path / "tests_actors.py").write_text(Path(__file__).read_text())
    learner = subprocess.Popen([sys.executable, "-c", LEARNER], stdout=subprocess.PIPE, cwd=tmp_path)
    assert learner.stdout is not None
    handle = pickle.load(learner.stdout)
    writer, stream = ActorWriter(handle), CountingStream(WORLD)
    with pytest.raises(ActorError, match="has a writer"):
        _second_process_attaches(handle)
    writer.add(*stream.step())
    writer.add(*stream.step())
    learner.kill()
    learner.wait()
    learner.stdout.close()
    with pytest.raises(ActorError, match="is gone"):
        writer.add(*stream.step())
    for _ in range(100):  # the resource tracker needs a moment
        if handle.name[1:] not in leftovers():
            break
        time.sleep(0.1)
    assert handle.name[1:] not in leftovers()


def _second_process_attaches(handle: ActorHandle) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        pool.apply(ActorWriter, (handle,))
