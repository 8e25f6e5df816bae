"""The gallery: test queries to look at, chosen by rules that are stated, with small pictures.

It comes after every method is scored, because it shows the queries on which methods differ. A third is drawn
at random, a third is hardest for all methods together, a third sets two methods furthest apart. Every method
is shown with the same queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from levelfield.compare import Comparison, collect, read_confirmation
from levelfield.data import Dataset
from levelfield.data import registry as datasets
from levelfield.data.thumbnails import thumbnail
from levelfield.errors import RunError
from levelfield.protocol._confirm import rerun_specs
from levelfield.protocol._flow import Flow, Job, Jobs
from levelfield.protocol._neighbours import has_all, main_directions
from levelfield.protocol._resolved import Resolved
from levelfield.protocol.guard import TestPermit, open_for_pictures, test_view
from levelfield.records import (
    LOOK_MAP_ROWS,
    LOOK_MAP_VECTORS,
    LOOK_NEIGHBOURS,
    LOOK_QUERIES,
    EmbeddingMap,
    Gallery,
    GalleryQuery,
    RunSpec,
    Store,
    digest,
)
from levelfield.seeds import numpy_generator
from levelfield.train import Resources, prepare_process

SIDE, MAP_SIDE = 96, 48
Places = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class GalleryJob:
    """Choose what to show of the test set, and draw it.

    Attributes:
        spec: Any run of the experiment: it names the data.
        permit: Leave to read the test set.
        resources: Where things lie on this machine.
        arrays: By method: the file of its first rerun.
        scores: By method: each query's own value (q), more is better; empty if the metric has none.
        best: The method with the best mean.
        count: How many queries to show.
        gallery: What is known before the test set is opened.
    """

    spec: RunSpec
    permit: TestPermit
    resources: Resources
    arrays: Mapping[str, Path]
    scores: Mapping[str, np.ndarray]
    best: str
    count: int
    gallery: Gallery


def gallery_flow(resolved: Resolved, selection_file: Path, store: Store) -> Flow[None]:
    """Make the gallery of a confirmed experiment, unless it is there, or nothing can be shown.

    Args:
        resolved: The experiment.
        selection_file: The baseline's selection, in whose name the test set is opened.
        store: Where the records are.
    """
    count = resolved.experiment.confirm.gallery
    if not count:
        return
    comparison = collect(store.root)
    confirmations = {r.method: r.repeats[0].confirmation for r in comparison.results}
    files = {m: store.rerun_file(c, 0).with_suffix(".safetensors") for m, c in confirmations.items()}
    arrays = {method: file for method, file in files.items() if _can_be_shown(file)}
    if not any(result.method in arrays for result in comparison.trained):
        return
    card = datasets[resolved.data.name].card
    key = digest({"confirmations": {m: confirmations[m] for m in arrays}, "count": count, "side": SIDE})
    known = store.gallery()
    if known is not None and known.key == key:
        return
    metric, scores = _scores_per_query(store.root, comparison, arrays)
    gallery = Gallery(
        key=key,
        metric=metric,
        queries=(),
        confirmations={method: confirmations[method] for method in arrays},
        labels=(),
        class_names={},
        shown=card.pictures_may_be_shown,
        licence=card.licence,
        side=SIDE,
    )
    job = GalleryJob(
        spec=rerun_specs(resolved, resolved.methods[0], {}, 0)[0],
        permit=open_for_pictures(store, selection_file),
        resources=resolved.resources,
        arrays=arrays,
        scores=scores,
        best=_best(comparison, list(arrays)),
        count=count,
        gallery=gallery,
    )
    reads = (*job.permit.files, *arrays.values())
    ((made, pictures),) = yield Jobs([Job("gallery", draw_gallery, job, "gallery", "gallery", reads=reads)])
    store.write_gallery(made, pictures)


def _can_be_shown(file: Path) -> bool:
    """Whether a rerun holds what there is to look at; of a damaged one the report will speak."""
    try:
        with safe_open(file, framework="numpy") as tensors:
            return has_all(tensors.keys())
    except (SafetensorError, OSError):
        return False


def _scores_per_query(
    root: Path, comparison: Comparison, arrays: Mapping[str, Path]
) -> tuple[str, dict[str, np.ndarray]]:
    """The first metric, that of the selection before all others, with a value per query; more is better."""
    for metric in dict.fromkeys((comparison.main_metric, *comparison.metrics)):
        found = {}
        for result in comparison.trained:
            if result.method in arrays:
                values = read_confirmation(root, result).per_query("concatenated", metric)
                found[result.method] = None if values is None else values.get((0, 0))
        sign = -1.0 if comparison.measures[metric].higher_is_better is False else 1.0
        present = {method: sign * values for method, values in found.items() if values is not None}
        if found and len(present) == len(found):
            return metric, present
    return "", {}


def _best(comparison: Comparison, methods: Sequence[str]) -> str:
    """The trained method with the best mean by the metric of the selection."""
    measure = comparison.measures[comparison.main_metric]
    sign = -1.0 if measure.higher_is_better is False else 1.0
    means = {
        result.method: sign * interval.mean
        for result in comparison.trained
        if result.method in methods and (interval := result.interval("concatenated", measure.name)).n
    }
    return max(means, key=lambda method: means[method])


def draw_gallery(job: GalleryJob) -> tuple[Gallery, bytes]:
    """Choose the queries, place the map, and draw small pictures of all that is shown."""
    prepare_process(job.resources)
    test = test_view(job.permit, job.spec, job.resources)
    neighbours, asked = {}, np.zeros(0, dtype=np.int64)
    for method, file in job.arrays.items():
        with safe_open(file, framework="numpy") as tensors:
            neighbours[method] = tensors.get_tensor(LOOK_NEIGHBOURS)
            asked = tensors.get_tensor(LOOK_QUERIES)
    queries = choose_queries(_among(job.scores, test, asked), asked, count=job.count, name=test.fingerprint)
    drawn = place(job.arrays[job.best], job.best)
    line = {row: number for number, row in enumerate(asked.tolist())}
    rows = {query.row for query in queries}
    rows |= {int(row) for q in queries for found in neighbours.values() for row in found[line[q.row]]}
    pictures = {}
    if job.gallery.shown:
        pictures = _pictures(test, sorted(rows), SIDE, "") | _pictures(test, drawn.rows, MAP_SIDE, "map.")
    names = {int(label): test.class_names[label] for label in np.unique(test.labels)}
    made = job.gallery.model_copy(
        update={
            "queries": queries,
            "labels": tuple(test.labels.tolist()),
            "class_names": names,
            "map": drawn,
        }
    )
    return made, save(pictures)


def _among(scores: Mapping[str, np.ndarray], test: Dataset, asked: np.ndarray) -> dict[str, np.ndarray]:
    """The scores of the queries ``asked``; scores are there for every query of the test."""
    rows = np.arange(len(test)) if test.roles is None else np.flatnonzero(test.roles & 1)
    at = np.searchsorted(rows, asked)
    return {method: values[at] for method, values in scores.items()}


def choose_queries(
    scores: Mapping[str, np.ndarray], asked: np.ndarray, *, count: int, name: str
) -> tuple[GalleryQuery, ...]:
    """A third at random, a third hardest by the mean over methods, a third where methods differ most.

    Queries without a score, for want of another image of their class, are not chosen. Of equal ones the
    first is taken; none is taken twice.

    Args:
        scores: By method, each query's own value (q); more is better, NaN is none.
        asked: The rows of the queries (q).
        count: How many to choose.
        name: Names the random draw.

    Example:
        >>> scores = {"a": np.array([0.9, 0.1, 1.0]), "b": np.array([0.8, 0.2, 0.0])}
        >>> [(q.row, q.why) for q in choose_queries(scores, np.array([5, 6, 7]), count=3, name="x")]
        [(5, 'random'), (6, 'hardest'), (7, 'differs')]
    """
    table = np.array([scores[method] for method in scores]) if scores else np.zeros((1, len(asked)))
    usable = np.flatnonzero(np.isfinite(table).all(axis=0))
    hardest, apart = (count // 3, count // 3) if scores else (0, 0)
    chosen: dict[int, GalleryQuery] = {}

    def take(order: np.ndarray, number: int, why: str) -> None:
        for at in [at for at in order.tolist() if at not in chosen][:number]:
            between = None
            if why == "differs":
                methods = list(scores)
                between = (methods[int(table[:, at].argmax())], methods[int(table[:, at].argmin())])
            chosen[at] = GalleryQuery.model_validate({"row": asked[at], "why": why, "between": between})

    take(numpy_generator("gallery", name).permutation(usable), count - hardest - apart, "random")
    if scores:
        take(usable[np.argsort(table[:, usable].mean(axis=0), kind="stable")], hardest, "hardest")
    if len(scores) > 1:
        spread = np.ptp(table[:, usable], axis=0)
        order = usable[np.argsort(-spread, kind="stable")]
        take(order[np.sort(-spread, kind="stable") < 0], apart, "differs")
    return tuple(chosen.values())


def place(file: Path, method: str) -> EmbeddingMap:
    """The map of one model's embeddings: PCA, and t-SNE where scikit-learn is installed."""
    with safe_open(file, framework="numpy") as tensors:
        rows, vectors = tensors.get_tensor(LOOK_MAP_ROWS), tensors.get_tensor(LOOK_MAP_VECTORS)
    flat = main_directions(torch.from_numpy(np.ascontiguousarray(vectors)), 2).numpy()
    return EmbeddingMap(method=method, rows=rows.tolist(), pca=_places(flat), tsne=_tsne(vectors))


def _tsne(vectors: np.ndarray) -> Places:
    """Places by t-SNE; none for so few images, or so collapsed a space, that it would mean nothing."""
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        return ()
    if len(vectors) < 10 or vectors.shape[1] < 2 or not np.ptp(vectors) > 1e-6:
        return ()
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    # "exact": the tree of the other method has crashed the process where many points coincide.
    drawn = TSNE(perplexity=perplexity, method="exact", init="pca", random_state=0, n_jobs=1)
    return _places(drawn.fit_transform(vectors.astype(np.float64)))


def _places(points: np.ndarray) -> Places:
    """Points (m x 2) to four digits; a space of one dimension lies on a line."""
    wide = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    return tuple((float(f"{x:.4g}"), float(f"{y:.4g}")) for x, y in wide.tolist())


def _pictures(test: Dataset, rows: Sequence[int], side: int, prefix: str) -> dict[str, np.ndarray]:
    """WebP files by row, as bytes; an image that cannot be read is left out."""
    found = {}
    for row in rows:
        try:
            found[f"{prefix}{row}"] = np.frombuffer(
                thumbnail(test.images.read(row), side=side), dtype=np.uint8
            )
        except RunError:
            continue
    return found
