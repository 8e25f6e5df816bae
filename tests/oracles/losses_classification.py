"""The classification losses, written out sample by sample and class by class, as the papers define them.

Every function takes embeddings (B x D), labels (B) and weights (C x D, or C * K x D) in float64 and gives
a scalar that autograd can differentiate.
"""

from __future__ import annotations

import math

import torch


def cosine(x, w):
    return (x @ w) / (x.norm() * w.norm())


def softmax_at(logits, label):
    """-log of the softmax of a list of scalars at one index, shifted against overflow."""
    top = max(logit.item() for logit in logits)
    return -(logits[label] - top) + torch.log(torch.stack([torch.exp(logit - top) for logit in logits]).sum())


def log_one_plus(exponents):
    """log(1 + sum of exp), shifted against overflow."""
    top = max([0.0, *(exponent.item() for exponent in exponents)])
    return top + torch.log(math.exp(-top) + sum((torch.exp(e - top) for e in exponents), torch.tensor(0.0)))


def mean_over_samples(embeddings, labels, loss_of):
    total = torch.zeros((), dtype=embeddings.dtype)
    for x, label in zip(embeddings, labels.tolist(), strict=True):
        total = total + loss_of(x, label)
    return total / len(labels)


def cross_entropy(embeddings, labels, weights):
    return mean_over_samples(embeddings, labels, lambda x, y: softmax_at([w @ x for w in weights], y))


def normalized_softmax(embeddings, labels, weights, *, temperature):
    def one(x, y):
        return softmax_at([cosine(x, w) / temperature for w in weights], y)

    return mean_over_samples(embeddings, labels, one)


def proxy_nca(embeddings, labels, weights, *, softmax_scale, include_positive=False):
    def one(x, y):
        exponents = [-softmax_scale * (x / x.norm() - w / w.norm()).square().sum() for w in weights]
        counted = [e for z, e in enumerate(exponents) if include_positive or z != y]
        return torch.logsumexp(torch.stack(counted), 0) - exponents[y]

    return mean_over_samples(embeddings, labels, one)


def proxy_nca_pp(embeddings, labels, weights, *, temperature):
    def one(x, y):
        return softmax_at([-(x / x.norm() - w / w.norm()).square().sum() / temperature for w in weights], y)

    return mean_over_samples(embeddings, labels, one)


def cosface(embeddings, labels, weights, *, margin, scale):
    def one(x, y):
        return softmax_at(
            [scale * (cosine(x, w) - (margin if j == y else 0)) for j, w in enumerate(weights)], y
        )

    return mean_over_samples(embeddings, labels, one)


def cosine_plus_margin(cos, margin):
    radians = math.radians(margin)
    angle = torch.acos(cos)
    if angle.item() <= math.pi - radians:
        return torch.cos(angle + radians)
    return cos - radians * math.sin(radians)


def arcface(embeddings, labels, weights, *, margin, scale):
    def one(x, y):
        cosines = [cosine(x, w) for w in weights]
        cosines[y] = cosine_plus_margin(cosines[y], margin)
        return softmax_at([scale * c for c in cosines], y)

    return mean_over_samples(embeddings, labels, one)


def curricularface(embeddings, labels, weights, *, margin, scale, hardness=0.0):
    radians = math.radians(margin)

    def one(x, y):
        cosines = [cosine(x, w) for w in weights]
        bound = math.cos(math.acos(cosines[y].item()) + radians)
        logits = [c * (hardness + c) if c.item() > bound else c for c in cosines]
        logits[y] = cosine_plus_margin(cosines[y], margin)
        return softmax_at([scale * c for c in logits], y)

    return mean_over_samples(embeddings, labels, one)


