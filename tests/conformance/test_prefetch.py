"""Prefetching: each batch is the one drawn ``prefetch_size`` requests before, whatever the timing of the thread."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import VecNormalize

from sb3_webscale import (
    MixedReplayBuffer,
    PriorityFeedback,
    ShardedReplayBuffer,
    WebscaleDictReplayBuffer,
    WebscaleReplayBuffer,
)
from sb3_webscale.buffers import prefetch
from sb3_webscale.errors import InvalidInputError, SpillError

from .random_steps import RandomSteps
from .same_bits import assert_same_bits
from .sampled_spaces import ACTIONS, DICT_SPACE, FLAT_SPACES
from .test_her import her_buffer
from .tiny_models import all_parameters, tiny_model, vector_env

FLOATS = FLAT_SPACES["float32"]


@contextmanager
def copying(job: Callable[[Callable[[], Any]], Any]) -> Iterator[None]:
    """Have ``job(copy)`` copy each batch in the background, by calling ``copy()``."""
    original = prefetch.copy_out
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefetch, "copy_out", lambda *arguments: job(lambda: original(*arguments)))
        yield


@contextmanager
def random_delays(seed: int) -> Iterator[None]:
    rng = random.Random(seed)

    def delayed(copy_batch: Callable[[], Any]) -> Any:
        time.sleep(rng.choice([0.0, 0.0, 0.0005, 0.003]))
        return copy_batch()

    with copying(delayed):
        yield


def make(space: spaces.Space[Any], slots: int, n_envs: int = 1, **options: Any) -> Any:
    buffer_class = WebscaleDictReplayBuffer if isinstance(space, spaces.Dict) else WebscaleReplayBuffer
    return buffer_class(slots * n_envs, space, ACTIONS, "cpu", n_envs, **options)


class DrawnAtOnce:
    """The model: whole batches of a buffer without prefetching, kept until their turn."""

    def __init__(self, buffer: Any, prefetch_size: int) -> None:
        self.buffer = buffer
        self._size = prefetch_size
        self._drawn: deque[Any] = deque()
        self._batch_size = 0

    def sample(self, batch_size: int) -> Any:
        if batch_size != self._batch_size:
            self._drawn.clear()
            self._batch_size = batch_size
        while len(self._drawn) <= self._size:
            self._drawn.append(self.buffer.sample(batch_size))
        return self._drawn.popleft()

    def reset(self) -> None:
        self._drawn.clear()
        self.buffer.reset()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.buffer, name)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 12)),
        st.tuples(st.just("sample"), st.just(8)),
        st.tuples(st.just("sample"), st.sampled_from([1, 8, 30])),
        st.tuples(st.just("feed back"), st.floats(0, 5)),
        st.tuples(st.just("progress"), st.floats(0, 1)),
        st.tuples(st.just("temperature"), st.floats(0, 1)),
        st.tuples(st.just("copy"), st.sampled_from([copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])),
        st.tuples(st.just("reset"), st.none()),
    ),
    max_size=25,
)


def carried_out(buffer: Any, operations: Any, space: spaces.Space[Any], n_envs: int) -> list[Any]:
    """The batches that the operations give."""
    np.random.seed(5)
    steps = RandomSteps(space, ACTIONS, n_envs, seed=1)
    steps.fill(2, buffer)
    batches: list[Any] = []
    for name, value in operations:
        if name == "add":
            steps.fill(value, buffer)
        elif name == "sample":
            batches.append(buffer.sample(value))
        elif name == "copy" and not isinstance(buffer, DrawnAtOnce):
            buffer = value(buffer)
        elif name == "reset":
            buffer.reset()
            steps.fill(1, buffer)
        elif name == "progress":
            buffer.set_progress(value)
        elif buffer.prioritized and name == "feed back" and batches:
            ids = batches[-1].indices
            buffer.update_priorities(ids, value * (1 + ids % 3))
        elif buffer.prioritized and name == "temperature":
            buffer.set_temperature(value)
    return batches


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    operations=OPERATIONS,
    space=st.sampled_from([FLOATS, FLAT_SPACES["image"], DICT_SPACE]),
    slots=st.integers(3, 40),
    n_envs=st.integers(1, 2),
    n_steps=st.sampled_from([1, 3]),
    prioritized=st.booleans(),
    prefetch_size=st.integers(1, 8),
)
def test_batches_are_those_drawn_earlier(
    operations: Any,
    space: spaces.Space[Any],
    slots: int,
    n_envs: int,
    n_steps: int,
    prioritized: bool,
    prefetch_size: int,
) -> None:
    options = {"n_steps": n_steps, "prioritized": prioritized, "seed": 2, "beta_steps": 50, "warmup_fraction": 0.3}
    if not prioritized:
        options = {"n_steps": n_steps}
    model = DrawnAtOnce(make(space, slots, n_envs, **options), prefetch_size)
    with random_delays(seed=len(operations)):
        buffer = make(space, slots, n_envs, prefetch_size=prefetch_size, **options)
        found = carried_out(buffer, operations, space, n_envs)
    wanted = carried_out(model, operations, space, n_envs)
    for index, (batch, wanted_batch) in enumerate(zip(found, wanted, strict=True)):
        assert_same_bits(tuple(batch), tuple(wanted_batch), f"batch {index}")


@pytest.mark.parametrize("name", ["DQN", "SAC"])
@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_training_does_not_depend_on_the_thread(name: str, prioritized: bool, n_steps: int) -> None:
    def trained() -> Any:
        kwargs = {"prioritized": prioritized, "prefetch_size": 4, "n_steps": n_steps}
        if n_steps > 1:
            kwargs["gamma"] = 0.99
        model = tiny_model(
            name,
            buffer_size=50,  # full from the 50th step on
            gradient_steps=2,
            replay_buffer_class=WebscaleReplayBuffer,
            replay_buffer_kwargs=kwargs,
        )
        model.learn(120, callback=PriorityFeedback() if prioritized else None)
        return all_parameters(model)

    wanted = trained()
    for seed in range(2):
        with random_delays(seed):
            assert_same_bits(trained(), wanted, "parameters")


def test_a_step_waits_rather_than_overwrite_a_row_that_was_drawn() -> None:
    buffer, plain = make(FLOATS, 3, prefetch_size=2), DrawnAtOnce(make(FLOATS, 3), 2)
    for target in (buffer, plain):
        RandomSteps(FLOATS, ACTIONS, 1).fill(3, target)
    np.random.seed(0)
    wanted = [plain.sample(20) for _ in range(3)]
    allowed, first = threading.Event(), itertools.count()

    def held_up(copy_batch: Callable[[], Any]) -> Any:
        if next(first) > 0:
            allowed.wait()
        return copy_batch()

    with copying(held_up):
        np.random.seed(0)
        found = [buffer.sample(20)]
        timer = threading.Timer(0.1, allowed.set)
        timer.start()
        RandomSteps(FLOATS, ACTIONS, 1, seed=1).fill(3, buffer)
        assert allowed.is_set()
        found += [buffer.sample(20) for _ in range(2)]
    timer.join()
    assert_same_bits([tuple(batch) for batch in found], [tuple(batch) for batch in wanted])


def test_a_step_that_overwrites_nothing_drawn_does_not_wait() -> None:
    buffer = make(FLOATS, 100, prefetch_size=2)
    steps = RandomSteps(FLOATS, ACTIONS, 1)
    steps.fill(10, buffer)
    allowed, first = threading.Event(), itertools.count()

    def held_up(copy_batch: Callable[[], Any]) -> Any:
        if next(first) > 0:
            assert allowed.wait(20)
        return copy_batch()

    with copying(held_up):
        buffer.sample(20)
        steps.fill(90, buffer)
        assert not allowed.is_set()
        allowed.set()
        steps.fill(30, buffer)
        buffer.sample(20)


def test_the_lag() -> None:
    buffer = make(FLOATS, 100, prefetch_size=3)
    steps = RandomSteps(FLOATS, ACTIONS, 1)
    steps.fill(1, buffer)
    newest = []
    for _ in range(10):
        newest.append(int(buffer.sample(300).indices.max()))
        steps.fill(1, buffer)
    assert newest == [0, 0, 0, 0, 1, 2, 3, 4, 5, 6]


def test_weights_and_priorities_are_those_of_the_draw_and_feedback_goes_to_what_was_delivered() -> None:
    buffer = make(FLOATS, 100, prioritized=True, seed=0, prefetch_size=2, beta_steps=1000)
    RandomSteps(FLOATS, ACTIONS, 1).fill(50, buffer)
    batches = []
    for _ in range(8):
        batch = buffer.sample(16)
        assert_same_bits(buffer.last_batch.ids, batch.indices.numpy())
        assert_same_bits(buffer.last_batch.weights, batch.weights)
        buffer.update_priorities(batch.indices, [3.0] * 16 if batches else [1e9] * 16)
        batches.append(batch)
    raised = set(batches[0].indices.tolist())
    assert all((batch.weights == 1).all() for batch in batches[:3])  # drawn before any feedback
    assert set(batches[3].indices.tolist()) <= raised
    assert (batches[3].weights == 1).all()


def test_normalisation_is_that_of_delivery() -> None:
    env = VecNormalize(vector_env("SAC"))
    env.reset()
    space, n_actions = env.observation_space, env.action_space
    buffer, plain = (
        WebscaleReplayBuffer(40, space, n_actions, "cpu", prefetch_size=size) for size in (4, 0)
    )  # fmt: skip
    steps = RandomSteps(space, n_actions, 1)
    steps.fill(60, buffer, plain)
    np.random.seed(0)
    wanted = [plain.sample(16) for _ in range(8)]
    np.random.seed(0)
    for index, raw in enumerate(wanted):
        env.obs_rms.update(np.full((4, 3), float(index)))
        env.ret_rms.update(np.full(4, float(index)))
        found = buffer.sample(16, env=env)
        assert_same_bits(found.observations.numpy(), env.normalize_obs(raw.observations.numpy()).astype(np.float32))
        assert_same_bits(found.rewards.numpy(), env.normalize_reward(raw.rewards.numpy()).astype(np.float32))


def test_an_error_comes_with_the_batch_that_it_is_about() -> None:
    buffer, plain = make(FLOATS, 5, prefetch_size=2), DrawnAtOnce(make(FLOATS, 5), 2)
    for target in (buffer, plain):
        RandomSteps(FLOATS, ACTIONS, 1).fill(5, target)
    np.random.seed(0)
    wanted = [plain.sample(4) for _ in range(6)]
    count = itertools.count()

    def failing(copy_batch: Callable[[], Any]) -> Any:
        copied = copy_batch()
        if next(count) == 2:
            msg = "the disk is gone"
            raise SpillError(msg)
        return copied

    np.random.seed(0)
    with copying(failing):
        for index in range(6):
            if index == 2:
                with pytest.raises(SpillError, match="the disk is gone"):
                    buffer.sample(4)
            else:
                assert_same_bits(tuple(buffer.sample(4)), tuple(wanted[index]), f"batch {index}")
    RandomSteps(FLOATS, ACTIONS, 1).fill(10, buffer)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_copy_goes_on_as_the_original(copied: Callable[[Any], Any], prioritized: bool) -> None:
    buffer = make(DICT_SPACE, 30, 2, prefetch_size=5, n_steps=3, prioritized=prioritized)
    steps = RandomSteps(DICT_SPACE, ACTIONS, 2)
    steps.fill(40, buffer)
    with random_delays(0):
        buffer.sample(8)
        twin = copied(buffer)
    assert twin.prefetch_size == 5
    steps.fill(40, buffer, twin)
    for round_ in range(10):
        np.random.seed(round_)
        wanted = buffer.sample(8)
        np.random.seed(round_)
        assert_same_bits(tuple(twin.sample(8)), tuple(wanted), f"batch {round_}")


def test_saved_and_loaded_by_a_stock_script(tmp_path: Path) -> None:
    parameters = []
    for saves in (False, True):
        kwargs = {"prefetch_size": 3}
        model: Any = tiny_model("SAC", replay_buffer_class=WebscaleReplayBuffer, replay_buffer_kwargs=kwargs)
        model.learn(60)
        model.save(tmp_path / "model")
        if saves:
            model.save_replay_buffer(tmp_path / "buffer")
            model.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=False)
        model.learn(60, reset_num_timesteps=False)
        parameters.append(all_parameters(model))
    assert_same_bits(*parameters, "parameters")


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")  # Python 3.12
def test_both_sides_of_a_fork_go_on() -> None:
    buffer = make(FLOATS, 20, prefetch_size=4)
    RandomSteps(FLOATS, ACTIONS, 1).fill(30, buffer)
    with random_delays(1):
        buffer.sample(16)
        child = os.fork()
        if child == 0:  # leaves by _exit whatever happens, so that pytest goes on once
            code = 1
            try:
                RandomSteps(FLOATS, ACTIONS, 1).fill(30, buffer)
                for _ in range(10):
                    buffer.sample(16)
                code = 0
            finally:
                os._exit(code)
        RandomSteps(FLOATS, ACTIONS, 1).fill(30, buffer)
        for _ in range(10):
            buffer.sample(16)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


AT_EXIT = """
import time
import numpy as np
from gymnasium import spaces
from sb3_webscale import WebscaleReplayBuffer
from sb3_webscale.buffers import prefetch
space = spaces.Box(-1, 1, (3,), np.float32)
buffer = WebscaleReplayBuffer(10, space, space, "cpu", prefetch_size=4)
zero = np.zeros((1, 3), np.float32)
buffer.add(zero, zero, zero, np.zeros(1), np.zeros(1), [{}])
original = prefetch.copy_out
def slow(batch, device):
    time.sleep(0.1)
    return original(batch, device)
