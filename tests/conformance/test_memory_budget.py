"""A buffer under a memory budget: the same samples as without, within the budget, with clear errors from its disk."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_webscale import (
    MixedReplayBuffer,
    WebscaleDictReplayBuffer,
    WebscaleHerReplayBuffer,
    WebscaleReplayBuffer,
)
from sb3_webscale.errors import InvalidInputError, SpillError, WebscaleError

from .random_steps import RandomSteps

ACTIONS = spaces.Box(-1, 1, (2,), np.float32)
FRAMES = spaces.Box(0, 255, (4, 12, 12), np.uint8)
VECTORS = spaces.Box(-1, 1, (64,), np.float32)
BOTH = spaces.Dict({"frames": FRAMES, "vector": VECTORS})


def least_budget(buffer_class: Any, size: int, space: spaces.Space[Any], n_envs: int, **options: Any) -> int:
    plain = buffer_class(size, space, ACTIONS, n_envs=n_envs, **options)
    native = plain._replay
    return native.nbytes + native.minimum_allowance


def assert_same(left: Any, right: Any) -> None:
    for name, a, b in zip(left._fields, left, right, strict=True):
        parts = [(a[key], b[key]) for key in a] if isinstance(a, dict) else [(a, b)]
        for x, y in parts:
            assert (x is None and y is None) or th.equal(x, y), name


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    space=st.sampled_from([FRAMES, VECTORS, BOTH]),
    n_envs=st.integers(1, 3),
    n_steps=st.sampled_from([1, 3]),
    prioritized=st.booleans(),
    slots=st.integers(60, 200),
    turns=st.floats(0.5, 2.5),
    reset=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_samples_are_those_of_a_buffer_in_memory(
    tmp_path_factory, space, n_envs, n_steps, prioritized, slots, turns, reset, seed
):
    buffer_class: Any = WebscaleDictReplayBuffer if space is BOTH else WebscaleReplayBuffer
    size = slots * n_envs
    options = {"n_steps": n_steps, "prioritized": prioritized, "seed": seed}
    budget = least_budget(buffer_class, size, space, n_envs, **options) + 20_000
    plain = buffer_class(size, space, ACTIONS, n_envs=n_envs, **options)
    tiered = buffer_class(
        size, space, ACTIONS, n_envs=n_envs, memory_budget=budget, spill_dir=tmp_path_factory.getbasetemp(), **options
    )
    steps = RandomSteps(space, ACTIONS, n_envs, seed, break_probability=0.05)
    rng = np.random.default_rng(seed)
    for part in range(6):
        if reset and part == 4:
            plain.reset()
            tiered.reset()
        steps.fill(max(int(turns * slots / 6), 1), plain, tiered)
        for _ in range(6):
            np.random.seed(part)
            expected = plain.sample(40)
            np.random.seed(part)
            found = tiered.sample(40)
            assert_same(expected, found)
            if prioritized:
                errors = rng.exponential(size=40)
                plain.update_priorities(expected.indices, errors)
                tiered.update_priorities(found.indices, errors)
        assert tiered.nbytes <= budget


@pytest.fixture
def filled(tmp_path):
    """A tiered buffer of which most is on disk, and the same in memory."""
    plain = WebscaleReplayBuffer(1500, VECTORS, ACTIONS)
    budget = least_budget(WebscaleReplayBuffer, 1500, VECTORS, 1) + 20_000
    tiered = WebscaleReplayBuffer(1500, VECTORS, ACTIONS, memory_budget=budget, spill_dir=tmp_path)
    RandomSteps(VECTORS, ACTIONS, 1).fill(2000, plain, tiered)
    assert tiered.statistics()["cold_segments"] > 10
    return tiered, plain


def spill_files(path: Path) -> list[Path]:
    return sorted(path.glob("webscale-spill-*/*.frames"))


def _pickled(protocol: int) -> Any:
    return lambda buffer: pickle.loads(pickle.dumps(buffer, protocol))


@pytest.mark.parametrize("copied", [_pickled(5), _pickled(4), copy.deepcopy])
def test_copies_by_pickle_are_tiered_and_equal(filled, copied):
    tiered, plain = filled
    other = copied(tiered)
    assert other.memory_budget == tiered.memory_budget
    assert other.nbytes <= other.memory_budget
    np.testing.assert_array_equal(other.observations[:], plain.observations[:])
    np.testing.assert_array_equal(other.next_observations[:], plain.next_observations[:])


def test_pickles_that_keep_arrays_outside_are_right_too(filled):
    tiered, plain = filled
    outside: list[pickle.PickleBuffer] = []
    data = pickle.dumps(tiered, 5, buffer_callback=outside.append)
    other = pickle.loads(data, buffers=outside)
    np.testing.assert_array_equal(other.observations[:], plain.observations[:])


def test_a_state_stays_as_it_was_whatever_the_buffer_does(filled):
    tiered, plain = filled
    state = tiered.__getstate__()
    expected = plain.observations[:]
    RandomSteps(VECTORS, ACTIONS, 1, seed=9).fill(3000, tiered)
    tiered.reset()
    other = WebscaleReplayBuffer.__new__(WebscaleReplayBuffer)
    other.__setstate__(state)
    np.testing.assert_array_equal(other.observations[:], expected)


def test_files_go_with_the_buffer(tmp_path):
    buffer = WebscaleReplayBuffer(100, VECTORS, ACTIONS, memory_budget="1MB", spill_dir=tmp_path)
    assert list(tmp_path.glob("webscale-spill-*"))
    del buffer
    gc.collect()
    assert not list(tmp_path.glob("webscale-spill-*"))


def test_no_budget_touches_no_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    buffer = WebscaleReplayBuffer(100, VECTORS, ACTIONS)
    RandomSteps(VECTORS, ACTIONS, 1).fill(200, buffer)
    pickle.loads(pickle.dumps(buffer)).sample(32)
    assert not list(tmp_path.iterdir())
    assert "cold_segments" not in buffer.statistics()


def _change(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    with open(path, "r+b") as file:
        file.write(whole)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [(_change, "does not match its checksum"), (lambda path: os.truncate(path, 500), "is truncated")],
)
def test_changed_and_truncated_files_are_named(filled, tmp_path, spoil, what):
    tiered, plain = filled
    [path] = spill_files(tmp_path)
    original = path.read_bytes()
    spoil(path)
    for read in (lambda: tiered.observations[:], lambda: pickle.dumps(tiered)):
        with pytest.raises(SpillError, match=what) as caught:
            read()
        assert str(path) in str(caught.value)
        assert isinstance(caught.value, WebscaleError)
    with open(path, "r+b") as file:
        file.write(original)
    np.testing.assert_array_equal(tiered.observations[:], plain.observations[:])


def test_a_change_on_disk_is_found_when_the_cache_has_forgotten_what_was_checked(filled, tmp_path):
    tiered, plain = filled
    np.testing.assert_array_equal(tiered.observations[:], plain.observations[:])  # checks every block
    [path] = spill_files(tmp_path)
    _change(path)
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    waits = tiered.statistics()["disk_waits"]
    try:
        tiered.observations[:]
    except SpillError as error:
        assert "does not match its checksum" in str(error)  # noqa: PT017
    else:
        if tiered.statistics()["disk_waits"] == waits:
            pytest.skip("this file system keeps its cache")
        pytest.fail("the change was not found")


def test_a_removed_file_stays_readable(filled, tmp_path):
    tiered, plain = filled
    [path] = spill_files(tmp_path)
    path.unlink()
    np.testing.assert_array_equal(tiered.observations[:], plain.observations[:])
    RandomSteps(VECTORS, ACTIONS, 1, seed=9).fill(1000, tiered, plain)
    np.testing.assert_array_equal(tiered.observations[:], plain.observations[:])


def test_statistics_tell_what_is_hot_and_what_is_cold(filled):
    tiered, plain = filled
    before = tiered.statistics()
    assert 0 < before["hot_bytes"] <= before["resident_frame_bytes"] <= tiered.memory_budget
    assert before["hot_bytes"] + before["cold_bytes"] >= 1500 * 64 * 4
    for _ in range(20):
        tiered.sample(100)
    after = tiered.statistics()
    hot, cold = (after[name] - before[name] for name in ("hot_reads", "cold_reads"))
    assert hot + cold == 20 * 100 * 2  # observation and next observation
    assert 0 < hot < cold
    assert after["hit_rate"] == after["hot_reads"] / (after["hot_reads"] + after["cold_reads"])
    assert "hit_rate" not in plain.statistics()


@pytest.mark.parametrize("file_bytes", [1000, 50_000])
def test_a_full_disk_raises_and_loses_nothing(tmp_path, file_bytes):
    """The limit on file size stands for the full disk: the same call fails, at the same place."""
    budget = least_budget(WebscaleReplayBuffer, 1500, VECTORS, 1) + 20_000
    tiered = WebscaleReplayBuffer(1500, VECTORS, ACTIONS, memory_budget=budget, spill_dir=tmp_path)
    plain = WebscaleReplayBuffer(1500, VECTORS, ACTIONS)
    steps = RandomSteps(VECTORS, ACTIONS, 1)
    step = steps.step()

    def add_to_both() -> None:
        nonlocal step
        for _ in range(1500):
            tiered.add(*step)
            plain.add(*step)
            step = steps.step()

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, limits[1]))
        with pytest.raises(SpillError, match="Nothing is lost") as caught:
            add_to_both()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert str(tmp_path) in str(caught.value)
    assert spill_files(tmp_path)[0].stat().st_size <= file_bytes
    assert tiered.pos == plain.pos > 0
    tiered.add(*step)
    plain.add(*step)
    steps.fill(1000, tiered, plain)
    np.testing.assert_array_equal(tiered.observations[: plain.size()], plain.observations[: plain.size()])


KILLED = """
import os, signal, sys
import numpy as np
from gymnasium import spaces
from sb3_webscale import WebscaleReplayBuffer
space = spaces.Box(-1, 1, (64,), np.float32)
buffer = WebscaleReplayBuffer(4000, space, spaces.Discrete(2), memory_budget=300_000, spill_dir=sys.argv[1])
row = np.zeros((1, 64), np.float32)
for step in range(3000):
    buffer.add(row + step, row + step + 1, np.zeros(1, int), np.zeros(1), np.zeros(1, bool), [{}])
