"""Conformance kit for converters: inherit the class, give two fixtures, and pytest checks the contract.

.. code-block:: python

    class TestMyConverter(ConverterTestCase):
        @pytest.fixture
        def converter(self):
            return MyConverter()

        @pytest.fixture
        def source(self):
            return "tests/data/my_log.parquet"
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from sb3_webscale.data import Converter, LoggedEvents, Transitions
from sb3_webscale.errors import DataError

__all__ = ["ConverterTestCase"]


class ConverterTestCase:
    """What a :class:`~sb3_webscale.data.Converter` promises. The log should hold several episodes."""

    @pytest.fixture
    def converter(self) -> Converter:
        """:return: the converter under test"""
        raise NotImplementedError

    @pytest.fixture
    def source(self) -> str | Path:
        """:return: a log that the converter can read"""
        raise NotImplementedError

    @pytest.fixture
    def transitions(self, converter: Converter, source: str | Path) -> Transitions:
        """:return: the log, converted"""
        return converter.convert(source)

    @pytest.fixture
    def events(self, converter: Converter, source: str | Path) -> LoggedEvents:
        """:return: the log's events"""
        return converter.logged_events(source)

    def test_satisfies_the_protocol(self, converter: Converter) -> None:
        assert isinstance(converter, Converter)

    def test_gives_transitions(self, transitions: Transitions) -> None:
        assert isinstance(transitions, Transitions)
        assert len(transitions) > 0

    def test_dtypes_are_those_of_the_spaces(self, transitions: Transitions) -> None:
        assert transitions.observations.dtype == transitions.observation_space.dtype
        assert transitions.next_observations.dtype == transitions.observation_space.dtype
        discrete = isinstance(transitions.action_space, spaces.Discrete)
        assert transitions.actions.dtype == (np.int64 if discrete else np.float32)
        assert transitions.rewards.dtype == np.float32
        assert transitions.terminated.dtype == np.bool_
        assert transitions.truncated.dtype == np.bool_
        assert transitions.episode_ids.dtype == np.int64

    def test_shapes_are_those_of_the_spaces(self, transitions: Transitions) -> None:
        n = len(transitions)
        assert transitions.observations.shape == (n, *transitions.observation_space.shape)
        assert transitions.next_observations.shape == transitions.observations.shape
        assert transitions.actions.shape == (n, *(transitions.action_space.shape or ()))
        assert transitions.rewards.shape == (n,)

    def test_observations_lie_in_the_space(self, transitions: Transitions) -> None:
        space = transitions.observation_space
        for observations in (transitions.observations, transitions.next_observations):
            assert np.isfinite(observations).all()
            assert (observations >= space.low).all()
            assert (observations <= space.high).all()

    def test_actions_lie_in_the_space(self, transitions: Transitions) -> None:
        assert all(transitions.action_space.contains(action) for action in transitions.actions)

    def test_rewards_are_finite(self, transitions: Transitions) -> None:
        assert np.isfinite(transitions.rewards).all()

    def test_propensities_are_probabilities(self, transitions: Transitions, events: LoggedEvents) -> None:
        assert (transitions.propensities is None) == (events.propensities is None)
        for propensities in (transitions.propensities, events.propensities):
            if propensities is not None:
                assert ((propensities > 0.0) & (propensities <= 1.0)).all()

    def test_episodes_lie_together(self, transitions: Transitions) -> None:
        assert (np.diff(transitions.episode_ids) >= 0).all()

    def test_next_observation_is_the_next_row_of_the_episode(self, transitions: Transitions) -> None:
        inside = np.flatnonzero(np.diff(transitions.episode_ids) == 0)
        assert (transitions.next_observations[inside] == transitions.observations[inside + 1]).all()

    def test_episodes_end_exactly_once_and_at_their_end(self, transitions: Transitions) -> None:
        ended = transitions.terminated | transitions.truncated
        last = np.diff(transitions.episode_ids, append=transitions.episode_ids[-1] + 1) > 0
        assert (ended == last).all()
        assert not (transitions.terminated & transitions.truncated).any()

    def test_terminal_transitions_repeat_their_observation(self, transitions: Transitions) -> None:
        terminal = transitions.terminated
        assert (transitions.next_observations[terminal] == transitions.observations[terminal]).all()

    def test_report_accounts_for_every_row(self, transitions: Transitions) -> None:
        report = transitions.report
        assert report.transitions == len(transitions)
        assert report.events == report.transitions + sum(report.dropped.values())
        assert report.terminated == transitions.terminated.sum()
        assert report.truncated == transitions.truncated.sum()
        assert report.episodes >= len(np.unique(transitions.episode_ids))

    def test_events_hold_every_transition(self, transitions: Transitions, events: LoggedEvents) -> None:
        assert len(events) >= len(transitions)
        assert events.observation_space == transitions.observation_space
        assert events.action_space == transitions.action_space
        assert len(events.feature_names) == events.observations.shape[1]
        rows = {row.tobytes() for row in events.observations}
        assert all(row.tobytes() in rows for row in transitions.observations)

    def test_converting_twice_gives_the_same(self, converter: Converter, source: str | Path) -> None:
        first, second = converter.convert(source), converter.convert(source)
        for name in (
            "observations",
            "next_observations",
            "actions",
            "rewards",
            "terminated",
            "truncated",
            "episode_ids",
        ):
            assert np.array_equal(getattr(first, name), getattr(second, name)), name
        assert first.report == second.report

    def test_fingerprint_is_a_stable_digest(self, converter: Converter, source: str | Path) -> None:
        fingerprint = converter.fingerprint(source)
        assert len(fingerprint) == 64
        assert int(fingerprint, 16) >= 0
        assert converter.fingerprint(source) == fingerprint

    def test_missing_source_is_named(self, converter: Converter, tmp_path: Path) -> None:
        missing = str(tmp_path / "no_such_log.parquet")
        for method in (converter.convert, converter.logged_events, converter.fingerprint):
            with pytest.raises(DataError, match="no_such_log"):
                method(missing)
