"""Pickles of the first format 1 are read as what they meant, and go on drawing the same."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .same_bits import assert_same_bits
from .test_her import counting_envs

DIRECTORY = Path(__file__).parents[1] / "data" / "format_1"


@pytest.mark.parametrize("name", ["flat", "dict", "her", "mixed"])
def test_old_pickles_go_on_as_they_would_have(name: str) -> None:
    saved: dict[str, Any] = pickle.loads((DIRECTORY / f"{name}.pkl").read_bytes())
    buffer, expected = pickle.loads(saved["buffer"]), saved["expected"]
    if name == "her":
        buffer.set_env(counting_envs(2))
    np.random.seed(0)
    for ids, weights in expected["draws"]:
        batch = buffer.sample(8)
        assert_same_bits(batch.indices.numpy(), ids)
        assert_same_bits(batch.weights.numpy(), weights)
        buffer.update_priorities(batch.indices, 0.1 + ids % 7)
    assert buffer.beta == expected["beta"]
    numbers = buffer.statistics()
    assert numbers["stale_updates"] == expected["stale_updates"]
    assert (numbers["alpha"], numbers["temperature"], numbers["stale_marks"]) == (0.7, 0.0, 0)
    assert buffer.mark_for_replay(batch.indices, 2.0) > 0
    buffer.set_temperature(1.0)
    assert (buffer.sample(8).weights == 1).all()
    again = pickle.loads(pickle.dumps(buffer))
    assert_same_bits(again.priorities(batch.indices), buffer.priorities(batch.indices))
