"""What holds for every test."""

from __future__ import annotations

import torch as th

# Tests run side by side, and their networks are tiny: more threads would only wait for each other.
th.set_num_threads(1)
