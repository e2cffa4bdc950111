"""docs/rules.md: its examples are rules, and it names every key and function of the language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from sb3_webscale.data import rules
from sb3_webscale.data.expressions import FUNCTIONS, compile_expression
from sb3_webscale.data.rule_file import parse_rule

TEXT = (Path(__file__).parents[3] / "docs" / "rules.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)
SECTIONS = [getattr(rules, name) for name in rules.__all__ if isinstance(getattr(rules, name), type)]
KEYS = {key for section in SECTIONS if issubclass(section, BaseModel) for key in section.model_fields}


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_rules(example: str) -> None:
    rule = parse_rule(yaml.safe_load(example), where="docs/rules.md")
    if rule.reward.expression is not None:
        compile_expression(rule.reward.expression)


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_key_is_named(key: str) -> None:
    assert re.search(rf"[`{{ ]{key}[`:]", TEXT)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_is_named_with_its_arguments(name: str) -> None:
    arity, _ = FUNCTIONS[name]
    match = re.search(rf"`{name}\((.*?)\)`", TEXT)
    assert match is not None
    assert len(match[1].split(",")) == arity
