"""The index inside a buffer holds what the ring holds, whatever happens to it, and is refused where it cannot be."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest
import yaml
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_webscale import (
    MixedReplayBuffer,
    ShardedReplayBuffer,
    WebscaleDictReplayBuffer,
    WebscaleHerReplayBuffer,
    WebscaleReplayBuffer,
)
from sb3_webscale.errors import BufferStateError, InvalidInputError
from sb3_webscale.retrieval import IndexConfig, RandomProjection

from .random_steps import RandomSteps
from .same_bits import assert_same_bits
from .test_her import WORLD as GOAL_WORLD
from .test_her import counting_envs
from .tiny_models import short_cart_pole

BOX = spaces.Box(-9, 9, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (4, 12, 12), np.uint8)
ACTIONS = spaces.Discrete(3)


def buffer_of(space: spaces.Space[Any] = BOX, size: int = 60, n_envs: int = 2, **options: Any) -> Any:
    kind = WebscaleDictReplayBuffer if isinstance(space, spaces.Dict) else WebscaleReplayBuffer
    options = {"index": {"merge_every": 16}, "prioritized": True, "seed": 0} | options
    return kind(size, space, ACTIONS, "cpu", n_envs, **options)


def fill(buffer: Any, steps: int, seed: int = 0) -> None:
    stream = RandomSteps(buffer.observation_space, buffer.action_space, buffer.n_envs, seed)
    for _ in range(steps):
        buffer.add(*stream.step())


def nearest_by_comparing(buffer: Any, query: np.ndarray, k: int, least: float = 0.0) -> list[float]:
    """Distances of the k nearest stored transitions."""
    ids = buffer.recent(10**6)
    ids = ids[buffer.priorities(ids) >= least]
    rows = buffer.transitions(ids).observations.numpy() if len(ids) else np.empty((0, 3))
    return np.sort(((rows.astype(np.float64) - query) ** 2).sum(axis=1))[:k].tolist()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(["add", "steps", "feed", "mark", "reset", "pickle", "search"]), min_size=3, max_size=25),
    st.integers(0, 10**6),
)
def test_finds_exactly_what_is_stored(operations: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    buffer = buffer_of()
    stream = RandomSteps(BOX, ACTIONS, 2, seed)
    for operation in [*operations, "search"]:
        if operation == "add":
            for _ in range(int(random.integers(1, 20))):
                buffer.add(*stream.step())
        elif operation == "steps":
            rows = 2 * int(random.integers(1, 50))
            obs = random.uniform(-1, 1, (rows, 3)).astype(np.float32)
            zeros = np.zeros(rows, np.float32)
            buffer.add_steps(obs, obs + 1, zeros[:, None], zeros, zeros + 1, zeros)
        elif operation == "feed" and buffer.size():
            ids = buffer.sample(8).indices
            buffer.update_priorities(ids, random.uniform(0, 2, 8))
        elif operation == "mark":
            buffer.mark_for_replay(buffer.recent(5), 2.0)
        elif operation == "reset":
            buffer.reset()
        elif operation == "pickle":
            buffer = pickle.loads(pickle.dumps(buffer))
        elif operation == "search":
            query = random.uniform(-1, 1, 3).astype(np.float32)
            least = float(random.choice([0.0, 0.5, 1.0]))
            found = buffer.search(query, k=4, priority_threshold=least)
            held = found.ids[0][found.ids[0] >= 0]
            expected = nearest_by_comparing(buffer, query, 4, least)
            np.testing.assert_allclose(found.distances[0][: len(held)], expected, 1e-4)
            assert_same_bits(found.priorities[0][: len(held)], buffer.priorities(held))
    assert buffer._index._graph.check()["defect"] == ""


def test_ring_overwrites_leave_the_index_as_large_as_the_ring() -> None:
    buffer = buffer_of(size=64)
    fill(buffer, 500)
    found = buffer.search(np.zeros(3), k=64)
    assert sorted(found.ids[0]) == buffer.recent(64).tolist()
    numbers = buffer.statistics()
    assert (numbers["index_rows"], numbers["index_left_out"]) == (64, 0)
    assert buffer.nbytes == buffer._replay.nbytes + numbers["index_nbytes"]


def test_search_result_is_padded_and_excludes() -> None:
    buffer = buffer_of()
    fill(buffer, 2)
    found = buffer.search(np.zeros((2, 3)), k=6, exclude=[1])
    assert found.ids.shape == found.distances.shape == found.priorities.shape == (2, 6)
    assert set(found.ids[0]) == {0, 2, 3, -1}
    assert np.isinf(found.distances[0, 3:]).all()
    assert np.isnan(found.priorities[0, 3:]).all()
    assert buffer_of(n_envs=1).search(np.zeros(3), k=2).ids.tolist() == [[-1, -1]]


@pytest.mark.parametrize("way", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_copies_go_on_alike(way: Any) -> None:
    buffer = buffer_of(size=5000, n_envs=1, index={"ef_search": 8, "max_neighbors": 4})
    fill(buffer, 3333)
    again = way(buffer)
    queries = np.random.default_rng(1).uniform(-1, 1, (50, 3)).astype(np.float32)
    for one in (buffer, again):
        fill(one, 2500, seed=1)
    for ours, theirs in zip(buffer.search(queries, 5), again.search(queries, 5), strict=True):
        assert_same_bits(ours, theirs)


def test_equal_calls_give_equal_results() -> None:
    results = []
    for _ in range(2):
        np.random.seed(3)
        buffer = buffer_of(IMAGE, size=3000, n_envs=1, seed=None)
        fill(buffer, 1200)
        results.append(buffer.search(buffer.transitions(buffer.recent(5)).observations, 7))
    for first, second in zip(*results, strict=True):
        assert_same_bits(first, second)


@pytest.mark.parametrize("options", [{}, {"prioritized": True}, {"n_steps": 3}])
def test_an_index_changes_nothing_else(options: dict[str, Any]) -> None:
    batches = []
    for index in (None, IndexConfig(merge_every=10)):
        np.random.seed(0)
        buffer = WebscaleReplayBuffer(50, BOX, ACTIONS, "cpu", 2, index=index, seed=5, **options)
        fill(buffer, 70)
        if index is not None:
            buffer.search(np.zeros(3), 3)
        batches.append(buffer.sample(32))
    for plain, indexed in zip(*batches, strict=True):
        assert (plain is None) == (indexed is None)
        if plain is not None:
            assert_same_bits(plain.numpy(), indexed.numpy())


def test_images_are_projected_and_found_again() -> None:
    buffer = buffer_of(IMAGE, size=600, n_envs=1)
    fill(buffer, 400)
    ids = buffer.recent(20)
    images = buffer.transitions(ids).observations
    assert buffer._index.encoder.dim == 256
    found = buffer.search(images, k=1)
    assert_same_bits(found.ids[:, 0], ids)
    assert (found.distances == 0).all()
    with pytest.raises(InvalidInputError, match="as the environment does"):
        buffer.search(images.numpy() / 255.0)


def test_keys_of_a_dict_space() -> None:
    space = spaces.Dict({"goal": spaces.Discrete(5), "state": BOX, "view": IMAGE})
    buffer = buffer_of(space, index={"keys": ["state", "goal"], "merge_every": 7})
    fill(buffer, 25)
    stored = buffer.transitions(buffer.recent(10)).observations
    found = buffer.search({"goal": stored["goal"], "state": stored["state"]}, k=1)
    assert_same_bits(found.ids[:, 0], buffer.recent(10))
    with pytest.raises(InvalidInputError, match="lacks"):
        buffer.search({"state": stored["state"]})
    for keys, told in ((["other"], "no key of"), ([], "at least one"), ("state", "must be a list")):
        with pytest.raises(InvalidInputError, match=told):
            buffer_of(space, index={"keys": keys})
    with pytest.raises(InvalidInputError, match="is no Dict"):
        buffer_of(index={"keys": ["state"]})
    whole = buffer_of(space)
    fill(whole, 25)
    assert whole.search(whole.transitions(whole.recent(3)).observations, 1).ids[:, 0].tolist() == [47, 48, 49]


def test_normalised_queries() -> None:
    env = VecNormalize(DummyVecEnv([short_cart_pole]))
    model = DQN("MlpPolicy", env, learning_starts=50, replay_buffer_class=WebscaleReplayBuffer,
                replay_buffer_kwargs={"index": yaml.safe_load("{encoder: identity, metric: l2}")}, seed=0)  # fmt: skip
    model.learn(200)
    buffer: Any = model.replay_buffer
    batch = buffer.sample(20, env)
    found = buffer.search(batch.observations, k=1, env=env)
    assert (found.distances < 1e-6).all()
    np.testing.assert_allclose(
        buffer.transitions(found.ids, env).observations.numpy(), batch.observations.numpy(), atol=1e-4
    )


def test_transitions_of_ids() -> None:
    buffer = buffer_of(size=20, index=None)
    fill(buffer, 15)
    batch = buffer.transitions(buffer.recent(4))
    assert batch.indices.tolist() == [26, 27, 28, 29]
    assert batch.weights is None
    for ids, told in (([27, 9], r"ids\[1\] is 9.*overwritten.*is 10"), ([-1], "padding"), ([30], "no transition's id")):
        with pytest.raises(BufferStateError, match=told):
            buffer.transitions(ids)


def test_rows_without_a_vector_are_left_out_and_counted() -> None:
    buffer = buffer_of(index={"metric": "cosine", "merge_every": 3}, n_envs=1, check_finite=False)
    for value in (1.0, 0.0, 2.0, np.nan, 3.0):
        obs = np.full((1, 3), value, np.float32)
        buffer.add(obs, obs, np.zeros((1, 1)), np.zeros(1), np.ones(1), [{}])
    assert sorted(buffer.search(np.ones(3), 5).ids[0]) == [-1, -1, 0, 2, 4]
    assert buffer.statistics()["index_left_out"] == 2


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ({"metric": "l3"}, "metric"),
        ({"max_neighbors": 0}, "max_neighbors"),
        ({"ef_search": 0}, "ef_search"),
        ({"ef_construction": 0}, "ef_construction"),
        ({"ef_search": 6.5}, "must be an integer"),
        ({"merge_every": 0}, "merge_every"),
        ({"mertic": "l2"}, "did you mean 'metric'"),
        ({"encoder": "idnetity"}, "did you mean 'identity'"),
        ({"encoder": {"name": "random_projection", "dims": 3}}, "did you mean 'dim'"),
        ({"encoder": {"name": "random_projection", "dim": 300}}, "1 to 256"),
        ({"encoder": {"name": "random_projection", "kind": "cauchy"}}, "'sparse'"),
        ({"encoder": {"name": "auto", "dim": 3}}, "no setting"),
        ({"encoder": RandomProjection}, "must be a name"),
        ({"encoder": {}}, "must be a name"),
        ("yes", "must be an IndexConfig"),
    ],
)
def test_wrong_settings(index: Any, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        buffer_of(index=index)


def test_what_cannot_have_an_index_says_what_can() -> None:
    with pytest.raises(InvalidInputError, match="use WebscaleDictReplayBuffer"):
        WebscaleHerReplayBuffer(
            10, GOAL_WORLD.observation_space, GOAL_WORLD.action_space, env=counting_envs(1), index=IndexConfig()
        )
    with pytest.raises(InvalidInputError, match="use WebscaleReplayBuffer"):
        ShardedReplayBuffer(10, BOX, ACTIONS, "cpu", index=True)
    with pytest.raises(InvalidInputError, match="add_steps"):
        MixedReplayBuffer(10, BOX, ACTIONS, "cpu", online_ratio=0.5, index=IndexConfig())
    with pytest.raises(InvalidInputError, match="memory_budget"):
        buffer_of(memory_budget="1GB", spill_dir=".")
    with pytest.raises(InvalidInputError, match="random_projection"):
        buffer_of(spaces.Box(0, 1, (20_000,), np.float32), index={"encoder": "identity"})


def test_wrong_searches() -> None:
    buffer = buffer_of()
    fill(buffer, 5)
    for query, told in ((np.zeros(4), "shape"), (np.full(3, np.nan), "NaN"), ("abc", "dtype"), ({"a": 1}, "no Dict")):
        with pytest.raises(InvalidInputError, match=told):
            buffer.search(query)
    with pytest.raises(InvalidInputError, match="k is 0"):
        buffer.search(np.zeros(3), k=0)
    with pytest.raises(BufferStateError, match="index=IndexConfig"):
        buffer_of(index=None).search(np.zeros(3))
    with pytest.raises(BufferStateError, match="prioritized=True"):
        buffer_of(prioritized=False).search(np.zeros(3), priority_threshold=1.0)


def test_searches_beside_a_thread_that_adds() -> None:
    buffer = buffer_of(size=200, n_envs=1, prioritized=True)
    fill(buffer, 200)
    done = threading.Event()

    def add() -> None:
        fill(buffer, 3000, seed=1)
        done.set()

    thread = threading.Thread(target=add)
    thread.start()
    while not done.is_set():
        oldest = buffer.recent(200)[0]  # read before the search: a transition overwritten by then is stale
        ids = buffer.search(np.zeros(3), 5).ids[0]
        assert (ids[ids >= 0] >= oldest).all()
    thread.join()
    assert sorted(buffer.search(np.zeros(3), 200).ids[0]) == buffer.recent(200).tolist()
