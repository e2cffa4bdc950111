"""How the probability of being drawn spreads over the stored transitions."""

from __future__ import annotations

import math

from sb3_webscale import _native

__all__ = ["sampling_spread"]


def sampling_spread(replay: _native.Replay) -> dict[str, float]:
    """One pass over all transitions, in native code.

    :param replay: with priorities
    :return: ``drawable`` transitions; ``entropy`` of the probabilities in nats, and ``entropy_normalised`` as a
        fraction of ln(drawable), both 0 when none is drawable; ``effective_sample_size``, 1 / sum P^2
    """
    drawable, entropy, effective_sample_size = replay.draw_statistics()
    return {
        "drawable": drawable,
        "entropy": entropy,
        "entropy_normalised": entropy / math.log(drawable) if drawable > 1 else float(drawable),
        "effective_sample_size": effective_sample_size,
    }
