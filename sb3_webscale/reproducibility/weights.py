"""A hash of a model's weights: two runs are the same when it is the same."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["hash_weights"]


def hash_weights(model: BaseAlgorithm) -> str:
    """Hash every tensor that a saved model holds: networks, targets, temperature, and what optimizers keep.

    :param model: model of Stable-Baselines3 or sb3-contrib
    :return: sha256 over names, types, shapes and bytes, hexadecimal
    """
    digest = sha256()
    named = _tensors("", model.get_parameters()) + _loose_tensors(model)
    for name, value in sorted(named, key=lambda item: item[0]):
        tensor = value.detach().cpu().contiguous()
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(_raw_bytes(tensor))
    return digest.hexdigest()


def _tensors(prefix: str, value: object) -> list[tuple[str, torch.Tensor]]:
    import torch

    if isinstance(value, torch.Tensor):
        return [(prefix, value)]
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in _tensors(f"{prefix}/{key}", item)]
    if isinstance(value, (list, tuple)):
        return [found for i, item in enumerate(value) for found in _tensors(f"{prefix}/{i}", item)]
    return []


def _loose_tensors(model: BaseAlgorithm) -> list[tuple[str, torch.Tensor]]:
    """Tensors that the algorithm keeps outside its modules, such as SAC's log of the temperature."""
    import torch

    _, names = model._get_torch_save_params()
    return [(name, getattr(model, name)) for name in names if isinstance(getattr(model, name, None), torch.Tensor)]


def _raw_bytes(tensor: torch.Tensor) -> bytes:
    import torch

    return tensor.flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
