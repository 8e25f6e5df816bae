"""Two processes with half a batch each give the loss and gradients of one with the whole batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from levelfield import losses, miners
from levelfield.losses.global_batch import gather

LABELS = torch.tensor([0, 1, 0, 2, 1, 2, 0, 1, 1])
CUT = 4  # ranks hold 4 and 5 samples


def inputs():
    return torch.randn(len(LABELS), 6, generator=torch.Generator().manual_seed(0))


def model():
    layer = nn.Linear(6, 4)
    generator = torch.Generator().manual_seed(1)
    nn.init.normal_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def cases():
    return {
        "multi_similarity": (losses.create("multi_similarity"), None),
        "triplet with a miner": (losses.create("triplet"), miners.create("distance_weighted", seed=7)),
        "arcface": (losses.create("arcface", num_classes=3, embedding_size=4), None),
    }


def work(rank, folder):
    """Work of each rank, when this file runs as a script."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    mine = slice(0, CUT) if rank == 0 else slice(CUT, None)
    found = {}
    for name, (loss, miner) in cases().items():
        for averaged in (True, False):
            network = model()
            trained = nn.parallel.DistributedDataParallel(network) if averaged else network
            embeddings = trained(inputs()[mine])
            embeddings.retain_grad()
            loss.zero_grad()
            vectors, labels = gather(embeddings, LABELS[mine], averaged=averaged)
            value = loss(vectors, labels, None if miner is None else miner(vectors, labels))
            value.backward()
            found[name, averaged] = (
                value.detach(),
                embeddings.grad,
                network.weight.grad,
                [parameter.grad.clone() for parameter in loss.parameters()],
            )
            if miner is not None:
                miner.reseed(11)
    torch.save(found, folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    workers = [subprocess.Popen([sys.executable, __file__, str(rank), str(folder)]) for rank in (0, 1)]
    for worker in workers:
        assert worker.wait(timeout=300) == 0
    return [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]


def alone(name, averaged):
    loss, miner = cases()[name]
    if miner is not None and not averaged:
        miner.reseed(11)
    network = model()
    embeddings = network(inputs())
    embeddings.retain_grad()
    value = loss(embeddings, LABELS, None if miner is None else miner(embeddings, LABELS))
    value.backward()
    return value, embeddings.grad, network.weight.grad, [p.grad for p in loss.parameters()]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(cases()))
@pytest.mark.parametrize("averaged", [True, False])
def test_two_ranks_equal_one(ranks, name, averaged):
    value, gradient, weights, own = alone(name, averaged)
    together = [ranks[rank][name, averaged] for rank in (0, 1)]
    factor = 2 if averaged else 1
    total = torch.zeros_like(weights)
    for rank, (got, embedding_gradient, weight_gradient, own_gradients) in enumerate(together):
        part = gradient[:CUT] if rank == 0 else gradient[CUT:]
        torch.testing.assert_close(got, value.detach())
        torch.testing.assert_close(embedding_gradient, part * factor)
        for mine, theirs in zip(own_gradients, own, strict=True):
            torch.testing.assert_close(mine, theirs)
        total += weight_gradient
        if averaged:  # DDP has averaged: each rank has the gradient of the whole batch
            torch.testing.assert_close(weight_gradient, weights)
    if not averaged:  # the parts sum to it
        torch.testing.assert_close(total, weights)


def test_one_process_gets_back_what_it_gave():
    x = inputs()
    vectors, labels = gather(x, LABELS)
    assert vectors is x
    assert labels is LABELS


if __name__ == "__main__":
    work(int(sys.argv[1]), Path(sys.argv[2]))
