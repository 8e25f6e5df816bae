"""Export: the confirmed model of a method, out of the records, as a folder that anybody can use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.compare import Result, collect
from levelfield.data import registry as datasets
from levelfield.data.views import DevelopmentView
from levelfield.embedders import (
    Architecture,
    Data,
    ModelCard,
    Preprocessing,
    Score,
    Threshold,
    calibrate,
    write_model,
)
from levelfield.errors import RunError, UsageError, did_you_mean
from levelfield.models import Embedder
from levelfield.protocol._confirm import rerun_specs
from levelfield.protocol._reproduce import recorded_experiment
from levelfield.protocol._resolve import resolve
from levelfield.protocol._resolved import Resolved
from levelfield.records import RunSpec, Store, environment, now
from levelfield.train import (
    build_embedder,
    development,
    embed,
    inputs_of,
    load_trained_part,
    prepare_process,
    whole_embedder,
)
from levelfield.train.checkpoint import load_best_weights


def export_model(
    folder: str | Path,
    out: str | Path,
    *,
    method: str,
    fold: int | None = None,
    rerun: int = 0,
    root: Path | None = None,
    plugins: tuple[Path, ...] = (),
    false_accept_rate: float = 0.01,
) -> ModelCard:
    """Write the confirmed model of ``method`` to the model folder ``out``.

    Which rerun is exported is said before anybody looks at its test score: taking the best of several would
    make the scores in the card too good. They are those of all reruns.

    Args:
        folder: What ``levelfield run`` wrote.
        out: The model folder.
        method: One of the experiment's.
        fold: The model of one fold; None concatenates those of all folds.
        rerun: Which rerun, from 0.
        root: Where the dataset lies here.
        plugins: The user's own files; records do not hold them.
        false_accept_rate: What the threshold promises; see :func:`levelfield.embedders.calibrate`.
    """
    result = _result(Path(folder), method)
    resolved = resolve(recorded_experiment(Path(folder), root=root, plugins=plugins, device="cpu"))
    prepare_process(resolved.resources)
    store = Store(Path(folder))
    specs = _specs(resolved, result, store, rerun=rerun, fold=fold)
    embedders = [_trained(spec, resolved, store) for spec in specs]
    view = development(specs[0], resolved.resources)
    setting: str = "separated" if len(specs) == 1 else "concatenated"
    threshold, problem = _threshold(specs, embedders, view, resolved, rate=false_accept_rate)
    return write_model(
        out,
        [whole_embedder(*pair, resolved.resources) for pair in zip(embedders, specs, strict=True)],
        architecture=_architecture(specs[0]),
        preprocessing=_preprocessing(specs[0], view),
        name=f"{resolved.experiment.name}: {method}",
        method=method,
        data=_data(specs[0]),
        scores=_scores(result, setting),
        threshold=threshold,
        provenance=_provenance(resolved, result, specs, rerun=rerun),
        notes=[*_notes(specs[0], resolved, parts=len(specs)), *problem],
    )


def _result(folder: Path, method: str) -> Result:
    comparison = collect(folder)
    trained = {result.method: result for result in comparison.trained}
    if method not in trained:
        known = [spec.name for spec in comparison.experiment.methods]
        if method in known:
            raise UsageError(
                f"{method} has no confirmed model in {folder} yet; finish `levelfield run` first"
            )
        raise UsageError(f'{folder} has no method "{method}"{did_you_mean(method, known)}')
    return trained[method]


def _specs(
    resolved: Resolved, result: Result, store: Store, *, rerun: int, fold: int | None
) -> tuple[RunSpec, ...]:
    """The runs whose models are exported, fold by fold."""
    method = next(each for each in resolved.methods if each.name == result.method)
    reruns = resolved.experiment.confirm.reruns
    if not 0 <= rerun < reruns:
        raise UsageError(f"there is no rerun {rerun}; the experiment has 0 to {reruns - 1}")
    if fold is not None and not 0 <= fold < resolved.num_folds:
        raise UsageError(f"there is no fold {fold}; the experiment has 0 to {resolved.num_folds - 1}")
    specs = rerun_specs(resolved, method, result.selection.hyperparameters, rerun)
    for spec in specs:
        done = store.run(spec.run_id).result()
        if done is None:
            raise UsageError(
                f"rerun {rerun} of {result.method} is not in {store.root} (run {spec.run_id[:12]}): finish "
                "`levelfield run` first, and name the data and plug-ins as they were"
            )
        if done.status != "complete":
            raise RunError(f"rerun {rerun} of {result.method} failed ({done.reason}); export another --rerun")
    return specs if fold is None else (specs[fold],)


def _trained(spec: RunSpec, resolved: Resolved, store: Store) -> Embedder:
    embedder = build_embedder(spec, resolved.resources)
    load_trained_part(embedder, load_best_weights(store.run(spec.run_id).path), mode=spec.trunk.mode)
    return embedder.eval()


def _architecture(spec: RunSpec) -> Architecture:
    options: dict[str, Any] = dict(spec.trunk.options)
    return Architecture(
        trunk=spec.trunk.name,
        in_channels=int(options.pop("in_channels", 3)),
        trunk_options=options,
        pooling=spec.head.pooling,
        head=spec.head.kind,
        size=spec.head.size,
        normalize=spec.head.normalize,
    )


def _preprocessing(spec: RunSpec, view: DevelopmentView) -> Preprocessing:
    options = {key: value for key, value in spec.transform.options.items() if key != "device"}
    size = None
    if spec.transform.name == "none":  # images of one size, which the network was trained with
        _, height, width = view.dataset.images.read(0).shape
        size = (int(height), int(width))
    return Preprocessing(transform=spec.transform.name, options=options, size=size)


def _data(spec: RunSpec) -> Data:
    card = datasets[spec.data.name].card
    return Data(
        name=spec.data.name,
        fingerprint=spec.data.fingerprint,
        licence=card.licence,
        source=card.source,
        citation=card.citation,
    )


def _scores(result: Result, setting: str) -> list[Score]:
    scores = []
    for metric in result.scores[setting]:
        interval = result.interval(setting, metric)
        known = interval.n > 1
        scores.append(
            Score(
                metric=metric,
                value=interval.mean,
                low=interval.low if known else None,
                high=interval.high if known else None,
                measured_on=f"test set, {setting}, mean of {interval.n} reruns",
            )
        )
    return scores


def _threshold(
    specs: tuple[RunSpec, ...],
    embedders: list[Embedder],
    view: DevelopmentView,
    resolved: Resolved,
    *,
    rate: float,
) -> tuple[Threshold | None, list[str]]:
    """Each fold's model on the validation classes that it never saw; the mean over folds.

    No development picture is new to all folds' models, so their concatenation cannot be calibrated whole.
    Its similarity is the mean of the folds' similarities, and the mean of their thresholds stands for it.
    """
    found = []
    try:
        for spec, embedder in zip(specs, embedders, strict=True):
            rows = view.folds[spec.fold].validation
            labels = torch.from_numpy(view.dataset.labels[rows])
            found.append(
                calibrate(_embedded(spec, embedder, view, rows, resolved), labels, false_accept_rate=rate)
            )
    except UsageError as error:
        return None, [f"There is no threshold: {error}."]
    return Threshold(
        similarity=float(np.mean([each.similarity for each in found])),
        false_accept_rate=rate,
        true_accept_rate=float(np.mean([each.true_accept_rate for each in found])),
        queries=sum(each.queries for each in found),
        gallery=min(each.gallery for each in found),
        data="validation" if len(found) == 1 else f"validation, mean over {len(found)} folds",
    ), []


def _embedded(
    spec: RunSpec, embedder: Embedder, view: DevelopmentView, rows: Any, resolved: Resolved
) -> Tensor:
    inputs = inputs_of(view.dataset, spec, resolved.resources, train=True)
    forward = embedder.project if spec.trunk.mode == "frozen" else embedder
    return embed(forward, inputs, rows, batch_size=spec.training.eval_batch_size, device="cpu")


def _provenance(
    resolved: Resolved, result: Result, specs: tuple[RunSpec, ...], *, rerun: int
) -> dict[str, str]:
    here = environment()
    return {
        "experiment": resolved.experiment.name,
        "selection": result.selection.selection_id,
        "rerun": str(rerun),
        "runs": " ".join(spec.run_id for spec in specs),
        "exported": now(),
        "commit": here.commit or "unknown",
        **{f"version of {name}": version or "unknown" for name, version in here.versions.items()},
    }


def _notes(spec: RunSpec, resolved: Resolved, *, parts: int) -> list[str]:
    notes = []
    if spec.trunk.weights != "none":
        notes.append(f"The trunk began from the weights {spec.trunk.weights}, whose licence applies too.")
    if parts > 1:
        notes.append(f"The embeddings of {parts} folds' models are concatenated.")
    if resolved.leaky:
        notes.append("Hyperparameters were chosen with test feedback: the scores are too good.")
    return notes
