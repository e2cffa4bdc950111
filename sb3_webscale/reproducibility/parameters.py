"""Nested settings as flat, short texts, the form in which a tracker compares runs."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

__all__ = ["flatten", "shorten"]

_MARK = "... [cut, {length} characters, sha256 {digest}]"


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten nested mappings to dotted keys.

    :param values: nested settings
    :param prefix: put before every key
    :return: texts by dotted key; an empty mapping stays visible as ``{}``
    """
    flat: dict[str, str] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{name}.")
        else:
            flat[name] = str(dict(value)) if isinstance(value, Mapping) else str(value)
    return flat


def shorten(text: str, limit: int) -> str:
    """Cut a text that is too long for the store, and say so in what is left.

    Two texts that differ only past the cut still differ, because the mark holds a hash of the whole.

    :param text: any text
    :param limit: greatest length allowed
    """
    if len(text) <= limit:
        return text
    mark = _MARK.format(length=len(text), digest=sha256(text.encode()).hexdigest()[:16])
    return text[: limit - len(mark)] + mark
