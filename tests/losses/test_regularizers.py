"""Regularizers equal their formulas, and are finite where embeddings coincide."""

from __future__ import annotations

import inspect
import math

import pytest
import torch

from levelfield.core.errors import UsageError
from levelfield.core.seeds import torch_generator
from levelfield.losses import regularizers
from levelfield.losses.regularizers.hier import sample_triplets

NAMES = regularizers.registry.names()


def embeddings(count=7, seed=0):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(name, x, **options):
    """The regularizer for embeddings like x, in their precision."""
    given = {"embedding_size": x.shape[1], "num_classes": 3}
    taken = {key: value for key, value in given.items() if key in regularizers.registry[name].parameters}
    small = {"ancestors": 8, "triplets": 4} if name == "hier" else {}
    made = regularizers.create(name, **(small | options), **taken)
    return made.to(x.dtype) if isinstance(made, torch.nn.Module) else made


def batch_of(name, x):
    """Inputs of the regularizer besides the embeddings, by keyword."""
    known = {
        "labels": torch.arange(len(x)) % 3,
        "proxies": torch.eye(3, x.shape[1], dtype=x.dtype) + 0.1,
    }
    return {key: known[key] for key in regularizers.registry[name].card.sees}


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


def test_the_registered_names():
    assert NAMES == [
        "anti_collapse",
        "anti_collapse_proxies",
        "hier",
        "koleo",
        "l2",
        "non_isotropy",
        "threshold_consistent_margin",
        "zero_mean",
    ]


def test_koleo_equals_the_loops():
    x = embeddings()
    assert regularizers.create("koleo")(x).item() == pytest.approx(slow_koleo(x), abs=1e-6)


@pytest.mark.parametrize("margins", [(0.9, 0.5), (0.2, -0.3), (-1.0, 1.0)])
def test_threshold_consistent_margin_equals_the_loops_and_pytorch_metric_learning(margins):
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    x, labels = embeddings().requires_grad_(), torch.tensor([0, 0, 1, 1, 1, 2, 0])
    options = {"positive_margin": margins[0], "negative_margin": margins[1]}
    value = regularizers.create("threshold_consistent_margin", **options)(x, labels=labels)
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
    create = regularizers.create
    assert create("anti_collapse", epsilon_squared=0.3)(x).item() == pytest.approx(-rate)
    exponential = create("anti_collapse", epsilon_squared=0.3, form="exponential")(x)
    assert exponential.item() == pytest.approx(math.exp(-rate))


def test_anti_collapse_of_proxies_takes_those_of_the_batch_or_all():
    x, proxies, labels = embeddings(), embeddings(5, seed=1), torch.tensor([0, 0, 3, 3, 4, 0, 0])
    name = "anti_collapse_proxies"
    batch = regularizers.create(name)(x, labels=labels, proxies=proxies)
    assert batch.item() == pytest.approx(-slow_rate(proxies[[0, 3, 4]], 4 / (3 * 0.5)))
    everyone = regularizers.create(name, of="all")(x, labels=labels, proxies=proxies)
    assert everyone.item() == pytest.approx(-slow_rate(proxies, 4 / (5 * 0.5)))
    code = regularizers.create(name, form="exponential")(x, labels=labels, proxies=proxies)
    assert code.item() == pytest.approx(math.exp(-slow_rate(proxies[[0, 3, 4]], 3 / (4 * 0.5))))


