"""One batch over several processes, with the gradients that a single process would have.

Every rank describes its share of the batch, gathers everybody's descriptors, and computes the same loss on all of
them. Backward, what this rank's loss says about its own rows is true for all ranks alike.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..errors import BadInput


@contextmanager
def joined() -> Iterator[None]:
    """Join the processes that torchrun started; a process alone does nothing."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def has_gpu() -> bool:
    """Whether training runs on one by default."""
    return torch.cuda.is_available()


def device_named(device: str | None) -> str:
    """The device with its number, if torch knows it and it is there; None: a GPU if there is one.

    To the thread that makes batches, "cuda" alone is the first GPU, whichever this process trains on.
    """
    device = device or ("cuda" if has_gpu() else "cpu")
    try:
        return str(torch.empty(0, device=device).device)
    except (RuntimeError, AssertionError):
        raise BadInput(f"there is no device {device!r}; leave the device out, or name one that torch has.") from None


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def gather(rows: Tensor) -> Tensor:
    """Everybody's rows, in order of rank, each rank having as many. (n, ...) -> (world * n, ...)."""
    return _Gather.apply(rows) if world() > 1 else rows


def agree(*values: float) -> list[float]:
    """Rank 0's numbers, such as its clock."""
    if world() == 1:
        return list(values)
    told = torch.tensor(values, dtype=torch.float64, device="cuda" if torch.cuda.is_available() else "cpu")
    dist.broadcast(told, 0)
    return told.tolist()


def distributed(network: nn.Module) -> nn.Module:
    """The network as one replica of many: its gradients are averaged over ranks during backward."""
    if world() == 1:
        return network
    return nn.parallel.DistributedDataParallel(network)


def synchronise(network: nn.Module) -> None:
    """Replace every BatchNorm by one whose statistics are the whole batch's; state-dict keys stay."""
    if world() == 1:
        return
    for name, layer in network.named_children():
        if isinstance(layer, nn.BatchNorm2d):
            synced = SyncedBatchNorm(layer.num_features, layer.eps, layer.momentum, layer.affine)
            synced.to(next(layer.buffers())).load_state_dict(layer.state_dict())
            setattr(network, name, synced)
        else:
            synchronise(layer)


class SyncedBatchNorm(nn.BatchNorm2d):
    """BatchNorm over the batches of all ranks. torch's own SyncBatchNorm does not run on CPUs."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x  # sums need more than half precision
        count = world() * x.numel() / x.shape[1]
        mean = _Sum.apply(x.sum((0, 2, 3))) / count
        centred = x - mean[:, None, None]
        variance = _Sum.apply(centred.square().sum((0, 2, 3))) / count
        with torch.no_grad():
            assert self.running_mean is not None and self.running_var is not None  # as our networks have them
            assert self.num_batches_tracked is not None and self.momentum is not None
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / (count - 1), self.momentum)
        normalised = centred * torch.rsqrt(variance + self.eps)[:, None, None]
        if self.affine:
            normalised = normalised * self.weight[:, None, None] + self.bias[:, None, None]
        return normalised


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        rows = rows.contiguous()
        everybody = [torch.empty_like(rows) for _ in range(world())]
        dist.all_gather(everybody, rows)
        return torch.cat(everybody)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        # All ranks computed the same loss: the sum of their gradients is world() times ours. DDP divides it again.
        return world() * gradient.chunk(world())[rank()]


class _Sum(torch.autograd.Function):
    """The sum over ranks, whose gradient is the sum over ranks too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total
