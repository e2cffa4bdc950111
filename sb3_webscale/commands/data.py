"""``sb3-webscale data check``."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.table import Table

from sb3_webscale.commands.console import make_console
from sb3_webscale.data import Converter, Rule, RuleConverter, Transitions
from sb3_webscale.experiments.installed_plugins import installed_plugins

__all__ = ["check_command"]

_RULE_SUFFIXES = (".yml", ".yaml")
_SHOWN_VALUES = 6


def check_command(arguments: argparse.Namespace) -> None:
    """Convert a log, and show its spaces, what became of its rows, and the first transitions.

    :param arguments: parsed command line
    """
    console = make_console()
    converter = _converter(arguments.rule)
    transitions = converter.convert(arguments.source)
    console.print(f"observation space  {transitions.observation_space}", highlight=False)
    console.print(f"action space       {transitions.action_space}", highlight=False)
    logged = "none" if transitions.propensities is None else "logged"
    console.print(f"propensities       {logged}", highlight=False)
    console.print(f"fingerprint        {converter.fingerprint(arguments.source)}", highlight=False, soft_wrap=True)
    counts = Table("rows", "count", title="what became of the rows", title_justify="left")
    for name, count in transitions.report.as_dict().items():
        counts.add_row(name, f"{count:,}")
    console.print(counts)
    if arguments.rows > 0:
        console.print(_first_rows(transitions, arguments.rows))


def _converter(rule: str) -> Converter:
    """A rule file by its path, a plugin's converter by its name."""
    if Path(rule).suffix in _RULE_SUFFIXES:
        return RuleConverter(Rule.from_yaml(Path(rule)))
    return installed_plugins().converters[rule]


def _first_rows(transitions: Transitions, rows: int) -> Table:
    names = ("episode", "observation", "action", "reward", "next observation", "terminated", "truncated", "propensity")
    table = Table(*names, title="first transitions", title_justify="left")
    for i in range(min(rows, len(transitions))):
        propensity = "" if transitions.propensities is None else f"{transitions.propensities[i]:.4g}"
        table.add_row(
            str(transitions.episode_ids[i]),
            _vector(transitions.observations[i]),
            str(transitions.actions[i]),
            f"{transitions.rewards[i]:.4g}",
            _vector(transitions.next_observations[i]),
            str(bool(transitions.terminated[i])),
            str(bool(transitions.truncated[i])),
            propensity,
        )
    return table


def _vector(values: object) -> str:
    flat = np.asarray(values).ravel()
    shown = " ".join(f"{value:.3g}" for value in flat[:_SHOWN_VALUES])
    return f"{shown} ... ({len(flat)})" if len(flat) > _SHOWN_VALUES else shown
