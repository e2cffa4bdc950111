"""Literals in strings are read, and nothing else is."""

from __future__ import annotations

import pytest
import torch
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

from sb3_webscale.errors import ConfigError
from sb3_webscale.experiments.literals import parse_literal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dict(net_arch=[256, 256])", {"net_arch": [256, 256]}),
        ("dict(log_std_init=-3.67, net_arch=[64, 64])", {"log_std_init": -3.67, "net_arch": [64, 64]}),
        ("dict(net_arch=dict(pi=[256], qf=[1024]))", {"net_arch": {"pi": [256], "qf": [1024]}}),
        ("{'norm_obs': True, 'norm_reward': False}", {"norm_obs": True, "norm_reward": False}),
        ("dict(\n  a=(1, +2),\n  b=None,\n)", {"a": (1, 2), "b": None}),
        ("dict(activation_fn=nn.ReLU)", {"activation_fn": torch.nn.ReLU}),
        ("dict(activation_fn=th.nn.Tanh)", {"activation_fn": torch.nn.Tanh}),
        ("dict(optimizer_class=torch.optim.RMSprop)", {"optimizer_class": torch.optim.RMSprop}),
        (
            "dict(optimizer_class=RMSpropTFLike, optimizer_kwargs=dict(eps=1e-5))",
            {"optimizer_class": RMSpropTFLike, "optimizer_kwargs": {"eps": 1e-5}},
        ),
        ("'text'", "text"),
    ],
)
def test_forms_that_files_use(text, expected):
    assert parse_literal(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "dict(a=open('/etc/passwd'))",
        "dict([('a', 1)])",
        "dict(**{'a': 1})",
        "{**{'a': 1}}",
        "[x for x in (1, 2)]",
        "(lambda: 1)()",
        "nn.Module.__subclasses__",
        "nn.functional",
        "torch.load",
        "os.environ",
        "nn.ReLU()",
        "f'{1}'",
        "1 + 1",
        "-'a'",
        "-True",
        "b'bytes'",
        "[1, 2][0]",
        "{[1]: 2}",
    ],
)
def test_anything_else_is_refused_and_named(text):
    with pytest.raises(ConfigError, match=r"policy_kwargs = .* is not allowed in a literal"):
        parse_literal(text, "policy_kwargs")


@pytest.mark.parametrize("text", ["dict(", "a b", "", "import os"])
def test_broken_syntax_is_refused(text):
    with pytest.raises(ConfigError, match="is not a Python literal"):
        parse_literal(text)
