"""What a report can show of the test set: chosen queries, and a map of the embedding."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

# Arrays of a method's first rerun, beside its values per query: rows of the test images.
LOOK = "look."  # what their names begin with
LOOK_QUERIES, LOOK_NEIGHBOURS, LOOK_SIMILARITIES = "look.queries", "look.neighbours", "look.similarities"
LOOK_MAP_ROWS, LOOK_MAP_VECTORS = "look.map_rows", "look.map_vectors"
Why = Literal["random", "hardest", "differs"]


class GalleryRecord(BaseModel):
    """A part of ``gallery.json``; a field that this version does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GalleryQuery(GalleryRecord):
    """One query that is shown.

    Attributes:
        row: Its number among the test images.
        why: Drawn at random, among the hardest for all methods, or one on which two methods differ most.
        between: Of one that differs: the method that does best, and the one that does worst.
    """

    row: int
    why: Why
    between: tuple[str, str] | None = None


class EmbeddingMap(GalleryRecord):
    """Some test images in two dimensions, as one method's model places them.

    Attributes:
        method: Whose embeddings these are: the method with the best mean.
        rows: The images, by their number among the test images (m).
        pca: Their places by the two main directions (m x 2).
        tsne: Their places by t-SNE; empty where scikit-learn is not installed.
    """

    method: str
    rows: tuple[int, ...]
    pca: tuple[tuple[float, float], ...]
    tsne: tuple[tuple[float, float], ...] = ()


class Gallery(GalleryRecord):
    """What is shown of the test set, beside the confirmations.

    Attributes:
        key: The hash of all it was made from.
        metric: By which queries are called hard; empty if no metric has a value per query.
        queries: What is shown, the same for every method.
        confirmations: By method: the confirmation whose first rerun holds the neighbours.
        labels: The class of each test image.
        class_names: The names of the test classes, by label.
        shown: Whether pictures are kept: not if the dataset's terms forbid it.
        licence: The dataset's terms.
        side: The longer side of a picture, in pixels.
        map: The map of the embedding; None if there is nothing to place.
    """

    key: str
    metric: str
    queries: tuple[GalleryQuery, ...]
    confirmations: dict[str, str]
    labels: tuple[int, ...]
    class_names: dict[int, str]
    shown: bool = True
    licence: str = ""
    side: int = 0
    map: EmbeddingMap | None = Field(default=None)