def adaface(embeddings, labels, weights, *, margin, scale, concentration, mean=20.0, std=100.0):
    def one(x, y):
        length = min(max(x.norm().item(), 1e-3), 100.0)
        quality = min(max((length - mean) / (std + 1e-3) * concentration, -1.0), 1.0)
        logits = [cosine(x, w) for w in weights]
        angle = torch.clamp(torch.acos(logits[y]) - margin * quality, 0.0, math.pi)
        logits[y] = torch.cos(angle) - margin - margin * quality
        return softmax_at([scale * c for c in logits], y)

    return mean_over_samples(embeddings, labels, one)


def magface(
    embeddings, labels, weights, *, low_length, high_length, low_margin, high_margin, length_weight, scale
):
    def one(x, y):
        length = torch.clamp(x.norm(), low_length, high_length)
        share = (length - low_length) / (high_length - low_length)
        margin = (low_margin + share * (high_margin - low_margin)) * math.pi / 180
        logits = [cosine(x, w) for w in weights]
        if logits[y].item() > 0:
            logits[y] = torch.cos(torch.acos(logits[y]) + margin)
        reward = 1 / length + length / high_length**2
        return softmax_at([scale * c for c in logits], y) + length_weight * reward

    return mean_over_samples(embeddings, labels, one)


def subcenter_arcface(embeddings, labels, weights, *, margin, scale, sub_centers):
    def one(x, y):
        cosines = []
        for start in range(0, len(weights), sub_centers):
            cosines.append(
                max((cosine(x, w) for w in weights[start : start + sub_centers]), key=torch.Tensor.item)
            )
        cosines[y] = cosine_plus_margin(cosines[y], margin)
        return softmax_at([scale * c for c in cosines], y)

    return mean_over_samples(embeddings, labels, one)


def sphereface(embeddings, labels, weights, *, margin, scale):
    def one(x, y):
        cosines = [cosine(x, w) for w in weights]
        angle = torch.acos(cosines[y])
        k = min(math.floor(angle.item() * margin / math.pi), margin - 1)
        cosines[y] = (-1) ** k * torch.cos(margin * angle) - 2 * k
        return softmax_at([scale * x.norm() * c for c in cosines], y)

    return mean_over_samples(embeddings, labels, one)


def circle_class(embeddings, labels, weights, *, m, gamma):
    def one(x, y):
        logits = []
        for j, w in enumerate(weights):
            s = cosine(x, w)
            if j == y:
                logits.append(gamma * max(0.0, 1 + m - s.item()) * (s - (1 - m)))
            else:
                logits.append(gamma * max(0.0, s.item() + m) * (s - m))
        return softmax_at(logits, y)

    return mean_over_samples(embeddings, labels, one)


def soft_triple(embeddings, labels, weights, *, la, gamma, reg_weight, margin, centers):
    groups = weights.unflatten(0, (-1, centers))

    def one(x, y):
        logits = []
        for c, group in enumerate(groups):
            cosines = torch.stack([cosine(x, w) for w in group])
            share = torch.exp((cosines - cosines.max().detach()) / gamma)
            similarity = (share / share.sum() * cosines).sum()
            logits.append(la * (similarity - (margin if c == y else 0)))
        return softmax_at(logits, y)

    loss = mean_over_samples(embeddings, labels, one)
    if centers == 1:
        return loss
    roots = torch.zeros((), dtype=embeddings.dtype)
    for group in groups:
        for t in range(centers):
            for s in range(t + 1, centers):
                roots = roots + torch.sqrt(2 - 2 * cosine(group[t], group[s]) + 1e-5)
    return loss + reg_weight * roots / (len(groups) * centers * (centers - 1))


def pulled(embeddings, labels, weights, *, margin, alpha):
    terms = []
    for c, w in enumerate(weights):
        mine = [x for x, label in zip(embeddings, labels.tolist(), strict=True) if label == c]
        if mine:
            terms.append(log_one_plus([-alpha * (cosine(x, w) - margin) for x in mine]))
    return sum(terms) / len(terms)


