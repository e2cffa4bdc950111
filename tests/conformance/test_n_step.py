"""N-step returns against plain Python for every slot, and refusal of an algorithm that expects other returns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sb3_webscale import WebscaleDictReplayBuffer, WebscaleReplayBuffer
from sb3_webscale.errors import ConfigError
from sb3_webscale.testing.counting_env import CountingStream, CountingWorld, assert_rows_equal

from .every_row import every_row
from .tiny_models import tiny_model

N_ENVS = 3
SLOTS = 20
GAMMA = 0.9


def window(world: CountingWorld, code: tuple[int, int, int], newest: tuple[int, int], n_steps: int) -> int:
    """Steps from a transition to the end of its episode, to the newest transition, or n_steps: the fewest."""
    env, episode, step = code
    limit = world.length(env, episode)
    if newest[0] == episode:
        limit = min(limit, newest[1] + 1)
    return min(n_steps, limit - step)


@pytest.mark.parametrize("lengths", [(7,), (2, 9, 4), (1,), (50,)], ids=str)
@pytest.mark.parametrize("n_steps", [2, 3, 5, 25])
@pytest.mark.parametrize("kind", ["float32", "image", "dict"])
def test_every_slot(kind: str, n_steps: int, lengths: Sequence[int]) -> None:
    world = CountingWorld(kind, lengths, ("terminated", "truncated", "truncated"))
    buffer_class = WebscaleDictReplayBuffer if kind == "dict" else WebscaleReplayBuffer
    arguments = (SLOTS * N_ENVS, world.observation_space, world.action_space, "cpu", N_ENVS)
    buffer = buffer_class(*arguments, n_steps=n_steps, gamma=GAMMA)
    single = buffer_class(*arguments)
    for n_added in (4, 20, 50):
        streams = [CountingStream(world, N_ENVS) for _ in range(2)]
        for target, stream in zip((buffer, single), streams, strict=True):
            target.reset()
            stream.fill(target, n_added)
        newest = dict.fromkeys(range(N_ENVS), (0, 0))
        for env, episode, step in sorted(map(tuple, world.check(every_row(single)).tolist())):
            newest[env] = (episode, step)
        check_windows(world, every_row(buffer), newest, n_steps)


def check_windows(world: CountingWorld, samples: Any, newest: dict[int, tuple[int, int]], n_steps: int) -> None:
    observations = samples.observations
    raw = {k: v.numpy() for k, v in observations.items()} if isinstance(observations, dict) else observations.numpy()
    codes = world.code.decode(raw)
    used = np.array([window(world, tuple(code), newest[code[0]], n_steps) for code in codes.tolist()])
    returns = [
        sum(GAMMA**j * (step + j) for j in range(k)) for (_, _, step), k in zip(codes.tolist(), used, strict=True)
    ]
    last = codes + np.stack([0 * used, 0 * used, used - 1], axis=1)
    wanted = world.expected(last)
    np.testing.assert_allclose(samples.rewards.numpy().ravel(), returns, rtol=1e-5)
    np.testing.assert_allclose(samples.discounts.numpy().ravel(), GAMMA**used, rtol=1e-5)
    assert_rows_equal(samples.dones.numpy(), wanted.dones, "dones")
    following = samples.next_observations
    found = {k: v.numpy() for k, v in following.items()} if isinstance(following, dict) else following.numpy()
    assert_rows_equal(found, wanted.next_observations, "next_observations")
    assert_rows_equal(samples.actions.numpy(), wanted.actions, "actions")


def test_prioritized_windows() -> None:
    world = CountingWorld(lengths=(5,))
    buffer = WebscaleReplayBuffer(
        60, world.observation_space, world.action_space, "cpu", 3, n_steps=3, gamma=GAMMA, prioritized=True, seed=0
    )
    CountingStream(world, 3).fill(buffer, 33)
    check_windows(world, buffer.sample(500), dict.fromkeys(range(3), (6, 2)), 3)


def ours(name: str, **options: Any) -> Any:
    kwargs = options.pop("kwargs", {})
    return tiny_model(name, replay_buffer_class=WebscaleReplayBuffer, replay_buffer_kwargs=kwargs, **options)


@pytest.mark.filterwarnings("ignore:`n_steps=:UserWarning")
@pytest.mark.parametrize("name", ["SAC", "DQN"])
@pytest.mark.parametrize("kwargs", [{}, {"n_steps": 2, "gamma": 0.95}], ids=str)
def test_algorithm_with_other_n_steps(name: str, kwargs: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"replay_buffer_kwargs=dict\(n_steps=3, gamma=0.95\)"):
        ours(name, n_steps=3, gamma=0.95, kwargs=kwargs)


def test_algorithm_with_other_gamma() -> None:
    with pytest.raises(ConfigError, match=r"replay_buffer_kwargs=dict\(n_steps=3, gamma=0.95\)"):
        ours("SAC", gamma=0.95, kwargs={"n_steps": 3, "gamma": 0.99})


def test_gamma_of_the_buffer_does_not_matter_for_one_step() -> None:
    ours("SAC", gamma=0.95).learn(40)


@pytest.mark.filterwarnings("ignore:`n_steps=:UserWarning")
@pytest.mark.parametrize("n_steps", [1, 3])
def test_agreement(n_steps: int) -> None:
    model = ours("SAC", n_steps=n_steps, gamma=0.95, kwargs={"n_steps": 3, "gamma": 0.95})
    model.learn(40)
    assert model.replay_buffer.sample(5).discounts is not None


@pytest.mark.filterwarnings("ignore:`n_steps=:UserWarning")
def test_loaded_buffer_with_other_n_steps(tmp_path: Path) -> None:
    saved = ours("SAC", gamma=0.95, kwargs={"n_steps": 2, "gamma": 0.95})
    saved.learn(40)
    saved.save_replay_buffer(tmp_path / "buffer")
    model = ours("SAC", n_steps=3, gamma=0.95, kwargs={"n_steps": 3, "gamma": 0.95})
    model.load_replay_buffer(tmp_path / "buffer")
    with pytest.raises(ConfigError, match="n_steps=3"):
        model.learn(40)
