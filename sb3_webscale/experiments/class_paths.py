"""Classes named in a configuration: dotted paths, short names, and wrappers with their keyword arguments."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from sb3_webscale.errors import ConfigError

__all__ = ["BUFFER_CLASSES", "ClassReference", "load_class", "nearest", "parse_references"]

_LISTED_NAMES = 40

BUFFER_CLASSES = {
    "WebscaleReplayBuffer": "sb3_webscale.WebscaleReplayBuffer",
    "WebscaleDictReplayBuffer": "sb3_webscale.WebscaleDictReplayBuffer",
    "WebscaleHerReplayBuffer": "sb3_webscale.WebscaleHerReplayBuffer",
    "MixedReplayBuffer": "sb3_webscale.MixedReplayBuffer",
    "ReplayBuffer": "stable_baselines3.common.buffers.ReplayBuffer",
    "DictReplayBuffer": "stable_baselines3.common.buffers.DictReplayBuffer",
    "NStepReplayBuffer": "stable_baselines3.common.buffers.NStepReplayBuffer",
    "HerReplayBuffer": "stable_baselines3.HerReplayBuffer",
}


@dataclass(frozen=True)
class ClassReference:
    """A class named by its dotted path, with the keyword arguments to build it with.

    :param path: dotted path, ``package.module.Class``
    :param kwargs: keyword arguments
    """

    path: str
    kwargs: dict[str, Any] = field(default_factory=dict)

    def factory(self, where: str) -> partial[Any]:
        """:return: a callable that builds the object, given the positional arguments
        :raises ConfigError: when the class cannot be imported
        """
        return partial(load_class(self.path, where), **self.kwargs)


def nearest(name: str, valid: Mapping[str, Any] | list[str]) -> str:
    """:return: ``did you mean 'x'?`` for the closest valid name, else the valid names, as far as they fit a message"""
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    names = sorted(valid)
    more = f" and {len(names) - _LISTED_NAMES} more" if len(names) > _LISTED_NAMES else ""
    return f"valid names: {', '.join(names[:_LISTED_NAMES])}{more}"


def load_class(path: str, where: str, short_names: Mapping[str, str] | None = None) -> Any:
    """Import a class by its dotted path or short name.

    :param path: ``package.module.Class``, or a key of ``short_names``
    :param where: key path of the value, for the error message
    :param short_names: names that stand for a dotted path
    :raises ConfigError: when it does not exist or cannot be imported
    """
    if short_names and path in short_names:
        path = short_names[path]
    module, _, name = path.rpartition(".")
    if not module:
        msg = f"{where} = {path!r} is not a class; write its dotted path, or: {nearest(path, short_names or {})}"
        raise ConfigError(msg)
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        msg = (
            f"{where} = {path!r} cannot be imported ({error}); check the dotted path and that its package is installed"
        )
        raise ConfigError(msg) from error


def parse_references(value: Any, where: str) -> tuple[ClassReference, ...]:
    """Read the forms in which wrappers and callbacks are written.

    :param value: None, a dotted path, ``{path: {kwargs}}``, or a list of these
    :param where: key path of the value, for the error message
    :return: the references in the order given, the innermost wrapper first
    :raises ConfigError: for any other form
    """
    if value is None:
        return ()
    items = value if isinstance(value, list) else [value]
    return tuple(_parse_reference(item, f"{where}[{i}]") for i, item in enumerate(items))


def _parse_reference(item: Any, where: str) -> ClassReference:
    if isinstance(item, str):
        return ClassReference(item)
    if isinstance(item, Mapping) and len(item) == 1:
        path, kwargs = next(iter(item.items()))
        if isinstance(path, str) and (kwargs is None or isinstance(kwargs, Mapping)):
            return ClassReference(path, dict(kwargs or {}))
    msg = f"{where} = {item!r} must be 'package.module.Class' or one mapping {{package.module.Class: {{key: value}}}}"
    raise ConfigError(msg)
