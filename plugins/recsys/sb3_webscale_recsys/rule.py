"""The rule for Open Bandit logs, which ships with this package."""

from __future__ import annotations

from importlib.resources import as_file, files

from sb3_webscale.data import Rule, RuleConverter

__all__ = ["open_bandit_converter", "open_bandit_rule"]


def open_bandit_rule() -> Rule:
    """:return: the rule of ``rules/open_bandit.yml``"""
    with as_file(files("sb3_webscale_recsys") / "rules" / "open_bandit.yml") as path:
        return Rule.from_yaml(path)


def open_bandit_converter() -> RuleConverter:
    """:return: a converter of Open Bandit logs by that rule"""
    return RuleConverter(open_bandit_rule())
