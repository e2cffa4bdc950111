"""Training one configuration from its seeds to the tracked, saved and evaluated model."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv, sync_envs_normalization

from sb3_webscale.data.off_policy import estimate_policy_value
from sb3_webscale.errors import ConfigError
from sb3_webscale.experiments.environments import make_vec_env, register_environment
from sb3_webscale.experiments.history import data_fingerprints, load_history, open_converter
from sb3_webscale.experiments.model import build_model
from sb3_webscale.experiments.policy_probabilities import action_probabilities, action_values
from sb3_webscale.reproducibility.deterministic_env import EnvironmentRecord, collect_records
from sb3_webscale.reproducibility.identity import RunIdentity, identify
from sb3_webscale.reproducibility.logger_bridge import TrackerOutput
from sb3_webscale.reproducibility.run_record import log_identity, log_records
from sb3_webscale.reproducibility.seeding import SeedTree, seed_everything
from sb3_webscale.reproducibility.weights import hash_weights

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

    from sb3_webscale.data.logged_events import LoggedEvents
    from sb3_webscale.experiments.config import RunConfig
    from sb3_webscale.reproducibility.tracking import MlflowTracker

__all__ = ["TrainingResult", "identify_run", "train"]


@dataclass(frozen=True)
class TrainingResult:
    """What came of a run.

    :param run_id: id in the tracking store
    :param config: the configuration
    :param identity: identity of the run
    :param seeds: seeds in use
    :param weights_sha256: hash of the final weights
    :param records: what each training environment took and gave
    :param metrics: final numbers: evaluation, off-policy estimates, buffer, speed
    :param model_path: where the model was saved besides the store; None when only there
    """

    run_id: str
    config: RunConfig
    identity: RunIdentity
    seeds: SeedTree
    weights_sha256: str
    records: list[EnvironmentRecord]
    metrics: dict[str, float] = field(default_factory=dict)
    model_path: Path | None = None


def identify_run(config: RunConfig) -> RunIdentity:
    """:return: identity that a run of this configuration has, here and now"""
    register_environment(config.env_id)
    return identify(
        algorithm=config.algo,
        env_id=config.env_id,
        hyperparameters=config.block,
        seed=config.seed,
        data=data_fingerprints(config),
    )


def train(
    config: RunConfig,
    tracker: MlflowTracker,
    *,
    output: Path | None = None,
    progress: bool = True,
    on_identity: Callable[[RunIdentity, SeedTree], None] = lambda identity, seeds: None,
) -> TrainingResult:
    """Run a configuration: seed, build, load history, learn, evaluate, save; all of it tracked.

    The replay buffer is not saved; it is by far the largest part of a run and follows from the identity.

    :param config: the run
    :param tracker: open tracker; closing it is left to the caller
    :param output: directory for the model, besides the copy in the store
    :param progress: show a progress bar
    :param on_identity: called with the identity and the seeds before the first step
    :raises WebscaleError: naming what is wrong with the configuration or the data
    """
    started = time.perf_counter()
    seeds = seed_everything(config.seed, config.n_envs, torch_num_threads=config.torch_num_threads)
    identity = identify_run(config)
    log_identity(tracker, identity, config, seeds)
    on_identity(identity, seeds)
    vec_env = make_vec_env(config, seeds.environments)
    try:
        model = build_model(config, vec_env)
        metrics = _load_history(config, model)
        # What could fail after hours of training is tried before.
        held_out = _off_policy_events(config, model)
        if output is not None:
            _make_directory(output)
        metrics |= _learn(config, model, tracker, progress)
        # Taken before the evaluation, which must not be able to change what is compared.
        weights = hash_weights(model)
        records = collect_records(vec_env)
        model_path = _save(model, tracker, output)
        log_records(tracker, records, weights)
        metrics |= _evaluate(config, model, seeds, vec_env) | _evaluate_off_policy(config, model, seeds, held_out)
    finally:
        vec_env.close()
    metrics["performance/total_seconds"] = time.perf_counter() - started
    tracker.log_metrics(metrics, config.n_timesteps)
    return TrainingResult(tracker.run_id, config, identity, seeds, weights, records, metrics, model_path)


def _load_history(config: RunConfig, model: Any) -> dict[str, float]:
    transitions = load_history(config, model)
    if transitions is None:
        return {}
    return {f"history/{name}": float(count) for name, count in transitions.report.as_dict().items()}


def _learn(config: RunConfig, model: BaseAlgorithm, tracker: MlflowTracker, progress: bool) -> dict[str, float]:
    model.set_logger(Logger(folder=None, output_formats=[TrackerOutput(tracker)]))
    started = time.perf_counter()
    model.learn(config.n_timesteps, callback=CallbackList(_callbacks(config, model)), progress_bar=progress)
    seconds = time.perf_counter() - started
    metrics = {
        "performance/learn_seconds": seconds,
        "performance/steps_per_second": model.num_timesteps / seconds,
    }
    statistics = getattr(getattr(model, "replay_buffer", None), "statistics", None)
    if callable(statistics):
        metrics |= {f"buffer/{k}": float(v) for k, v in statistics().items() if isinstance(v, (int, float, np.number))}
    return metrics


def _callbacks(config: RunConfig, model: BaseAlgorithm) -> list[BaseCallback]:
    callbacks: list[BaseCallback] = []
    for i, reference in enumerate(config.callback):
        where = f"{config.env_id}.callback[{i}]"
        try:
            callback = reference.factory(where)()
        except TypeError as error:
            msg = f"{where} = {reference.path!r} is refused: {error}; check the names of the arguments"
            raise ConfigError(msg) from error
        callbacks.append(callback)
    if getattr(getattr(model, "replay_buffer", None), "prioritized", False):
        from sb3_webscale import PriorityFeedback

        if not any(isinstance(callback, PriorityFeedback) for callback in callbacks):
            callbacks.append(PriorityFeedback())
    return callbacks


def _evaluate(config: RunConfig, model: BaseAlgorithm, seeds: SeedTree, training_env: VecEnv) -> dict[str, float]:
    if config.evaluation.n_eval_episodes == 0:
        return {}
    eval_env = make_vec_env(config, (seeds.evaluation,), training=False)
    try:
        sync_envs_normalization(training_env, eval_env)
        rewards, lengths = evaluate_policy(
            model,
            eval_env,
            n_eval_episodes=config.evaluation.n_eval_episodes,
            deterministic=config.evaluation.deterministic,
            return_episode_rewards=True,
            callback=_EpisodeWatch(config).check,
        )
    finally:
        eval_env.close()
    return {
        "evaluation/mean_reward": float(np.mean(rewards)),
        "evaluation/std_reward": float(np.std(rewards)),
        "evaluation/mean_length": float(np.mean(lengths)),
    }


class _EpisodeWatch:
    """Stops an evaluation that could never end: Monitor, which counts episodes, sits below the wrappers, so it does not
    see an end that a wrapper makes."""

    patience = 200  # ends in a row; Atari's lives are a handful to each game

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._unseen = 0

    def check(self, evaluation: dict[str, Any], _: dict[str, Any]) -> None:
        if evaluation["done"]:
            self._unseen = 0 if "episode" in evaluation["info"] else self._unseen + 1
        if self._unseen >= self.patience:
            msg = (
                f"{self._config.env_id}.env_wrapper: {self.patience} episodes in a row were ended by a wrapper, which "
                "the Monitor below it does not see, so none is counted: limit time with env_kwargs.max_episode_steps"
            )
            raise ConfigError(msg)


def _make_directory(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"output = {str(output)!r} cannot be made ({error.strerror}); name a directory that can be written"
        raise ConfigError(msg) from error


def _off_policy_events(config: RunConfig, model: BaseAlgorithm) -> LoggedEvents | None:
    section = config.off_policy_evaluation
    if section is None:
        return None
    events = open_converter(section, config).logged_events(config.resolve(section.source))
    where = f"{config.env_id}.off_policy_evaluation"
    for name in ("observation_space", "action_space"):
        wanted, found = getattr(model, name), getattr(events, name)
        same_size = getattr(wanted, "n", 0) == getattr(found, "n", 0)
        if type(wanted) is not type(found) or wanted.shape != found.shape or not same_size:
            msg = f"{where}: {name} of the log is {found}, but the environment's is {wanted}; use a rule that fits it"
            raise ConfigError(msg)
    if events.propensities is None:
        msg = f"{where}: the log has no propensities, without which no policy can be valued; give its rule a propensity"
        raise ConfigError(msg)
    action_values(model, events.observations[:1])
    return events


def _evaluate_off_policy(
    config: RunConfig, model: BaseAlgorithm, seeds: SeedTree, events: LoggedEvents | None
) -> dict[str, float]:
    section = config.off_policy_evaluation
    if section is None or events is None:
        return {}
    probabilities = action_probabilities(
        action_values(model, events.observations),
        section.policy,
        epsilon=section.epsilon,
        temperature=section.temperature,
    )
    report = estimate_policy_value(
        events, probabilities, seed=seeds.off_policy_evaluation, n_bootstrap=section.n_bootstrap
    )
    return {f"off_policy/{name}": value for name, value in report.as_dict().items()}


def _save(model: BaseAlgorithm, tracker: MlflowTracker, output: Path | None) -> Path | None:
    """Save the model, and the statistics of normalisation it cannot do without, to the store and the directory."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = output if output is not None else Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        model.save(directory / "model.zip")
        tracker.log_file(directory / "model.zip", "model")
        normalize = model.get_vec_normalize_env()
        if normalize is not None:
            normalize.save(str(directory / "vecnormalize.pkl"))
            tracker.log_file(directory / "vecnormalize.pkl", "model")
    return output / "model.zip" if output is not None else None
