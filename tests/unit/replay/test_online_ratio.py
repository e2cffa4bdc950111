from __future__ import annotations

import math

import pytest

from sb3_webscale.errors import ConfigError
from sb3_webscale.replay import ConstantOnlineRatio, LinearOnlineRatio, parse_online_ratio


def test_the_default_schedule_is_min_of_1_and_03_plus_07_progress() -> None:
    schedule = parse_online_ratio("linear")
    for progress in (0.0, 0.1, 0.5, 0.99, 1.0, 3.0):
        assert schedule(progress) == pytest.approx(min(1.0, 0.3 + 0.7 * progress))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (0.5, ConstantOnlineRatio(0.5)),
        (1, ConstantOnlineRatio(1.0)),
        ({"start": 0.1, "end": 0.2}, LinearOnlineRatio(0.1, 0.2)),
        (LinearOnlineRatio(0.2, 0.3), LinearOnlineRatio(0.2, 0.3)),
    ],
)
def test_forms_that_are_understood(spec: object, expected: object) -> None:
    assert parse_online_ratio(spec) == expected


@pytest.mark.parametrize("spec", ["cosine", True, None, {"begin": 0.1}, -0.1, 1.5, math.nan, {"start": 2.0}])
def test_other_forms_are_refused_by_name(spec: object) -> None:
    with pytest.raises(ConfigError, match="online_ratio"):
        parse_online_ratio(spec)
