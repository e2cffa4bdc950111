"""Recommender plugin for sb3_webscale: the Open Bandit log as converter and as environment."""

from __future__ import annotations

from sb3_webscale_recsys.click_model import ClickModel
from sb3_webscale_recsys.environment import OpenBanditEnv
from sb3_webscale_recsys.rule import open_bandit_converter, open_bandit_rule

__all__ = ["ClickModel", "OpenBanditEnv", "open_bandit_converter", "open_bandit_rule"]
