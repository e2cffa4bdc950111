"""Python literals written as strings in a configuration, read without evaluating anything.

rl-baselines3-zoo writes ``policy_kwargs: "dict(net_arch=[256, 256], activation_fn=nn.ReLU)"`` and hands the
string to ``eval``. Here the string is parsed to a syntax tree, and only literals, ``dict(...)`` with keywords
and the names of torch modules and optimizers are accepted; whatever else is in it is refused.
"""

from __future__ import annotations

import ast
from typing import Any

from sb3_webscale.errors import ConfigError

__all__ = ["parse_literal", "resolve_torch_name"]

_MODULE_PREFIXES = ("nn", "th.nn", "torch.nn")
_OPTIMIZER_PREFIXES = ("optim", "th.optim", "torch.optim")
_PYTHON_SPELLINGS = {"true": True, "false": False, "none": None, "null": None}


def parse_literal(text: str, where: str = "value") -> Any:
    """Read one Python literal.

    :param text: for example ``dict(net_arch=[64, 64], activation_fn=nn.Tanh)`` or ``{'norm_obs': True}``
    :param where: key path of the value, for the error message
    :return: the value, built of dict, list, tuple, str, numbers, bool, None and torch classes
    :raises ConfigError: when the text is no literal, whatever else it may be
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        msg = f"{where} = {text!r} is not a Python literal ({error}); write for example dict(net_arch=[64, 64])"
        raise ConfigError(msg) from error
    return _Reader(text, where).read(tree.body)


def resolve_torch_name(name: str) -> type | None:
    """Find a torch module or optimizer class by its dotted name.

    :param name: ``nn.ReLU``, ``torch.nn.Tanh``, ``th.optim.RMSprop``, ``RMSpropTFLike``
    :return: the class, or None when the name is none of these
    """
    import torch
    from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

    if name == "RMSpropTFLike":
        return RMSpropTFLike
    prefix, _, attribute = name.rpartition(".")
    for prefixes, namespace, base in (
        (_MODULE_PREFIXES, torch.nn, torch.nn.Module),
        (_OPTIMIZER_PREFIXES, torch.optim, torch.optim.Optimizer),
    ):
        if prefix in prefixes:
            found = getattr(namespace, attribute, None)
            return found if isinstance(found, type) and issubclass(found, base) else None
    return None


class _Reader:
    """Turns one syntax tree into its value; every node type that is not listed is refused."""

    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where

    def read(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and not isinstance(node.value, (bytes, complex)):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple)):
            items = [self.read(item) for item in node.elts]
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.Dict):
            return {self._key(key): self.read(value) for key, value in zip(node.keys, node.values, strict=True)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            return self._signed(node)
        if isinstance(node, ast.Call):
            return self._dict_call(node)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._name(node)
        raise self._refusal(node)

    def _key(self, node: ast.expr | None) -> Any:
        if not isinstance(node, ast.Constant):
            raise self._refusal(node)
        return node.value

    def _signed(self, node: ast.UnaryOp) -> int | float:
        value = self.read(node.operand)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._refusal(node)
        return -value if isinstance(node.op, ast.USub) else value

    def _dict_call(self, node: ast.Call) -> dict[str, Any]:
        if not (isinstance(node.func, ast.Name) and node.func.id == "dict") or node.args:
            raise self._refusal(node)
        values: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self._refusal(node)
            values[keyword.arg] = self.read(keyword.value)
        return values

    def _name(self, node: ast.Name | ast.Attribute) -> Any:
        name = ast.unparse(node)
        if name in _PYTHON_SPELLINGS:
            return _PYTHON_SPELLINGS[name]
        found = resolve_torch_name(name)
        if found is None:
            raise self._refusal(node)
        return found

    def _refusal(self, node: ast.expr | None) -> ConfigError:
        part = "**" if node is None else ast.unparse(node)
        return ConfigError(
            f"{self.where} = {self.text!r}: {part!r} is not allowed in a literal; use constants, lists, tuples, "
            "dicts, dict(key=...) and names such as nn.ReLU or torch.optim.RMSprop (nothing is evaluated)"
        )
