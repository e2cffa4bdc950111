"""Reading a rule from YAML, and its one canonical text."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from sb3_webscale.data.names import name_hint
from sb3_webscale.data.rules import Rule
from sb3_webscale.errors import RuleError

__all__ = ["canonical_text", "load_rule", "parse_rule"]


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML in which a key given twice is an error; plain YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                msg = f"key {key.value!r} is given twice (line {key.start_mark.line + 1}); give it once"
                raise yaml.YAMLError(msg)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_rule(path: Path) -> Rule:
    """
    :param path: YAML file
    :return: the rule it holds
    :raises RuleError: when the file is missing, is not YAML, or is not a rule
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        msg = (
            f"rule file {str(path)!r} cannot be read ({error.strerror}; working directory {Path.cwd()}); give its path"
        )
        raise RuleError(msg) from error
    try:
        content = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        msg = f"{path}: not valid YAML: {error}"
        raise RuleError(msg) from error
    return parse_rule(content, where=str(path))


def parse_rule(content: Any, where: str) -> Rule:
    """
    :param content: the mapping that a rule file holds
    :param where: what to call its origin in messages
    :return: the rule
    :raises RuleError: listing each wrong key by its path
    """
    if not isinstance(content, dict):
        msg = f"{where}: a rule is a mapping with the keys {', '.join(Rule.model_fields)}, not {type(content).__name__}"
        raise RuleError(msg)
    try:
        return Rule.model_validate(content)
    except ValidationError as error:
        msg = "\n".join(f"{where}: {_describe(item)}" for item in error.errors(include_url=False))
        raise RuleError(msg) from error


def canonical_text(rule: Rule) -> str:
    """
    :param rule: any rule
    :return: JSON with sorted keys and every default written out; equal rules give equal text
    """
    return json.dumps(rule.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


# Names that pydantic puts into an error's path for the members of a union; they are no keys of the file.
_UNION_MEMBERS = frozenset({"numeric", "one_hot", "hash", "discrete", "box", "float", "timedelta"})


def _describe(item: Any) -> str:
    places = [place for place in item["loc"] if place not in _UNION_MEMBERS and "[" not in str(place)]
    key = "".join(f"[{place}]" if isinstance(place, int) else f".{place}" for place in places).lstrip(".")
    if item["type"] == "missing":
        return f"{key or 'rule'}: this key is required; add it"
    if item["type"] == "union_tag_invalid":
        context = item["ctx"]
        tags = context["expected_tags"].replace("'", "").split(", ")
        return (
            f"{key}.{context['discriminator'].strip(chr(39))} = {context['tag']!r}; {name_hint(context['tag'], tags)}"
        )
    if item["type"] == "union_tag_not_found":
        return f"{key}.{item['ctx']['discriminator'].strip(chr(39))}: this key is required; add it"
    if item["type"] == "unknown_key":
        return f"{key + ': ' if key else ''}{item['msg']}"
    return f"{key} = {item['input']!r}: {item['msg'].removeprefix('Value error, ')}"
