"""Export of a method's confirmed model from the records to a model directory."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.analysis import Analysis, MethodResult, analyze, read_comparison
from levelfield.api._result import ExperimentResult
from levelfield.core.errors import RunError, UsageError, did_you_mean
from levelfield.data import registry as datasets
from levelfield.data.views import DevelopmentView
from levelfield.models import Embedder
from levelfield.protocol import ResolvedExperiment, recorded_experiment, rerun_specs, resolve_experiment
from levelfield.records import RunSpec, Store, environment, now
from levelfield.retrieval.embedders import (
    Architecture,
    MatchThreshold,
    ModelCard,
    ModelScore,
    Preprocessing,
    TrainingData,
    write_model,
)
from levelfield.retrieval.embedders.threshold import calibrate_concatenation
from levelfield.train import (
    build_embedder,
    create_inputs,
    embed,
    load_development_view,
    load_trained_state_dict,
    prepare_process,
    to_full_embedder,
)
from levelfield.train.checkpoint import load_best_weights


def export(
    directory: str | PathLike[str],
    out: str | Path,
    *,
    method: str | None = None,
    fold: int | None = None,
    rerun: int = 0,
    root: Path | None = None,
    plugins: tuple[Path, ...] = (),
    false_accept_rate: float = 0.01,
    trust: bool = False,
) -> ModelCard:
    """Write the confirmed model of a method to the model directory ``out``.

    The rerun is chosen by number, not by its test score: exporting the best rerun would bias the scores in
    the model card. The card has the scores of all reruns.

    Args:
        directory: Experiment directory.
        out: Model directory to write.
        method: Method of the experiment. Defaults to the one with the best mean that was not beaten.
        fold: Fold whose model is exported. None concatenates the models of all folds.
        rerun: Number of the rerun, from 0.
        root: Local path of the dataset.
        plugins: Plug-in files that the experiment used; the records do not contain them.
        false_accept_rate: Maximum false-accept rate of the match threshold; see
            :func:`levelfield.retrieval.embedders.calibrate_threshold`.
        trust: Run the code of any trunk that the records name.
    """
    method = _best_method(Path(directory)) if method is None else method
    result = _confirmed_result(Path(directory), method)
    if Store(Path(directory)).is_archive:
        raise UsageError(
            f"{directory} is an archive, which has no weights; export from the directory of the run"
        )
    resolved = resolve_experiment(
        recorded_experiment(Path(directory), root=root, plugins=plugins, device="cpu", trust=trust),
        recorded=True,
    )
    prepare_process(resolved.resources)
    store = Store(Path(directory))
    specs = _rerun_specs(resolved, result, store, rerun=rerun, fold=fold)
    stand_ins = _stand_ins(resolved, result, store, specs, rerun=rerun)
    embedders = [_load_trained_embedder(spec, resolved, store) for spec in specs]
    view = load_development_view(specs[0], resolved.resources)
    setting: str = "separated" if len(specs) == 1 else "concatenated"
    embed_validation = partial(_embed_validation, view=view, resolved=resolved, store=store)
    threshold, problem = _threshold(stand_ins, embed_validation, rate=false_accept_rate)
    return write_model(
        out,
        [to_full_embedder(*pair, resolved.resources) for pair in zip(embedders, specs, strict=True)],
        architecture=_architecture(specs[0]),
        preprocessing=_preprocessing(specs[0], view),
        name=f"{resolved.experiment.name}: {method}",
        method=method,
        data=_data(specs[0]),
        scores=_scores(analyze(Path(directory)), result, setting),
        threshold=threshold,
        provenance=_provenance(resolved, result, specs, rerun=rerun),
        notes=[*_notes(specs[0], resolved, parts=len(specs)), *problem],
    )


def _best_method(directory: Path) -> str:
    best = ExperimentResult(directory).best
    if not best:
        raise UsageError(f"{directory} has no confirmed method yet; finish `levelfield run` first")
    return best[0]


def _confirmed_result(directory: Path, method: str) -> MethodResult:
    comparison = read_comparison(directory)
    trained = {result.method: result for result in comparison.trained}
    if method not in trained:
        known = [spec.name for spec in comparison.experiment.methods]
        if method in known:
            raise UsageError(
                f"{method} has no confirmed model in {directory} yet; finish `levelfield run` first"
            )
        raise UsageError(f'{directory} has no method "{method}"{did_you_mean(method, known)}')
    return trained[method]


def _rerun_specs(
    resolved: ResolvedExperiment, result: MethodResult, store: Store, *, rerun: int, fold: int | None
) -> tuple[RunSpec, ...]:
    """Return the specs of the runs to export, one per fold."""
    method = next(each for each in resolved.methods if each.name == result.method)
    reruns = resolved.experiment.confirm.reruns
    if not 0 <= rerun < reruns:
        raise UsageError(f"there is no rerun {rerun}; choose one from 0 to {reruns - 1}")
    if fold is not None and not 0 <= fold < resolved.num_folds:
        raise UsageError(f"there is no fold {fold}; choose one from 0 to {resolved.num_folds - 1}")
    specs = rerun_specs(resolved, method, result.selection.hyperparameters, rerun)
    for spec in specs:
        done = store.run(spec.run_id).result()
        if done is None:
            raise UsageError(
                f"rerun {rerun} of {result.method} is not in {store.root} (run {spec.run_id[:12]}); finish "
                "`levelfield run` first, and give the same data and plug-ins"
            )
        if done.status != "complete":
            raise RunError(f"rerun {rerun} of {result.method} failed ({done.reason}); export another --rerun")
    return specs if fold is None else (specs[fold],)


def _load_trained_embedder(spec: RunSpec, resolved: ResolvedExperiment, store: Store) -> Embedder:
    embedder = build_embedder(spec, resolved.resources)
    load_trained_state_dict(embedder, load_best_weights(store.run(spec.run_id).path), mode=spec.trunk.mode)
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
    if spec.transform.name == "none":  # all images have the size that the network was trained with
        _, height, width = view.dataset.images.read(0).shape
        size = (int(height), int(width))
    return Preprocessing(transform=spec.transform.name, options=options, size=size)


def _data(spec: RunSpec) -> TrainingData:
    card = datasets[spec.data.name].card
    return TrainingData(
        name=spec.data.name,
        fingerprint=spec.data.fingerprint,
        license=card.license,
        source=card.source,
        citation=card.citation,
    )


def _scores(analysis: Analysis, result: MethodResult, setting: str) -> list[ModelScore]:
    scores = []
    for metric in result.scores[setting]:
        interval = analysis.interval_alone(result.method, setting, metric)
        if not math.isfinite(interval.mean):  # rho of a collapsed embedding
            continue
        known = interval.n > 1
        percent = analysis.comparison.metric_infos[metric].unit == "percent"
        lowest, highest = (0.0, 1.0) if percent else (-math.inf, math.inf)
        scores.append(
            ModelScore(
                metric=metric,
                value=interval.mean,
                low=max(lowest, interval.low) if known else None,
                high=min(highest, interval.high) if known else None,
                measured_on=f"test set, {setting}, mean of {len(result.scores[setting][metric])} reruns",
            )
        )
    return scores


def _stand_ins(
    resolved: ResolvedExperiment,
    result: MethodResult,
    store: Store,
    specs: tuple[RunSpec, ...],
    *,
    rerun: int,
) -> list[list[RunSpec]]:
    """Return, for each exported fold, the runs that stand in for the exported model on validation classes.

    One fold's model stands for itself. A concatenation has no classes that are new to all of its parts: the
    validation classes of one fold are training classes of the others. Its stand-in on the validation classes
    of a fold is the concatenation of that fold's reruns, as many as there are parts, if there are as many.
    """
    if len(specs) == 1:
        return [[specs[0]]]
    method = next(each for each in resolved.methods if each.name == result.method)
    reruns = range(resolved.experiment.confirm.reruns)
    chosen = [list(specs)]
    for number in (each for each in reruns if each != rerun):
        more = rerun_specs(resolved, method, result.selection.hyperparameters, number)
        records = [store.run(spec.run_id).result() for spec in more]
        if len(chosen) < len(specs) and all(done and done.status == "complete" for done in records):
            chosen.append(list(more))
    return [list(runs) for runs in zip(*chosen, strict=True)]


def _threshold(
    stand_ins: list[list[RunSpec]],
    embed_validation: Callable[[RunSpec], tuple[Tensor, Tensor]],
    *,
    rate: float,
) -> tuple[MatchThreshold | None, list[str]]:
    """Calibrate one threshold on the validation classes of all exported folds.

    Each validation image is embedded by the stand-in of its fold, which was not trained on its class, and
    searches among the validation images of this fold.

    Returns:
        The threshold, or None with the reason as a note.
    """
    by_fold, labels, groups = [], [], []
    for fold, runs in enumerate(stand_ins):
        found = [embed_validation(spec) for spec in runs]
        by_fold.append([F.normalize(vectors, dim=1) for vectors, _ in found])
        labels.append(found[0][1])
        groups.append(torch.full_like(found[0][1], fold))
    several = len(stand_ins) > 1
    try:
        threshold = calibrate_concatenation(
            [torch.cat(part) for part in zip(*by_fold, strict=True)],
            torch.cat(labels),
            networks=len(stand_ins),
            groups=torch.cat(groups),
            false_accept_rate=rate,
            data=f"validation, {len(stand_ins)} folds, {len(stand_ins[0])} reruns of each"
            if several
            else "validation",
        )
    except UsageError as error:
        return None, [f"There is no threshold: {error}."]
    given, wanted = len(stand_ins[0]), len(stand_ins)
    if given == wanted:
        return threshold, []
    remedy = f"set confirm.reruns to {wanted} or more"
    if given > 1:
        note = f"The threshold of {wanted} networks was extrapolated from {given}; to measure it, {remedy}."
    else:
        note = f"The threshold is too strict: it is for 1 network, not for {wanted}; {remedy}."
    return threshold, [note]


def _embed_validation(
    spec: RunSpec, *, view: DevelopmentView, resolved: ResolvedExperiment, store: Store
) -> tuple[Tensor, Tensor]:
    """Return the embeddings and the classes of a run's validation images."""
    rows = view.folds[spec.fold].validation
    embedder = _load_trained_embedder(spec, resolved, store)
    return _embed_rows(spec, embedder, view, rows, resolved), torch.from_numpy(view.dataset.labels[rows])


def _embed_rows(
    spec: RunSpec, embedder: Embedder, view: DevelopmentView, rows: Any, resolved: ResolvedExperiment
) -> Tensor:
    forward = embedder.project if spec.trunk.mode == "frozen" else embedder
    with closing(create_inputs(view.dataset, spec, resolved.resources, train=True)) as inputs:
        return embed(forward, inputs, rows, batch_size=spec.training.eval_batch_size, device="cpu")


def _provenance(
    resolved: ResolvedExperiment, result: MethodResult, specs: tuple[RunSpec, ...], *, rerun: int
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


def _notes(spec: RunSpec, resolved: ResolvedExperiment, *, parts: int) -> list[str]:
    notes = []
    if spec.trunk.weights != "none":
        notes.append(f"The trunk began from the weights {spec.trunk.weights}, whose license applies too.")
    if parts > 1:
        notes.append(f"The embeddings of {parts} folds' models are concatenated.")
    if resolved.leaky:
        notes.append("Hyperparameters were chosen with test feedback: the scores are too good.")
    return notes