prefetch.copy_out = slow
buffer.sample(4)
print("sampled")
"""


def test_the_interpreter_exits_with_batches_under_way() -> None:
    ended = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "sampled\n", "")


def test_dropping_a_buffer_with_batches_under_way() -> None:
    with random_delays(3):
        for _ in range(5):
            buffer = make(FLAT_SPACES["image"], 20, prefetch_size=8)
            RandomSteps(FLAT_SPACES["image"], ACTIONS, 1).fill(10, buffer)
            buffer.sample(4)
            buffer.reset()
            del buffer


def test_what_cannot_be_prefetched() -> None:
    with pytest.raises(InvalidInputError, match="prefetch_size is -1"):
        make(FLOATS, 10, prefetch_size=-1)
    for buffer_class in (MixedReplayBuffer, ShardedReplayBuffer):
        with pytest.raises(InvalidInputError, match=f"{buffer_class.__name__} cannot draw batches ahead"):
            buffer_class(10, FLOATS, ACTIONS, "cpu", prefetch_size=2)
    with pytest.raises(InvalidInputError, match="WebscaleHerReplayBuffer cannot draw batches ahead"):
        her_buffer(1, prefetch_size=2)
    assert make(FLOATS, 10).prefetch_size == 0


def test_replace_false() -> None:
    buffer = make(FLOATS, 30, prefetch_size=2)
    RandomSteps(FLOATS, ACTIONS, 1).fill(30, buffer)
    for _ in range(4):
        assert len(set(buffer.sample(30, replace=False).indices.tolist())) == 30
    assert len(buffer.sample(30).indices) == 30


@pytest.mark.skipif(not th.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("space", [FLAT_SPACES["image"], DICT_SPACE], ids=["image", "dict"])
@pytest.mark.parametrize("prioritized", [False, True])
def test_batches_on_a_cuda_device(space: spaces.Space[Any], prioritized: bool) -> None:
    on_host = make(space, 30, prefetch_size=4, prioritized=prioritized, seed=0)
    on_device = make(space, 30, prefetch_size=4, prioritized=prioritized, seed=0)
    on_device.device = th.device("cuda")
    RandomSteps(space, ACTIONS, 1).fill(40, on_host, on_device)
    for round_ in range(20):
        np.random.seed(round_)
        wanted = on_host.sample(16)
        np.random.seed(round_)
        found = on_device.sample(16)
        for name in wanted._fields:
            part, wanted_part = getattr(found, name), getattr(wanted, name)
            if isinstance(wanted_part, dict):
                assert all(part[key].is_cuda and th.equal(part[key].cpu(), wanted_part[key]) for key in wanted_part)
            elif wanted_part is not None:
                assert part.is_cuda
                assert th.equal(part.cpu(), wanted_part)
