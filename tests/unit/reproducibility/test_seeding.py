"""One call seeds everything."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from sb3_webscale.errors import InvalidInputError
from sb3_webscale.reproducibility.seeding import SeedTree, seed_everything


@pytest.fixture(autouse=True)
def _leave_torch_as_it_was():
    deterministic, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    benchmark = torch.backends.cudnn.benchmark
    yield
    torch.use_deterministic_algorithms(deterministic)
    torch.set_num_threads(threads)
    torch.backends.cudnn.benchmark = benchmark


def draws():
    return random.random(), float(np.random.random()), float(torch.rand(1))


def test_equal_seeds_give_equal_draws_and_others_do_not():
    seed_everything(5)
    first = draws()
    seed_everything(5)
    assert draws() == first
    seed_everything(6)
    assert all(a != b for a, b in zip(draws(), first, strict=True))


def test_torch_is_deterministic_with_the_threads_asked_for():
    torch.use_deterministic_algorithms(False)
    seed_everything(0, torch_num_threads=1)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == 1


def test_environments_follow_the_seed_as_in_stable_baselines3():
    tree = seed_everything(7, n_envs=3)
    assert tree.environments == (7, 8, 9)
    assert "env 2: 9" in str(tree)
    assert tree.as_dict()["environments"] == [7, 8, 9]


def test_branches_are_streams_of_their_own():
    trees = [SeedTree.derive(seed, 4) for seed in range(50)]
    branches = [seed for tree in trees for seed in (tree.evaluation, tree.off_policy_evaluation)]
    assert len(set(branches)) == 100
    assert not set(branches) & {seed for tree in trees for seed in tree.environments}
    assert trees[3] == SeedTree.derive(3, 4)


def test_the_largest_seed_wraps_around():
    assert SeedTree.derive(2**32 - 1, 2).environments == (2**32 - 1, 0)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.0, "1", True, None])
def test_seeds_outside_the_range_are_refused(seed):
    with pytest.raises(InvalidInputError, match=r"seed = .* must be a whole number from 0 to"):
        seed_everything(seed)
