"""The digests of runs, searches and features cover everything that they depend on, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from safetensors.torch import save_file

import levelfield as lf
from levelfield import data, engine, losses, methods, metrics, miners, models, samplers
from levelfield.analysis import read_comparison
from levelfield.config import Experiment, MethodSpec
from levelfield.core import sources
from levelfield.data import splits, transforms
from levelfield.losses import regularizers
from levelfield.models.features import feature_identity
from levelfield.protocol import resolve_experiment, search_id
from levelfield.records import feature_id
from levelfield.train import _setup, load_development_view

# Every field of an experiment: another value, and the digests that it changes.
# F: features of the frozen trunk. R: run. S: search.
FIELDS: dict[str, tuple[Any, str]] = {
    "name": ("other", ""),
    "preset": ("demo", ""),
    "seed": (1, "RS"),
    "plugins": ("one more", ""),
    "dataset.name": ("toy_images", "FRS"),
    "dataset.root": ("elsewhere", ""),
    "dataset.allow_shared_images": (True, ""),
    "split.name": ("mlrc", "RS"),
    "trunk.name": ("conv4", "FRS"),
    "trunk.weights": ("a file", "FRS"),
    "trunk.mode": ("finetune", "FRS"),  # there are no features then
    "trunk.freeze_bn": ("statistics", "RS"),
    "trunk.views": (1, "FRS"),
    "trunk.cut": ("2", "FRS"),
    "trunk.lora.rank": (2, "RS"),
    "trunk.lora.alpha": (2.0, "RS"),
    "trunk.lora.targets": (["1"], "RS"),
    "head.size": (4, "RS"),
    "head.kind": ("mlp", "RS"),
    "head.pooling": ("max", "FRS"),
    "head.normalize": (False, "RS"),
    "head.init": ("pca", "RS"),
    "transform.name": ("none", "FRS"),
    "batch.size": (9, "RS"),
    "batch.samples_per_class": (2, "RS"),
    "batch.samples_per_class_classification": (1, "RS"),
    "batch.adapt": (True, ""),  # the resolved value is in the recipe
    "optimizer.name": ("sgd", "RS"),
    "optimizer.lr": (1e-2, "RS"),
    "optimizer.head_lr": (1e-2, "RS"),
    "optimizer.lr_classification": (1e-2, ""),  # for classification losses only
    "optimizer.head_lr_classification": (1e-2, ""),
    "optimizer.weight_decay": (0.5, "RS"),
    "optimizer.loss_weight_decay": (0.5, "RS"),
    "optimizer.momentum": (0.5, "RS"),
    "schedule.name": ("cosine", "RS"),
    "schedule.step_size": (3, "RS"),
    "schedule.gamma": (0.5, "RS"),
    "training.iterations_per_epoch": (3, "RS"),
    "training.max_epochs": (3, "RS"),
    "training.evaluate_every": (1, "RS"),
    "training.patience": (None, "RS"),
    "training.metric": ("map_at_r", "RS"),
    "training.eval_batch_size": (8, "RS"),
    "training.precision": ("bfloat16", "RS"),
    "training.accumulate": (2, "RS"),
    "training.clip_norm": (1.0, "RS"),
    "training.compile": (True, "RS"),
    "training.chunk": (4, "RS"),
    "metrics": (["nmi"], ""),
    "methods.name": ("another_name", ""),
    "methods.loss": ("contrastive", "RS"),
    "methods.miner": ("pair_margin", "RS"),
    "methods.sampler": ("class_balanced", "RS"),
    "methods.set": ({"weight": 0.3}, "RS"),
    "methods.space": ({"weight": [0.0, 0.5]}, "S"),
    "methods.samples_per_class": (2, "RS"),
    "hyperparameters": ("defaults", "RS"),  # fixes the hyperparameters
    "search.repeats": (2, ""),  # more searches, each with its own digest
    "search.trials": (9, ""),
    "search.sampler": ("tpe", "S"),
    "search.first": ("defaults", "S"),
    "search.ranges": ("published", ""),  # no published range for this method; the space is in the digest
    "search.parallel": (2, "S"),
    "search.prune": (True, "S"),
    "search.max_epochs": (1, "S"),  # runs of trials are other runs than those of the confirmation
    "search.storage": ("sqlite:///x.db", ""),
    "search.keep_weights": (True, ""),
    "confirm.reruns": (9, ""),
    "confirm.gallery": (9, ""),
    "confirm.rerank": (("aqe",), ""),
    "engine.name": ("mine", ""),
    "engine.workers": (3, ""),
    "engine.threads": (3, ""),
    "engine.device": ("meta", ""),
    "engine.loaders": (3, ""),
    "engine.recompute": (True, ""),
    "track.name": ("tensorboard", ""),
}
OPTIONS: dict[str, tuple[Any, str]] = {
    "dataset.samples": (7, "FRS"),
    "split.folds": (3, "RS"),  # the same development images, other folds
    "split.test_fraction": (0.25, "FRS"),
    "trunk.width": (5, "FRS"),
    "transform.shift": (1, "FRS"),
    "engine.queue": ("long", ""),
    "methods.set": ({"sampler.skip": 1}, "RS"),
}
SPACES = [[0.0, 1.0], [0.0, 1.0, "step", 0.1], [0.0, 1.0, "step", 0.5], [0.1, 1.0, "log"], [0.1, 1.0]]

# A plug-in file of each kind: its text, and the digests that an edit changes.
PLUGINS: dict[str, tuple[str, str]] = {
    "dataset": (
        """
