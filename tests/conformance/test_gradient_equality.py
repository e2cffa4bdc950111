"""Prioritized training is training on an explicitly weighted loss: same gradients, same TD errors, same actor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as th

from .recorded_update import NOISE_SEED, RecordedUpdate, prioritized_model, recorded_update
from .same_bits import assert_same_bits
from .tiny_models import ALGORITHMS, DISCRETE_ALGORITHMS
from .weighted_losses import Gradients, actor_gradients, critic_loss, weighted_gradients

ACTOR_CRITIC_ALGORITHMS = tuple(name for name in ALGORITHMS if name not in DISCRETE_ALGORITHMS)
# Of the largest gradient; what is left is the order of float32 sums.
BOUNDS = {th.float32: 1e-6, th.float64: 1e-13}


def largest_error(found: Gradients, wanted: Gradients) -> float:
    """Largest deviation, relative to the largest gradient."""
    scale = max(float(gradient.abs().max()) for gradient in wanted)
    return max(float((a - b).abs().max()) for a, b in zip(found, wanted, strict=True)) / scale


def assert_weighted(name: str, model: Any, update: RecordedUpdate, bound: float) -> float:
    set_entropy_coefficient(model, update)
    th.manual_seed(NOISE_SEED)
    loss = critic_loss(name, model, update.policy_before, update.batch)
    weights = update.batch.weights.to(loss.per_transition.dtype)
    assert weights.min() < 0.5 * weights.max()
    error = largest_error(update.gradients["critic"], weighted_gradients(loss, weights, update.policy_before))
    assert error < bound
    unweighted = weighted_gradients(loss, th.ones_like(weights), update.policy_before)
    assert largest_error(update.gradients["critic"], unweighted) > 0.01
    return error


def set_entropy_coefficient(model: Any, update: RecordedUpdate) -> None:
    """Puts the coefficient back to what the critic's target was computed with."""
    if update.entropy_coefficient is not None:
        model.log_ent_coef.data.copy_(update.entropy_coefficient)


@pytest.mark.parametrize("dtype", [th.float32, th.float64], ids=str)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_critic(name: str, dtype: th.dtype, capsys: pytest.CaptureFixture[str], record_property: Any) -> None:
    model = prioritized_model(name, dtype=dtype)
    error = assert_weighted(name, model, recorded_update(model, feedback=True), BOUNDS[dtype])
    record_property("largest relative gradient error", error)
    with capsys.disabled():
        print(f"\n{name:7s} {dtype!s:13s} largest gradient error {error:.1e} of the largest gradient", end=" ")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_critic_with_n_step_returns(name: str) -> None:
    model = prioritized_model(name, n_steps=3)
    assert_weighted(name, model, recorded_update(model, feedback=True), BOUNDS[th.float32])


@pytest.mark.parametrize("name", ACTOR_CRITIC_ALGORITHMS)
def test_critic_with_features_shared_with_the_actor(name: str) -> None:
    model = prioritized_model(name, policy_kwargs={"share_features_extractor": True})
    assert_weighted(name, model, recorded_update(model, feedback=True), BOUNDS[th.float32])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ACTOR_CRITIC_ALGORITHMS)
def test_actor_and_entropy_are_untouched(name: str, shared: bool) -> None:
    """With a learning rate of 0 the critic does not move, so a weighted and a plain update have the same actor step."""
    plain, weighted = (
        recorded_update(
            prioritized_model(name, learning_rate=0.0, policy_kwargs={"share_features_extractor": shared}),
            feedback=feedback,
        )
        for feedback in (False, True)
    )
    assert_same_bits(weighted.batch.indices, plain.batch.indices)
    assert set(weighted.gradients) == set(plain.gradients) >= {"critic", "actor"}
    assert largest_error(weighted.gradients["critic"], plain.gradients["critic"]) > 0.01
    for part in set(plain.gradients) - {"critic"}:
        assert any(gradient.abs().max() > 0 for gradient in plain.gradients[part])
        assert_same_bits(weighted.gradients[part], plain.gradients[part], part)


@pytest.mark.parametrize("name", ACTOR_CRITIC_ALGORITHMS)
def test_actor_follows_the_weighted_critic_without_weights_of_its_own(name: str) -> None:
    model: Any = prioritized_model(name, dtype=th.float64)
    update = recorded_update(model, feedback=True)
    set_entropy_coefficient(model, update)
    policy, batch = update.policy_before, update.batch
    policy.load_state_dict(update.networks_at_actor_step)
    policy.set_training_mode(True)

    def actions_and_log_prob() -> Any:
        th.manual_seed(NOISE_SEED)
        if name == "CrossQ":
            policy.actor.set_bn_training_mode(False)
            policy.actor.action_log_prob(batch.next_observations)
            policy.actor.set_bn_training_mode(True)
            policy.critic.set_bn_training_mode(False)
        return policy.actor.action_log_prob(batch.observations)

    wanted = actor_gradients(name, model, policy, batch, actions_and_log_prob)
    assert largest_error(update.gradients["actor"], wanted) < BOUNDS[th.float64]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_td_errors_become_priorities(name: str) -> None:
    model: Any = prioritized_model(name, dtype=th.float64)
    update = recorded_update(model, feedback=True)
    set_entropy_coefficient(model, update)
    th.manual_seed(NOISE_SEED)
    td_errors = critic_loss(name, model, update.policy_before, update.batch).td_errors.detach().numpy()
    ids = update.batch.indices.numpy()
    wanted = {}  # a transition that was drawn twice keeps the error of its last row
    for row, td_error in zip(ids, td_errors, strict=True):
        wanted[int(row)] = td_error + model.replay_buffer.prioritization.epsilon
    found = model.replay_buffer.priorities(np.array(list(wanted)))
    np.testing.assert_allclose(found, list(wanted.values()), rtol=1e-11)
    if name == "DQN":
        assert (td_errors == 1).any()
        assert (td_errors < 1).any()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_transitions_outside_the_batch_keep_their_priorities(name: str) -> None:
    model: Any = prioritized_model(name)
    before = model.replay_buffer.priorities(np.arange(400))
    update = recorded_update(model, feedback=True)
    others = np.setdiff1d(np.arange(400), update.batch.indices.numpy())
    assert_same_bits(model.replay_buffer.priorities(others), before[others], "priorities")
