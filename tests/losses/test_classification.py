"""Classification losses: equal to loops, finite, compiled into one graph, seeded, strict about labels."""

from __future__ import annotations

import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.naming import each_named
from tests.oracles import losses_classification as oracles

from levelfield import losses
from levelfield.core.errors import UsageError
from levelfield.miners import Triplets

MAGFACE = {"low_length": 10.0, "high_length": 110.0, "low_margin": 25.8, "high_margin": 45.8}
MAGFACE |= {"length_weight": 35.0, "scale": 64.0}
CASES = [
    ("cross_entropy", {}),
    ("normalized_softmax", {"temperature": 0.05}),
    ("normalized_softmax", {"temperature": 0.0002}),
    ("proxy_nca", {"softmax_scale": 1.0}),
    ("proxy_nca", {"softmax_scale": 14.0, "include_positive": True}),
    ("proxy_nca_pp", {"temperature": 1 / 9}),
    ("cosface", {"margin": 0.35, "scale": 64.0}),
    ("arcface", {"margin": 28.6, "scale": 64.0}),
    ("arcface", {"margin": 120.0, "scale": 4.0}),
    ("arcface", {"margin": 0.0, "scale": 300.0}),
    ("curricularface", {"margin": 28.6, "scale": 64.0}),
    ("curricularface", {"margin": 120.0, "scale": 4.0}),
    ("adaface", {"margin": 0.4, "concentration": 0.333, "scale": 64.0}),
    ("adaface", {"margin": 1.0, "concentration": 30.0, "scale": 4.0}),
    ("magface", MAGFACE),
    ("magface", MAGFACE | {"low_length": 1.0, "high_length": 4.0, "high_margin": 90.0, "scale": 4.0}),
    ("group", {"anchors": 2, "temperature": 24.0, "iterations": 1}),
    ("group", {"anchors": 1, "temperature": 0.5, "iterations": 3, "group_weight": 0.3}),
    ("subcenter_arcface", {"margin": 28.6, "scale": 64.0, "sub_centers": 3}),
    ("sphereface", {"margin": 4, "scale": 1.0}),
    ("sphereface", {"margin": 3, "scale": 30.0}),
    ("sphereface", {"margin": 1, "scale": 30.0}),
    ("circle_class", {"m": 0.25, "gamma": 256.0}),
    ("soft_triple", {"la": 20.0, "gamma": 0.1, "reg_weight": 0.2, "margin": 0.01, "centers": 4}),
    ("soft_triple", {"la": 78.0, "gamma": 59.0, "reg_weight": 0.4, "margin": 0.4, "centers": 2}),
    ("soft_triple", {"la": 8.0, "gamma": 0.01, "reg_weight": 0.2, "margin": 0.0, "centers": 1}),
    ("hist", {"tau": 32.0, "alpha": 0.9}),
    ("hist", {"tau": 2.0, "alpha": 3.0, "hypergraph_weight": 0.3, "hidden": 5}),
    ("proxy_anchor", {"margin": 0.1, "alpha": 32.0}),
    ("proxy_anchor", {"margin": 0.0, "alpha": 1000.0}),
    ("proxy_proxy", {"margin": 0.1, "alpha": 32.0, "variant": 1}),
    ("proxy_proxy", {"margin": 0.1, "alpha": 32.0, "variant": 2}),
]
NAMES = sorted({name for name, _ in CASES})
CLASSES, SIZE = 4, 6
BATCHES = {
    "random": [0, 1, 2, 3, 0, 1, 2, 3],
    "unbalanced": [0, 0, 0, 0, 0, 1, 1, 3],
    "one class": [2, 2, 2, 2],
    "one sample": [1],
}

cases = pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{n}-{o}" for n, o in CASES])


def make(name, **options):
    """The loss in evaluation mode: moving averages would change the second call.

    How they move is in test_moving_averages.py.
    """
    return losses.create(name, num_classes=CLASSES, embedding_size=SIZE, **options).eval()


def draw(labels, *, seed=0, length=1.0):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(len(labels), SIZE, generator=generator, dtype=torch.float64) * length
    return embeddings.requires_grad_(), torch.tensor(labels)


def value_and_gradients(loss, embeddings, labels):
    value = loss(embeddings, labels)
    return value, *torch.autograd.grad(value, [embeddings, *loss.parameters()])


