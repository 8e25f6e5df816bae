"""Memory bank and cross-batch memory: correct rows, exact resume."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from levelfield import losses, miners
from levelfield.core.errors import UsageError
from levelfield.samplers.cross_batch import CrossBatchMemory
from levelfield.samplers.memory_bank import MemoryBank


def test_the_bank_keeps_the_latest_embedding_of_each_row():
    bank, expected = MemoryBank(20, 3), np.zeros((20, 3))
    random = np.random.default_rng(0)
    for _ in range(30):
        rows = random.integers(20, size=6)  # with repeats
        embeddings = random.normal(size=(6, 3))
        bank.update(rows, torch.from_numpy(embeddings))
        for row, embedding in zip(rows, embeddings, strict=True):
            expected[row] = embedding
    assert np.allclose(bank.embeddings.numpy(), expected)
    assert bank.known.numpy().tolist() == (expected != 0).any(axis=1).tolist()


def test_momentum_blends_directions_and_keeps_unit_vectors_unit():
    bank = MemoryBank(2, 2, momentum=0.5)
    bank.update([0], torch.tensor([[1.0, 0.0]]))
    assert bank.embeddings[0].tolist() == [1.0, 0.0]  # nothing old to keep
    bank.update([0, 1], torch.tensor([[0.0, 1.0], [0.0, 2.0]]))
    assert torch.allclose(bank.embeddings[0], F.normalize(torch.ones(2), dim=0))
    assert bank.embeddings[1].tolist() == [0.0, 2.0]
    bank.update([1], torch.tensor([[4.0, 0.0]]))
    assert torch.linalg.vector_norm(bank.embeddings[1]).item() == pytest.approx(3.0)


def test_the_bank_tracks_no_gradients_and_takes_half_precision():
    bank = MemoryBank(2, 2)
    bank.update([1], torch.ones(1, 2, dtype=torch.bfloat16, requires_grad=True))
    assert bank.embeddings.dtype == torch.float32
    assert not bank.embeddings.requires_grad


def test_a_resumed_bank_is_the_same_bank(tmp_path):
    bank = MemoryBank(5, 2, momentum=0.3)
    bank.update([0, 3], torch.randn(2, 2))
    torch.save(bank.state_dict(), tmp_path / "bank.pt")
    resumed = MemoryBank(5, 2, momentum=0.3)
    resumed.load_state_dict(torch.load(tmp_path / "bank.pt", weights_only=True))
    assert torch.equal(resumed.embeddings, bank.embeddings)
    assert torch.equal(resumed.known, bank.known)


def test_misuse_of_the_memories_is_an_error():
    with pytest.raises(UsageError, match="momentum"):
        MemoryBank(2, 2, momentum=1.0)
    with pytest.raises(UsageError, match="2 x 3"):
        MemoryBank(2, 3).update([0, 1], torch.zeros(2, 2))
    with pytest.raises(UsageError, match="capacity"):
        CrossBatchMemory(0, 2)
    with pytest.raises(UsageError, match="2 x 3"):
        CrossBatchMemory(4, 3).push(torch.zeros(2, 2), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(UsageError, match="same capacity"):
        CrossBatchMemory(4, 3).load_state_dict(CrossBatchMemory(5, 3).state_dict())


@pytest.mark.parametrize("capacity", [1, 4, 5, 7, 100])
def test_the_ring_holds_the_last_samples_oldest_first(capacity):
    memory = CrossBatchMemory(capacity, 1)
    stream: list[int] = []
    for size in (3, 2, 9, 1, 4):
        labels = torch.arange(len(stream), len(stream) + size)
        memory.push(labels[:, None].float(), labels)
        stream += labels.tolist()
        embeddings, kept = memory.get()
        assert kept.tolist() == stream[-capacity:]
        assert embeddings[:, 0].tolist() == stream[-capacity:]
        assert len(memory) == min(capacity, len(stream))


def test_a_resumed_ring_buffer_continues():
    memory, resumed = CrossBatchMemory(5, 2), CrossBatchMemory(5, 2)
    memory.push(torch.randn(7, 2), torch.arange(7))
    resumed.load_state_dict(memory.state_dict())
    for ring in (memory, resumed):
        ring.push(torch.ones(3, 2), torch.arange(10, 13))
    assert torch.equal(memory.get()[0], resumed.get()[0])
    assert torch.equal(memory.get()[1], resumed.get()[1])


@pytest.mark.parametrize("name", ["contrastive", "multi_similarity"])
def test_a_pair_loss_compares_the_batch_with_the_memory(name):
    generator = torch.Generator().manual_seed(0)
    memory = CrossBatchMemory(16, 8)
    loss = losses.create(name)
    embeddings = F.normalize(torch.randn(8, 8, generator=generator)).requires_grad_()
    labels = torch.arange(8) // 2

    def value():
        everything, their_labels = memory.join(embeddings, labels)
        return loss(everything, their_labels, miners.pairs_of_anchors(their_labels, len(labels)))

    alone = value()
    assert torch.allclose(alone, loss(embeddings, labels, miners.create("all")(embeddings, labels)))
    memory.push(F.normalize(torch.randn(16, 8, generator=generator)), torch.arange(16) // 4)
    joined = value()
    assert not torch.allclose(alone, joined)
    joined.backward()
    assert embeddings.grad is not None
    assert torch.isfinite(embeddings.grad).all() and embeddings.grad.any()
    assert not memory.get()[0].requires_grad


def test_pairs_of_anchors_are_all_pairs_of_the_first_samples():
    labels = torch.tensor([0, 1, 0, 1, 2, 0])
    everything = miners.create("all")(torch.zeros(6, 2), labels)
    found = miners.pairs_of_anchors(labels, 2)
    assert isinstance(everything, miners.Pairs)
    keep = everything.pos_anchor < 2
    assert torch.equal(found.positive, everything.positive[keep])
    keep = everything.neg_anchor < 2
    assert torch.equal(found.neg_anchor, everything.neg_anchor[keep])
    assert torch.equal(found.negative, everything.negative[keep])


PAIR_LOSSES = [name for name in losses.registry.names() if losses.registry[name].card.tuples == "pairs"]


def joined(memory_size, *, seed=0):
    """Return a batch of 8, followed by a memory."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8 + memory_size, 6, generator=generator, dtype=torch.float64)
    return x.requires_grad_(), torch.arange(8 + memory_size) % 4


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_a_memory_without_pairs_changes_nothing(name):
    """Means over samples and regularizers use the batch only, whatever the size of the memory."""
    x, labels = joined(64)
    loss = losses.create(name)
    batch = miners.pairs_of_anchors(labels[:8], 8)
    alone, with_memory = loss(x[:8], labels[:8], batch), loss(x, labels, batch)
    torch.testing.assert_close(with_memory, alone)
    gradient, wanted = torch.autograd.grad(with_memory, x)[0], torch.autograd.grad(alone, x)[0]
    torch.testing.assert_close(gradient, wanted)
    assert not gradient[8:].any()


