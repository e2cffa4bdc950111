"""Copies of a batch on a CUDA device, made beside the computation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch as th

if TYPE_CHECKING:
    from sb3_webscale._native import NativeBatch

__all__ = ["DeviceCopies"]


class DeviceCopies:
    """Copies arrays through pinned memory on a stream of its own. Any thread may start them.

    :param batch: arrays to copy, which must live as long as this object
    :param device: CUDA device
    """

    def __init__(self, batch: NativeBatch, device: th.device) -> None:
        stream = _copying_stream(device)
        observations, next_observations, *others = batch
        arrays = [*observations, *next_observations, *(array for array in others if array is not None)]
        self._device = device
        # Torch keeps each pinned copy until the device has read it.
        with th.cuda.stream(stream):
            self._tensors = {
                id(array): th.from_numpy(array).pin_memory().to(device, non_blocking=True) for array in arrays
            }
        self._finished = stream.record_event()

    def before(self, convert: Callable[[Any], th.Tensor], device: th.device | str) -> Callable[[Any], th.Tensor]:
        """Have the present stream of the calling thread wait for the copies.

        :param convert: makes a tensor of an array
        :param device: where tensors are wanted
        :return: the same for arrays that were not copied, while those that were give their copies
        """
        if th.device(device) != self._device:
            return convert
        stream = th.cuda.current_stream(self._device)
        stream.wait_event(self._finished)
        for tensor in self._tensors.values():
            tensor.record_stream(stream)

        def tensor_of(array: Any) -> th.Tensor:
            copied = self._tensors.get(id(array))
            return convert(array) if copied is None else copied

        return tensor_of


@cache
def _copying_stream(device: th.device) -> th.cuda.Stream:
    return th.cuda.Stream(device)  # type: ignore[no-untyped-call]
