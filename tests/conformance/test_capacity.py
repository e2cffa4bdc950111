"""Capacity is counted as SB3 counts it, and a batch has as many rows as were asked for."""

from __future__ import annotations

from typing import Any

import psutil
import pytest
from stable_baselines3.common.buffers import ReplayBuffer

from sb3_webscale import WebscaleReplayBuffer

from .random_steps import RandomSteps
from .sampled_spaces import ACTIONS, FLAT_SPACES

SPACE = FLAT_SPACES["float32"]


@pytest.mark.parametrize("buffer_class", [WebscaleReplayBuffer, ReplayBuffer])
@pytest.mark.parametrize(("size", "n_envs", "slots"), [(10, 3, 3), (2, 8, 1), (1, 1, 1), (50, 4, 12), (12, 12, 1)])
def test_slots_of_each_environment(buffer_class: Any, size: int, n_envs: int, slots: int) -> None:
    buffer = buffer_class(size, SPACE, ACTIONS, "cpu", n_envs)
    assert buffer.buffer_size == slots
    steps = RandomSteps(SPACE, ACTIONS, n_envs)
    for step in range(1, 2 * slots + 2):
        steps.fill(1, buffer)
        assert (buffer.pos, buffer.full, buffer.size()) == (step % slots, step >= slots, min(step, slots))


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_rows_of_a_batch(n_envs: int, prioritized: bool) -> None:
    buffer = WebscaleReplayBuffer(10, SPACE, ACTIONS, "cpu", n_envs, prioritized=prioritized)
    RandomSteps(SPACE, ACTIONS, n_envs).fill(2, buffer)
    for rows in (1, 2, 37):
        samples = buffer.sample(rows)
        for name in ("observations", "next_observations", "actions", "rewards", "dones", "indices"):
            assert len(getattr(samples, name)) == rows


def test_total_is_published() -> None:
    buffer = WebscaleReplayBuffer(10, SPACE, ACTIONS, "cpu", 3)
    RandomSteps(SPACE, ACTIONS, 3).fill(2, buffer)
    numbers = buffer.statistics()
    assert (numbers["capacity"], numbers["transitions"]) == (9, 6)
    assert numbers["nbytes"] == buffer.nbytes > 0


def test_warning_names_what_would_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory._replace(available=1000))
    with pytest.warns(UserWarning, match=r"a buffer_size of \d+ would fit"):
        WebscaleReplayBuffer(10_000, SPACE, ACTIONS, "cpu")
