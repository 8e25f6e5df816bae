"""Retrieval gallery and map of the embedding, for the report."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup
from safetensors import SafetensorError
from safetensors.numpy import load_file

from levelfield.analysis import Analysis
from levelfield.core.errors import RunError
from levelfield.core.files import check_is_file
from levelfield.records import EmbeddingMap, Gallery, Store
from levelfield.reports.figures import Axis, Panel, PanelChart, Trace
from levelfield.reports.pages import PointImages, data_block, embed_chart, encode_images

MAX_METHODS = 6  # with more, the page first shows the best three only


def gallery_section(analysis: Analysis) -> dict[str, Any] | None:
    """Return the template values of the gallery; None if there is no gallery on record."""
    store = Store(analysis.root)
    gallery = store.gallery()
    if gallery is None:
        return None
    methods = read_neighbors(analysis, gallery)
    labels = gallery.labels
    used = {query.row for query in gallery.queries}
    used |= {row for found in methods.values() for line in found.values() for row, _ in line}
    content = {
        "queries": [query.model_dump(mode="json") for query in gallery.queries],
        "methods": methods,
        "few": [*list(methods)[:3], analysis.comparison.baseline],
        "labels": {row: labels[row] for row in sorted(used)},
        "names": {label: gallery.class_names[label] for label in {labels[row] for row in used}},
    }
    if gallery.relevant is not None:
        content |= {"relevant": gallery.relevant, "ignored": gallery.ignored}
    images = read_gallery_images(store)
    metric_info = analysis.comparison.metric_infos.get(gallery.metric)
    return {
        "record": gallery,
        "methods": list(methods),
        "few": len(methods) > MAX_METHODS,
        "metric": "" if metric_info is None else metric_info.label,
        "data": data_block(content),
        "images": data_block(encode_images(images), name="images"),
        "kilobytes": round(sum(map(len, images.values())) / 1000),
        "count": len(images),
        "map": map_figure(gallery),
    }


def read_neighbors(analysis: Analysis, gallery: Gallery) -> dict[str, dict[int, list[tuple[int, float]]]]:
    """Return the nearest test images with their similarities, nearest first, by method and query."""
    found: dict[str, dict[int, list[tuple[int, float]]]] = {}
    for method in analysis.means:
        neighbors = analysis.confirmations[method].neighbors()
        if neighbors is None or method not in gallery.confirmations:
            continue
        line = {row: number for number, row in enumerate(neighbors.queries.tolist())}
        found[method] = {
            query.row: [
                (row, round(similarity, 3))
                for row, similarity in zip(
                    neighbors.rows[line[query.row]].tolist(),
                    neighbors.similarities[line[query.row]].tolist(),
                    strict=True,
                )
            ]
            for query in gallery.queries
        }
    return found


def read_gallery_images(store: Store) -> dict[str, bytes]:
    """Return WebP thumbnails by row in the test set; those of the map have the key "map.ROW"."""
    file = store.gallery_images_file
    if not file.exists():
        return {}
    try:
        check_is_file(file)
        return {name: np.asarray(content).tobytes() for name, content in load_file(file).items()}
    except (SafetensorError, OSError) as error:
        raise RunError(
            f"{file} is damaged ({error}); delete it and gallery.json in the same directory, then repeat "
            "the `levelfield run` command"
        ) from error


def map_figure(gallery: Gallery) -> Markup | None:
    """Return the map as a chart with an image on hover; None if there is no map on record."""
    if gallery.map is None or not gallery.map.rows:
        return None
    drawn, rows = map_chart(gallery, gallery.map)
    return embed_chart(drawn, images=rows)


def map_chart(gallery: Gallery, drawn: EmbeddingMap) -> tuple[PanelChart, list[PointImages]]:
    """Return a chart with panels for PCA and t-SNE, and the image of each point, trace by trace."""
    places = {"PCA": drawn.pca, "t-SNE": drawn.tsne}
    classes: dict[int, list[int]] = {}
    for number, row in enumerate(drawn.rows):
        classes.setdefault(gallery.labels[row], []).append(number)
    panels, rows = [], []
    for name, points in places.items():
        if not points:
            continue
        traces = []
        for color, (label, members) in enumerate(classes.items()):
            traces.append(
                Trace(
                    gallery.class_names[label],
                    tuple(points[member][0] for member in members),
                    tuple(points[member][1] for member in members),
                    color=color,
                    marker=("dot", "ring", "cross")[color * 3 // max(1, len(classes))],
                )
            )
            images = tuple(drawn.rows[member] for member in members)
            rows.append(PointImages(gallery.class_names[label], images))
        panels.append(Panel(Axis(""), tuple(traces), title=name, y=Axis("")))
    title = f"{drawn.method}: {len(drawn.rows)} test images of {len(classes)} classes"
    return PanelChart(title, Axis(""), tuple(panels)), rows
