"""What one training run is: the typed, frozen form of a block of a configuration file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sb3_webscale.errors import ConfigError
from sb3_webscale.experiments.algorithms import (
    ALGORITHMS,
    algorithm_class,
    check_hyperparameters,
    hyperparameter_names,
)
from sb3_webscale.experiments.class_paths import ClassReference, nearest
from sb3_webscale.experiments.config_file import apply_overrides, read_document, select_block
from sb3_webscale.experiments.values import normalise_block

__all__ = ["DataConfig", "EvaluationConfig", "OffPolicyEvaluationConfig", "RunConfig", "load_config"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class _LogSection(_Section):
    """A log and what converts it: a plugin's converter, or a rule file.

    :param source: Parquet file or other address of the log, relative to the configuration file
    :param converter: name under which a plugin registers its converter
    :param rule: path of a YAML rule, relative to the configuration file
    """

    source: str = Field(min_length=1)
    converter: str | None = None
    rule: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> _LogSection:
        if (self.converter is None) == (self.rule is None):
            msg = "give exactly one of 'converter' (a plugin's converter) and 'rule' (path of a YAML rule)"
            raise ValueError(msg)
        return self


class DataConfig(_LogSection):
    """History that is loaded into the buffer before training.

    :param online_ratio: share of each batch taken from online experience: ``linear``, a number, or a schedule
        as :func:`sb3_webscale.replay.online_ratio.parse_online_ratio` reads it
    """

    online_ratio: float | str | dict[str, Any] | None = None


class OffPolicyEvaluationConfig(_LogSection):
    """A logged data set on which the learned policy is valued without acting.

    :param policy: how action values become action probabilities
    :param epsilon: probability of a uniformly random action, for ``epsilon_greedy``
    :param temperature: divisor of the values, for ``softmax``
    :param n_bootstrap: resamplings behind the confidence interval
    """

    policy: Literal["greedy", "epsilon_greedy", "softmax"] = "greedy"
    epsilon: float = Field(default=0.1, ge=0, le=1)
    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    n_bootstrap: int = Field(default=1000, gt=0)


class EvaluationConfig(_Section):
    """Episodes played after training with the final policy.

    :param n_eval_episodes: number of episodes; 0 leaves the evaluation out
    :param deterministic: act greedily instead of sampling
    """

    n_eval_episodes: int = Field(default=10, ge=0)
    deterministic: bool = True


class RunConfig(_Section):
    """One training run.

    :param env_id: Gymnasium id of the environment
    :param algo: key of :data:`~sb3_webscale.experiments.algorithms.ALGORITHMS`
    :param seed: the one number from which every seed of the run follows
    :param n_timesteps: environment steps, over all environments together
    :param policy: policy name of the algorithm, or dotted path of a class
    :param hyperparameters: checked keyword arguments of the algorithm's constructor
    :param env_kwargs: keyword arguments of ``gymnasium.make``; a text that starts with ``./`` or ``../`` is a path
        relative to the configuration file
    :param env_wrapper: wrappers of each environment, innermost first
    :param vec_env_wrapper: wrappers of the vectorised environment, innermost first
    :param vec_env: environments in this process one after another, or each in a process of its own
    :param normalize: running normalisation of observations and rewards
    :param callback: callbacks of the training
    :param torch_num_threads: threads of torch inside one operation; torch's own choice when not given
    :param base_dir: directory to which the paths of this configuration are relative
    :param block: the block as plain data, from which the same run can be loaded again
    """

    env_id: str
    algo: str
    seed: int = Field(default=0, ge=0, lt=2**32)
    n_timesteps: int = Field(gt=0)
    policy: str
    hyperparameters: dict[str, Any] = Field(default_factory=dict)
    policy_kwargs: dict[str, Any] = Field(default_factory=dict)
    n_envs: int = Field(default=1, gt=0)
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    monitor_kwargs: dict[str, Any] = Field(default_factory=dict)
    env_wrapper: tuple[ClassReference, ...] = ()
    vec_env_wrapper: tuple[ClassReference, ...] = ()
    vec_env: Literal["dummy", "subproc"] = "dummy"
    frame_stack: int | None = Field(default=None, gt=0)
    normalize: bool = False
    normalize_kwargs: dict[str, Any] = Field(default_factory=dict)
    callback: tuple[ClassReference, ...] = ()
    noise_type: Literal["normal", "ornstein-uhlenbeck"] | None = None
    noise_std: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    replay_buffer_class: str | None = None
    replay_buffer_kwargs: dict[str, Any] = Field(default_factory=dict)
    data: DataConfig | None = None
    off_policy_evaluation: OffPolicyEvaluationConfig | None = None
    evaluation: EvaluationConfig = EvaluationConfig()
    torch_num_threads: int | None = Field(default=None, gt=0)
    base_dir: Path = Field(repr=False)
    block: dict[str, Any] = Field(repr=False)

    @model_validator(mode="after")
    def _consistent(self) -> RunConfig:
        if (self.noise_type is None) != (self.noise_std is None):
            msg = "noise_type and noise_std go together; give both or none"
            raise ValueError(msg)
        if self.replay_buffer_kwargs and self.replay_buffer_class is None:
            msg = "replay_buffer_kwargs needs replay_buffer_class; write replay_buffer_class: WebscaleReplayBuffer"
            raise ValueError(msg)
        return self

    def as_yaml(self) -> str:
        """:return: a configuration file that loads as this run"""
        return yaml.safe_dump({self.env_id: self.block}, sort_keys=True, allow_unicode=True)

    def resolved_env_kwargs(self) -> dict[str, Any]:
        """:return: ``env_kwargs``, with texts that start with ``./`` or ``../`` made absolute paths"""
        return {
            key: self.resolve(value) if isinstance(value, str) and value.startswith(("./", "../")) else value
            for key, value in self.env_kwargs.items()
        }

    def resolve(self, address: str) -> str:
        """:return: a path of this configuration made absolute; an address with a scheme is left as it is"""
        return address if "://" in address else str((self.base_dir / address).resolve())


_SECTIONS: dict[Any, type[_Section]] = {
    "data": DataConfig,
    "off_policy_evaluation": OffPolicyEvaluationConfig,
    "evaluation": EvaluationConfig,
}
RUN_KEYS = [name for name in RunConfig.model_fields if name not in ("env_id", "hyperparameters", "base_dir", "block")]


def load_config(
    path: str | Path,
    *,
    env_id: str | None = None,
    algo: str | None = None,
    seed: int | None = None,
    n_timesteps: int | None = None,
    overrides: Iterable[str] = (),
    base_dir: str | Path | None = None,
) -> RunConfig:
    """Load one run from a file in rl-baselines3-zoo style.

    :param path: YAML file; its name gives the algorithm (``dqn.yml``) where neither ``algo`` nor the block does
    :param env_id: environment; may be left out when the file names exactly one
    :param algo: algorithm, in place of the file's
    :param seed: seed, in place of the file's
    :param n_timesteps: environment steps, in place of the file's
    :param overrides: ``key=value`` changes
    :param base_dir: directory to which paths are relative, in place of the file's own
    :raises ConfigError: naming file, key path, value, rule and fix
    """
    path = Path(path)
    env_id, block = select_block(read_document(path), env_id, path)
    apply_overrides(block, overrides)
    given = {"algo": algo, "seed": seed, "n_timesteps": n_timesteps}
    block.update({key: value for key, value in given.items() if value is not None})
    if "algo" not in block:
        if path.stem.lower() not in ALGORITHMS:
            msg = f"{path}: {env_id}.algo is missing, and the file is not named for an algorithm; write algo: dqn"
            raise ConfigError(msg)
        block["algo"] = path.stem.lower()
    block.setdefault("seed", 0)
    return _build(env_id, block, Path(base_dir or path.parent).resolve(), f"{path}: {env_id}")


def _build(env_id: str, block: dict[str, Any], base_dir: Path, where: str) -> RunConfig:
    algorithm = algorithm_class(str(block["algo"]))
    values = normalise_block(block, where)
    own = {key: value for key, value in values.items() if key in RUN_KEYS}
    others = {key: value for key, value in values.items() if key not in RUN_KEYS}
    allowed = hyperparameter_names(algorithm)
    for key in ("replay_buffer_class", "replay_buffer_kwargs"):
        if key in own and key not in allowed:
            msg = f"{where}.{key} = {own[key]!r}: {algorithm.__name__} has no replay buffer; remove the key"
            raise ConfigError(msg)
    own["algo"] = str(own["algo"]).lower()
    try:
        return RunConfig(
            env_id=env_id,
            hyperparameters=check_hyperparameters(algorithm, others, RUN_KEYS, where),
            base_dir=base_dir,
            block=block,
            **own,
        )
    except ValidationError as error:
        raise ConfigError("; ".join(_describe(item, where) for item in error.errors())) from error


def _describe(item: Any, where: str) -> str:
    """Say one finding of pydantic the way the other messages say it."""
    location = ".".join([where, *map(str, item["loc"])])
    if item["type"] == "missing":
        return f"{location} is missing; write it"
    if item["type"] == "extra_forbidden":
        hint = nearest(str(item["loc"][-1]), list(_SECTIONS[item["loc"][0]].model_fields))
        return f"{location} = {item['input']!r} is not a key of this section; {hint}"
    rule = item["msg"].removeprefix("Value error, ")
    return f"{location} = {item['input']!r}: {rule}" if item["loc"] else f"{location}: {rule}"
