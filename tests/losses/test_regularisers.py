"""Regularisers: right to the formula, and finite where embeddings coincide."""

from __future__ import annotations

import math

import pytest
import torch

from levelfield.errors import UsageError
from levelfield.losses import regularisers

NAMES = regularisers.registry.names()


def embeddings(count=7, seed=0):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(name, x, **options):
    """The regulariser for embeddings like x, in their precision."""
    given = {"embedding_size": x.shape[1], "num_classes": 3}
    taken = {key: value for key, value in given.items() if key in regularisers.registry[name].parameters}
    made = regularisers.create(name, **options, **taken)
    return made.to(x.dtype) if isinstance(made, torch.nn.Module) else made


def batch_of(name, x):
    """What the regulariser sees besides the embeddings, by keyword."""
    known = {
        "labels": torch.arange(len(x)) % 3,
        "proxies": torch.eye(3, x.shape[1], dtype=x.dtype) + 0.1,
    }
    return {key: known[key] for key in regularisers.registry[name].card.sees}


def slow_margins(x, labels, *, positive_margin, negative_margin):
    short, close = [], []
    for i in range(len(x)):
        for j in range(len(x)):
            cosine = torch.cosine_similarity(x[i], x[j], dim=0)
            if i != j and labels[i] == labels[j] and cosine < positive_margin:
                short.append(positive_margin - cosine)
            if labels[i] != labels[j] and cosine > negative_margin:
                close.append(cosine - negative_margin)
    return sum(sum(part) / len(part) for part in (short, close) if part)


def slow_rate(x, factor):
    """Half the log of the determinant, by the eigenvalues of the D x D matrix of outer products."""
    matrix = torch.eye(x.shape[1], dtype=x.dtype)
    for row in x:
        direction = row / row.norm()
        matrix = matrix + factor * torch.outer(direction, direction)
    return 0.5 * sum(math.log(value) for value in torch.linalg.eigvalsh(matrix).tolist())


def slow_koleo(x):
    points = x / x.norm(dim=1, keepdim=True)
    total = 0.0
    for i in range(len(x)):
        nearest = min((points[i] - points[j]).norm().item() for j in range(len(x)) if j != i)
        total += math.log(nearest)
    return -total / len(x)


def test_names_are_the_issue_s():
    assert NAMES == [
        "anti_collapse",
        "anti_collapse_proxies",
        "koleo",
        "l2",
        "non_isotropy",
        "threshold_consistent_margin",
        "zero_mean",
    ]


def test_koleo_equals_the_loops():
    x = embeddings()
    assert regularisers.create("koleo")(x).item() == pytest.approx(slow_koleo(x), abs=1e-6)


@pytest.mark.parametrize("margins", [(0.9, 0.5), (0.2, -0.3), (-1.0, 1.0)])
def test_threshold_consistent_margin_equals_the_loops_and_pytorch_metric_learning(margins):
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    x, labels = embeddings().requires_grad_(), torch.tensor([0, 0, 1, 1, 1, 2, 0])
    options = {"positive_margin": margins[0], "negative_margin": margins[1]}
    value = regularisers.create("threshold_consistent_margin", **options)(x, labels=labels)
    expected = slow_margins(x, labels, **options)
    assert value.item() == pytest.approx(float(torch.as_tensor(expected).detach()), abs=1e-9)
    theirs = peers.ThresholdConsistentMarginLoss(margin_plus=margins[0], margin_minus=margins[1])(x, labels)
    assert value.item() == pytest.approx(float(torch.as_tensor(theirs).detach()), abs=1e-9)
    if margins != (-1.0, 1.0):
        wanted = torch.autograd.grad(expected, x)
        torch.testing.assert_close(torch.autograd.grad(value, x), wanted)


@pytest.mark.parametrize("count", [3, 7])  # fewer and more samples than dimensions: two ways to compute
def test_anti_collapse_equals_the_eigenvalues(count):
    x = embeddings(count)
    rate = slow_rate(x, 4 / (count * 0.3))
    create = regularisers.create
    assert create("anti_collapse", epsilon_squared=0.3)(x).item() == pytest.approx(-rate)
    exponential = create("anti_collapse", epsilon_squared=0.3, form="exponential")(x)
    assert exponential.item() == pytest.approx(math.exp(-rate))


def test_anti_collapse_of_proxies_takes_those_of_the_batch_or_all():
    x, proxies, labels = embeddings(), embeddings(5, seed=1), torch.tensor([0, 0, 3, 3, 4, 0, 0])
    name = "anti_collapse_proxies"
    batch = regularisers.create(name)(x, labels=labels, proxies=proxies)
    assert batch.item() == pytest.approx(-slow_rate(proxies[[0, 3, 4]], 4 / (3 * 0.5)))
    everyone = regularisers.create(name, of="all")(x, labels=labels, proxies=proxies)
    assert everyone.item() == pytest.approx(-slow_rate(proxies, 4 / (5 * 0.5)))
    code = regularisers.create(name, form="exponential")(x, labels=labels, proxies=proxies)
    assert code.item() == pytest.approx(math.exp(-slow_rate(proxies[[0, 3, 4]], 3 / (4 * 0.5))))


