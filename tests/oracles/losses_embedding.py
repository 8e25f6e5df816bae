"""Embedding losses as explicit loops over pairs, triplets and quadruplets.

Every function takes embeddings (B x D), labels (B), a miner's tuples or None, and the loss's options.
Gradients come from autograd on scalars.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from levelfield.miners import MinedTuples, Triplets

Pair = tuple[int, int]
Triple = tuple[int, int, int]


# --- tuples -------------------------------------------------------------------------------------------


def positive_pairs(labels: Tensor, tuples: MinedTuples | None) -> list[Pair]:
    y = labels.tolist()
    if tuples is None:
        return [(i, j) for i in range(len(y)) for j in range(len(y)) if i != j and y[i] == y[j]]
    if isinstance(tuples, Triplets):
        return list(zip(tuples.anchor.tolist(), tuples.positive.tolist(), strict=True))
    return list(zip(tuples.pos_anchor.tolist(), tuples.positive.tolist(), strict=True))


def negative_pairs(labels: Tensor, tuples: MinedTuples | None) -> list[Pair]:
    y = labels.tolist()
    if tuples is None:
        return [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] != y[j]]
    if isinstance(tuples, Triplets):
        return list(zip(tuples.anchor.tolist(), tuples.negative.tolist(), strict=True))
    return list(zip(tuples.neg_anchor.tolist(), tuples.negative.tolist(), strict=True))


def triplets(labels: Tensor, tuples: MinedTuples | None) -> list[Triple]:
    if isinstance(tuples, Triplets):
        return list(
            zip(tuples.anchor.tolist(), tuples.positive.tolist(), tuples.negative.tolist(), strict=True)
        )
    return [
        (a, p, n)
        for a, p in positive_pairs(labels, tuples)
        for b, n in negative_pairs(labels, tuples)
        if a == b
    ]


def others_of(anchor: int, pairs: Iterable[Pair]) -> list[int]:
    return sorted({j for i, j in pairs if i == anchor})


# --- arithmetic ---------------------------------------------------------------------------------------


def unit(x: Tensor) -> Tensor:
    return torch.stack([row / row.norm() if float(row.detach().norm()) > 0 else row for row in x])


def distance(x: Tensor, i: int, j: int) -> Tensor:
    difference = x[i] - x[j]
    return difference.norm() if float(difference.detach().abs().max()) > 0 else difference.sum() * 0


def snr(x: Tensor, i: int, j: int) -> Tensor:
    signal = ((x[i] - x[i].mean()) ** 2).sum()
    noise = x[i] - x[j]
    return ((noise - noise.mean()) ** 2).sum() / signal


def log_sum_exp(values: Sequence[Tensor]) -> Tensor:
    top = max(float(v.detach()) for v in values)
    return torch.stack([torch.exp(v - top) for v in values]).sum().log() + top


def log_one_plus_sum_exp(values: Sequence[Tensor], like: Tensor) -> Tensor:
    return log_sum_exp([*values, like.sum() * 0])


def reduced(losses: Sequence[Tensor], reduction: str, like: Tensor) -> Tensor:
    zero = like.sum() * 0
    if not losses:
        return zero
    total = torch.stack(list(losses)).sum()
    if reduction == "sum":
        return total
    number = len(losses) if reduction == "mean" else sum(float(v.detach()) > 0 for v in losses)
    return total / number if number else zero


def mean_square_norm(x: Tensor) -> Tensor:
    return torch.stack([(row**2).sum() for row in x]).mean()


def hinge(value: Tensor) -> Tensor:
    return value if float(value.detach()) > 0 else value * 0


# --- losses -------------------------------------------------------------------------------------------


def contrastive(x, y, tuples, *, pos_margin=0.0, neg_margin=1.0, normalize=True, reduction="mean_nonzero"):
    v = unit(x) if normalize else x
    pull = [hinge(distance(v, i, j) - pos_margin) for i, j in positive_pairs(y, tuples)]
    push = [hinge(neg_margin - distance(v, i, j)) for i, j in negative_pairs(y, tuples)]
    return reduced(pull, reduction, x) + reduced(push, reduction, x)


def triplet(
    x, y, tuples, *, margin=0.2, smooth=False, squared=False, normalize=True, reduction="mean_nonzero"
):
    v = unit(x) if normalize else x
    power = 2 if squared else 1
    losses = []
    for a, p, n in triplets(y, tuples):
        violation = distance(v, a, p) ** power - distance(v, a, n) ** power + margin
        losses.append(log_one_plus_sum_exp([violation], x) if smooth else hinge(violation))
    return reduced(losses, reduction, x)


def ntxent(x, y, tuples, *, temperature=0.1, reduction="mean"):
    v = unit(x)
    negatives = negative_pairs(y, tuples)
    losses = []
    for a, p in dict.fromkeys(positive_pairs(y, tuples)):
        own = v[a] @ v[p] / temperature
        rivals = [v[a] @ v[n] / temperature for n in others_of(a, negatives)]
        losses.append(log_sum_exp([own, *rivals]) - own)
    return reduced(losses, reduction, x)


def supcon(x, y, tuples, *, temperature=0.1, reduction="mean"):
    v = unit(x)
    positives, negatives = positive_pairs(y, tuples), negative_pairs(y, tuples)
    losses = []
    for a in range(len(x)):
        mates = others_of(a, positives)
        if mates:
            everyone = [v[a] @ v[k] / temperature for k in [*mates, *others_of(a, negatives)]]
            terms = [log_sum_exp(everyone) - v[a] @ v[p] / temperature for p in mates]
            losses.append(torch.stack(terms).mean())
    return reduced(losses, reduction, x)


def margin(x, y, tuples, *, margin=0.2, beta=1.2, nu=0.0, normalize=True, reduction="mean_nonzero"):
    v = unit(x) if normalize else x
    beta = beta if isinstance(beta, Tensor) else torch.full((len(x),), beta, dtype=x.dtype)
    losses, anchors = [], []
    for a, p, n in triplets(y, tuples):
        losses.append(hinge(distance(v, a, p) - beta[a] + margin))
        losses.append(hinge(beta[a] - distance(v, a, n) + margin))
        anchors.append(beta[a])
    return reduced(losses, reduction, x) + nu * reduced(anchors, "mean", x)


def fastap(x, y, tuples, *, num_bins=10, reduction="mean"):
    assert tuples is None
    v = unit(x)
    positives = positive_pairs(y, None)
    nodes = [4 * k / num_bins for k in range(num_bins + 1)]

    def share(value: Tensor, node: float) -> Tensor:
        return hinge(1 - (value - node).abs() * num_bins / 4)

    losses = []
    for a in range(len(x)):
        mates = others_of(a, positives)
        if not mates:
            continue
        squares = {k: distance(v, a, k) ** 2 for k in range(len(x)) if k != a}
        precision, reached, ranked = x.sum() * 0, x.sum() * 0, x.sum() * 0
        for node in nodes:
            here = torch.stack([share(squares[p], node) for p in mates]).sum()
            reached = reached + here
            ranked = ranked + torch.stack([share(s, node) for s in squares.values()]).sum()
            if float(ranked.detach()) > 0:
                precision = precision + here * reached / ranked
        losses.append(1 - precision / len(mates))
    return reduced(losses, reduction, x)


def snr_contrastive(
    x,
    y,
    tuples,
    *,
    pos_margin=0.0,
    neg_margin=1.0,
    regularizer_weight=0.005,
    normalize=True,
    reduction="mean_nonzero",
):
    v = unit(x) if normalize else x
    positives, negatives = positive_pairs(y, tuples), negative_pairs(y, tuples)
    pull = [hinge(snr(v, i, j) - pos_margin) for i, j in positives]
    push = [hinge(neg_margin - snr(v, i, j)) for i, j in negatives]
    loss = reduced(pull, reduction, x) + reduced(push, reduction, x)
    return loss + bool(positives or negatives) * regularizer_weight * zero_mean(x)


def snr_triplet(
    x, y, tuples, *, margin=0.2, regularizer_weight=0.005, normalize=True, reduction="mean_nonzero"
):
    v = unit(x) if normalize else x
    chosen = triplets(y, tuples)
    losses = [hinge(snr(v, a, p) - snr(v, a, n) + margin) for a, p, n in chosen]
    return reduced(losses, reduction, x) + bool(chosen) * regularizer_weight * zero_mean(x)


def zero_mean(x: Tensor) -> Tensor:
    return torch.stack([row.sum().abs() for row in x]).mean()


def multi_similarity(x, y, tuples, *, alpha=2.0, beta=50.0, base=0.5, reduction="mean"):
    v = unit(x)
    positives, negatives = positive_pairs(y, tuples), negative_pairs(y, tuples)
    losses = []
    for a in range(len(x)):
        pull = [-alpha * (v[a] @ v[p] - base) for p in others_of(a, positives)]
        push = [beta * (v[a] @ v[n] - base) for n in others_of(a, negatives)]
        losses.append(log_one_plus_sum_exp(pull, x) / alpha + log_one_plus_sum_exp(push, x) / beta)
    return reduced(losses, reduction, x)


def angular(x, y, tuples, *, alpha=45.0, npair_weight=1.0, angular_weight=2.0, l2=0.005, reduction="mean"):
    v = unit(x)
    positives, negatives = list(dict.fromkeys(positive_pairs(y, tuples))), negative_pairs(y, tuples)
    tan2 = math.tan(math.radians(alpha)) ** 2
    losses = []
    for a, p in positives:
        terms = [
            4 * tan2 * ((v[a] + v[p]) @ v[n]) - 2 * (1 + tan2) * (v[a] @ v[p])
            for n in others_of(a, negatives)
        ]
        losses.append(log_one_plus_sum_exp(terms, x))
    loss = angular_weight * reduced(losses, reduction, x)
    loss = loss + npair_weight * npair(x, y, tuples, l2=0.0, reduction=reduction)
    return loss + bool(positives) * l2 * mean_square_norm(x)


def npair(x, y, tuples, *, l2=0.005, pairs="all", reduction="mean"):
    losses = []
    if pairs == "all":
        negatives = negative_pairs(y, tuples)
        for a, p in dict.fromkeys(positive_pairs(y, tuples)):
            terms = [x[a] @ x[n] - x[a] @ x[p] for n in others_of(a, negatives)]
            losses.append(log_one_plus_sum_exp(terms, x))
    else:
        rows = {c: [i for i, label in enumerate(y.tolist()) if label == c] for c in sorted(set(y.tolist()))}
        chosen = [(r[0], r[1]) for r in rows.values() if len(r) > 1]
        for a, p in chosen:
            terms = [x[a] @ x[q] - x[a] @ x[p] for b, q in chosen if b != a]
            losses.append(log_one_plus_sum_exp(terms, x))
    return reduced(losses, reduction, x) + bool(losses) * l2 * mean_square_norm(x)


def lifted_structure(x, y, tuples, *, margin=1.0, normalize=True, reduction="mean"):
    v = unit(x) if normalize else x
    negatives = negative_pairs(y, tuples)
    losses = []
    for a, p in dict.fromkeys(positive_pairs(y, tuples)):
        terms = [margin - distance(v, end, n) for end in (a, p) for n in others_of(end, negatives)]
        losses.append(hinge(log_sum_exp(terms) + distance(v, a, p)) ** 2 / 2 if terms else x.sum() * 0)
    return reduced(losses, reduction, x)


def generalized_lifted(x, y, tuples, *, margin=1.0, l2=0.005, normalize=False, reduction="mean"):
    v = unit(x) if normalize else x
    positives, negatives = positive_pairs(y, tuples), negative_pairs(y, tuples)
    losses = []
    for a in range(len(x)):
        pull = [distance(v, a, p) for p in others_of(a, positives)]
        push = [margin - distance(v, a, n) for n in others_of(a, negatives)]
        if pull and push:
            losses.append(hinge(log_sum_exp(pull) + log_sum_exp(push)))
    return reduced(losses, reduction, x) + bool(losses) * l2 * mean_square_norm(x)


def histogram(x, y, tuples, *, num_bins=65):
    v = unit(x)
    width = 2 / (num_bins - 1)

    def density(pairs: list[Pair]) -> list[Tensor]:
        values = [(v[i] @ v[j]).clamp(-1, 1) for i, j in dict.fromkeys(pairs)]
        return [
            torch.stack([hinge(1 - (s + 1 - r * width).abs() / width) for s in values]).mean()
            for r in range(num_bins)
        ]

    positives, negatives = positive_pairs(y, tuples), negative_pairs(y, tuples)
    if not positives or not negatives:
        return x.sum() * 0
    pulled, pushed = density(positives), density(negatives)
    return torch.stack([pushed[r] * pulled[q] for r in range(num_bins) for q in range(r + 1)]).sum()


def quadruplet(x, y, tuples, *, margin_1=1.0, margin_2=0.5, normalize=True, reduction="mean_nonzero"):
    v = unit(x) if normalize else x
    labels = y.tolist()
    chosen = triplets(y, tuples)
    near = [hinge(distance(v, i, j) - distance(v, i, k) + margin_1) for i, j, k in chosen]
    far = [
        hinge(distance(v, i, j) - distance(v, k, fourth) + margin_2)
        for i, j, k in chosen
        for fourth in range(len(x))
        if labels[fourth] not in (labels[i], labels[k])
    ]
    return reduced(near, reduction, x) + reduced(far, reduction, x)


def tuplet_margin(x, y, tuples, *, margin=5.73, scale=64.0, reduction="mean"):
    v = unit(x)
    negatives = negative_pairs(y, tuples)
    losses = []
    for a, p in dict.fromkeys(positive_pairs(y, tuples)):
        angle = torch.acos((v[a] @ v[p]).clamp(-1 + 1e-15, 1 - 1e-15))
        eased = torch.cos(angle - math.radians(margin))
        terms = [scale * (v[a] @ v[n] - eased) for n in others_of(a, negatives)]
        losses.append(log_one_plus_sum_exp(terms, x))
    return reduced(losses, reduction, x)


def circle(x, y, tuples, *, m=0.4, gamma=80.0, reduction="mean"):
    v = unit(x)
    positives, negatives = positive_pairs(y, tuples), negative_pairs(y, tuples)
    losses = []
    for a in range(len(x)):
        near = [v[a] @ v[p] for p in others_of(a, positives)]
        far = [v[a] @ v[n] for n in others_of(a, negatives)]
        if near and far:
            pull = [-gamma * max(1 + m - float(s.detach()), 0) * (s - (1 - m)) for s in near]
            push = [gamma * max(float(s.detach()) + m, 0) * (s - m) for s in far]
            losses.append(log_one_plus_sum_exp([log_sum_exp(pull) + log_sum_exp(push)], x))
    return reduced(losses, reduction, x)


def nca(x, y, tuples, *, softmax_scale=1.0, normalize=True, reduction="mean"):
    v = unit(x) if normalize else x
    positives, negatives = positive_pairs(y, tuples), negative_pairs(y, tuples)
    losses = []
    for a in range(len(x)):
        near = [-softmax_scale * distance(v, a, p) ** 2 for p in others_of(a, positives)]
        far = [-softmax_scale * distance(v, a, n) ** 2 for n in others_of(a, negatives)]
        if near:
            losses.append(log_sum_exp([*near, *far]) - log_sum_exp(near))
    return reduced(losses, reduction, x)


def _soft_rank(s: Sequence[Tensor], p: int, among: Iterable[int], temperature: float) -> Tensor:
    return 1 + sum((torch.sigmoid((s[k] - s[p]) / temperature) for k in among if k != p), start=s[p] * 0)


def smooth_ap(x, y, tuples, *, temperature=0.01, rank_anchor=True, reduction="mean"):
    assert tuples is None
    v = unit(x)
    positives = positive_pairs(y, None)
    losses = []
    for a in range(len(x)):
        mates = others_of(a, positives)
        if mates:
            s = [v[a] @ row for row in v]
            everyone = [k for k in range(len(x)) if rank_anchor or k != a]
            mates = [*mates, a] if rank_anchor else mates
            ratios = [
                _soft_rank(s, p, mates, temperature) / _soft_rank(s, p, everyone, temperature) for p in mates
            ]
            losses.append(1 - torch.stack(ratios).mean())
    return reduced(losses, reduction, x)


def recall_at_k(
    x, y, tuples, *, k=(1, 2, 4, 8, 16), rank_temperature=0.01, recall_temperature=1.0, reduction="mean"
):
    assert tuples is None
    v = unit(x)
    positives = positive_pairs(y, None)
    losses = []
    for a in range(len(x)):
        mates = others_of(a, positives)
        if mates:
            s = [v[a] @ row for row in v]
            ranks = [_soft_rank(s, p, range(len(x)), rank_temperature) for p in mates]
            recalls = []
            for depth in (min(each, len(x)) for each in k):
                hits = torch.stack([torch.sigmoid((depth - r) / recall_temperature) for r in ranks]).sum()
                recalls.append(hits.clamp(max=depth) / min(depth, len(mates)))
            losses.append(1 - torch.stack(recalls).mean())
    return reduced(losses, reduction, x)


def siglip(x, y, tuples, *, scale=10.0, bias=-10.0, learn=True, reduction="mean"):
    v = unit(x)
    losses = [log_one_plus_sum_exp([-scale * (v[i] @ v[j]) - bias], x) for i, j in positive_pairs(y, tuples)]
    losses += [log_one_plus_sum_exp([scale * (v[i] @ v[j]) + bias], x) for i, j in negative_pairs(y, tuples)]
    total = reduced(losses, "sum", x)
    return total if reduction == "sum" else total / len(x)


def ranked_list(
    x,
    y,
    tuples,
    *,
    alpha=1.2,
    margin=0.4,
    negative_temperature=10.0,
    positive_temperature=0.0,
    balance=0.5,
    reduction="mean",
):
    v = unit(x)

    def weighted(violations: list[Tensor], temperature: float) -> Tensor:
        violations = [h for h in violations if float(h.detach()) > 0]
        weights = [math.exp(temperature * float(h.detach())) for h in violations]  # constants
        terms = [w * h / sum(weights) for w, h in zip(weights, violations, strict=True)]
        return reduced(terms, "sum", x)

    positives, negatives = positive_pairs(y, tuples), negative_pairs(y, tuples)
    losses = []
    for a in range(len(x)):
        near = [distance(v, a, p) - (alpha - margin) for p in others_of(a, positives)]
        far = [alpha - distance(v, a, n) for n in others_of(a, negatives)]
        pull, push = weighted(near, positive_temperature), weighted(far, negative_temperature)
        losses.append((1 - balance) * pull + balance * push)
    return reduced(losses, reduction, x)


def _above(s: Sequence[Tensor], j: int, k: int) -> Tensor:
    """Similarity of j minus that of k; differences by rounding are zero."""
    difference = s[j] - s[k]
    return difference if abs(float(difference.detach())) > 1e-12 else difference - difference.detach()


def roadmap(
    x,
    y,
    tuples,
    *,
    temperature=0.01,
    delta=0.05,
    steepness=100.0,
    calibration=0.5,
    pos_threshold=0.9,
    neg_threshold=0.6,
):
    assert tuples is None
    v = unit(x)
    positives, negatives = positive_pairs(y, None), negative_pairs(y, None)

    def upper_step(t: Tensor) -> Tensor:
        if float(t.detach()) <= 0:
            return torch.sigmoid(t / temperature)
        if float(t.detach()) <= delta:
            return torch.sigmoid(t / temperature) + 0.5
        return steepness * (t - delta) + torch.sigmoid(torch.tensor(delta / temperature)) + 0.5

    losses = []
    for a in range(len(x)):
        mates = others_of(a, positives)
        if mates:
            s = [v[a] @ row for row in v]
            precisions = []
            for k in [a, *mates]:
                ahead = sum(float(_above(s, j, k).detach()) >= 0 for j in [a, *mates])
                rivals = [upper_step(_above(s, n, k)) for n in others_of(a, negatives)]
                precisions.append(ahead / (ahead + reduced(rivals, "sum", x)))
            losses.append(1 - torch.stack(precisions).mean())
    pull = [hinge(pos_threshold - v[i] @ v[j]) for i, j in positives]
    push = [hinge(v[i] @ v[j] - neg_threshold) for i, j in negatives]
    pairs = reduced(pull, "mean_nonzero", x) + reduced(push, "mean_nonzero", x)
    return (1 - calibration) * reduced(losses, "mean", x) + calibration * pairs


def pnp(x, y, tuples, *, variant="Dq", temperature=0.01, alpha=4.0, b=2.0, reduction="mean"):
    assert tuples is None
    v = unit(x)
    positives, negatives = positive_pairs(y, None), negative_pairs(y, None)
    penalty = {
        "O": lambda r: r,
        "Iu": lambda r: (1 + r) * torch.log(1 + r),
        "Ib": lambda r: (b * r - torch.log(1 + b * r)) / b**2,
        "Ds": lambda r: torch.log(1 + r),
        "Dq": lambda r: 1 - 1 / (1 + r) ** alpha,
    }[variant]
    losses = []
    for a in range(len(x)):
        mates = others_of(a, positives)
        if mates:
            s = [v[a] @ row for row in v]
            penalties = []
            for k in [a, *mates]:
                before = [torch.sigmoid(_above(s, n, k) / temperature) for n in others_of(a, negatives)]
                penalties.append(penalty(reduced(before, "sum", x)))
            losses.append(torch.stack(penalties).mean())
    return reduced(losses, reduction, x)


def contextual(
    x,
    y,
    tuples,
    *,
    neighbors=4,
    epsilon=0.05,
    contextual_weight=0.4,
    similarity_weight=0.1,
    mean_similarity=0.25,
    pos_margin=0.75,
    neg_margin=0.6,
):
    assert tuples is None
    v, everyone = unit(x), range(len(x))
    positives, negatives = positive_pairs(y, None), negative_pairs(y, None)
    s = [[v[i] @ v[j] for j in everyone] for i in everyone]

    def neighbor(i: int, j: int, k: int) -> Tensor:
        """One or zero, with the slope 10 by squared distance."""
        squares = [2 - 2 * float(other.detach()) for other in s[i]]
        bound = sorted(squares)[min(k, len(x)) - 1]
        return float(squares[j] - epsilon <= bound) - 20 * (s[i][j].detach() - s[i][j])

    near = [[neighbor(i, j, neighbors) for j in everyone] for i in everyone]
    closest = [[neighbor(i, j, neighbors // 2) for j in everyone] for i in everyone]

    def weight(i: int, j: int) -> Tensor:
        inside = sum(float(near[i][m].detach()) for m in everyone)
        both = torch.stack([near[i][m] * near[j][m] for m in everyone]).sum() / inside
        neither = torch.stack([(1 - near[i][m]) * (1 - near[j][m]) for m in everyone]).sum()
        return (both + neither / max(len(x) - inside, 1)) / 2 * near[i][j]

    weights = [[weight(i, j) for j in everyone] for i in everyone]

    def context(i: int, j: int) -> Tensor:
        mutual = [closest[i][m] * closest[m][i] for m in everyone]
        return sum((mutual[m] * weights[m][j] for m in everyone), torch.tensor(0.0)) / sum(mutual)

    terms = [(1 - (context(i, j) + context(j, i)) / 2) ** 2 for i, j in positives]
    terms += [((context(i, j) + context(j, i)) / 2) ** 2 for i, j in negatives]
    mean = torch.stack([torch.stack(row).mean() for row in s]).mean()
    pull = [hinge(pos_margin - s[i][j]) for i, j in positives]
    push = [hinge(s[i][j] - neg_margin) for i, j in negatives]
    pairs = reduced(pull, "mean_nonzero", x) + reduced(push, "mean_nonzero", x)
    return (
        contextual_weight * reduced(terms, "sum", x) / len(x) ** 2
        + similarity_weight * (mean - mean_similarity) ** 2
        + (1 - contextual_weight - similarity_weight) * pairs
    )


def hyperbolic(x, y, tuples, *, temperature=0.2, curvature=0.1, clip_radius=2.3, reduction="mean"):
    """Distance by Moebius addition, as defined."""
    c = curvature

    def ball(row: Tensor) -> Tensor:
        length = row.norm()
        row = row * (clip_radius / length) if float(length.detach()) > clip_radius else row
        length = row.norm()
        return torch.tanh(math.sqrt(c) * length) * row / (math.sqrt(c) * length)

    points = [ball(row) for row in x]

    def geodesic(i: int, j: int) -> Tensor:
        p, q = -points[i], points[j]
        if float((p + q).detach().abs().max()) < 1e-14:
            return (p + q).sum() * 0
        dot, p2, q2 = p @ q, p @ p, q @ q
        difference = ((1 + 2 * c * dot + c * q2) * p + (1 - c * p2) * q) / (1 + 2 * c * dot + c**2 * p2 * q2)
        return 2 / math.sqrt(c) * torch.atanh(math.sqrt(c) * difference.norm())

    negatives = negative_pairs(y, tuples)
    losses = []
    for a, p in dict.fromkeys(positive_pairs(y, tuples)):
        own = -geodesic(a, p) / temperature
        rivals = [-geodesic(a, n) / temperature for n in others_of(a, negatives)]
        losses.append(log_sum_exp([own, *rivals]) - own)
    return reduced(losses, reduction, x)


def embedding_expansion(x, y, tuples, *, margin=1e-5, points=2):
    v, labels = list(unit(x)), y.tolist()
    around = {i: [v[i]] for i in range(len(v))}
    of_class = {label: [v[i] for i in range(len(v)) if labels[i] == label] for label in labels}
    for i in range(len(v)):
        for j in range(i + 1, len(v)):
            for k in range(1, points + 1) if labels[i] == labels[j] else ():
                share = k / (points + 1)
                middle = (1 - share) * v[i] + share * v[j]
                middle = middle / middle.norm() if float(middle.detach().norm()) > 0 else middle
                around[i].append(middle)
                around[j].append(middle)
                of_class[labels[i]].append(middle)

    def apart(p, q):
        gap = p - q
        return gap.norm() if float(gap.detach().norm()) > 0 else gap.sum() * 0

    losses = []
    for i, label in enumerate(labels):
        pulls = [apart(v[i], v[j]) for j in range(len(v)) if j != i and labels[j] == label]
        pushes = [
            apart(p, q) for other in of_class if other != label for q in of_class[other] for p in around[i]
        ]
        if pulls and pushes:
            losses.append(
                hinge(max(pulls, key=torch.Tensor.item) - min(pushes, key=torch.Tensor.item) + margin)
            )
    return reduced(losses, "mean", x)
