"""Spans of time as people write them in a rule: ``30m``, ``1h30m``, ``500ms``."""

from __future__ import annotations

import re
from datetime import timedelta

__all__ = ["parse_duration"]

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)")


def parse_duration(text: str) -> timedelta:
    """
    :param text: numbers each followed by a unit of us, ms, s, m, h or d, for example ``1h30m``
    :return: the span, exact to the microsecond
    :raises ValueError: when the text has another form
    """
    compact = text.replace(" ", "")
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        msg = f"{text!r} is not a duration; write numbers with units {', '.join(_UNITS)}, such as '30m' or '1h30m'"
        raise ValueError(msg)
    return timedelta(microseconds=sum(round(float(number) * _UNITS[unit]) for number, unit in parts))
