"""Table of settings: part of an identity or only provenance, and why. Reports print it.

A setting that is part of an *identity* changes a digest: after a change something is computed again.
*Provenance* is recorded beside a result and changes no digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

IdentityName = Literal["features", "run", "search", "scores"]


@dataclass(frozen=True)
class IdentityRule:
    """Setting, the identities that it is part of, and the reason.

    Attributes:
        setting: Key or keys of the experiment file, or a property of the machine.
        names: Identities: "features" (of a frozen trunk), "run", "search", "scores" (on the test set). Empty
            for provenance.
        why: The reason.
    """

    setting: str
    names: tuple[IdentityName, ...]
    why: str

    @property
    def is_identity(self) -> bool:
        """True if something is computed again after a change."""
        return bool(self.names)


_ALL: tuple[IdentityName, ...] = ("features", "run", "search", "scores")
_TRAINING: tuple[IdentityName, ...] = ("run", "search", "scores")
_SEARCH: tuple[IdentityName, ...] = ("search", "scores")

IDENTITY_RULES: tuple[IdentityRule, ...] = (
    IdentityRule(
        "dataset",
        _ALL,
        "name, options, fingerprint of the content, and the digest of the file if it is a plug-in",
    ),
    IdentityRule("dataset.root", (), "local path; the content is in the fingerprint"),
    IdentityRule("dataset.allow_shared_images", (), "changes what is refused, not what is computed"),
    IdentityRule(
        "split", _ALL, "decides which images are used; features are computed for exactly these rows"
    ),
    IdentityRule("trunk", _ALL, "the network, its options and its plug-in file"),
    IdentityRule("trunk.weights", _ALL, "a public name, or the digest of a local file; never its path"),
    IdentityRule("trunk.views", _ALL, "augmented views are features too"),
    IdentityRule(
        "trunk.from", _ALL, "activations at the cut are features too; the layers after it are trained"
    ),
    IdentityRule(
        "trunk.mode, trunk.freeze_bn, trunk.lora",
        _TRAINING,
        "decide what is trained, not what the trunk computes",
    ),
    IdentityRule("head.pooling", _ALL, "features are pooled"),
    IdentityRule("head.size, head.kind", _TRAINING, "come after the features"),
    IdentityRule("head.normalize", _TRAINING, "input of the loss; defaults to the loss's card"),
    IdentityRule("transform", _ALL, "input of the network"),
    IdentityRule(
        "batch, optimizer, schedule, training", _TRAINING, "how a run is trained, evaluated and stopped"
    ),
    IdentityRule("batch.adapt, optimizer.*_classification", _TRAINING, "as resolved for each method"),
    IdentityRule("training.metric", _TRAINING, "chooses the best epoch; with its plug-in file"),
    IdentityRule(
        "methods: loss, miner, sampler, set", _TRAINING, "the parts with their plug-in files, not the name"
    ),
    IdentityRule(
        "methods: name", ("scores",), "two methods with one recipe share their runs and their search"
    ),
    IdentityRule("methods: space", _SEARCH, "bounds, step, scale and options, as data"),
    IdentityRule("hyperparameters", _SEARCH, "the fixed values"),
    IdentityRule(
        "search.sampler, .first, .ranges, .parallel, .prune", _SEARCH, "decide the hyperparameters of a trial"
    ),
    IdentityRule("search.max_epochs", _SEARCH, "length of the runs of trials, which are runs of their own"),
    IdentityRule(
        "search.trials", ("scores",), "more trials extend a search; a better trial is another selection"
    ),
    IdentityRule("search.storage", (), "an address"),
    IdentityRule("search.keep_weights", (), "nothing reads the weights of a recorded trial"),
    IdentityRule(
        "seed", _TRAINING, "all random streams start from it; a random frozen trunk has its own seed"
    ),
    IdentityRule(
        "metrics", ("scores",), "a metric that is added, or whose plug-in is edited, is computed again"
    ),
    IdentityRule("confirm.reruns", (), "more reruns extend the existing ones"),
    IdentityRule("confirm.rerank", ("scores",), "a re-ranking that is added is computed; the others stay"),
    IdentityRule("confirm.gallery", (), "images for the report; no score depends on them"),
    IdentityRule("name, preset", (), "the values of a preset count, not its name"),
    IdentityRule("engine", (), "where runs execute; threads and device are recorded with each run"),
    IdentityRule("track", (), "trackers read records and write none"),
    IdentityRule("algorithm", _TRAINING, "increases when levelfield changes what such a run computes"),
    IdentityRule(
        "version of pytorch-metric-learning, timm", _TRAINING, "only for runs that use `pml:` or `timm:`"
    ),
    IdentityRule(
        "versions of torch, torchvision, timm; processor: of features",
        ("features",),
        "cached features are cheap to compute again, and must have the same bits as in the run itself",
    ),
    IdentityRule(
        "versions of torch, torchvision, timm, numpy, python; processor, system; levelfield's commit",
        (),
        "provenance: recorded with each run. They may change the last bits, but a new release must not "
        "discard all results. `levelfield reproduce` names what changed",
    ),
)


def identity_table() -> list[tuple[str, str, str]]:
    """Return the rows of the table: setting, names of the identities, reason.

    Example:
        >>> identity_table()[1][:2]
        ('dataset.root', 'nothing')
    """
    return [(row.setting, ", ".join(row.names) or "nothing", row.why) for row in IDENTITY_RULES]