assert buffer.statistics()["cold_segments"] > 0
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_leftovers_of_a_killed_process_are_removed_and_those_of_a_living_one_are_not(filled, tmp_path):
    kept = set(spill_files(tmp_path))
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert set(spill_files(tmp_path)) > kept
    buffer = WebscaleReplayBuffer(100, VECTORS, ACTIONS, memory_budget="1MB", spill_dir=tmp_path)
    assert set(spill_files(tmp_path)) == kept
    tiered, plain = filled
    np.testing.assert_array_equal(tiered.observations[:], plain.observations[:])
    del buffer


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")  # Python 3.12
def test_a_fork_reads_but_neither_writes_nor_removes(filled, tmp_path):
    tiered, _ = filled
    files = spill_files(tmp_path)
    script_pid = os.fork()
    if script_pid == 0:  # leaves by _exit whatever happens, so that pytest goes on once
        code = 1
        try:
            tiered.observations[:5]
            try:
                RandomSteps(VECTORS, ACTIONS, 1).fill(200, tiered)
            except SpillError:
                tiered._spill_directory.close()
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(script_pid, 0)[1]) == 0
    assert spill_files(tmp_path) == files
    RandomSteps(VECTORS, ACTIONS, 1).fill(200, tiered)


RESIDENT = """
import sys
import numpy as np
import psutil
import torch as th
from gymnasium import spaces
from sb3_webscale import WebscaleReplayBuffer
th.set_num_threads(1)
space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
BUDGET = 24_000_000
rng = np.random.default_rng(0)
process = psutil.Process()
frames = rng.integers(0, 256, (1024, 84, 84), dtype=np.uint8)
zero, done = np.zeros(1), np.zeros(1, bool)
def add(buffer, step):
    stack = [frames[(step + i * 7) % 1021][None] ^ np.uint8((step + i) // 1021) for i in range(5)]
    buffer.add(np.stack(stack[:4], 1), np.stack(stack[1:], 1), zero[None], zero, done, [{}])
def sample(buffer):
    batch = buffer.sample(8)
    buffer.update_priorities(batch.indices, rng.random(8))
def build(rows, **options):
    return WebscaleReplayBuffer(rows, space, spaces.Discrete(6), prioritized=True, seed=0, **options)
small = build(100)  # what code, threads and batches take is not the buffer's
for step in range(100):
    add(small, step)
    sample(small)
base = process.memory_info().rss
buffer = build(34_000, memory_budget=BUDGET, spill_dir=sys.argv[1])
peak = 0
for step in range(40_000):
    add(buffer, step)
    if step % 50 == 0:
        sample(buffer)
        peak = max(peak, process.memory_info().rss - base)
numbers = buffer.statistics()
stored = numbers["cold_bytes"] + numbers["resident_frame_bytes"]
print(peak, stored, numbers["nbytes"], BUDGET)
"""


