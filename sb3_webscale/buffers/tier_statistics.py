"""Where the observations of a buffer under a memory budget are, and how often they were found in memory."""

from __future__ import annotations

from sb3_webscale import _native

__all__ = ["tier_statistics"]


def tier_statistics(replay: _native.Replay) -> dict[str, float]:
    """
    :param replay: the native replay
    :return: empty without a budget. ``hot_`` and ``cold_segments`` and ``_bytes`` are what lies in memory and in files,
        ``resident_frame_bytes`` all memory kept for observations; ``hot_`` and ``cold_reads`` are the frames that
        batches took from either since the buffer was built, ``hit_rate`` is the share of the former, and ``disk_waits``
        counts reads that the system's file cache could not answer
    """
    counts = replay.tier_counts()
    if counts is None:
        return {}
    reads = counts["hot_reads"] + counts["cold_reads"]
    return {**counts, "hit_rate": counts["hot_reads"] / reads if reads else 1.0}
