"""What is identity, what is provenance, and why: one table, for readers and for reports.

*Identity* is part of a name: change it, and something is computed anew. *Provenance* is written down beside a
result and changes no name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Name = Literal["features", "run", "search", "scores"]


@dataclass(frozen=True)
class Scope:
    """One setting: which names it is part of, and why.

    Attributes:
        setting: The setting, or settings, as the experiment file calls them; or a fact about the machine.
        names: "features" (of a frozen trunk), "run", "search", "scores" (on the test set). Empty: no name.
        why: The reason.
    """

    setting: str
    names: tuple[Name, ...]
    why: str

    @property
    def is_identity(self) -> bool:
        """Whether a change makes something be computed anew."""
        return bool(self.names)


_ALL: tuple[Name, ...] = ("features", "run", "search", "scores")
_TRAINING: tuple[Name, ...] = ("run", "search", "scores")
_SEARCH: tuple[Name, ...] = ("search", "scores")

IDENTITY: tuple[Scope, ...] = (
    Scope("dataset", _ALL, "name, options, the hash of its content, and of its file if it is a plug-in"),
    Scope("dataset.root", (), "where the images lie; what they are is in the hash of the content"),
    Scope("split", _ALL, "decides which images are seen; features are named by these very rows"),
    Scope("trunk", _ALL, "the network, its options and its plug-in file"),
    Scope("trunk.weights", _ALL, "a public name, or the hash of a local file; never its path"),
    Scope("trunk.views", _ALL, "augmented views are features too"),
    Scope("trunk.from", _ALL, "activations at the cut are features too; what comes after is trained"),
    Scope(
        "trunk.mode, trunk.freeze_bn, trunk.lora",
        _TRAINING,
        "decide what is trained, not what the trunk computes",
    ),
    Scope("head.pooling", _ALL, "features are pooled"),
    Scope("head.size, head.kind", _TRAINING, "come after the features"),
    Scope("head.normalize", _TRAINING, "what the loss sees; left out, the loss's card decides"),
    Scope("transform", _ALL, "what the network sees"),
    Scope("batch, optimizer, schedule, training", _TRAINING, "how a run is trained, measured and stopped"),
    Scope("batch.adapt, optimizer.*_classification", _TRAINING, "by what they come to for each method"),
    Scope("training.metric", _TRAINING, "chooses the best epoch; its plug-in file counts"),
    Scope("methods: loss, miner, sampler, set", _TRAINING, "the parts and their plug-in files, not the name"),
    Scope("methods: name", ("scores",), "two names of one recipe share their runs and their search"),
    Scope("methods: space", _SEARCH, "bounds, step, scale and options, as data"),
    Scope("hyperparameters", _SEARCH, "by the values that it fixes"),
    Scope("search.sampler, .first, .ranges, .parallel, .prune", _SEARCH, "decide what a trial tries"),
    Scope("search.trials", ("scores",), "more trials extend a search; a better one is another selection"),
    Scope("search.storage", (), "an address"),
    Scope(
        "seed", _TRAINING, "every random stream comes from it; a random frozen trunk has a seed of its own"
    ),
    Scope("metrics", ("scores",), "a metric that is added, or whose plug-in is edited, is computed anew"),
    Scope("confirm.reruns", (), "more reruns are added to those that are there"),
    Scope("confirm.rerank", ("scores",), "a way of re-ranking that is added is computed; others stay"),
    Scope("confirm.gallery", (), "pictures to look at; no score depends on them"),
    Scope("name, preset", (), "what a preset says counts by its values"),
    Scope("engine", (), "where runs execute, who reads; threads and device are recorded with each run"),
    Scope("track", (), "tools that look on; they read records and write none"),
    Scope("algorithm", _TRAINING, "counts up when levelfield itself changes what such a run computes"),
    Scope("version of pytorch-metric-learning, timm", _TRAINING, "only of runs that use `pml:` or `timm:`"),
    Scope(
        "versions of torch, torchvision, timm; processor: of features",
        ("features",),
        "kept features are cheap to compute again, and must have the bits that the run itself would compute",
    ),
    Scope(
        "versions of torch, torchvision, timm, numpy, python; processor, system; levelfield's commit",
        (),
        "provenance: recorded with each run. They may change the last bits but not what was asked for; a new "
        "release would otherwise throw all results away. `levelfield reproduce` names what changed",
    ),
)


def scope_table() -> list[tuple[str, str, str]]:
    """The table as rows of text: setting, what it is part of, why.

    Example:
        >>> scope_table()[1][:2]
        ('dataset.root', 'nothing')
    """
    return [(row.setting, ", ".join(row.names) or "nothing", row.why) for row in IDENTITY]
