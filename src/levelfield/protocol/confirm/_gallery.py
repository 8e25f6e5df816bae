"""The retrieval gallery: test queries with their neighbors and thumbnails, chosen by fixed rules.

It is made after every method is scored. A third of the queries is drawn at random, a third is hardest for all
methods on average, and on a third two methods differ most. Every method is shown with the same queries.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from levelfield.analysis import Comparison, choose_queries, read_comparison, read_confirmation
from levelfield.core.errors import RunError
from levelfield.data import Dataset
from levelfield.data import registry as datasets
from levelfield.data.thumbnails import encode_thumbnail
from levelfield.protocol.confirm._confirm import rerun_specs
from levelfield.protocol.confirm._neighbors import has_gallery_arrays, pca_coordinates
from levelfield.protocol.guard import TestPermit, open_for_gallery, test_view
from levelfield.protocol.schedule._flow import Flow, Job, WaitForJobs
from levelfield.protocol.spec._resolved import ResolvedExperiment
from levelfield.records import (
    GALLERY_MAP_ROWS,
    GALLERY_MAP_VECTORS,
    GALLERY_NEIGHBORS,
    GALLERY_QUERIES,
    EmbeddingMap,
    Gallery,
    GalleryQuery,
    RunSpec,
    Store,
    digest,
)
from levelfield.train import DataJob, Resources, prepare_process

SIDE, MAP_SIDE = 96, 48
Coordinates = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class GalleryJob(DataJob):
    """Job that makes the gallery.

    Attributes:
        spec: Spec of any run of the experiment; it identifies the data.
        permit: Permission to read the test set.
        resources: Local paths and devices.
        arrays: File with the arrays of the first rerun, by method.
        scores: Value of each query (q) by method, higher is better; empty if the metric has no value per
            query.
        best: Method with the best mean.
        count: Number of queries to show.
        gallery: Gallery record without the parts that need the test set.
    """

    spec: RunSpec
    permit: TestPermit
    resources: Resources
    arrays: Mapping[str, Path]
    scores: Mapping[str, np.ndarray]
    best: str
    count: int
    gallery: Gallery

    @property
    def data_spec(self) -> RunSpec:
        """The run that names the data."""
        return self.spec


def gallery_flow(resolved: ResolvedExperiment, selection_file: Path, store: Store) -> Flow[None]:
    """Make the gallery of a confirmed experiment, unless it exists or there is nothing to show.

    Args:
        resolved: The experiment.
        selection_file: Frozen selection of the baseline, for which the test set is opened.
        store: Records of the experiment.
    """
    count = resolved.experiment.confirm.gallery
    if not count:
        return
    comparison = read_comparison(store.root)
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
        shown=card.images_may_be_shown,
        license=card.license,
        side=SIDE,
    )
    job = GalleryJob(
        spec=rerun_specs(resolved, resolved.methods[0], {}, 0)[0],
        permit=open_for_gallery(store, selection_file),
        resources=resolved.resources,
        arrays=arrays,
        scores=scores,
        best=_best(comparison, list(arrays)),
        count=count,
        gallery=gallery,
    )
    reads = (*job.permit.files, *arrays.values())
    ((made, thumbnails),) = yield WaitForJobs(
        [Job("gallery", draw_gallery, job, "gallery", "gallery", reads=reads)]
    )
    store.write_gallery(made, thumbnails)


def _can_be_shown(file: Path) -> bool:
    """Return True if a rerun has the arrays of the gallery; the report flags damaged files."""
    try:
        with safe_open(file, framework="numpy") as tensors:
            return has_gallery_arrays(tensors.keys())
    except (SafetensorError, OSError):
        return False


def _scores_per_query(
    root: Path, comparison: Comparison, arrays: Mapping[str, Path]
) -> tuple[str, dict[str, np.ndarray]]:
    """Return the first metric with a value per query, and these values by method; higher is better.

    The selection metric comes first.
    """
    for metric in dict.fromkeys((comparison.main_metric, *comparison.metrics)):
        found = {}
        for result in comparison.trained:
            if result.method in arrays:
                values = read_confirmation(root, result).per_query("concatenated", metric)
                found[result.method] = None if values is None else values.get((0, 0))
        sign = comparison.metric_infos[metric].sign
        present = {method: sign * values for method, values in found.items() if values is not None}
        if found and len(present) == len(found):
            return metric, present
    return "", {}


def _best(comparison: Comparison, methods: Sequence[str]) -> str:
    """Return the trained method with the best mean of the selection metric."""
    info = comparison.metric_infos[comparison.main_metric]
    means = {
        result.method: info.sign * interval.mean
        for result in comparison.trained
        if result.method in methods and (interval := result.seed_interval("concatenated", info.name)).n
    }
    return max(means, key=lambda method: means[method])


def draw_gallery(job: GalleryJob) -> tuple[Gallery, bytes]:
    """Choose the queries, compute the map, and encode thumbnails of all images shown."""
    prepare_process(job.resources)
    test = test_view(job.permit, job.spec, job.resources)
    neighbors, asked = {}, np.zeros(0, dtype=np.int64)
    for method, file in job.arrays.items():
        with safe_open(file, framework="numpy") as tensors:
            neighbors[method] = tensors.get_tensor(GALLERY_NEIGHBORS)
            asked = tensors.get_tensor(GALLERY_QUERIES)
    queries = choose_queries(
        _scores_of_queries(job.scores, test, asked), asked, count=job.count, name=test.fingerprint
    )
    drawn = map_coordinates(job.arrays[job.best], job.best)
    line = {row: number for number, row in enumerate(asked.tolist())}
    rows = {query.row for query in queries}
    rows |= {int(row) for q in queries for found in neighbors.values() for row in found[line[q.row]]}
    thumbnails = {}
    if job.gallery.shown:
        thumbnails = _encode_thumbnails(test, sorted(rows), SIDE, "") | _encode_thumbnails(
            test, drawn.rows, MAP_SIDE, "map."
        )
    names = {int(label): test.class_names[label] for label in np.unique(test.labels)}
    made = job.gallery.model_copy(
        update={
            "queries": queries,
            "labels": tuple(test.labels.tolist()),
            "class_names": names,
            "map": drawn,
            **_listed(test, queries, rows),
        }
    )
    return made, save(thumbnails)


def _listed(test: Dataset, queries: Sequence[GalleryQuery], shown: Collection[int]) -> dict[str, Any]:
    """Return the relevant and the ignored images among those shown, if the dataset lists them."""
    if test.relevant is None:
        return {}
    asked = {query.row for query in queries}
    found: dict[str, Any] = {}
    for name, pairs in (("relevant", test.relevant), ("ignored", test.ignored)):
        lists: dict[int, list[int]] = {row: [] for row in asked}
        for query, item in [] if pairs is None else pairs.tolist():
            if query in asked and item in shown:
                lists[query].append(item)
        found[name] = {row: tuple(items) for row, items in lists.items()}
    return found


def _scores_of_queries(
    scores: Mapping[str, np.ndarray], test: Dataset, asked: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the scores of the queries ``asked``, from the scores of all test queries."""
    rows = np.arange(len(test)) if test.roles is None else np.flatnonzero(test.roles & 1)
    at = np.searchsorted(rows, asked)
    return {method: values[at] for method, values in scores.items()}


