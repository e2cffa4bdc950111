"""The forms in which rl-baselines3-zoo files write values, brought to one form each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sb3_webscale.errors import ConfigError
from sb3_webscale.experiments.class_paths import load_class, parse_references
from sb3_webscale.experiments.literals import parse_literal, resolve_torch_name
from sb3_webscale.experiments.schedules import SCHEDULED_HYPERPARAMETERS, parse_schedule

__all__ = ["EXPONENT_WITHOUT_DOT", "normalise_block"]

_MAPPING_KEYS = (
    "env_kwargs",
    "monitor_kwargs",
    "normalize_kwargs",
    "policy_kwargs",
    "replay_buffer_kwargs",
    "rollout_buffer_kwargs",
)
_REFERENCE_KEYS = ("callback", "env_wrapper", "vec_env_wrapper")
_CLASS_KEYS = ("activation_fn", "features_extractor_class", "optimizer_class")

# YAML 1.1 reads 1e-4 as a string because it wants a dot and a sign: 1.0e-4.
EXPONENT_WITHOUT_DOT = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+\Z")


def normalise_block(block: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Read every value of a block.

    :param block: keys and values as YAML gives them
    :param where: file and environment, for the error messages
    :return: the same keys (``normalize`` may add ``normalize_kwargs``): schedules as objects, literals in strings
        as their values, wrappers and callbacks as references
    :raises ConfigError: naming file, key path, value, rule and fix
    """
    values: dict[str, Any] = {}
    for key, value in block.items():
        path = f"{where}.{key}"
        if key in SCHEDULED_HYPERPARAMETERS:
            values[key] = parse_schedule(value, path)
        elif key in _MAPPING_KEYS:
            values[key] = _mapping(value, path)
        elif key in _REFERENCE_KEYS:
            values[key] = parse_references(value, path)
        elif key == "train_freq" and isinstance(value, list):
            values[key] = tuple(value)
        elif isinstance(value, str) and EXPONENT_WITHOUT_DOT.fullmatch(value):
            values[key] = float(value)
        else:
            values[key] = value
    if "policy_kwargs" in values:
        values["policy_kwargs"] = _with_classes(values["policy_kwargs"], f"{where}.policy_kwargs")
    return _split_normalize(values, where)


def _mapping(value: Any, where: str) -> dict[str, Any]:
    """Read a mapping, written as one or as ``"dict(...)"``; nothing written is an empty one."""
    if isinstance(value, str):
        value = parse_literal(value, where)
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        msg = f"{where} = {value!r} must be a mapping with names as keys; write {{key: value}} or 'dict(key=value)'"
        raise ConfigError(msg)
    return dict(value)


def _with_classes(policy_kwargs: dict[str, Any], where: str) -> dict[str, Any]:
    """Replace class names by classes, where the policy takes a class."""
    return {
        key: (resolve_torch_name(value) or load_class(value, f"{where}.{key}"))
        if key in _CLASS_KEYS and isinstance(value, str)
        else value
        for key, value in policy_kwargs.items()
    }


def _split_normalize(values: dict[str, Any], where: str) -> dict[str, Any]:
    """``normalize`` is a switch or the keyword arguments themselves; make it a switch and keyword arguments."""
    switch = values.get("normalize", False)
    if isinstance(switch, bool):
        return values
    kwargs = _mapping(switch, f"{where}.normalize")
    return {**values, "normalize": True, "normalize_kwargs": {**kwargs, **values.get("normalize_kwargs", {})}}
