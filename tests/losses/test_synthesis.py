"""Syntheses equal explicit loops, and losses work on synthetic samples as on any batch."""

from __future__ import annotations

import pytest
import torch
from tests.helpers.built_in import built_in_names

from levelfield import losses
from levelfield.core.seeds import random_derangement, sample_beta
from levelfield.losses import synthesis
from levelfield.losses.synthesis import LossInputs

CLASSES, SIZE = 5, 4
LABELS = [0, 0, 1, 3, 4, 3]
LOSSES = [name for name in losses.registry.names() if losses.accepts_extra_classes(name)]


def draw(count, seed=0):
    return torch.randn(count, SIZE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def what_is_made(name, batch, **options):
    """Inputs that the synthesis passes to the loss."""
    seen = []

    def loss_fn(samples):
        seen.append(samples)
        return samples.embeddings.sum()

    synthesis.create(name, **options)(batch, loss_fn, generator=generator())
    return seen


def test_names():
    assert built_in_names(synthesis.registry) == ["memvir", "metrix", "proxy_synthesis"]


@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_proxy_synthesis_equals_the_loops(ratio):
    x, proxies, labels = draw(len(LABELS)), draw(CLASSES, seed=1), torch.tensor(LABELS)
    (made,) = what_is_made("proxy_synthesis", LossInputs(x, labels, proxies), ratio=ratio)
    random = generator()
    partner, share = (
        random_derangement(len(x), generator=random).tolist(),
        sample_beta(0.4, 0.4, generator=random),
    )
    vectors, targets = [row / row.norm() for row in x], list(LABELS)
    classes = [row / row.norm() for row in proxies]
    for i, j in enumerate(partner):
        if LABELS[i] != LABELS[j] and len(vectors) < len(x) + int(ratio * len(x)):
            blend = share * vectors[i] + (1 - share) * vectors[j]
            middle = share * classes[LABELS[i]] + (1 - share) * classes[LABELS[j]]
            vectors.append(blend / blend.norm())
            targets.append(len(classes))
            classes.append(middle / middle.norm())
    assert len(targets) > len(x)
    torch.testing.assert_close(made.embeddings, torch.stack(vectors))
    torch.testing.assert_close(made.proxies, torch.stack(classes))
    assert made.labels.tolist() == targets


def test_memvir_equals_a_list_of_everything_that_was():
    memory, steps, gap, start = synthesis.create("memvir", steps=2, gap=1, start=1), 2, 1, 1
    past: list[tuple[torch.Tensor, torch.Tensor]] = []
    labels = torch.tensor(LABELS)
    for step in range(9):
        x, proxies = draw(len(LABELS), seed=step), draw(CLASSES, seed=100 + step)
        seen: list[LossInputs] = []
        memory(
            LossInputs(x, labels, proxies),
            lambda s, seen=seen: seen.append(s) or s.labels,
            generator=generator(),
        )
        chosen = list(reversed(past))[gap :: gap + 1][:steps]
        torch.testing.assert_close(seen[0].embeddings, torch.cat([x, *(one for one, _ in chosen)]))
        torch.testing.assert_close(seen[0].proxies, torch.cat([proxies, *(one for _, one in chosen)]))
        expected = [label + CLASSES * k for k in range(len(chosen) + 1) for label in LABELS]
        assert seen[0].labels.tolist() == expected
        if step >= start:
            past.append((x, proxies))
    assert len(chosen) == steps


def test_a_loaded_memory_goes_on_as_the_saved_one():
    labels, one, other = torch.tensor(LABELS), *(synthesis.create("memvir", steps=2, gap=0) for _ in range(2))
    for step in range(3):
        batch = LossInputs(draw(6, seed=step), labels, draw(CLASSES, seed=step))
        one(batch, lambda s: s.labels, generator=generator())
    other.load_state_dict(one.state_dict())
    results = [m(batch, lambda s: s.embeddings.sum(), generator=generator()) for m in (one, other)]
    assert results[0] == results[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("made", ["memvir", "proxy_synthesis"])
@pytest.mark.parametrize("labels", [LABELS, [2, 2], [0], []], ids=str)
def test_every_loss_that_says_so_takes_more_classes(name, made, labels):
    loss = losses.create(name, num_classes=CLASSES, embedding_size=SIZE).double()
    options = {"steps": 1, "gap": 0} if made == "memvir" else {}
    trick = synthesis.create(made, **options)
    for step in range(2):
        x = draw(len(labels), seed=step).requires_grad_()
        batch = LossInputs(x, torch.tensor(labels, dtype=torch.int64), loss.get_parameter("weights"))
        value = trick(batch, lambda s: loss(s.embeddings, s.labels, weights=s.proxies), generator=generator())
        gradients = torch.autograd.grad(value, [x, loss.weights])
        assert torch.isfinite(value)
        assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_the_losses_are_the_ones_with_proxies_of_unit_length():
    assert {"normalized_softmax", "proxy_nca", "proxy_anchor", "cosface", "arcface"} <= set(LOSSES)
    assert not {"cross_entropy", "hist", "adaface", "sphereface", "soft_triple", "triplet"} & set(LOSSES)


@pytest.mark.parametrize("blend", ["positive", "anchor"])
@pytest.mark.parametrize("negatives", [1, 2, 50])
def test_metrix_with_the_contrastive_loss_equals_the_loops(blend, negatives):
    x, labels = draw(len(LABELS)).requires_grad_(), torch.tensor(LABELS)
    loss = losses.create("contrastive", reduction="mean", neg_margin=1.5)
    metrix = synthesis.create("metrix", weight=0.7, negatives=negatives, blend=blend, anchor_factor=1.0)
    value = metrix(
        LossInputs(x, labels), lambda s: loss(s.embeddings, s.labels, s.tuples), generator=generator()
    )
    random = generator()
    share = sample_beta(2.0, 2.0, generator=random)
    luck = torch.rand(len(x), len(x), generator=random)
    v = [row / row.norm() for row in x]
    pulls, pushes = [], []
    for a, label in enumerate(LABELS):
        positives = [j for j in range(len(v)) if j != a and LABELS[j] == label]
        rivals = [j for j in range(len(v)) if LABELS[j] != label]
        if not positives:
            continue
        p = a if blend == "anchor" else max(positives, key=lambda j: luck[a, j])
        for n in sorted(rivals, key=lambda j: -float(v[a].detach() @ v[j].detach()))[:negatives]:
            mixed = share * v[p] + (1 - share) * v[n]
            gap = (v[a] - mixed / mixed.norm()).norm()
            pulls.append(share * gap)
            pushes.append((1 - share) * (1.5 - gap).clamp(min=0))
    expected = loss(x, labels) + 0.7 * (sum(pulls) + sum(pushes)) / len(pulls)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(torch.autograd.grad(value, x), torch.autograd.grad(expected, x))


@pytest.mark.parametrize("name", ["contrastive", "multi_similarity"])
@pytest.mark.parametrize("labels", [LABELS, [2, 2], [0, 1], [0], []], ids=str)
def test_metrix_stays_finite(name, labels):
    x = draw(len(labels)).requires_grad_()
    loss = losses.create(name)
    batch = LossInputs(x, torch.tensor(labels, dtype=torch.int64))
    for seed in range(3):
        value = synthesis.create("metrix")(
            batch, lambda s: loss(s.embeddings, s.labels, s.tuples), generator=generator(seed)
        )
        assert torch.isfinite(value)
        assert torch.isfinite(torch.autograd.grad(value, x)[0]).all()
