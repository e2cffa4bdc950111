"""The hint that follows an unknown name: the nearest valid one, then the whole list when it is short."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["name_hint"]

_LISTED = 12


def name_hint(name: str, valid: Iterable[str]) -> str:
    """
    :param name: the name that was not found
    :param valid: every name that would have been found
    :return: ``did you mean 'x'? valid: a, b, x``; long lists are cut, and the number left out is said
    """
    names = sorted(set(valid))
    if not names:
        return "there is none to choose from"
    listed = ", ".join(names[:_LISTED])
    if len(names) > _LISTED:
        listed += f" and {len(names) - _LISTED} more"
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return (f"did you mean {close[0]!r}? " if close else "") + f"valid: {listed}"