def assert_equals_oracle(name, options, embeddings, labels):
    loss = make(name, **options).double()
    value, *gradients = value_and_gradients(loss, embeddings, labels)
    oracle = getattr(oracles, name)
    owned = {"loss": loss} if "loss" in inspect.signature(oracle).parameters else {}
    expected = oracle(embeddings, labels, loss.weights, **options, **owned)
    wanted = torch.autograd.grad(
        expected, [embeddings, *loss.parameters()] if owned else [embeddings, loss.weights]
    )
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-9)
    for gradient, want in zip(gradients, wanted, strict=False):  # cross_entropy also has a bias
        torch.testing.assert_close(gradient, want, rtol=1e-7, atol=1e-8)


@cases
def test_equals_the_loops(name, options):
    for batch, batch_name in each_named(BATCHES):
        with batch_name:
            assert_equals_oracle(name, options, *draw(BATCHES[batch]))


@pytest.mark.slow
@cases
@pytest.mark.parametrize("length", [1e-4, 1e4])
def test_equals_the_loops_at_any_length(name, options, length):
    if name in ("cross_entropy", "group") and length > 1:
        pytest.skip("its logits are not bounded")
    assert_equals_oracle(name, options, *draw(BATCHES["random"], length=length))


@cases
def test_equals_the_loops_on_duplicates(name, options):
    embeddings, labels = draw(BATCHES["random"])
    twice = torch.cat([embeddings, embeddings]).detach().requires_grad_()
    assert_equals_oracle(name, options, twice, torch.cat([labels, labels.flip(0)]))


@settings(max_examples=25, deadline=None)
@given(
    case=st.sampled_from(CASES),
    labels=st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=6),
    seed=st.integers(0, 2**31),
)
def test_equals_the_loops_on_any_batch(case, labels, seed):
    assert_equals_oracle(*case, *draw(labels, seed=seed))


@cases
def test_gradcheck(name, options):
    if (
        name in ("circle_class", "adaface")
        or options.get("alpha") == 1000.0
        or options.get("temperature") == 0.0002
    ):
        pytest.skip("stops the gradient of its weights, or is too steep for finite differences")
    loss = make(name, **options).double()
    embeddings, labels = draw(BATCHES["unbalanced"], seed=1)
    assert torch.autograd.gradcheck(lambda x, w: loss.compute(x, labels, w), (embeddings, loss.weights))


@cases
def test_float32_stays_finite(name, options):
    loss = make(name, **options)
    labels = torch.tensor(BATCHES["random"])
    own = loss.weights.detach().unflatten(0, (CLASSES, -1))[labels, 0]
    places = {
        "on the weight": own,
        "opposite": -own,
        "collapsed": own[:1].expand(len(labels), SIZE).clone(),
        "zero": torch.zeros(len(labels), SIZE),
        "huge": own * 1e6,
        "tiny": own * 1e-12,
    }
    for place, place_name in each_named(places):
        with place_name:
            for tensor in value_and_gradients(loss, places[place].requires_grad_(), labels):
                assert torch.isfinite(tensor).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions_agree_with_float32(name, dtype):
    loss = make(name)
    embeddings, labels = draw(BATCHES["random"])
    rounded = embeddings.detach().to(dtype)
    value, gradient, *_ = value_and_gradients(loss, rounded.clone().requires_grad_(), labels)
    expected, wanted, *_ = value_and_gradients(loss, rounded.float().requires_grad_(), labels)
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert gradient.dtype == dtype
    torch.testing.assert_close(value.float(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradient.float(), wanted, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_autocast_changes_nothing(name):
    loss = make(name)
    embeddings, labels = draw(BATCHES["random"])
    embeddings = embeddings.detach().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(embeddings, labels)
    torch.testing.assert_close(value, loss(embeddings, labels))


@pytest.mark.parametrize("name", NAMES)
def test_compiles_to_one_graph(name):
    torch.compiler.reset()  # all losses share one forward, which is recompiled a limited number of times
    loss = make(name)
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    embeddings, labels = draw(BATCHES["unbalanced"])
    embeddings = embeddings.detach().float().requires_grad_()
    for got, want in zip(
        value_and_gradients(compiled, embeddings, labels),
        value_and_gradients(loss, embeddings, labels),
        strict=True,
    ):
        torch.testing.assert_close(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [-1, CLASSES])
def test_refuses_labels_outside_the_classes(name, bad):
    with pytest.raises(UsageError, match=rf"labels 0\.\.3, got {bad}; renumber"):
        make(name)(torch.ones(2, SIZE), torch.tensor([0, bad]))


def test_refuses_what_does_not_fit():
    loss = make("arcface")
    with pytest.raises(UsageError, match="shape B x 6"):
        loss(torch.ones(2, SIZE + 1), torch.tensor([0, 1]))
    with pytest.raises(UsageError, match="one label per embedding"):
        loss(torch.ones(2, SIZE), torch.tensor([0]))
    with pytest.raises(UsageError, match=r"\.long\(\)"):
        loss(torch.ones(2, SIZE), torch.tensor([0.0, 1.0]))
    with pytest.raises(UsageError, match="drop the miner"):
        index = torch.tensor([0])
        loss(torch.ones(2, SIZE), torch.tensor([0, 1]), Triplets(index, index, index))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("normalized_softmax", {"temperature": 0.0}, "temperature must be above 0"),
        ("arcface", {"margin": 200.0}, "margin must be an angle in degrees"),
        ("arcface", {"scale": -1.0}, "scale must be above 0"),
        ("curricularface", {"momentum": 1.5}, "momentum must be from 0 to 1"),
        ("magface", {"low_length": 200.0}, "low_length must be below high_length"),
        ("magface", {"low_margin": 50.0}, "the low one not above the high one"),
        ("group", {"anchors": 0}, "anchors = 0, but it takes a whole number from 1"),
        ("group", {"temperature": 0.0}, "temperature must be above 0"),
        ("sphereface", {"margin": 2.5}, "takes a whole number"),
        ("soft_triple", {"centers": 0}, "centers = 0, but it takes a whole number from 1"),
        ("soft_triple", {"reg_weight": -0.1}, "reg_weight must be 0 or more"),
        ("cross_entropy", {"label_smoothing": 1.0}, "label_smoothing must be"),
        ("proxy_proxy", {"variant": 3}, "one of 1, 2"),
        ("cosface", {"reduction": "avg"}, "one of mean, sum"),
    ],
)
def test_refuses_wrong_options(name, options, message):
    with pytest.raises(UsageError, match=message):
        make(name, **options)(torch.ones(1, SIZE), torch.tensor([0]))