def proxy_anchor(embeddings, labels, weights, *, margin, alpha):
    total = torch.zeros((), dtype=embeddings.dtype)
    for c, w in enumerate(weights):
        others = [x for x, label in zip(embeddings, labels.tolist(), strict=True) if label != c]
        total = total + log_one_plus([alpha * (cosine(x, w) + margin) for x in others])
    return pulled(embeddings, labels, weights, margin=margin, alpha=alpha) + total / len(weights)


def proxy_proxy(embeddings, labels, weights, *, margin, alpha, variant):
    def similarity(w, v):
        if variant == 1:
            return cosine(w, v)
        return sum(cosine(w, x) * cosine(x, v) for x in embeddings)

    total = torch.zeros((), dtype=embeddings.dtype)
    for c, w in enumerate(weights):
        others = [v for d, v in enumerate(weights) if d != c]
        total = total + log_one_plus([alpha * (similarity(w, v) + margin) for v in others])
    return pulled(embeddings, labels, weights, margin=margin, alpha=alpha) + total / len(weights)


def group(embeddings, labels, weights, *, anchors=2, temperature=24.0, iterations=1, group_weight=1.0):
    everyone, classes, y = range(len(labels)), range(len(weights)), labels.tolist()
    centered = [x - x.mean() for x in embeddings]
    correlation = [[cosine(centered[i], centered[j]).clamp(min=0) for j in everyone] for i in everyone]
    chances = []
    for i, x in enumerate(embeddings):
        logits = [w @ x / temperature for w in weights]
        certain = y[:i].count(y[i]) < anchors
        chances.append(
            [
                torch.tensor(float(c == y[i])).double() if certain else torch.exp(-softmax_at(logits, c))
                for c in classes
            ]
        )
    for _ in range(iterations):
        grown = [
            [chances[i][c] * sum(correlation[i][j] * chances[j][c] for j in everyone) for c in classes]
            for i in everyone
        ]
        chances = [[p / sum(row) for p in row] for row in grown]
    plain = cross_entropy(embeddings, labels, weights)
    spread = sum(-torch.log(chances[i][y[i]] + 1e-12) for i in everyone) / len(y)
    return plain + group_weight * spread


def hist(embeddings, labels, weights, *, loss, tau=32.0, alpha=0.9, hypergraph_weight=1.0, hidden=512):
    """The loss in evaluation mode; parameters other than the weights come from the loss."""
    units = [x / x.norm() for x in embeddings]
    means = [w / w.norm() for w in weights]
    variances = [torch.exp(row.clamp(0, 6)) for row in loss.log_variances]
    d = [[((x - m) ** 2 / v).sum() for m, v in zip(means, variances, strict=True)] for x in units]
    targets = labels.tolist()
    distribution = sum(softmax_at([-tau * one for one in row], y) for row, y in zip(d, targets, strict=True))
    classes = sorted(set(targets))
    edges = torch.stack(
        [
            torch.stack([x.new_ones(()) if y == c else torch.exp(-alpha * row[c]) for c in classes])
            for x, row, y in zip(units, d, targets, strict=True)
        ]
    )
    nodes, sizes = edges.sum(1), edges.sum(0)
    g = torch.diag(nodes**-0.5) @ edges @ torch.diag(1 / sizes) @ edges.T @ torch.diag(nodes**-0.5)
    x = torch.stack(units) * math.sqrt(embeddings.shape[1])
    first, norm, second = loss.network["first"], loss.network["norm"], loss.network["second"]
    x = g @ (x @ first.weight.T + first.bias)
    x = (x - norm.running_mean) / torch.sqrt(norm.running_var + norm.eps) * norm.weight + norm.bias
    x = torch.where(x > 0, x, 0.1 * x)
    logits = g @ (x @ second.weight.T + second.bias)
    hypergraph = sum(softmax_at(list(row), y) for row, y in zip(logits, targets, strict=True))
    return (distribution + hypergraph_weight * hypergraph) / len(targets)