def test_multi_similarity_with_a_memory_is_a_mean_over_the_batch():
    x, labels = joined(64)
    pairs = miners.pairs_of_anchors(labels, 8)
    expected = 0.0
    points = F.normalize(x.detach())
    for anchor in range(8):
        s = points @ points[anchor]
        positive = (labels == labels[anchor]) & (torch.arange(len(labels)) != anchor)
        pull = torch.log1p(torch.exp(-2.0 * (s[positive] - 0.5)).sum()) / 2.0
        push = torch.log1p(torch.exp(50.0 * (s[labels != labels[anchor]] - 0.5)).sum()) / 50.0
        expected += float(pull + push) / 8
    assert losses.create("multi_similarity")(x, labels, pairs).item() == pytest.approx(expected)


@pytest.mark.parametrize("name", ["multi_similarity", "hard", "semihard", "rho_switch"])
def test_a_miner_chooses_from_batch_and_memory_with_anchors_in_the_batch(name):
    x, labels = joined(64)
    everything = miners.create(name)(x, labels)
    mined = miners.keep_batch_anchors(everything, 8)
    anchors = [mined.anchor] if isinstance(mined, miners.Triplets) else [mined.pos_anchor, mined.neg_anchor]
    others = mined.negative
    assert all((anchor < 8).all() for anchor in anchors)
    assert (others >= 8).any()
    assert mined.batch_size == 8
    value = losses.create("contrastive")(x, labels, mined)
    assert torch.isfinite(value) and value > 0