def test_anti_collapse_is_lower_the_more_directions_there_are():
    values = [regularisers.create("anti_collapse")(torch.eye(4)[: 4 // n].repeat(n, 1)) for n in (1, 2, 4)]
    assert values[0] < values[1] < values[2]


def slow_coupling(block, x, condition, clamp):
    """One sample at a time, one component at a time."""
    images, logs = [], []
    for point, given in zip(x[:, block.order], condition, strict=True):
        half = len(point) // 2
        first, rest, log = list(point[:half]), list(point[half:]), 0.0
        said = block.of_rest(torch.cat([torch.stack(rest), given]))
        for k in range(half):
            log_scale = clamp * 2 / math.pi * math.atan(said[k])
            first[k] = first[k] * math.exp(log_scale) + said[half + k]
            log += log_scale
        said = block.of_first(torch.cat([torch.stack(first), given]))
        for k in range(len(rest)):
            log_scale = clamp * 2 / math.pi * math.atan(said[k])
            rest[k] = rest[k] * math.exp(log_scale) + said[len(rest) + k]
            log += log_scale
        images.append(torch.stack([*first, *rest]))
        logs.append(log)
    return torch.stack(images), logs


@pytest.mark.parametrize("form", ["likelihood", "exponential"])
def test_non_isotropy_equals_the_loops(form):
    x, proxies, labels = embeddings(), embeddings(3, seed=1), torch.tensor([0, 0, 1, 1, 1, 2, 0])
    regulariser = make("non_isotropy", x, form=form, blocks=2, depth=3, width=5, clamp=1.5)
    with torch.no_grad():
        points = torch.stack([row / row.norm() for row in x])
        conditions = torch.stack([proxies[label] / proxies[label].norm() for label in labels])
        total = [0.0] * len(x)
        for block in regulariser.flow.blocks:
            points, logs = slow_coupling(block, points, conditions, 1.5)
            total = [one - log for one, log in zip(total, logs, strict=True)]
        surprises = [one + 0.5 * float(z @ z) for one, z in zip(total, points, strict=True)]
        value = regulariser(x, labels=labels, proxies=proxies).item()
    shaped = [math.exp(one) if form == "exponential" else one for one in surprises]
    assert value == pytest.approx(sum(shaped) / len(shaped))


def test_the_flow_knows_its_own_determinant_and_no_two_points_meet():
    x = embeddings(1, seed=3)[:, :4]
    flow = make("non_isotropy", x).flow
    condition = embeddings(1, seed=4)
    jacobian = torch.autograd.functional.jacobian(lambda point: flow(point, condition)[0], x)[0, :, 0]
    assert flow(x, condition)[1].item() == pytest.approx(torch.linalg.slogdet(jacobian)[1].item())


def test_non_isotropy_starts_from_its_seed_alone_and_learns():
    x, labels, proxies = embeddings(64), torch.arange(64) % 3, embeddings(3, seed=1)
    before = torch.get_rng_state()
    one, same, other = (make("non_isotropy", x, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    values = [term(x, labels=labels, proxies=proxies).item() for term in (one, same, other)]
    assert values[0] == values[1] != values[2]
    optimizer = torch.optim.Adam(one.parameters(), lr=5e-4)
    for _ in range(20):
        optimizer.zero_grad()
        one(x, labels=labels, proxies=proxies).backward()
        optimizer.step()
    assert one(x, labels=labels, proxies=proxies).item() < 0.5 * values[0]


def test_l2_and_zero_mean_equal_pytorch_metric_learning():
    peers = pytest.importorskip("pytorch_metric_learning.regularizers")
    x = embeddings()
    torch.testing.assert_close(regularisers.create("l2")(x), peers.LpRegularizer(p=2, power=2)(x))
    torch.testing.assert_close(regularisers.create("zero_mean")(x), peers.ZeroMeanRegularizer()(x))


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck(name):
    x = embeddings().requires_grad_()
    others, regulariser = batch_of(name, x), make(name, x)
    assert torch.autograd.gradcheck(lambda x: regulariser(x, **others), x)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["collapsed", "zero", "one", "none"])
def test_finite_where_there_is_nothing_to_spread(name, where):
    x = {
        "collapsed": torch.ones(4, 3),
        "zero": torch.zeros(4, 3),
        "one": torch.ones(1, 3),
        "none": torch.ones(0, 3),
    }[where].requires_grad_()
    value = make(name, x)(x, **batch_of(name, x))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(x.grad).all()


def test_unknown_names_and_options_are_refused():
    with pytest.raises(UsageError, match='unknown regulariser "koleos"; did you mean "koleo"'):
        regularisers.create("koleos")
    with pytest.raises(UsageError, match='has no parameter "epsilon"'):
        regularisers.create("koleo", epsilon=1.0)
