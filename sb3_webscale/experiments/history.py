"""Logs that a run reads: opening them through a plugin's converter or a rule, and loading them as history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from sb3_webscale.data import Rule, RuleConverter
from sb3_webscale.errors import DataError
from sb3_webscale.experiments.installed_plugins import installed_plugins

if TYPE_CHECKING:
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

    from sb3_webscale.data import Converter, Transitions
    from sb3_webscale.experiments.config import DataConfig, OffPolicyEvaluationConfig, RunConfig

__all__ = ["check_spaces", "data_fingerprints", "load_history", "open_converter"]


def open_converter(section: DataConfig | OffPolicyEvaluationConfig, config: RunConfig) -> Converter:
    """Find what converts a log.

    :param section: names a plugin's converter or the path of a rule
    :param config: the run, to whose directory paths are relative
    :raises PluginError: when no plugin registers the converter
    """
    if section.rule is not None:
        return RuleConverter(Rule.from_yaml(Path(config.resolve(section.rule))))
    return installed_plugins().converters[str(section.converter)]


def data_fingerprints(config: RunConfig) -> dict[str, str]:
    """:return: fingerprint of the content and the rule of every log that the run reads, by section"""
    sections = {"data": config.data, "off_policy_evaluation": config.off_policy_evaluation}
    return {
        name: str(open_converter(section, config).fingerprint(config.resolve(section.source)))
        for name, section in sections.items()
        if section is not None
    }


def load_history(config: RunConfig, model: OffPolicyAlgorithm) -> Transitions | None:
    """Convert the log of the ``data`` section and load it into the buffer of the model.

    :param config: the run
    :param model: its buffer is a :class:`~sb3_webscale.MixedReplayBuffer`
    :return: what was loaded; None when the run has no ``data`` section
    :raises DataError: when the log holds other observations or actions than the environment
    """
    if config.data is None:
        return None
    transitions: Transitions = open_converter(config.data, config).convert(config.resolve(config.data.source))
    check_spaces(transitions, model.observation_space, model.action_space, config.env_id)
    buffer: Any = model.replay_buffer
    buffer.load_history(transitions)
    return transitions


def check_spaces(
    transitions: Transitions, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], env_id: str
) -> None:
    """Check that history and environment speak of the same observations and actions.

    :param transitions: converted log
    :param observation_space: of the environment, after all wrappers
    :param action_space: of the environment
    :param env_id: for the error message
    :raises DataError: naming both spaces
    """
    for kind, logged, expected in (
        ("observation", transitions.observation_space, observation_space),
        ("action", transitions.action_space, action_space),
    ):
        if not _same_kind(logged, expected):
            msg = (
                f"{kind}_space of the log = {logged} differs from that of {env_id} after its wrappers = {expected}; "
                "change the rule's columns or the environment so that shape, type and number of actions agree"
            )
            raise DataError(msg)


def _same_kind(logged: spaces.Space[Any], expected: spaces.Space[Any]) -> bool:
    if isinstance(expected, spaces.Discrete):
        return isinstance(logged, spaces.Discrete) and (logged.n, logged.start) == (expected.n, expected.start)
    return type(logged) is type(expected) and logged.shape == expected.shape and logged.dtype == expected.dtype