def test_needs_classes():
    with pytest.raises(UsageError, match="num_classes must be a whole number"):
        losses.create("arcface", num_classes=0, embedding_size=SIZE)
    with pytest.raises(UsageError, match="at least 2"):
        losses.create("proxy_nca", num_classes=1, embedding_size=SIZE)


@pytest.mark.parametrize("name", NAMES)
def test_weights_depend_on_the_seed_alone(name):
    before = torch.get_rng_state()
    one, same, other = make(name, seed=3), make(name, seed=3), make(name, seed=4)
    assert torch.equal(one.weights, same.weights)
    assert not torch.equal(one.weights, other.weights)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("proxy_anchor", "proxy_proxy", "hist")]
)
def test_reductions(name):
    embeddings, labels = draw(BATCHES["random"])
    extra = {"reg_weight": 0.0} if name == "soft_triple" else {}
    mean, total = (make(name, reduction=how, **extra)(embeddings, labels) for how in ("mean", "sum"))
    torch.testing.assert_close(total, mean * len(labels))
    nothing = make(name, **extra)(embeddings[:0], labels[:0])
    assert nothing.item() == 0


@pytest.mark.parametrize("variant", [1, 2])
def test_proxy_proxy_in_blocks_equals_the_whole(variant, monkeypatch):
    loss = make("proxy_proxy", variant=variant)
    embeddings, labels = draw(BATCHES["unbalanced"])
    whole = value_and_gradients(loss, embeddings, labels)
    monkeypatch.setattr("levelfield.losses.proxy_proxy.MOST_AT_ONCE", 2 * CLASSES - 1)
    for got, want in zip(value_and_gradients(loss, embeddings, labels), whole, strict=True):
        torch.testing.assert_close(got, want)


def test_the_first_samples_of_each_class_are_the_anchors_of_group():
    loss = make("group", anchors=1, group_weight=1.0)
    plain = make("group", anchors=1, group_weight=0.0)
    embeddings, labels = draw([0, 1, 0, 2])
    with torch.no_grad():
        embeddings[2] = embeddings[0] + embeddings[2] / 4  # similar, so that they support each other
    spread = loss(embeddings, labels) - plain(embeddings, labels)
    (gradient,) = torch.autograd.grad(spread, embeddings)
    assert spread > 0
    assert gradient[0].any()  # the anchor's support of sample 2 depends on its position
    alone = [loss(embeddings[[i]], labels[[i]]) - plain(embeddings[[i]], labels[[i]]) for i in range(4)]
    assert torch.stack(alone).max() < 1e-9  # each is its own anchor
