"""Equality of samples, random streams and parameters in type, shape and every bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th

SB3_FIELDS = ("observations", "actions", "next_observations", "dones", "rewards", "discounts")


def assert_same_bits(found: Any, wanted: Any, name: str = "value") -> None:
    if isinstance(wanted, dict):
        assert sorted(map(str, found)) == sorted(map(str, wanted)), f"{name} has other keys"
        for key in wanted:
            assert_same_bits(found[key], wanted[key], f"{name}[{key!r}]")
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted), f"{name} has another length"
        for index, (part, wanted_part) in enumerate(zip(found, wanted, strict=True)):
            assert_same_bits(part, wanted_part, f"{name}[{index}]")
    elif isinstance(wanted, th.Tensor):
        assert found.dtype == wanted.dtype, f"{name} has dtype {found.dtype}, not {wanted.dtype}"
        assert found.device == wanted.device, f"{name} is on {found.device}, not on {wanted.device}"
        assert_same_bits(found.detach().numpy(), wanted.detach().numpy(), name)
    elif isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype, f"{name} has dtype {found.dtype}, not {wanted.dtype}"
        assert found.shape == wanted.shape, f"{name} has shape {found.shape}, not {wanted.shape}"
        if found.tobytes() != wanted.tobytes():
            np.testing.assert_array_equal(found, wanted, err_msg=f"{name} differs")
            raise AssertionError(f"{name} differs in bits that compare equal, such as the sign of a zero")
    else:
        assert found == wanted, f"{name} is {found}, not {wanted}"


def assert_same_samples(ours: Any, theirs: Any, fields: tuple[str, ...] = SB3_FIELDS) -> None:
    for name in fields:
        wanted = getattr(theirs, name)
        if wanted is None:
            assert getattr(ours, name) is None, f"{name} should be None"
        else:
            assert_same_bits(getattr(ours, name), wanted, name)


def assert_same_draws(ours: Any, theirs: Any, batch_size: int = 64, *, seed: int = 0, env: Any = None) -> None:
    """Samples from both with the same NumPy seed, and requires that both used up the same random numbers."""
    np.random.seed(seed)
    wanted = theirs.sample(batch_size, env=env)
    state_after = np.random.get_state(legacy=False)
    np.random.seed(seed)
    found = ours.sample(batch_size, env=env)
    assert_same_samples(found, wanted)
    assert_same_bits(np.random.get_state(legacy=False)["state"], state_after["state"], "NumPy's random state")