from tests.helpers.toy_plugin import toy_images
@lf.data.register("my_dataset")
def my_dataset(*, samples: int = 6, root: str = "."):
    return toy_images(samples=samples)
""",
        "FRS",
    ),
    "split": (
        """
from levelfield.data import splits
from levelfield.data.splits.class_disjoint import class_disjoint
@splits.register("my_split")
def my_split(labels, *, is_test=None, is_validation=None, folds: int = 2, test_fraction: float = 0.5):
    return class_disjoint(labels, folds=folds, test_fraction=test_fraction)
""",
        "RS",  # features depend on the images themselves
    ),
    "trunk": (
        """
from levelfield.models.conv4 import conv4
@lf.models.register("my_trunk")
def my_trunk(*, in_channels: int = 1, width: int = 4):
    return conv4(in_channels=in_channels, width=width)
""",
        "FRS",
    ),
    "transform": (
        """
from dataclasses import dataclass
from levelfield.data import transforms
@dataclass(frozen=True)
class Shift:
    shift: int
    def __call__(self, images, generator):
        return torch.stack(list(images)).roll(self.shift, -1)
@transforms.register("my_transform")
def my_transform(*, train: bool, shift: int = 0):
    return Shift(shift)
""",
        "FRS",
    ),
    "loss": (
        """
@lf.losses.register("my_loss", tuples="pairs", space={"weight": lf.Float(0.0, 1.0)})
class MyLoss(torch.nn.Module):
    def __init__(self, weight: float = 0.5):
        super().__init__()
        self.weight = weight
    def forward(self, embeddings, labels, tuples=None):
        return self.weight * embeddings.square().sum()
""",
        "RS",
    ),
    "miner": (
        """
from levelfield.miners.all import All
@lf.miners.register("my_miner", finds="pairs")
class MyMiner(All):
    "All of them."
""",
        "RS",
    ),
    "sampler": (
        """
from levelfield.samplers.random import Random
@lf.samplers.register("my_sampler")
class MySampler(Random):
    "Random batches."
    def __init__(self, labels, *, batch_size: int, seed: int, skip: int = 0):
        super().__init__(labels, batch_size=batch_size, seed=seed)
""",
        "RS",
    ),
    "regularizer": (
        """
from levelfield.losses import regularizers
@regularizers.register("my_regularizer")
def my_regularizer(embeddings):
    return embeddings.square().mean()
""",
        "RS",
    ),
    "metric": (
        """
@lf.metrics.register("my_metric", kind="structure", higher_is_better=True)
def my_metric(space):
    return 0.5
""",
        "RS",
    ),
    "method": (
        """
from levelfield.methods import Method
@lf.methods.register("my_method")
def my_method():
    return Method(
        name="my_method", loss="my_loss", miner="my_miner", sampler="my_sampler",
        fixed={"regularizer.my_regularizer": 0.1},
    )
""",
        "S",  # the run's spec already holds its effect on a run
    ),
    "engine": (
        """
from contextlib import nullcontext
from levelfield.engine import InlineEngine
@lf.engine.register("mine")
def mine(*, workers: int = 0, queue: str = "short"):
    return nullcontext(InlineEngine())
