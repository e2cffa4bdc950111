"""PriorityFeedback: attached only while training, once, and missed when it is missing."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.callbacks import BaseCallback

from sb3_webscale import PriorityFeedback, WebscaleReplayBuffer
from sb3_webscale.errors import ConfigError

from .same_bits import assert_same_bits
from .tiny_models import ALGORITHMS, all_parameters, tiny_model


def prioritized(name: str = "SAC", **options: Any) -> Any:
    kwargs = {"prioritized": True, **options.pop("kwargs", {})}
    return tiny_model(name, replay_buffer_class=WebscaleReplayBuffer, replay_buffer_kwargs=kwargs, **options)


def hooks(model: Any) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) + len(module._backward_hooks)
        for module in model.policy.modules()
    )


def stored_priorities(model: Any) -> np.ndarray:
    buffer = model.replay_buffer
    found: np.ndarray = buffer.priorities(np.arange(buffer.size() * buffer.n_envs))
    return found


@pytest.mark.parametrize("name", ALGORITHMS)
def test_priorities_and_beta_move_during_learn(name: str) -> None:
    model = prioritized(name)
    model.learn(60, callback=PriorityFeedback())
    assert hooks(model) == 0
    assert len(np.unique(stored_priorities(model))) > 10  # Huber losses give all large errors one value
    assert 0.9 < model.replay_buffer.beta <= 1.0
    assert model.replay_buffer.statistics()["stale_updates"] == 0


@pytest.mark.parametrize(
    "options", [{"gradient_steps": 3}, {"train_freq": (1, "episode"), "gradient_steps": -1}], ids=str
)
def test_every_batch_gets_feedback(options: dict[str, Any]) -> None:
    model = prioritized(**options)
    updates = counted(model.replay_buffer, "update_priorities")
    samples = counted(model.replay_buffer, "sample")
    model.learn(70, callback=PriorityFeedback())
    assert len(updates) == len(samples) > 30


def counted(target: Any, name: str) -> list[None]:
    calls: list[None] = []
    method = getattr(target, name)

    def counting(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return method(*args, **kwargs)

    setattr(target, name, counting)
    return calls


def test_learning_twice_attaches_once() -> None:
    model, callback = prioritized(), PriorityFeedback()
    updates = counted(model.replay_buffer, "update_priorities")
    samples = counted(model.replay_buffer, "sample")
    for _ in range(3):
        model.learn(45, callback=callback)
        assert hooks(model) == 0
    model.learn(45, callback=PriorityFeedback())
    assert hooks(model) == 0
    assert len(updates) == len(samples) > 50


def test_two_callbacks_weight_once() -> None:
    parameters = []
    for callbacks in ([PriorityFeedback()], [PriorityFeedback(), PriorityFeedback()]):
        model = prioritized()
        model.set_random_seed(1)
        model.learn(50, callback=callbacks)
        parameters.append(all_parameters(model))
    assert_same_bits(*parameters)


class Interruption(Exception):
    pass


class InterruptingCallback(BaseCallback):
    def _on_step(self) -> bool:
        if self.num_timesteps == 45:
            raise Interruption
        return True


@pytest.mark.parametrize("where", ["callback", "train", "backward"])
def test_exception_leaves_no_hook(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = prioritized()

    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise Interruption

    callbacks: list[BaseCallback] = [PriorityFeedback()]
    with monkeypatch.context() as patch:
        if where == "callback":
            callbacks.append(InterruptingCallback())
        elif where == "train":
            patch.setattr(model.replay_buffer, "sample", interrupt)
        else:
            patch.setattr(model.critic.optimizer, "zero_grad", interrupt)  # after the critic's pass, before backward
        with pytest.raises(Interruption):
            model.learn(60, callback=callbacks)
    assert hooks(model) == 0
    model.learn(60, callback=PriorityFeedback())
    assert hooks(model) == 0


def test_a_batch_that_an_exception_cut_off_does_not_reach_the_next_training(tmp_path: Path) -> None:
    model = prioritized()

    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise Interruption

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.critic, "forward", interrupt)  # between sampling and the critic's pass
        with pytest.raises(Interruption):
            model.learn(60, callback=PriorityFeedback())
    interrupted = model.replay_buffer
    late: list[None] = []
    model.save_replay_buffer(tmp_path / "buffer")
    model.load_replay_buffer(tmp_path / "buffer")
    interrupted.update_priorities = lambda *_: late.append(None)
    updates = counted(model.replay_buffer, "update_priorities")
    samples = counted(model.replay_buffer, "sample")
    model.learn(60, callback=PriorityFeedback())
    assert hooks(model) == 0
    assert len(updates) == len(samples) > 20
    assert not late


def test_context_manager_detaches_after_an_exception() -> None:
    model = prioritized()
    model.learn(40, callback=PriorityFeedback())

    def interrupted() -> None:
        with PriorityFeedback.attached(model):
            model.replay_buffer.sample(4)
            assert hooks(model) == 1
            raise Interruption

    with pytest.raises(Interruption):
        interrupted()
    assert hooks(model) == 0


def test_model_saves_and_loads_with_the_callback_in_use(tmp_path: Any) -> None:
    class SavingCallback(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps == 45:
                self.model.save(tmp_path / "model")
            return True

    model = prioritized()
    model.learn(50, callback=[PriorityFeedback(), SavingCallback()])
    loaded = type(model).load(tmp_path / "model", env=model.get_env())
    assert hooks(loaded) == 0


def test_missing_feedback_is_reported_once() -> None:
    model = prioritized()
    with pytest.warns(UserWarning, match=r"pass callback=PriorityFeedback\(\)") as caught:
        model.learn(150)
    assert len([w for w in caught if "PriorityFeedback" in str(w.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(150)


def test_feedback_by_hand_counts() -> None:
    model = prioritized()
    model.learn(40, callback=PriorityFeedback())
    for _ in range(250):
        samples = model.replay_buffer.sample(4)
        model.replay_buffer.update_priorities(samples.indices, samples.rewards.abs())


def test_nothing_to_attach_to() -> None:
    uniform = tiny_model("SAC", replay_buffer_class=WebscaleReplayBuffer)
    with pytest.raises(ConfigError, match="prioritized=True"):
        uniform.learn(10, callback=PriorityFeedback())
    stock = tiny_model("SAC")
    with pytest.raises(ConfigError, match="replay_buffer_class=WebscaleReplayBuffer"):
        stock.learn(10, callback=PriorityFeedback())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_equal_seeds_give_equal_weights(name: str) -> None:
    parameters = []
    for _ in range(2):
        model = prioritized(name)
        model.learn(60, callback=PriorityFeedback())
        parameters.append(all_parameters(model))
    assert_same_bits(*parameters)
