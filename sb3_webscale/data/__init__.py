"""From logs to transitions: sources, declarative rules, converters, off-policy estimates; no torch, no SB3."""

from __future__ import annotations

from sb3_webscale.data.converter import Converter, RuleConverter
from sb3_webscale.data.logged_events import LoggedEvents
from sb3_webscale.data.rules import (
    BoxAction,
    DiscreteAction,
    Episode,
    Fill,
    HashState,
    MeanScale,
    NumericState,
    OneHotState,
    Propensity,
    RangeScale,
    Reward,
    Rule,
)
from sb3_webscale.data.sources import Source, open_source
from sb3_webscale.data.transitions import ConversionReport, Transitions

__all__ = [
    "BoxAction",
    "ConversionReport",
    "Converter",
    "DiscreteAction",
    "Episode",
    "Fill",
    "HashState",
    "LoggedEvents",
    "MeanScale",
    "NumericState",
    "OneHotState",
    "Propensity",
    "RangeScale",
    "Reward",
    "Rule",
    "RuleConverter",
    "Source",
    "Transitions",
    "open_source",
]
