"""Properties of every miner: empty results, precision, determinism, no gradients, a complete card."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from levelfield import miners
from levelfield.core.errors import UsageError
from levelfield.miners import Pairs, Triplets, sample_columns

NAMES = [
    "all",
    "angular",
    "distance_weighted",
    "easy_positive",
    "hard",
    "multi_similarity",
    "pair_margin",
    "random",
    "semihard",
    "softhard",
    "triplet_margin",
]
DRAWING = ["distance_weighted", "random", "semihard", "softhard"]


def batch(size=24, dimensions=16, per_class=4, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    embeddings = F.normalize(torch.randn(size, dimensions, generator=generator) + 0.7)
    return embeddings.to(dtype), torch.arange(size) // per_class


def columns(tuples):
    return list(tuples.indices)


def listed(tuples):
    return [column.tolist() for column in columns(tuples)]


@pytest.mark.parametrize("name", NAMES)
def test_the_card_is_complete_and_says_what_is_found(name):
    card = miners.registry[name].card
    assert card.summary
    assert bool(card.paper) == bool(card.year)
    assert isinstance(miners.create(name)(*batch()), {"pairs": Pairs, "triplets": Triplets}[card.finds])
    for parameter in card.space:
        assert parameter in miners.registry[name].parameters


@pytest.mark.parametrize("name", NAMES)
def test_tuples_are_int64_valid_and_without_gradients(name):
    embeddings, labels = batch()
    embeddings.requires_grad_()
    found = miners.create(name)(embeddings, labels)
    assert all(column.dtype == torch.int64 and not column.requires_grad for column in columns(found))
    if isinstance(found, Triplets):
        assert (labels[found.anchor] == labels[found.positive]).all()
        assert (labels[found.anchor] != labels[found.negative]).all()
        assert (found.anchor != found.positive).all()
        assert len(found.anchor) == len(found.positive) == len(found.negative) > 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "labels", [[0], [0, 0, 0], [0, 1, 2]], ids=["one sample", "one class", "no positives"]
)
def test_a_batch_without_triplets_gives_empty_sets(name, labels):
    found = miners.create(name)(F.normalize(torch.randn(len(labels), 4)), torch.tensor(labels))
    if isinstance(found, Triplets):
        assert all(column.shape == (0,) and column.dtype == torch.int64 for column in columns(found))
    else:
        assert len(found.positive) == 0 or len(found.negative) == 0


@pytest.mark.parametrize("name", NAMES)
def test_collapsed_embeddings_work(name):
    labels = torch.arange(8) // 2
    for embeddings in (torch.zeros(8, 4), F.normalize(torch.ones(8, 4))):
        for column in columns(miners.create(name)(embeddings, labels)):
            assert ((column >= 0) & (column < 8)).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_half_precision_is_converted_before_comparing(name, dtype):
    embeddings, labels = batch(dtype=dtype)
    raised = embeddings.to(torch.promote_types(dtype, torch.float32))
    assert listed(miners.create(name)(embeddings, labels)) == listed(miners.create(name)(raised, labels))


@pytest.mark.parametrize("name", NAMES)
def test_autocast_changes_nothing(name):
    embeddings, labels = batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = miners.create(name)(embeddings, labels)
    assert listed(found) == listed(miners.create(name)(embeddings, labels))


@pytest.mark.parametrize("name", NAMES)
def test_the_length_of_embeddings_does_not_matter_as_it_does_not_to_the_losses(name):
    embeddings, labels = batch(dtype=torch.float64)
    lengths = torch.linspace(0.1, 9.0, len(labels), dtype=torch.float64)[:, None]
    assert listed(miners.create(name)(embeddings * lengths, labels)) == listed(
        miners.create(name)(embeddings, labels)
    )


@pytest.mark.parametrize("name", DRAWING)
def test_a_reseeded_miner_draws_the_same_again(name):
    embeddings, labels = batch()
    miner = miners.create(name, seed=5)
    first, second = listed(miner(embeddings, labels)), listed(miner(embeddings, labels))
    assert first != second
    assert listed(miners.create(name, seed=5)(embeddings, labels)) == first
    miners.reseed(miner, 9)
    third = listed(miner(embeddings, labels))
    shared = torch.Generator().manual_seed(9)
    assert listed(miners.create(name, generator=shared)(embeddings, labels)) == third


def test_reseeding_a_miner_that_does_not_draw_does_nothing():
    miners.reseed(miners.create("hard"), 1)


@pytest.mark.parametrize("name", DRAWING)
def test_the_global_random_state_is_left_alone(name):
    before = torch.get_rng_state()
    miners.create(name)(*batch())
    assert torch.equal(before, torch.get_rng_state())


def test_sampled_columns_follow_their_weights():
    weights = torch.tensor([[0.0, 1.0, 3.0, 0.0], [2.0, 0.0, 0.0, 2.0]])
    uniform = torch.rand(2, 20_000, generator=torch.Generator().manual_seed(0))
    drawn = sample_columns(weights, uniform)
    shares = torch.stack([torch.bincount(row, minlength=4) for row in drawn]) / 20_000
    assert torch.allclose(shares, torch.tensor([[0, 0.25, 0.75, 0], [0.5, 0, 0, 0.5]]), atol=0.015)


def test_the_largest_random_number_selects_a_column_with_weight():
    weights = torch.tensor([[1.0, 0.1, 0.0, 0.0]]) * 0.7
    almost_one = torch.nextafter(torch.ones(1, 1), torch.zeros(1, 1))
    assert sample_columns(weights, almost_one).item() == 1


def test_random_draws_evenly():
    labels = torch.tensor([0, 0, 0, 1, 2, 3])
    miner = miners.create("random", seed=0)
    drawn = [miner(torch.zeros(6, 2), labels) for _ in range(1500)]
    positives = torch.stack([t.positive[0] for t in drawn])
    negatives = torch.stack([t.negative[0] for t in drawn])
    assert torch.allclose(torch.bincount(positives) / 1500, torch.tensor([0, 0.5, 0.5]), atol=0.06)
    assert torch.allclose(torch.bincount(negatives)[3:] / 1500, torch.full((3,), 1 / 3), atol=0.06)


def test_strict_semihard_draws_evenly():
    line = torch.tensor([[0.0], [1.0], [1.1], [1.2], [1.3], [0.5], [9.0]])
    labels = torch.tensor([0, 0, 1, 1, 1, 1, 1])
    miner = miners.create("semihard", margin=1.0, normalize=False, seed=0)
    drawn = torch.stack([miner(line, labels).negative[0] for _ in range(1500)])
    assert torch.allclose(torch.bincount(drawn)[2:] / 1500, torch.full((3,), 1 / 3), atol=0.06)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("semihard", {"mode": "loose"}, "strict"),
        ("semihard", {"margin": 0.0}, "margin must be above 0"),
        ("easy_positive", {"negatives": "easy"}, "semihard"),
        ("distance_weighted", {"cutoff": 1.5}, "cutoff"),
        ("triplet_margin", {"kind": "medium"}, "all, hard, semihard, easy"),
        ("angular", {"angle": 90.0}, "between 0 and 90"),
        ("random", {"seed": 1, "generator": torch.Generator()}, "not both"),
        ("hard", {"margin": 1.0}, "has no parameter"),
    ],
)
def test_invalid_options_are_errors(name, options, message):
    with pytest.raises(UsageError, match=message):
        miners.create(name, **options)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_the_wrong_shape_is_an_error(name):
    for embeddings, labels, message in [
        (torch.zeros(3, 2), torch.zeros(4), "one label per embedding"),
        (torch.zeros(3, 2, 2), torch.zeros(3), "B x D"),
        (torch.zeros(0, 2), torch.zeros(0), "at least one sample"),
    ]:
        with pytest.raises(UsageError, match=message):
            miners.create(name)(embeddings, labels.long())
