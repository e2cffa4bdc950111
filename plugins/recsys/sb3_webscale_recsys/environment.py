"""``OpenBandit-v0``: user sessions of a log, with the items chosen by the agent and clicks from a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from sb3_webscale.errors import InvalidInputError
from sb3_webscale_recsys.click_model import ClickModel
from sb3_webscale_recsys.rule import open_bandit_converter

__all__ = ["OpenBanditEnv"]


class OpenBanditEnv(gymnasium.Env[npt.NDArray[Any], np.int64]):
    """One episode is one user session of the log, drawn uniformly from all of its sessions.

    - Observation: float32 Box, exactly as the rule ``recsys.open_bandit`` encodes the log's impressions: position,
      hashed user features, affinities. Contexts come in the order of the log, whatever the agent does.
    - Action: Discrete, the item to show.
    - Reward: 1 with the click probability of :class:`~sb3_webscale_recsys.click_model.ClickModel`, else 0.
    - ``terminated`` after the session's last impression, whose observation is returned once more; never ``truncated``.
    - ``info["click_probability"]``: the probability that the reward was drawn with.

    All randomness comes from the generator that ``reset(seed=...)`` seeds.

    :param log: path of an Open Bandit log, Parquet or CSV; ``zoo/data/open_bandit/bts.parquet`` in the repository
    :param prior_impressions: weight of the click model's prior, in impressions
    :raises InvalidInputError: when ``log`` is not given
    :raises DataError: when the log is missing or has a forbidden value
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(self, log: str | Path | None = None, prior_impressions: float = 200.0) -> None:
        if log is None:
            msg = (
                "log is not given; OpenBandit-v0 replays sessions of a log, so name one: "
                "gymnasium.make('OpenBandit-v0', log='zoo/data/open_bandit/bts.parquet')"
            )
            raise InvalidInputError(msg)
        events = open_bandit_converter().logged_events(log)
        self.click_model = ClickModel.fit(events, prior_impressions)
        self.observation_space = events.observation_space
        self.action_space = events.action_space
        self._observations = events.observations
        starts = np.flatnonzero(np.diff(events.episode_ids, prepend=-1))
        self._bounds = np.append(starts, len(events))
        self._row = 0
        self._end = 0

    @property
    def n_sessions(self) -> int:
        """Number of sessions that episodes are drawn from."""
        return len(self._bounds) - 1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """
        :param seed: seeds the environment's generator
        :param options: not used
        :return: the first observation of a session, and an empty dictionary
        """
        super().reset(seed=seed, options=options)
        session = int(self.np_random.integers(self.n_sessions))
        self._row, self._end = int(self._bounds[session]), int(self._bounds[session + 1])
        return self._observations[self._row].copy(), {}

    def step(self, action: np.int64) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """
        :param action: the item to show
        :return: the next observation, the click, whether the session is over, False, and the click probability
        :raises InvalidInputError: when the action lies outside the space, or the session is over
        """
        if not self.action_space.contains(action):
            msg = f"action = {action!r} lies outside {self.action_space}; give the number of an item"
            raise InvalidInputError(msg)
        if self._row >= self._end:
            msg = "the session is over; call reset() before step()"
            raise InvalidInputError(msg)
        probability = self.click_model.probability(self._observations[self._row], int(action))
        click = float(self.np_random.random() < probability)
        self._row += 1
        terminated = self._row == self._end
        shown = self._observations[self._row - terminated]
        return shown.copy(), click, terminated, False, {"click_probability": probability}
