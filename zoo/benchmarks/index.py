"""The graph index against hnswlib, FAISS and USearch: inserts, and time by recall of searches, one thread each.

Three kinds of vectors of 256 floats: points near a surface of 16 dimensions, as learned representations are; real
frames of Atari games under a fixed random projection, of which many repeat; and Gaussian noise, the hard case.
Recall@10 counts every row as right that is as near as the tenth nearest. All graphs have degree 32 at the base and
ef_construction 200; each search is one call from Python.

    python zoo/benchmarks/index.py [--quick | --full] [--output FILE.json]

100,000 vectors of each kind; 20,000 with --quick, and a million of the first kind with --full.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ale_py
import faiss
import gymnasium as gym
import hnswlib
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from usearch.index import Index as USearchIndex

from sb3_webscale.retrieval import ExactIndex, GraphIndex

DIM = 256
K = 10
QUERIES = 500
DEGREE = 32
EF_CONSTRUCTION = 200
EF_SEARCH = (16, 32, 64, 128)
ROUNDS = 3
GAMES = ("Breakout", "Pong", "Seaquest")

Vectors = npt.NDArray[np.float32]


def surface(count: int, seed: int) -> Vectors:
    """Sixteen latent variables through two random tanh layers, and 2 % noise."""
    mixing = np.random.default_rng(seed)
    first = mixing.standard_normal((16, 64)) / 4
    second = mixing.standard_normal((64, DIM)) / 8
    random = np.random.default_rng(seed + 1)
    rows = np.tanh(np.tanh(random.standard_normal((count, 16)) @ first) @ second)
    return (rows + 0.02 * random.standard_normal((count, DIM))).astype(np.float32)


def atari(count: int, seed: int) -> Vectors:
    """Grey frames of 84x84 from random play."""
    gym.register_envs(ale_py)
    projection = np.random.default_rng(seed).standard_normal((84 * 84, DIM)).astype(np.float32) / 84
    parts = []
    for game in GAMES:
        env = gym.wrappers.AtariPreprocessing(
            gym.make(f"ALE/{game}-v5", frameskip=1), noop_max=0, frame_skip=4, screen_size=84
        )
        env.action_space.seed(seed)
        frame, _ = env.reset(seed=seed)
        frames = []
        for _ in range(-(-count // len(GAMES))):
            frames.append(frame)
            frame, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                frame, _ = env.reset()
        env.close()
        parts.append(np.stack(frames).reshape(len(frames), -1).astype(np.float32) / 255 @ projection)
    rows = np.concatenate(parts)
    return rows[np.random.default_rng(seed).permutation(len(rows))[:count]]


def gaussian(count: int, seed: int) -> Vectors:
    return np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)


@dataclass
class Contestant:
    """One index behind the calls that this benchmark makes."""

    insert: Callable[[Vectors], None]
    set_ef: Callable[[int], None]
    search: Callable[[Vectors], Any]
    distances: Callable[[Any], Vectors]


def webscale() -> Contestant:
    index = GraphIndex(DIM, max_neighbors=DEGREE, ef_construction=EF_CONSTRUCTION)
    return Contestant(
        insert=lambda rows: index.insert(rows, np.arange(len(rows))),
        set_ef=lambda ef: setattr(index, "ef_search", ef),
        search=lambda query: index.search(query, K),
        distances=lambda found: found.distances[0],
    )


def hnsw(count: int) -> Contestant:
    index = hnswlib.Index("l2", DIM)
    index.init_index(count, M=DEGREE // 2, ef_construction=EF_CONSTRUCTION)
    index.set_num_threads(1)
    return Contestant(
        insert=lambda rows: index.add_items(rows, num_threads=1),
        set_ef=index.set_ef,
        search=lambda query: index.knn_query(query, K, num_threads=1),
        distances=lambda found: found[1][0],
    )


def faiss_hnsw() -> Contestant:
    faiss.omp_set_num_threads(1)
    index = faiss.IndexHNSWFlat(DIM, DEGREE // 2)
    index.hnsw.efConstruction = EF_CONSTRUCTION
    return Contestant(
        insert=index.add,
        set_ef=lambda ef: setattr(index.hnsw, "efSearch", ef),
        search=lambda query: index.search(query, K),
        distances=lambda found: found[0][0],
    )


def usearch_hnsw() -> Contestant:
    index = USearchIndex(ndim=DIM, metric="l2sq", dtype="f32", connectivity=DEGREE // 2, expansion_add=EF_CONSTRUCTION)
    return Contestant(
        insert=lambda rows: index.add(np.arange(len(rows)), rows, threads=1),
        set_ef=lambda ef: setattr(index, "expansion_search", ef),
        search=lambda query: index.search(query[0], K, threads=1),
        distances=lambda found: found.distances,
    )


def compare(name: str, rows: Vectors) -> list[dict[str, Any]]:
    """Insert all rows but the last QUERIES, which are searched for."""
    stored, queries = rows[:-QUERIES], rows[-QUERIES:]
    exact = ExactIndex(DIM)
    exact.insert(stored, np.arange(len(stored)))
    limits = exact.search(queries, K).distances[:, -1]
    limits = limits * (1 + 1e-4) + 1e-6  # the peers sum in another order
    del exact
    contestants = {
        "webscale": webscale(),
        "hnswlib": hnsw(len(stored)),
        "faiss": faiss_hnsw(),
        "usearch": usearch_hnsw(),
    }
    results = []
    inserts = {}
    for contestant, index in contestants.items():
        start = time.perf_counter()
        index.insert(stored)
        inserts[contestant] = (time.perf_counter() - start) / len(stored) * 1e6
    for ef in EF_SEARCH:
        for index in contestants.values():
            index.set_ef(ef)
        times: dict[str, list[float]] = {contestant: [] for contestant in contestants}
        recalls = {}
        for _ in range(ROUNDS):  # in turns, so that a change of the machine's speed meets all
            for contestant, index in contestants.items():
                start = time.perf_counter()
                found = [index.search(queries[i : i + 1]) for i in range(QUERIES)]
                times[contestant].append((time.perf_counter() - start) / QUERIES * 1e6)
                nearest = np.stack([index.distances(result) for result in found])
                recalls[contestant] = float((nearest <= limits[:, None]).mean())
        results += [
            {
                "vectors": f"{name}, {len(stored):,}",
                "index": contestant,
                "insert": inserts[contestant],
                "ef": ef,
                "search": min(times[contestant]),
                "recall": recalls[contestant],
            }
            for contestant in contestants
        ]
    return results


def print_table(results: list[dict[str, Any]]) -> None:
    table = Table(title="Microseconds of an insert and of a search, and recall@10, by ef_search")
    for column in ("vectors", "index", "insert", *(f"ef {ef}" for ef in EF_SEARCH)):
        table.add_column(column, justify="left" if column in ("vectors", "index") else "right")
    keys = dict.fromkeys((row["vectors"], row["index"], row["insert"]) for row in results)
    for vectors, index, insert in keys:
        cells = [
            f"{row['search']:,.0f} / {row['recall']:.3f}"
            for row in results
            if (row["vectors"], row["index"]) == (vectors, index)
        ]
        table.add_row(vectors, index, f"{insert:,.0f}", *cells)
    Console(width=130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true")
    size.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks/index.json"))
    arguments = parser.parse_args()
    count = 20_000 if arguments.quick else 100_000
    kinds: list[tuple[str, Callable[[int, int], Vectors], int]] = [
        ("surface", surface, 1_000_000 if arguments.full else count),
        ("Atari frames", atari, count),
        ("Gaussian", gaussian, count),
    ]
    results = []
    for name, generate, rows in kinds:
        results += compare(name, generate(rows + QUERIES, arguments.seed))
    print_table(results)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"seed": arguments.seed, "results": results}, indent=2))


if __name__ == "__main__":
    main()