""",
        "",
    ),
}
HEAD = "import torch\nimport levelfield as lf\n"
REGISTRIES = (
    samplers.registry,
    data.registry,
    engine.registry,
    losses.registry,
    methods.registry,
    metrics.registry,
    miners.registry,
    models.registry,
    regularizers.registry,
    splits.registry,
    transforms.registry,
)


def forget_plugins() -> None:
    """Remove the registered plug-ins of other files from this process, and clear its caches."""
    for registry in REGISTRIES:
        outside = [name for name in registry.names() if registry[name].source is not None]
        for name in outside:
            del registry._entries[name]
    for name in list(sys.modules):
        if name.startswith("levelfield_plugin_") or name.endswith(".toy_plugin"):
            del sys.modules[name]
    sources._loaded.clear()
    sources._hash_when_imported.clear()
    _setup._open_view.cache_clear()
    _setup._frozen_trunk.cache_clear()


@pytest.fixture(autouse=True)
def fresh_registries() -> Iterator[None]:
    kept = [dict(registry._entries) for registry in REGISTRIES]
    modules = {name: module for name, module in sys.modules.items() if name.startswith("levelfield_plugin_")}
    forget_plugins()
    yield
    forget_plugins()
    for registry, entries in zip(REGISTRIES, kept, strict=True):
        registry._entries.update(entries)  # type: ignore[attr-defined]  # entries of each registry
    sys.modules.update(modules)


@pytest.fixture
def values(tmp_path: Path, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Experiment in which every part is a plug-in of the user."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    for kind, (text, _) in PLUGINS.items():
        (tmp_path / f"my_{kind}.py").write_text(HEAD + text)
    return tiny | {
        "plugins": [str(tmp_path / f"my_{kind}.py") for kind in PLUGINS],
        "dataset": {"name": "my_dataset"},
        "split": {"name": "my_split"},
        "trunk": {"name": "my_trunk", "mode": "frozen", "in_channels": 1},
        "transform": {"name": "my_transform"},
        "training": tiny["training"] | {"metric": "my_metric"},
        "methods": [{"name": "my_method"}],
    }


def names_of(values: dict[str, Any]) -> dict[str, str | None]:
    """Return the digests of the features, of one run and of the search of an experiment."""
    resolved = resolve_experiment(Experiment.build(**values))
    method = resolved.methods[0]
    spec = resolved.run_spec(method, {}, fold=0, seed=resolved.seed("search", 0, 0))
    features = None
    if spec.trunk.mode in ("frozen", "tail"):
        dataset = load_development_view(spec, resolved.resources).dataset
        resources = resolved.resources.__class__(weights=resolved.resources.weights)
        embedder, options = _setup.create_feature_source(spec, resources, train=True)
        features = feature_id(feature_identity(embedder, dataset, **options))
    return {"F": features, "R": spec.run_id, "S": search_id(resolved, method)}


def changed(before: dict[str, str | None], after: dict[str, str | None]) -> str:
    return "".join(kind for kind in "FRS" if before[kind] != after[kind])


def with_value(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    section, _, field = path.partition(".")
    if "." in field:
        return values | {section: with_value(values[section], field, value)}
    if not field:
        return values | {section: value}
    if section == "track":
        return values | {"track": [{field: value}]}
    if section == "methods":
        return values | {"methods": [values["methods"][0] | {field: value}]}
    return values | {section: values.get(section, {}) | {field: value}}


def paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield every field of a schema by its dotted path."""
    for name, field in model.model_fields.items():
        candidates = [field.annotation, *get_args(field.annotation)]
        nested = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if nested:
            yield from paths(nested[0], f"{prefix}{name}.")
        else:
            yield prefix + name


def test_the_table_has_every_field() -> None:
    assert set(paths(Experiment)) == FIELDS.keys()
    assert {f"methods.{name}" for name in MethodSpec.model_fields} < FIELDS.keys()


