"""Time limits and memory saving together: truncated rows keep their true last observation and are bootstrapped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sb3_webscale import WebscaleDictReplayBuffer, WebscaleReplayBuffer
from sb3_webscale.testing.counting_codes import OBSERVATION_KINDS
from sb3_webscale.testing.counting_env import CountingStream, CountingWorld

from .every_row import every_row

N_ENVS = 4


@pytest.mark.parametrize(
    "endings", [("truncated",), ("terminated",), ("truncated", "terminated", "truncated")], ids=str
)
@pytest.mark.parametrize("kind", OBSERVATION_KINDS)
def test_every_slot(kind: str, endings: Sequence[str]) -> None:
    world = CountingWorld(kind, lengths=(7,), endings=endings)
    buffer_class = WebscaleDictReplayBuffer if kind in ("dict", "goal") else WebscaleReplayBuffer
    buffer = buffer_class(
        50 * N_ENVS,
        world.observation_space,
        world.action_space,
        "cpu",
        N_ENVS,
        optimize_memory_usage=True,
        handle_timeout_termination=True,
    )
    stream = CountingStream(world, N_ENVS)
    for n_steps in (6, 1, 1, 43, 30):
        stream.fill(buffer, n_steps)
        samples = every_row(buffer)
        codes = world.check(samples)
        ends = codes[:, 2] == 6
        terminated = [world.ending(env, episode) == "terminated" for env, episode, _ in codes[ends]]
        assert samples.dones[ends].flatten().tolist() == terminated
        assert not samples.dones[~ends].any()
    assert ends.sum() >= 7 * N_ENVS


@pytest.mark.parametrize("lengths", [(1,), (1, 2), (2, 1, 3)], ids=str)
def test_very_short_episodes(lengths: Sequence[int]) -> None:
    world = CountingWorld("image", lengths=lengths)
    buffer = WebscaleReplayBuffer(30, world.observation_space, world.action_space, "cpu", 3)
    stream = CountingStream(world, 3)
    for _ in range(12):
        stream.fill(buffer, 3)
        world.check(every_row(buffer))
