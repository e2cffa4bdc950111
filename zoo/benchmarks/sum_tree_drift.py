"""Does rounding accumulate in the sum tree of priorities? Compares it, after many updates, with a fresh tree.

``python zoo/benchmarks/sum_tree_drift.py [--quick]``; the full run takes one to two minutes and 500 MB.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from sb3_webscale import _native


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the leaves and updates")
    leaves, batches = (100_000, 100) if parser.parse_args().quick else (10_000_000, 10_000)
    batch = 10_000
    random = np.random.default_rng(0)
    tree, values = _native.SumTree(leaves), np.zeros(leaves)
    started = time.perf_counter()
    for _ in range(batches):
        indices, new = random.integers(0, leaves, batch), 10.0 ** random.uniform(-6, 6, batch)
        tree.assign(indices, new)
        values[indices] = new
    seconds = time.perf_counter() - started
    fresh = _native.SumTree(leaves)
    fresh.assign(np.arange(leaves), values)
    exact = math.fsum(values)
    masses = random.random(1_000_000) * exact
    print(f"updates                       {batches * batch:.0e} on {leaves:.0e} leaves, {seconds:.0f} s")
    print(f"total equals a fresh tree's   {tree.total == fresh.total}")
    print(f"draws equal a fresh tree's    {np.array_equal(tree.find(masses), fresh.find(masses))}")
    print(f"relative error of the total   {abs(tree.total - exact) / exact:.1e}")


if __name__ == "__main__":
    main()
