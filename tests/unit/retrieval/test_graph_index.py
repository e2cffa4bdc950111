"""The graph index against exact search: recall, changes in place, copies, priorities, bad input, threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_webscale.errors import InvalidInputError
from sb3_webscale.retrieval import ExactIndex, GraphIndex, SearchResult

DIM = 32


def vectors(count: int, seed: int, dim: int = DIM) -> npt.NDArray[np.float32]:
    """Points near a curved surface of six dimensions, as learned representations are."""
    random = np.random.default_rng(seed)
    mixing = np.random.default_rng(1000).standard_normal((6, dim)) / 2
    latent = random.standard_normal((count, 6))
    return (np.tanh(latent @ mixing) + 0.02 * random.standard_normal((count, dim))).astype(np.float32)


def recall(found: SearchResult, exact: SearchResult) -> float:
    """Share of the rows found that are as near as the true k-th nearest: equal distances count as right."""
    return float((found.distances <= exact.distances[:, -1:]).mean())


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_finds_what_exact_search_finds(metric: str) -> None:
    stored = vectors(6000, 0)
    graph, exact = GraphIndex(DIM, metric), ExactIndex(DIM, metric)
    for index in (graph, exact):
        index.insert(stored, np.arange(6000))
    queries = vectors(200, 1)
    truth = exact.search(queries, 10)
    found = graph.search(queries, 10)
    assert recall(found, truth) >= 0.99
    assert graph.nodes_visited < 3000  # not by comparing all
    assert (np.diff(found.distances, axis=1) >= 0).all()
    differences = stored[found.ids] - queries[:, None]
    expected = (
        (differences.astype(np.float64) ** 2).sum(axis=2)
        if metric == "l2"
        else 1 - np.einsum("qkd,qd->qk", unit(stored)[found.ids], unit(queries))
    )
    np.testing.assert_allclose(found.distances, expected, rtol=1e-4, atol=1e-6)


def unit(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    wide = rows.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_exact_search_equals_numpy(metric: str) -> None:
    stored, queries = vectors(500, 0), vectors(20, 1)
    index = ExactIndex(DIM, metric)
    index.insert(stored, np.arange(500) + 7)
    distances = (
        ((stored[None].astype(np.float64) - queries[:, None]) ** 2).sum(axis=2)
        if metric == "l2"
        else 1 - unit(queries) @ unit(stored).T
    )
    np.testing.assert_array_equal(index.search(queries, 5).ids, np.argsort(distances, axis=1)[:, :5] + 7)


def test_copies_hide_nothing() -> None:
    stored = vectors(2000, 0)
    stored[:700] = stored[0]  # one vector many times, as a blank screen
    stored[700:1400] = stored[np.random.default_rng(0).integers(1400, 2000, 700)]
    graph, exact = GraphIndex(DIM), ExactIndex(DIM)
    for index in (graph, exact):
        index.insert(stored, np.arange(2000))
    assert graph.check()["nodes"] == 601
    queries = np.concatenate([vectors(50, 1), stored[:1], stored[700:750] + np.float32(0.001)])
    assert recall(graph.search(queries, 20), exact.search(queries, 20)) >= 0.99
    found = graph.search(stored[:1], 700)
    assert set(found.ids[0].tolist()) == set(range(700))
    assert (found.distances == 0).all()
    assert graph.delete(np.arange(699)) == 699
    assert graph.search(stored[:1], 1).ids[0, 0] == 699
    assert graph.check() | {"nbytes": 0} == {"rows": 1301, "nodes": 601, "nbytes": 0, "unreachable": 0, "defect": ""}


def test_overwriting_everything_three_times_keeps_recall() -> None:
    rows, batch = 3000, 250
    graph = GraphIndex(DIM)
    graph.insert(vectors(rows, 0), np.arange(rows))
    size = graph.nbytes
    newest = rows
    for turn in range(3 * rows // batch):
        graph.delete(np.arange(newest - rows, newest - rows + batch))
        graph.insert(vectors(batch, 10 + turn), np.arange(newest, newest + batch))
        newest += batch
    kept = [vectors(batch, 10 + turn) for turn in range(2 * rows // batch, 3 * rows // batch)]
    fresh, exact = GraphIndex(DIM), ExactIndex(DIM)
    for index in (fresh, exact):
        index.insert(np.concatenate(kept), np.arange(newest - rows, newest))
    queries = vectors(300, 1)
    truth = exact.search(queries, 10, ef_search=32)
    after = recall(graph.search(queries, 10, ef_search=32), truth)
    assert after >= recall(fresh.search(queries, 10, ef_search=32), truth) - 0.01
    assert graph.search(queries, 10).ids.min() >= newest - rows
    assert graph.nbytes <= 1.1 * size
    report = graph.check()
    assert (report["rows"], report["unreachable"], report["defect"]) == (rows, 0, "")


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(["insert", "delete", "priorities"]), st.integers(0, 400), st.integers(1, 60)),
        min_size=1,
        max_size=12,
    ),
    start=st.sampled_from([0, 5, 900, 1100]),
)
@settings(max_examples=25, deadline=None)
def test_any_changes_leave_what_a_dictionary_holds(changes: list[tuple[str, int, int]], start: int) -> None:
    random = np.random.default_rng(start)
    pool = vectors(700, 3)
    index = GraphIndex(DIM, max_neighbors=8, ef_construction=24)
    model: dict[int, tuple[int, float]] = {}

    def insert(ids: npt.NDArray[np.int64]) -> None:
        chosen, priorities = random.integers(0, len(pool), len(ids)), random.random(len(ids))
        values = pool[chosen] + (ids[:, None] % 2) * np.float32(0.5)
        index.insert(values, ids, priorities)
        model.update({int(i): (int(c), float(p)) for i, c, p in zip(ids, chosen, priorities, strict=True)})

    insert(np.arange(start))
    for kind, first, count in changes:
        ids = np.arange(first, first + count)
        if kind == "insert":
            insert(ids)
        elif kind == "delete":
            assert index.delete(ids) == sum(model.pop(int(i), None) is not None for i in ids)
        else:
            present = [int(i) for i in ids if int(i) in model]
            assert index.set_priorities(ids, np.full(count, 0.25)) == len(present)
            model.update({i: (model[i][0], 0.25) for i in present})
    assert len(index) == len(model)
    assert index.check()["defect"] == ""
    found = index.search(pool[:3], max(len(model), 1), ef_search=2000)
    for query in range(3):
        assert sorted(found.ids[query][found.ids[query] >= 0].tolist()) == sorted(model)
    for row, priority in zip(found.ids[0], found.priorities[0], strict=True):
        if row >= 0:
            assert priority == model[int(row)][1]


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001, 0.0])
def test_priority_threshold(share: float) -> None:
    stored, rows = vectors(5000, 0), np.arange(5000)
    priorities = np.random.default_rng(0).permutation(5000) / 5000
    graph, exact = GraphIndex(DIM), ExactIndex(DIM)
    for index in (graph, exact):
        index.insert(stored, rows, priorities)
    queries, threshold = vectors(50, 1), 1 - share
    truth = exact.search(queries, 10, priority_threshold=threshold)
    found = graph.search(queries, 10, priority_threshold=threshold)
    wanted = min(10, round(5000 * share))
    assert ((found.ids >= 0).sum(axis=1) == wanted).all()
    assert (found.priorities[:, :wanted] >= threshold).all()
    assert recall(found, truth) >= 0.98


def test_excluded_rows_are_not_returned() -> None:
    stored = vectors(3000, 0)
    graph = GraphIndex(DIM)
    graph.insert(stored, np.arange(3000))
    excluded = graph.search(stored[5], 100).ids[0]
    found = graph.search(stored[5], 10, exclude=excluded)
    assert not set(found.ids[0].tolist()) & set(excluded.tolist())
    assert found.distances[0, 0] >= graph.search(stored[5], 100).distances[0, -1]


def test_same_input_gives_the_same_graph_whatever_the_threads() -> None:
    stored, queries = vectors(3000, 0), vectors(64, 1)
    first, second = GraphIndex(DIM), GraphIndex(DIM)
    for index in (first, second):
        index.insert(stored, np.arange(3000))
    at_once = first.search(queries, 10, ef_search=16)
    one_by_one = [second.search(query, 10, ef_search=16) for query in queries]
    np.testing.assert_array_equal(at_once.ids, np.concatenate([found.ids for found in one_by_one]))


def test_searches_beside_changes_return_only_rows_that_exist() -> None:
    graph = GraphIndex(DIM, max_neighbors=8, ef_construction=24)
    rows, batch = 1500, 50
    graph.insert(vectors(rows, 0), np.arange(rows))
    newest = [rows]
    problems: list[Any] = []
    stop = threading.Event()

    def search() -> None:
        queries = vectors(4, 7)
        while not stop.is_set():
            before = newest[0]
            found = graph.search(queries, 10)
            after = newest[0]
            # A batch is inserted, counted, and then the oldest is deleted: for a moment the index holds both.
            if found.ids.min() < before - rows - batch or found.ids.max() >= after + batch:
                problems.append((before, after, found.ids))

    searchers = [threading.Thread(target=search) for _ in range(2)]
    for searcher in searchers:
        searcher.start()
    for turn in range(30):
        graph.insert(vectors(batch, turn), np.arange(newest[0], newest[0] + batch))
        newest[0] += batch
        graph.delete(np.arange(newest[0] - rows - batch, newest[0] - rows))
    stop.set()
    for searcher in searchers:
        searcher.join()
    assert problems == []
    assert graph.check()["defect"] == ""


def test_empty_and_tiny_indices() -> None:
    index = GraphIndex(3)
    found = index.search(np.zeros((2, 3)), 4)
    assert (found.ids == -1).all()
    assert np.isinf(found.distances).all()
    assert np.isnan(found.priorities).all()
    index.insert([[1, 0, 0], [0, 1, 0]], [5, 9], [0.5, 2.0])
    found = index.search([0.9, 0, 0], 3)
    assert found.ids.tolist() == [[5, 9, -1]]
    assert found.priorities[0, :2].tolist() == [0.5, 2.0]
    assert 5 in index
    assert 6 not in index
    index.insert([[0, 0, 1]], [5])
    assert index.search([0, 0, 1], 1).distances[0, 0] == 0.0
    assert len(index) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.insert(np.zeros((2, 4)), [0, 1]), r"vectors has shape \(2, 4\), but \(n, 3\)"),
        (lambda index: index.insert([[0, np.nan, 0]], [0]), r"vectors\[0\] holds NaN"),
        (lambda index: index.insert(np.ones((2, 3)), [0]), "ids has 1 elements, but there are 2 vectors"),
        (lambda index: index.insert(np.ones((2, 3)), [4, 4]), "one id twice"),
        (lambda index: index.insert(np.ones((1, 3)), [-4]), "ids holds -4"),
        (lambda index: index.insert(np.ones((1, 3)), [0.5]), "ids has dtype float64"),
        (lambda index: index.insert(np.ones((1, 3)), [0], [np.inf]), r"priorities\[0\] is not finite"),
        (lambda index: index.search(np.ones(2), 1), r"queries has shape \(1, 2\)"),
        (lambda index: index.search(np.ones(3), 0), "k is 0, but must be at least 1"),
        (lambda index: index.search(np.ones(3), 1, priority_threshold=np.nan), "priority_threshold is NaN"),
        (lambda index: index.search(np.ones(3), 1, ef_search=0), "ef_search is 0"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    index = GraphIndex(3)
    with pytest.raises(InvalidInputError, match=message):
        call(index)
    assert len(index) == 0


def test_bad_settings() -> None:
    for arguments, message in (
        ({"dim": 0}, "dim is 0"),
        ({"dim": 3, "metric": "hamming"}, "metric is 'hamming'"),
        ({"dim": 3, "max_neighbors": 49}, "max_neighbors is 49, but must be 1 to 48"),
        ({"dim": 3, "ef_construction": 0}, "ef_construction is 0"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            GraphIndex(**arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"vectors\[1\] is zero"):
        GraphIndex(2, "cosine").insert([[1, 0], [0, 0]], [0, 1])
