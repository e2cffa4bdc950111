"""Actor processes that add to a learner's replay buffer through shared memory."""

from __future__ import annotations

from sb3_webscale.actors.actor_feed import ActorFeed, ActorStatus
from sb3_webscale.actors.actor_writer import ActorHandle, ActorWriter

__all__ = ["ActorFeed", "ActorHandle", "ActorStatus", "ActorWriter"]