@pytest.mark.slow
def test_the_digests_depend_on_the_listed_fields(values: dict[str, Any], tmp_path: Path) -> None:
    """Each field and each kind of option, changed alone, changes the digests in the table."""
    (tmp_path / "more.py").write_text("")
    before = names_of(values)
    trunk = models.create_trunk("my_trunk", in_channels=1, seed=3)
    save_file(trunk.state_dict(), tmp_path / "weights.safetensors")
    special = {
        "plugins": [*values["plugins"], str(tmp_path / "more.py")],
        "trunk.weights": str(tmp_path / "weights.safetensors"),
    }
    wrong = {}
    for path, (value, expected) in [*FIELDS.items(), *OPTIONS.items()]:
        start = values
        if path in ("methods.name", "methods.loss", "methods.miner", "methods.sampler"):
            parts = {"loss": "my_loss", "miner": "my_miner", "sampler": "my_sampler"}
            start = values | {"methods": [{"name": "put_together", **parts}]}
        if path in ("trunk.cut", "trunk.freeze_bn"):
            start = values | {"trunk": values["trunk"] | {"mode": "tail", "cut": "3", "views": 1}}
        if path.startswith("trunk.lora."):
            adapted = {"name": "mlp", "in_channels": 1, "image_size": 16, "mode": "lora", "lora": {}}
            start = values | {"trunk": adapted}
        if path == "engine.queue":
            start = values | {"engine": {"name": "mine"}}
        other = with_value(start, path, special.get(path, value))
        if path == "preset":
            other = Experiment.build(**values).model_dump(mode="json") | {
                "preset": value
            }  # all hyperparameters are fixed
        if path == "trunk.name":
            other["trunk"] = {"name": "conv4", "mode": "frozen", "in_channels": 1, "width": 4}
        reference = before if start is values else names_of(start)
        if (found := changed(reference, names_of(other))) != expected:
            wrong[path] = (found, expected)
    assert not wrong, "path: (changed, expected)"


@pytest.mark.parametrize("kind", PLUGINS)
def test_an_edited_plugin_changes_the_digests(kind: str, values: dict[str, Any], tmp_path: Path) -> None:
    before = names_of(values)
    forget_plugins()
    assert names_of(values) == before, "the same text has the same digests"
    forget_plugins()
    file = tmp_path / f"my_{kind}.py"
    file.write_text(file.read_text() + "# edited\n")
    assert changed(before, names_of(values)) == PLUGINS[kind][1]


def test_different_search_spaces_have_different_digests(values: dict[str, Any]) -> None:
    """Another step, scale or bound is another search."""
    found = set()
    for space in SPACES:
        method = {"name": "my_method", "space": {"weight": space}}
        found.add(names_of(values | {"methods": [method]})["S"])
    assert len(found) == len(SPACES)


@pytest.mark.slow
def test_a_change_of_the_grid_tries_the_new_points(tiny: dict[str, Any], tmp_path: Path) -> None:
    """With step 0.25 after 0.5, 0.75 is tried and 0.0 is not tried twice."""
    tried = []
    for step in (0.5, 0.25):
        method = {"name": "triplet", "space": {"margin": [0.0, 1.0, "step", step]}}
        changes = {"methods": [method], "search": {"trials": 9, "sampler": "grid"}, "confirm": {"reruns": 1}}
        root = lf.run(Experiment.build(**tiny | changes), tmp_path / "out").path
        (result,) = read_comparison(root).trained
        tried.append(sorted(trial.hyperparameters["margin"] for trial in result.trials))
    assert tried == [[0.0, 0.5, 1.0], [0.0, 0.25, 0.5, 0.75, 1.0]]


def test_the_version_of_a_family_is_in_the_digest(values: dict[str, Any], monkeypatch: Any) -> None:
    pytest.importorskip("pytorch_metric_learning")
    values["methods"] = [{"name": "circle", "loss": "pml:CircleLoss", "set": {"m": 0.4, "gamma": 80.0}}]
    before = names_of(values)
    real = metadata.version
    family = "pytorch-metric-learning"
    monkeypatch.setattr(metadata, "version", lambda name: "99.0" if name == family else real(name))
    assert changed(before, names_of(values)) == "RS"


def test_the_same_weights_in_another_place_are_the_same(values: dict[str, Any], tmp_path: Path) -> None:
    resolve_experiment(Experiment.build(**values))
    for directory in ("one", "two"):
        (tmp_path / directory).mkdir()
        state = models.create_trunk("my_trunk", in_channels=1, seed=3).state_dict()
        save_file(state, tmp_path / directory / "weights.safetensors")
    found = [
        names_of(with_value(values, "trunk.weights", str(tmp_path / directory / "weights.safetensors")))
        for directory in ("one", "two")
    ]
    assert found[0] == found[1]