def test_resident_memory_stays_under_the_budget_at_ten_times_its_size(tmp_path):
    run = subprocess.run([sys.executable, "-c", RESIDENT, str(tmp_path)], check=True, capture_output=True, text=True)
    peak, stored, nbytes, budget = map(int, run.stdout.split())
    assert stored > 10 * budget
    assert nbytes <= budget
    assert peak <= budget


def test_her_and_mixed_buffers_take_a_budget(tmp_path):
    env = DummyVecEnv([lambda: BitFlippingEnv(n_bits=10)])

    def her(**options: Any) -> WebscaleHerReplayBuffer:
        return WebscaleHerReplayBuffer(
            2000, env.observation_space, env.action_space, env, prioritized=True, seed=1, **options
        )

    plain = her()
    least = plain._replay.nbytes + plain._replay.minimum_allowance
    tiered = her(memory_budget=least + 5000, spill_dir=tmp_path)
    obs = env.reset()
    for _ in range(3000):
        action = np.array([env.action_space.sample()])
        next_obs, reward, done, infos = env.step(action)
        for buffer in (plain, tiered):
            buffer.add(copy.deepcopy(obs), copy.deepcopy(next_obs), action, reward, done, infos)
        obs = next_obs
    assert tiered.statistics()["cold_segments"] > 0
    np.random.seed(0)
    expected = plain.sample(64)
    np.random.seed(0)
    assert_same(expected, tiered.sample(64))
    mixed = MixedReplayBuffer(1500, VECTORS, ACTIONS, memory_budget="1MB", spill_dir=tmp_path)
    assert mixed.memory_budget == 500_000


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"memory_budget": "2GB"}, "spill_dir is None"),
        ({"spill_dir": "/tmp"}, "set memory_budget too"),
        ({"memory_budget": "many", "spill_dir": "/tmp"}, "'2GB'"),
        ({"memory_budget": -1, "spill_dir": "/tmp"}, "positive"),
        ({"memory_budget": True, "spill_dir": "/tmp"}, "positive"),
        ({"memory_budget": 1000, "spill_dir": "/tmp"}, "give at least"),
    ],
)
def test_impossible_budgets_are_refused(options, what):
    with pytest.raises(InvalidInputError, match=what):
        WebscaleReplayBuffer(1000, VECTORS, ACTIONS, **options)


def test_a_spill_dir_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpillError, match="cannot be used"):
        WebscaleReplayBuffer(1000, VECTORS, ACTIONS, memory_budget="1MB", spill_dir=tmp_path / "file")
