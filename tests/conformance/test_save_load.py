"""A buffer that was pickled, copied or saved by a stock script goes on exactly as the original would have."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.save_util import load_from_pkl, save_to_pkl

from sb3_webscale import WebscaleDictReplayBuffer, WebscaleReplayBuffer
from sb3_webscale.errors import SnapshotFormatError
from sb3_webscale.testing.counting_env import CountingStream, CountingWorld

from .every_row import every_row
from .same_bits import assert_same_bits, assert_same_draws
from .test_her import WORLD as GOAL_WORLD
from .test_her import her_buffer
from .tiny_models import tiny_model

N_ENVS = 3


def pickled(buffer: Any) -> Any:
    return pickle.loads(pickle.dumps(buffer))


COPIES = {"pickle": pickled, "deepcopy": copy.deepcopy}


def world_and_buffer(kind: str, **options: Any) -> tuple[CountingWorld, Any]:
    world = CountingWorld(kind, lengths=(3, 7, 5))
    buffer_class = WebscaleDictReplayBuffer if kind == "dict" else WebscaleReplayBuffer
    return world, buffer_class(60, world.observation_space, world.action_space, "cpu", N_ENVS, **options)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("kind", ["float32", "image", "discrete", "dict"])
def test_rows_and_draws(kind: str, n_steps: int, copied: Callable[[Any], Any]) -> None:
    world, buffer = world_and_buffer(kind, n_steps=n_steps)
    stream = CountingStream(world, N_ENVS)
    twin = copied(buffer)
    for _ in range(6):
        for step in [stream.step() for _ in range(9)]:
            for target in (buffer, twin):
                target.add(*copy.deepcopy(step))
        assert (twin.pos, twin.full, twin.size()) == (buffer.pos, buffer.full, buffer.size())
        assert_same_draws(twin, buffer, 200)
        if n_steps == 1:
            world.check(every_row(twin))
        twin = copied(twin)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
def test_priorities_and_random_state(copied: Callable[[Any], Any]) -> None:
    world, buffer = world_and_buffer("float32", prioritized=True, seed=4, beta_steps=500)
    CountingStream(world, N_ENVS).fill(buffer, 27)
    ids = every_id(buffer)
    buffer.update_priorities(ids, np.arange(1, len(ids) + 1))
    for _ in range(5):
        buffer.sample(16)
    twin = copied(buffer)
    assert_same_bits(twin.priorities(ids), buffer.priorities(ids), "priorities")
    assert twin.beta == buffer.beta > 0.4
    for name, value in buffer.statistics().items():
        assert twin.statistics()[name] == value or name == "nbytes"
    stream, twin_stream = CountingStream(world, N_ENVS), CountingStream(world, N_ENVS)
    for round_ in range(1000):
        found, wanted = twin.sample(16), buffer.sample(16)
        assert_same_bits(tuple(found), tuple(wanted), f"batch {round_}")
        if round_ % 50 == 0:
            for target, source in ((buffer, stream), (twin, twin_stream)):
                source.fill(target, 1)
                target.update_priorities(wanted.indices, wanted.rewards.abs())


def every_id(buffer: Any) -> np.ndarray:
    first = int(buffer.sample(500).indices.min())
    return np.arange(first, first + buffer.size() * buffer.n_envs)


def test_a_copy_shares_nothing() -> None:
    world, buffer = world_and_buffer("image", prioritized=True, seed=4)
    CountingStream(world, N_ENVS).fill(buffer, 30)
    ids = every_id(buffer)
    for copied in COPIES.values():
        twin = copied(buffer)
        before = twin.priorities(ids), twin.rewards.copy(), twin.dones.copy()
        buffer.update_priorities(ids, np.random.default_rng(0).random(len(ids)))
        buffer.rewards[...] += 1
        buffer.dones[...] = 1
        assert_same_bits((twin.priorities(ids), twin.rewards, twin.dones), before)


@pytest.mark.parametrize("prioritized", [False, True])
def test_hindsight_buffer(prioritized: bool) -> None:
    buffer = her_buffer(N_ENVS, prioritized=prioritized, seed=1)
    CountingStream(GOAL_WORLD, N_ENVS).fill(buffer, 48)
    twin = pickled(buffer)
    assert twin.env is None
    twin.set_env(buffer.env)
    assert_same_draws(twin, buffer, 100)


@pytest.mark.parametrize("prioritized", [False, True])
def test_stock_script(prioritized: bool, tmp_path: Path) -> None:
    def model() -> Any:
        kwargs = {"prioritized": prioritized}
        return tiny_model("SAC", replay_buffer_class=WebscaleReplayBuffer, replay_buffer_kwargs=kwargs)

    saved, loaded = model(), model()
    saved.learn(60)
    saved.save_replay_buffer(tmp_path / "buffer")
    loaded.load_replay_buffer(tmp_path / "buffer")
    assert type(loaded.replay_buffer) is WebscaleReplayBuffer
    assert loaded.replay_buffer.device == loaded.device
    assert_same_draws(loaded.replay_buffer, saved.replay_buffer)
    loaded.learn(40)
    assert loaded.replay_buffer.pos == 0
    assert loaded.replay_buffer.full


def test_model_saved_whole(tmp_path: Path) -> None:
    model: Any = tiny_model("SAC", replay_buffer_class=WebscaleReplayBuffer, replay_buffer_kwargs={"prioritized": True})
    model.learn(40)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model", env=model.get_env())
    assert type(loaded.replay_buffer) is WebscaleReplayBuffer
    assert loaded.replay_buffer.prioritized
    loaded.learn(40)


def test_saved_for_a_device_that_is_missing(tmp_path: Path) -> None:
    world, buffer = world_and_buffer("float32", prioritized=True)
    CountingStream(world, N_ENVS).fill(buffer, 5)
    buffer.sample(4)
    buffer.device = "cuda:7"
    save_to_pkl(tmp_path / "buffer", buffer)
    loaded: Any = load_from_pkl(tmp_path / "buffer")
    loaded.device = "cpu"
    world.check(loaded.sample(50))


@pytest.mark.parametrize("make", [lambda: world_and_buffer("float32")[1], lambda: her_buffer(1)], ids=["flat", "HER"])
@pytest.mark.parametrize("version", [0, 99, "1", None])
def test_unknown_format_version(version: Any, make: Callable[[], Any]) -> None:
    buffer = make()
    state = buffer.__getstate__()
    key = next(key for key in state if "format" in key)
    state[key] = version
    with pytest.raises(SnapshotFormatError, match=r"format .*version"):
        type(buffer).__new__(type(buffer)).__setstate__(state)


def test_state_without_a_version() -> None:
    buffer = world_and_buffer("float32")[1]
    with pytest.raises(SnapshotFormatError, match="format"):
        WebscaleReplayBuffer.__new__(WebscaleReplayBuffer).__setstate__({"pos": 3})
    assert buffer.size() == 0


@pytest.mark.parametrize("name", ["rewards", "columns", "steps", "priorities"])
def test_damaged_state(name: str) -> None:
    world, buffer = world_and_buffer("image", prioritized=True)
    CountingStream(world, N_ENVS).fill(buffer, 20)
    state = copy.deepcopy(buffer.__getstate__())
    del state["native"][name]
    with pytest.raises(SnapshotFormatError, match="damaged"):
        WebscaleReplayBuffer.__new__(WebscaleReplayBuffer).__setstate__(state)
