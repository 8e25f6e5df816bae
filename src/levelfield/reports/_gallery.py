"""What the report shows of the test set: retrieved images, and a map of the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup
from safetensors import SafetensorError
from safetensors.numpy import load_file

from levelfield.compare import Evidence
from levelfield.errors import RunError
from levelfield.records import EmbeddingMap, Gallery, Store
from levelfield.reports.figures import Axis, Panel, PanelChart, Trace
from levelfield.reports.pages import PointPictures, data_block, encoded_pictures, plot

MOST_METHODS = 6  # whose answers are all shown at once unless somebody asks for it


def gallery_section(evidence: Evidence) -> dict[str, Any] | None:
    """What the template needs to show the gallery; None if none is kept."""
    store = Store(evidence.root)
    gallery = store.gallery()
    if gallery is None:
        return None
    methods = shown_neighbours(evidence, gallery)
    labels = gallery.labels
    used = {query.row for query in gallery.queries}
    used |= {row for found in methods.values() for line in found.values() for row, _ in line}
    content = {
        "queries": [query.model_dump(mode="json") for query in gallery.queries],
        "methods": methods,
        "few": [*list(methods)[:3], evidence.comparison.baseline],
        "labels": {row: labels[row] for row in sorted(used)},
        "names": {label: gallery.class_names[label] for label in {labels[row] for row in used}},
    }
    pictures = kept_pictures(store)
    measure = evidence.comparison.measures.get(gallery.metric)
    return {
        "record": gallery,
        "methods": list(methods),
        "few": len(methods) > MOST_METHODS,
        "measure": "" if measure is None else measure.label,
        "data": data_block(content),
        "pictures": data_block(encoded_pictures(pictures), name="pictures"),
        "kilobytes": round(sum(map(len, pictures.values())) / 1000),
        "count": len(pictures),
        "map": map_figure(gallery),
    }


def shown_neighbours(evidence: Evidence, gallery: Gallery) -> dict[str, dict[int, list[tuple[int, float]]]]:
    """By method and query: the nearest test images and their similarity, nearest first."""
    found: dict[str, dict[int, list[tuple[int, float]]]] = {}
    for method in evidence.means:
        neighbours = evidence.confirmations[method].neighbours()
        if neighbours is None or method not in gallery.confirmations:
            continue
        line = {row: number for number, row in enumerate(neighbours.queries.tolist())}
        found[method] = {
            query.row: [
                (row, round(similarity, 3))
                for row, similarity in zip(
                    neighbours.rows[line[query.row]].tolist(),
                    neighbours.similarities[line[query.row]].tolist(),
                    strict=True,
                )
            ]
            for query in gallery.queries
        }
    return found


def kept_pictures(store: Store) -> dict[str, bytes]:
    """The small pictures, WebP, by row of the test images; those of the map as "map.ROW"."""
    file = store.pictures_file
    if not file.exists():
        return {}
    try:
        return {name: np.asarray(content).tobytes() for name, content in load_file(file).items()}
    except (SafetensorError, OSError) as error:
        raise RunError(
            f"{file} is damaged ({error}); delete it and gallery.json beside it, then give the same "
            "`levelfield run` command again"
        ) from error


def map_figure(gallery: Gallery) -> Markup | None:
    """The map as a chart with a picture on hover; None if there is none."""
    if gallery.map is None or not gallery.map.rows:
        return None
    drawn, rows = map_chart(gallery, gallery.map)
    return plot(drawn, pictures=rows)


def map_chart(gallery: Gallery, drawn: EmbeddingMap) -> tuple[PanelChart, list[PointPictures]]:
    """A panel for PCA and one for t-SNE, a colour per class; and the image of each point, trace by trace."""
    places = {"PCA": drawn.pca, "t-SNE": drawn.tsne}
    classes: dict[int, list[int]] = {}
    for number, row in enumerate(drawn.rows):
        classes.setdefault(gallery.labels[row], []).append(number)
    panels, rows = [], []
    for name, points in places.items():
        if not points:
            continue
        traces = []
        for colour, (label, members) in enumerate(classes.items()):
            traces.append(
                Trace(
                    gallery.class_names[label],
                    tuple(points[member][0] for member in members),
                    tuple(points[member][1] for member in members),
                    colour=colour,
                    marker=("dot", "ring", "cross")[colour * 3 // max(1, len(classes))],
                )
            )
            images = tuple(drawn.rows[member] for member in members)
            rows.append(PointPictures(gallery.class_names[label], images))
        panels.append(Panel(Axis(""), tuple(traces), title=name, y=Axis("")))
    title = f"{drawn.method}: {len(drawn.rows)} test images of {len(classes)} classes"
    return PanelChart(title, Axis(""), tuple(panels)), rows
