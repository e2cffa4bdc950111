"""The cross-fitted reward model: no event sees its own episode, and linear rewards are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sb3_webscale.data.reward_model import cross_fitted_rewards

N_ACTIONS = 3


def log(n: int = 600) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(n, 2)).astype(np.float32)
    actions = rng.integers(0, N_ACTIONS, n)
    rewards = observations.astype(np.float64) @ [1.0, -2.0] + np.array([0.0, 0.5, 3.0])[actions]
    return {"observations": observations, "actions": actions, "rewards": rewards, "clusters": np.arange(n) // 4}


def predict(**arrays: Any) -> npt.NDArray[np.float64]:
    return cross_fitted_rewards(**arrays, n_actions=N_ACTIONS, n_folds=5, ridge=1e-6, rng=np.random.default_rng(1))


def test_finds_linear_rewards_of_every_action() -> None:
    arrays = log()
    truth = (arrays["observations"].astype(np.float64) @ [1.0, -2.0])[:, None] + np.array([0.0, 0.5, 3.0])
    assert np.abs(predict(**arrays) - truth).max() < 1e-4


def test_an_episode_never_teaches_its_own_prediction() -> None:
    arrays = log()
    before = predict(**arrays)
    spoilt = arrays["rewards"].copy()
    spoilt[40:44] = 1e6
    after = predict(**(arrays | {"rewards": spoilt}))
    assert np.array_equal(before[40:44], after[40:44])
    assert np.abs(before - after).max() > 100.0
