"""Two real processes give the gradients of one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import torch
from torch import multiprocessing

from hynet import losses
from hynet.descriptors import DESCRIPTORS
from hynet.features.descriptors.layers import start_orthogonal
from hynet.mining import NegativeMask, certainly_different
from hynet.training import distributed
from hynet.training.batches import Batch
from hynet.training.descriptor import loss_of
from hynet.training.tiling import Tiled


def gradients(name: str, pairs: int, rank: int = 0, world: int = 1) -> dict[str, torch.Tensor]:
    """Of HyNet's loss over the same pairs, of which this process describes its share. In float64: exact."""
    torch.manual_seed(0)
    network = DESCRIPTORS[name](dropout=0.0).double().train()
    start_orthogonal(network)  # once more in float64: in float32 it depends on the number of threads
    distributed.synchronise(network)
    model = distributed.distributed(Tiled(network, compiled=False))
    patches = 255 * torch.rand(pairs, 2, 32, 32, dtype=torch.float64)
    patches[:, 1] = patches[:, 0] + 20 * torch.rand(pairs, 32, 32, dtype=torch.float64)
    share = pairs // world
    mine = patches[rank * share : (rank + 1) * share]
    # An uneven rule for negatives, so that rows mixed up between processes would show.
    negatives = NegativeMask(certainly_different(torch.arange(pairs), torch.arange(pairs) % 3))
    terms = loss_of(model, Batch(mine[:, :1], mine[:, 1:], negatives), losses.hynet)
    terms.total.backward()
    found = {key: weight.grad for key, weight in network.named_parameters()}
    found |= {key: value for key, value in network.state_dict().items() if "running" in key}
    return found | {"loss": terms.total.detach()}


def one_of_two(rank: int, port: int, name: str, pairs: int, folder: str) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    with distributed.joined():
        torch.save(gradients(name, pairs, rank, 2), Path(folder) / f"{rank}.pt")


@pytest.mark.parametrize(
    ("name", "pairs"), [("hynet", 32), ("l2net", 32), pytest.param("hynet", 512, marks=pytest.mark.slow)]
)
def test_two_processes_with_half_the_pairs_each_give_the_gradients_of_one(name, pairs, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(one_of_two, (port, name, pairs, str(tmp_path)), nprocs=2)
    alone = gradients(name, pairs)
    for rank in (0, 1):
        together = torch.load(tmp_path / f"{rank}.pt")
        assert together.keys() == alone.keys()
        for key, value in alone.items():
            assert torch.allclose(together[key], value, rtol=1e-5, atol=1e-9 * value.abs().max().item() + 1e-12), key
