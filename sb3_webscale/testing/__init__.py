"""Conformance kits that plugins and third-party buffers inherit, and the environments they are checked with.

Each kit is a module of its own, so that testing a converter does not import torch:

- :mod:`sb3_webscale.testing.replay_buffer`: ``ReplayBufferTestCase``
- :mod:`sb3_webscale.testing.counting_env`: environments whose transitions say what they must be
"""

from __future__ import annotations
