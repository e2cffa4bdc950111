"""From what a configuration calls an encoder to what builds it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from sb3_webscale.data.names import name_hint
from sb3_webscale.errors import InvalidInputError
from sb3_webscale.retrieval.encoder import EncoderFactory
from sb3_webscale.retrieval.identity import Identity
from sb3_webscale.retrieval.random_projection import RandomProjection

__all__ = ["AUTO", "encoder_factory"]

AUTO = "auto"
_BUILTIN: dict[str, type[Any]] = {"identity": Identity, "random_projection": RandomProjection}


def encoder_factory(encoder: str | Mapping[str, Any] | EncoderFactory) -> EncoderFactory | None:
    """
    :param encoder: a name, a mapping of ``name`` and settings, or a factory
    :return: what builds the encoder, or None for a choice by the space
    :raises InvalidInputError: when no encoder is called so, or it has no such settings
    """
    if isinstance(encoder, EncoderFactory) and not inspect.isclass(encoder):
        return encoder
    if isinstance(encoder, str):
        encoder = {"name": encoder}
    if not isinstance(encoder, Mapping) or not isinstance(encoder.get("name"), str):
        msg = (
            f"encoder of the index is {encoder!r}, but must be a name, a mapping with 'name' and the encoder's "
            "settings, or an object with build(observation_space, seed)"
        )
        raise InvalidInputError(msg)
    settings = {str(key): value for key, value in encoder.items() if key != "name"}
    return _named_factory(encoder["name"], settings)


def _named_factory(name: str, settings: dict[str, Any]) -> EncoderFactory | None:
    if name == AUTO:
        _refuse_unknown(name, settings, [])
        return None
    if name not in _BUILTIN:
        msg = f"no encoder is named {name!r}; {name_hint(name, [AUTO, *_BUILTIN])}"
        raise InvalidInputError(msg)
    factory = _BUILTIN[name]
    _refuse_unknown(name, settings, [field.name for field in fields(factory)] if is_dataclass(factory) else [])
    built: EncoderFactory = factory(**settings)
    return built


def _refuse_unknown(name: str, settings: dict[str, Any], known: list[str]) -> None:
    for setting in settings:
        if setting not in known:
            msg = f"encoder {name!r} of the index has no setting {setting!r}; {name_hint(setting, known)}"
            raise InvalidInputError(msg)
