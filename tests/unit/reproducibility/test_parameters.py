"""Settings become flat, short texts."""

from __future__ import annotations

from sb3_webscale.reproducibility.parameters import flatten, shorten


def test_nested_mappings_get_dotted_keys():
    values = {"a": 1, "b": {"c": [1, 2], "d": {"e": None}}, "f": {}, "g": "text"}
    assert flatten(values) == {"a": "1", "b.c": "[1, 2]", "b.d.e": "None", "f": "{}", "g": "text"}


def test_short_texts_are_left_alone():
    assert shorten("x" * 20, 20) == "x" * 20


def test_long_texts_are_cut_visibly_and_stay_distinct():
    one, two = (shorten("x" * 7000 + tail, 6000) for tail in "ab")
    assert len(one) == len(two) == 6000
    assert "[cut, 7001 characters, sha256 " in one
    assert one != two