def map_coordinates(file: Path, method: str) -> EmbeddingMap:
    """Return the map of one model's embeddings: PCA, and t-SNE if scikit-learn is installed."""
    with safe_open(file, framework="numpy") as tensors:
        rows, vectors = tensors.get_tensor(GALLERY_MAP_ROWS), tensors.get_tensor(GALLERY_MAP_VECTORS)
    flat = pca_coordinates(torch.from_numpy(np.ascontiguousarray(vectors)), 2).numpy()
    return EmbeddingMap(method=method, rows=rows.tolist(), pca=_round_coordinates(flat), tsne=_tsne(vectors))


def _tsne(vectors: np.ndarray) -> Coordinates:
    """Return coordinates by t-SNE; empty for fewer than 10 images or a collapsed space."""
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        return ()
    if len(vectors) < 10 or vectors.shape[1] < 2 or not np.ptp(vectors) > 1e-6:
        return ()
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    # "exact": the Barnes-Hut tree has crashed the process when many points coincide.
    drawn = TSNE(perplexity=perplexity, method="exact", init="pca", random_state=0, n_jobs=1)
    return _round_coordinates(drawn.fit_transform(vectors.astype(np.float64)))


def _round_coordinates(points: np.ndarray) -> Coordinates:
    """Round points (m x 2) to four digits; points of one dimension get 0 as the second coordinate."""
    wide = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    return tuple((float(f"{x:.4g}"), float(f"{y:.4g}")) for x, y in wide.tolist())


def _encode_thumbnails(test: Dataset, rows: Sequence[int], side: int, prefix: str) -> dict[str, np.ndarray]:
    """Return WebP thumbnails by row, as bytes; unreadable images are left out."""
    found = {}
    for row in rows:
        try:
            found[f"{prefix}{row}"] = np.frombuffer(
                encode_thumbnail(test.images.read(row), side=side), dtype=np.uint8
            )
        except RunError:
            continue
    return found
