"""Reading a configuration file: YAML without evaluation, one block of it, and changes from the command line."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from sb3_webscale.errors import ConfigError
from sb3_webscale.experiments.class_paths import nearest
from sb3_webscale.experiments.values import EXPONENT_WITHOUT_DOT

__all__ = ["apply_overrides", "read_document", "select_block"]

_DEFAULT_BLOCK = "default"
_ATARI_BLOCK = "atari"


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which also refuses a key written twice instead of keeping the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                problem = f"key {key!r} is written twice; remove one"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1 takes 1e-5 for a text, since it wants a dot; at any depth of a configuration it is a number.
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT_WITHOUT_DOT, list("+-0123456789"))


def read_document(path: Path) -> dict[str, dict[str, Any]]:
    """Read every block of a configuration file.

    :param path: YAML file ``{env_id: {key: value}}``
    :return: the blocks by environment id
    :raises ConfigError: when the file is missing, is not YAML, or has another form
    """
    try:
        with path.open(encoding="utf-8") as file:
            document = yaml.load(file, Loader=_Loader)
    except OSError as error:
        msg = f"config = '{path}' cannot be read ({error.strerror}); give the path of a YAML file"
        raise ConfigError(msg) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        msg = f"config = '{path}' is not valid YAML: {' '.join(str(error).split())}"
        raise ConfigError(msg) from error
    if not isinstance(document, dict) or not document:
        kind = type(document).__name__
        msg = f"config = '{path}' must hold blocks of the form 'env_id: {{key: value}}'; it holds {kind}"
        raise ConfigError(msg)
    for env_id, block in document.items():
        if not isinstance(block, dict) or not all(isinstance(key, str) for key in block):
            msg = f"{path}: {env_id} must be a mapping of hyperparameters; it holds {block!r}"
            raise ConfigError(msg)
    return document


def select_block(document: Mapping[str, dict[str, Any]], env_id: str | None, path: Path) -> tuple[str, dict[str, Any]]:
    """Choose the block of one environment.

    :param document: blocks by environment id
    :param env_id: environment to train on; may be left out when the file names exactly one
    :param path: the file, for the error message
    :return: environment id, and a copy of its block, of the ``atari`` block, or of the ``default`` block
    :raises ConfigError: when no block fits
    """
    named = [name for name in document if name not in (_DEFAULT_BLOCK, _ATARI_BLOCK)]
    if env_id is None:
        if len(named) != 1:
            found = ", ".join(named)
            msg = f"env is not given, and {path} names {len(named)} environments ({found}); choose one with --env"
            raise ConfigError(msg)
        env_id = named[0]
    for name in (env_id, _ATARI_BLOCK if _is_atari(env_id) else env_id, _DEFAULT_BLOCK):
        if name in document:
            return env_id, copy.deepcopy(document[name])
    msg = f"env = {env_id!r} has no block in {path}, and there is no {_DEFAULT_BLOCK!r} block; {nearest(env_id, named)}"
    raise ConfigError(msg)


def apply_overrides(block: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Apply ``key=value`` changes, the value written as it would be in the file.

    :param block: changed in place
    :param overrides: for example ``gamma=0.9``, ``replay_buffer_kwargs.alpha=0.5``, ``policy_kwargs.net_arch=[64, 64]``
    :return: the block
    :raises ConfigError: when an override is malformed or reaches into something that is no mapping
    """
    for override in overrides:
        dotted, separator, text = override.partition("=")
        if not separator or not all(dotted.split(".")):
            msg = f"set = {override!r} must be key=value; write for example gamma=0.9 or replay_buffer_kwargs.alpha=0.5"
            raise ConfigError(msg)
        try:
            value = yaml.load(text, Loader=_Loader)
        except yaml.YAMLError as error:
            msg = f"set = {override!r}: the value is not valid YAML; write it as in a configuration file"
            raise ConfigError(msg) from error
        *parents, last = dotted.split(".")
        target: Any = block
        for parent in parents:
            target = target.setdefault(parent, {})
            if not isinstance(target, dict):
                msg = f"set = {override!r}: {parent} holds {target!r}, which is no mapping; set {parent} as a whole"
                raise ConfigError(msg)
        target[last] = value
    return block


def _is_atari(env_id: str) -> bool:
    return env_id.startswith("ALE/") or "NoFrameskip-" in env_id
