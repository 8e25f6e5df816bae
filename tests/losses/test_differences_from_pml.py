"""Tests of all differences from pytorch-metric-learning; docs/losses.md and miners.md print this list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from tests.oracles.losses_embedding_cases import batch, random_pairs, random_triplets

from levelfield import losses, miners
from levelfield.miners import Pairs, Triplets

pytest.importorskip("pytorch_metric_learning")
from pytorch_metric_learning import distances
from pytorch_metric_learning import losses as peers
from pytorch_metric_learning import miners as peer_miners

RAW = {"distance": distances.LpDistance(normalize_embeddings=False)}
DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Difference:
    """Place of a difference, behavior there and here, and a function that is true only if it exists."""

    what: str
    there: str
    here: str
    shows: Callable[[], bool]


def values(ours, theirs, x, y, tuples=None):
    return ours(x, y, tuples), theirs(x, y, None if tuples is None else tuples.indices)


def apart(pair) -> bool:
    one, other = (value.double() for value in pair)
    return not torch.isclose(one, other, rtol=1e-3)


def classes(name, peer, parameter, **options):
    """The same classification loss of both libraries, with the same weights."""
    ours = losses.create(name, num_classes=4, embedding_size=8, **options)
    options.pop("include_positive", None)
    theirs = getattr(peers, peer)(num_classes=4, embedding_size=8, **options)
    weights = ours.get_parameter("weights").detach()
    getattr(theirs, parameter).data = weights.T.clone() if parameter == "W" else weights.clone()
    return ours, theirs


def one_pair() -> bool:
    x, y = batch("balanced")
    one = Pairs(*(torch.tensor([i]) for i in (0, 1, 0, 2)))
    names = {
        "contrastive": peers.ContrastiveLoss(),
        "multi_similarity": peers.MultiSimilarityLoss(),
        "circle": peers.CircleLoss(),
    }
    found = [values(losses.create(name), theirs, x, y, one) for name, theirs in names.items()]
    return all(ours > 0 and theirs == 0 for ours, theirs in found)


def cold_ntxent() -> bool:
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]], requires_grad=True)
    ours, theirs = values(
        losses.create("ntxent", temperature=0.0002), peers.NTXentLoss(0.0002), x, torch.tensor([0, 0, 1])
    )
    slopes = [torch.autograd.grad(value, x)[0].abs().max() for value in (ours, theirs)]
    return bool(ours > 2000 and theirs < 100 and slopes[0] > 100 and slopes[1] == 0)


def supcon_one_class() -> bool:
    ours, theirs = values(losses.create("supcon"), peers.SupConLoss(), *batch("one class"))
    return bool(ours > 0 and theirs == 0)


def supcon_satisfied() -> bool:
    """Anchor 0 has one mined positive and no negative: its loss is zero."""
    x, y = batch("balanced")
    tuples = Pairs(*(torch.tensor(i) for i in ([0, 2], [1, 3], [2], [0])))
    return apart(values(losses.create("supcon"), peers.SupConLoss(), x, y, tuples))


def nca_hardest() -> bool:
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.1], [-1.0, 0.1], [-1.0, 0.05]])
    y = torch.tensor([0, 0, 1, 2, 2])
    ours, theirs = values(losses.create("nca", softmax_scale=100.0), peers.NCALoss(100.0), x, y)
    return bool(ours > 100 and theirs < 1)


def lonely_anchors() -> bool:
    peer = peers.GeneralizedLiftedStructureLoss(neg_margin=5.0, **RAW)
    ours, theirs = values(losses.create("generalized_lifted", l2=0.0), peer, *batch("no positives"))
    return bool(ours == 0 and theirs > 0)


def plain_angular():
    options = {"alpha": 40.0, "npair_weight": 0.0, "angular_weight": 1.0, "l2": 0.0}
    return losses.create("angular", **options), peers.AngularLoss(40.0)


def angular_lengths() -> bool:
    x, y = batch("balanced")
    x = torch.nn.functional.normalize(x)
    ours, theirs = plain_angular()
    long = x * torch.linspace(1, 3, len(x))[:, None]
    same = torch.isclose(ours(long, y), ours(x, y)) and not apart(values(ours, theirs, x, y))
    return bool(same) and not bool(torch.isclose(theirs(long, y), theirs(x, y)))


def angular_mined() -> bool:
    x, y = batch("balanced")
    x = torch.nn.functional.normalize(x)
    ours, theirs = plain_angular()
    return apart(values(ours, theirs, x, y, random_triplets(y, 9)))


def histogram_loners() -> bool:
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.1], [-1.0, 0.0]])
    y = torch.tensor([0, 0, 1, 2])
    ours, theirs = values(losses.create("histogram"), peers.HistogramLoss(n_bins=64), x, y)
    return bool(ours > theirs)


def histogram_mined() -> bool:
    x, y = batch("balanced", size=8)
    pair = values(losses.create("histogram"), peers.HistogramLoss(n_bins=64), x, y, random_pairs(y, 5))
    return apart(pair)


def coinciding_positives() -> bool:
    x, y = batch("collapsed")
    x = x.detach().float().requires_grad_()
    ours, theirs = values(losses.create("tuplet_margin"), peers.TupletMarginLoss(), x, y)
    finite = [torch.autograd.grad(value, x)[0].isfinite().all() for value in (ours, theirs)]
    return bool(finite[0]) and not bool(finite[1])


def npair_normalizes() -> bool:
    x, y = batch("balanced", size=8)
    return apart(values(losses.create("npair", l2=0.0, pairs="class"), peers.NPairsLoss(), x, y))


def listed_twice() -> bool:
    x, y = batch("balanced")
    once = Triplets(torch.tensor([0, 4]), torch.tensor([1, 5]), torch.tensor([2, 6]))
    twice = Triplets(*(column.repeat(2) for column in once.indices))
    ours, theirs = losses.create("ntxent"), peers.NTXentLoss(0.1)
    steady = torch.isclose(ours(x, y, once), ours(x, y, twice))
    return bool(steady and theirs(x, y, twice.indices) > theirs(x, y, once.indices))


def mined_weights() -> bool:
    x, y = batch("balanced")
    return apart(values(losses.create("nca"), peers.NCALoss(1.0), x, y, random_triplets(y, 9)))


def smooth_ap_groups() -> bool:
    """Equal with as many classes as samples per class, else not."""
    x, _ = batch("balanced", size=8)
    x = torch.cat([x, x.flip(1)])
    square, other = torch.arange(16) // 4, torch.arange(16) // 2
    alike = values(losses.create("smooth_ap"), peers.SmoothAPLoss(), x, square)
    torch.testing.assert_close(*(float(value) for value in alike), rtol=1e-5, atol=1e-6)
    return apart(values(losses.create("smooth_ap"), peers.SmoothAPLoss(), x, other))


def steep_proxy_nca() -> bool:
    ours, theirs = classes("proxy_nca", "ProxyNCALoss", "proxies", softmax_scale=100.0, include_positive=True)
    x, y = batch("balanced", size=8)
    exact = classes("proxy_nca", "ProxyNCALoss", "proxies", softmax_scale=100.0, include_positive=True)[0]
    wanted = float(exact.double()(x, y))
    single = x.detach().float()
    return abs(float(ours(single, y)) - wanted) < 0.01 and not abs(float(theirs(single, y)) - wanted) < 1


def own_proxy() -> bool:
    ours, theirs = classes("proxy_nca", "ProxyNCALoss", "proxies", softmax_scale=8.0)
    labels = torch.arange(4)
    on_the_proxy = ours.get_parameter("weights").detach()[labels]
    return bool(ours(on_the_proxy, labels) < 0 < theirs(on_the_proxy, labels))


def margin_nu() -> bool:
    x, y = batch("balanced", size=8)
    x = x.float()
    ours = losses.create("margin", per_class=True, num_classes=4, nu=0.5)
    theirs = peers.MarginLoss(0.2, nu=0.5, beta=1.2, learn_beta=True, num_classes=4)
    plain = losses.create("margin", per_class=True, num_classes=4)(x, y)
    mean = torch.isclose(ours(x, y) - plain, torch.tensor(0.5 * 1.2))
    return bool(mean) and apart(values(ours, theirs, x, y))


def small_angles() -> bool:
    """A thousandth of a degree from the weight, the cosine is 1 in float32, but the chord is not 0."""
    labels, near = torch.tensor([0]), torch.tensor([[1.0, 1.7e-5]])

    def gradient(loss, dtype):
        x = near.to(dtype).requires_grad_()
        (result,) = torch.autograd.grad(loss(x, labels), x)
        return result.double()

    ours = losses.create("arcface", num_classes=2, embedding_size=2, margin=30.0, scale=1.0)
    theirs = peers.ArcFaceLoss(num_classes=2, embedding_size=2, margin=30.0, scale=1.0)
    ours.weights.data, theirs.W.data = torch.eye(2), torch.eye(2)
    exact = gradient(theirs, torch.float64)
    theirs.W.data = torch.eye(2)
    error = [(gradient(loss, torch.float32) - exact).norm() / exact.norm() for loss in (ours, theirs)]
    return bool(error[0] < 1e-3 and error[1] > 0.1)


def sample_weights() -> bool:
    x, y = batch("balanced", size=8)
    ours, theirs = classes("cosface", "CosFaceLoss", "W", margin=0.35, scale=64.0)
    x, tuples = x.float(), random_triplets(y, 9)
    with pytest.raises(Exception, match="drop the miner"):
        ours(x, y, tuples)
    return not bool(torch.isclose(theirs(x, y, tuples.indices), theirs(x, y)))


def ranked_list_slope() -> bool:
    """The value is equal, but their gradient includes that of the weights."""
    x, y = batch("balanced")
    ours, theirs = values(losses.create("ranked_list"), peers.RankedListLoss(margin=0.4, Tn=10), x, y)
    same_value = torch.isclose(ours, theirs, rtol=1e-3)
    slopes = [torch.autograd.grad(value, x)[0] for value in (ours, theirs)]
    return bool(same_value) and not torch.allclose(slopes[0], slopes[1], rtol=1e-2)


LOSSES = [
    Difference("any loss with one mined pair or triplet", "zero", "that tuple's loss", one_pair),
    Difference(
        "`ntxent`",
        "stops growing at 87 and then has no gradient, which at a temperature of 0.0002 is most of the time",
        "grows on",
        cold_ntxent,
    ),
    Difference("`supcon` without negatives", "zero", "the paper's formula", supcon_one_class),
    Difference(
        "`supcon` with a miner",
        "leaves anchors out whose loss is zero",
        "counts every anchor that has a positive",
        supcon_satisfied,
    ),
    Difference(
        "`nca`",
        "drops the anchors whose probability rounds to zero, the hardest",
        "keeps them",
        nca_hardest,
    ),
    Difference(
        "`generalized_lifted`",
        "counts anchors that have no positive or no negative",
        "does not",
        lonely_anchors,
    ),
    Difference("`angular`", "does not normalize the negatives", "does", angular_lengths),
    Difference(
        "`angular` with a miner", "takes all negatives of the batch", "takes the mined ones", angular_mined
    ),
    Difference(
        "`histogram`",
        "leaves out negative pairs of two samples without positives; `n_bins` is the number of intervals",
        "all negative pairs; `num_bins` is the number of nodes, as in the paper",
        histogram_loners,
    ),
    Difference(
        "`histogram` with a miner",
        "pairs that do not make a triplet are left out",
        "all mined pairs",
        histogram_mined,
    ),
    Difference(
        "`tuplet_margin`", "infinite gradient where two positives coincide", "finite", coinciding_positives
    ),
    Difference(
        "`npair`",
        "normalizes unless told otherwise; one pair per class",
        'as the papers have it; all pairs, or `pairs="class"`',
        npair_normalizes,
    ),
    Difference(
        "`ntxent`, `lifted_structure`, `tuplet_margin` with triplets",
        "a negative counts once for every triplet that lists it",
        "once",
        listed_twice,
    ),
    Difference(
        "`fastap`, `nca` with a miner",
        "weight an anchor by how often it was mined",
        "`fastap` refuses a miner; `nca` uses the mined pairs",
        mined_weights,
    ),
    Difference(
        "`smooth_ap`",
        "takes the number of classes for the samples per class, so it is right only if they are equal",
        "any sizes of classes; `rank_anchor=False` is one minus the average precision",
        smooth_ap_groups,
    ),
    Difference(
        "`margin` with `per_class` and `nu`",
        "divides the sum of the anchors' boundaries by the number of terms above zero",
        "the mean boundary of the anchors",
        margin_nu,
    ),
    Difference(
        "`ranked_list`",
        "the gradient passes the weights of the pairs, too; takes no tuples",
        "weights are constants, as the authors have it",
        ranked_list_slope,
    ),
]

CLASSIFICATION = [
    Difference(
        "`proxy_nca`",
        'the own proxy is in the denominator, so the "Reality Check" measured that',
        "as in the paper it is not; `include_positive=True` puts it in",
        own_proxy,
    ),
    Difference(
        "`proxy_nca` with a scale above 70",
        "probabilities round to zero: the value is wrong, or NaN",
        "right",
        steep_proxy_nca,
    ),
    Difference(
        "`arcface`, `subcenter_arcface`",
        "in float32 the gradient of the margin is lost below 0.02 degrees",
        "it is right",
        small_angles,
    ),
    Difference("all", "a miner's tuples become weights of samples", "a miner is refused", sample_weights),
]


def raw_angles() -> bool:
    x, y = batch("balanced", size=8)
    ours, theirs = miners.create("angular", angle=20.0), peer_miners.AngularMiner(angle=20)
    found = [len(ours(scale * x, y).negative) for scale in (1, 3)]
    peer = [len(theirs(scale * x, y)[0]) for scale in (torch.linspace(1, 9, len(y))[:, None], 1)]
    points = torch.nn.functional.normalize(x)
    same = found[0] == found[1] == len(theirs(points, y)[0])
    return same and peer[0] != peer[1]


MINERS = [
    Difference(
        "`angular`",
        "takes embeddings as they come",
        "normalizes first; `normalize=False` does not",
        raw_angles,
    ),
]


def table(differences: list[Difference]) -> str:
    lines = ["| where | there | here |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {each.what} | {each.there} | {each.here} |" for each in differences)])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("difference", [*LOSSES, *CLASSIFICATION, *MINERS], ids=lambda each: each.what)
def test_the_difference_is_there(difference):
    assert difference.shows()


@pytest.mark.parametrize(
    ("differences", "file"),
    [(LOSSES, "losses.md"), (CLASSIFICATION, "losses.md"), (MINERS, "miners.md")],
    ids=["losses", "classification", "miners"],
)
def test_the_docs_print_the_differences(differences, file):
    assert table(differences) in (DOCS / file).read_text(), f"put this into {file}:\n{table(differences)}"