def test_anti_collapse_is_lower_the_more_directions_there_are():
    values = [regularizers.create("anti_collapse")(torch.eye(4)[: 4 // n].repeat(n, 1)) for n in (1, 2, 4)]
    assert values[0] < values[1] < values[2]


def slow_coupling(block, x, condition, clamp):
    """The coupling, one sample and one component at a time."""
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
    regularizer = make("non_isotropy", x, form=form, blocks=2, depth=3, width=5, clamp=1.5)
    with torch.no_grad():
        points = torch.stack([row / row.norm() for row in x])
        conditions = torch.stack([proxies[label] / proxies[label].norm() for label in labels])
        total = [0.0] * len(x)
        for block in regularizer.flow.blocks:
            points, logs = slow_coupling(block, points, conditions, 1.5)
            total = [one - log for one, log in zip(total, logs, strict=True)]
        surprises = [one + 0.5 * float(z @ z) for one, z in zip(total, points, strict=True)]
        value = regularizer(x, labels=labels, proxies=proxies).item()
    shaped = [math.exp(one) if form == "exponential" else one for one in surprises]
    assert value == pytest.approx(sum(shaped) / len(shaped))


def test_the_flow_knows_its_own_determinant_and_no_two_points_meet():
    x = embeddings(1, seed=3)[:, :4]
    flow = make("non_isotropy", x).flow
    condition = embeddings(1, seed=4)
    jacobian = torch.autograd.functional.jacobian(lambda point: flow(point, condition)[0], x)[0, :, 0]
    assert flow(x, condition)[1].item() == pytest.approx(torch.linalg.slogdet(jacobian)[1].item())


@pytest.mark.slow
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


def slow_ball_distance(x, y, curvature, clip):
    """Distance by Moebius addition and the inverse hyperbolic tangent."""

    def into_ball(v):
        v = v * min(1.0, clip / float(v.norm()))
        root = math.sqrt(curvature)
        return torch.tanh(root * v.norm()) * v / (root * v.norm())

    x, y, c = into_ball(x), into_ball(y), curvature
    dot, xx, yy = -(x @ y), x @ x, y @ y
    total = (-(1 + 2 * c * dot + c * yy) * x + (1 - c * xx) * y) / (1 + 2 * c * dot + c * c * xx * yy)
    return float(2 / math.sqrt(c) * torch.atanh(math.sqrt(c) * total.norm()))


def test_hier_equals_the_loops():
    x, labels = 2 * embeddings(9), torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    options = {"ancestors": 7, "neighbors": 4, "triplets": 3, "margin": 0.3, "tau": 0.5}
    regularizer = make("hier", x, **options).eval()
    value = regularizer(x, labels=labels).item()
    random = torch_generator("hierarchy", 0, 0)
    everything = [*x, *regularizer.vectors.detach()]
    d = [[0.0 if p is q else slow_ball_distance(p, q, 0.1, 2.3) for q in everything] for p in everything]
    like = torch.tensor([[math.exp(-one) for one in row] for row in d], dtype=torch.float64)
    like[:9, :9] += (labels[:, None] == labels).double()
    expected = 0.0
    for rows in (range(9), range(9, 16)):
        part = like[rows.start : rows.stop, rows.start : rows.stop]
        chosen = sample_triplets(part, neighbors=4, count=3, generator=random)
        near = torch.rand(len(chosen[0]), 7, generator=random, dtype=torch.float64)
        far = torch.rand(len(chosen[0]), 7, generator=random, dtype=torch.float64)
        total = 0.0
        for number, (i, j, k) in enumerate(zip(*(part.tolist() for part in chosen), strict=True)):
            di, dj, dk = (d[rows[row]][9:] for row in (i, j, k))

            def drawn(largest, luck):
                scores = [
                    -m / 0.5 - math.log(-math.log(u)) for m, u in zip(largest, luck.tolist(), strict=True)
                ]
                return scores.index(max(scores))

            a = drawn([max(pair) for pair in zip(di, dj, strict=True)], near[number])
            b = drawn([max(three) for three in zip(di, dj, dk, strict=True)], far[number])
            if a != b:
                total += (
                    max(di[a] - di[b] + 0.3, 0) + max(dj[a] - dj[b] + 0.3, 0) + max(dk[b] - dk[a] + 0.3, 0)
                )
        expected += total / len(chosen[0])
    assert value == pytest.approx(expected, abs=1e-6)
    assert value > 0


def test_relatives_are_among_each_others_nearest():
    like = torch.rand(12, 12, generator=torch.Generator().manual_seed(0))
    like = like + like.T
    nearest = [sorted(range(12), key=(-like[i]).tolist().__getitem__)[:5] for i in range(12)]
    triplets = sample_triplets(like, neighbors=5, count=9, generator=torch.Generator())
    found = [part.tolist() for part in triplets]
    for i, j, k in zip(*found, strict=True):
        assert i != j and j in nearest[i] and i in nearest[j]
        assert i != k and not (k in nearest[i] and i in nearest[k])
    counts = [sum(i != j and j in nearest[i] and i in nearest[j] for j in range(12)) for i in range(12)]
    assert found[0] == [i for i in range(12) if counts[i] > 1 for _ in range(9)]


def test_hier_draws_anew_in_every_step_and_a_loaded_one_goes_on():
    x, labels = embeddings(12), torch.arange(12) // 4
    options = {"ancestors": 16, "neighbors": 6}
    one, other = (make("hier", x, **options) for _ in range(2))
    first, second = one(x, labels=labels), one(x, labels=labels)
    assert first != second
    other.load_state_dict(one.state_dict())
    assert one(x, labels=labels) == other(x, labels=labels)


def test_l2_and_zero_mean_equal_pytorch_metric_learning():
    peers = pytest.importorskip("pytorch_metric_learning.regularizers")
    x = embeddings()
    torch.testing.assert_close(regularizers.create("l2")(x), peers.LpRegularizer(p=2, power=2)(x))
    torch.testing.assert_close(regularizers.create("zero_mean")(x), peers.ZeroMeanRegularizer()(x))


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name != "hier"]
)  # it draws, with an assigned slope
def test_gradcheck(name):
    x = embeddings().requires_grad_()
    others, regularizer = batch_of(name, x), make(name, x)
    assert torch.autograd.gradcheck(lambda x: regularizer(x, **others), x)


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
    assert x.grad is not None and torch.isfinite(x.grad).all()


def test_unknown_names_and_options_are_refused():
    with pytest.raises(UsageError, match='unknown regularizer "koleos"; did you mean "koleo"'):
        regularizers.create("koleos")
    with pytest.raises(UsageError, match='has no parameter "epsilon"'):
        regularizers.create("koleo", epsilon=1.0)


def test_every_regularizer_is_an_importable_class():
    for name in NAMES:
        target = regularizers.registry[name].target
        assert inspect.isclass(target) and issubclass(target, regularizers.Regularizer)
        assert getattr(regularizers, target.__name__) is target
        assert target.__name__ in regularizers.__all__


def test_a_class_equals_its_registered_name():
    x, labels = embeddings(), torch.tensor([0, 0, 1, 1, 1, 2, 0])
    assert torch.equal(regularizers.KoLeo(eps=1e-3)(x), regularizers.create("koleo", eps=1e-3)(x))
    made = regularizers.ThresholdConsistentMargin(positive_margin=0.3)
    named = regularizers.create("threshold_consistent_margin", positive_margin=0.3)
    assert torch.equal(made(x, labels=labels), named(x, labels=labels))
    assert repr(made) == "ThresholdConsistentMargin(positive_margin=0.3, negative_margin=0.5)"


def test_a_registered_function_works_and_its_options_are_checked(monkeypatch):
    monkeypatch.setattr(regularizers.registry, "_entries", dict(regularizers.registry._entries))

    @regularizers.register("class_size", sees=("labels",))
    def class_size(embeddings, *, labels, factor: float = 1.0):
        return factor * embeddings.sum() * len(labels)

    made = regularizers.create("class_size", factor=2.0)
    assert isinstance(made, regularizers.Regularizer)
    assert made(torch.ones(2, 3), labels=torch.tensor([0, 1])) == 24
    with pytest.raises(UsageError, match="factor"):
        regularizers.create("class_size", factor="much")


def test_epsilon_of_anti_collapse_must_be_positive():
    for name in ("anti_collapse", "anti_collapse_proxies"):
        with pytest.raises(UsageError, match="epsilon_squared must be above 0"):
            regularizers.create(name, epsilon_squared=0.0)
