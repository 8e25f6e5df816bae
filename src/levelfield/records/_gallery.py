"""Retrieval gallery: the test queries that a report shows, and a map of the embedding."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

# Names of arrays of a method's first rerun, beside its values per query.
GALLERY_PREFIX = "look."
GALLERY_QUERIES, GALLERY_NEIGHBORS, GALLERY_SIMILARITIES = (
    "look.queries",
    "look.neighbours",
    "look.similarities",
)
GALLERY_MAP_ROWS, GALLERY_MAP_VECTORS = "look.map_rows", "look.map_vectors"
QueryReason = Literal["random", "hardest", "differs"]


class GalleryRecord(BaseModel):
    """Part of ``gallery.json``; unknown fields are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GalleryQuery(GalleryRecord):
    """One query of the gallery.

    Attributes:
        row: Row of the query in the test set.
        why: Reason of its choice: drawn at random, among the hardest for all methods, or among those on
            which two methods differ most.
        between: The best and the worst method on the query, if it was chosen because methods differ.
    """

    row: int
    why: QueryReason
    between: tuple[str, str] | None = None


class EmbeddingMap(GalleryRecord):
    """Embeddings of some test images in two dimensions.

    Attributes:
        method: Method with the best mean, which the embeddings are from.
        rows: Rows of the images in the test set (m).
        pca: Positions on the first two principal directions (m x 2).
        tsne: Positions by t-SNE; empty if scikit-learn is not installed.
    """

    method: str
    rows: tuple[int, ...]
    pca: tuple[tuple[float, float], ...]
    tsne: tuple[tuple[float, float], ...] = ()


class Gallery(GalleryRecord):
    """Retrieval gallery of an experiment; it is stored beside the confirmations.

    Attributes:
        key: Digest of everything that the gallery was computed from.
        metric: Metric that decides which queries are hard; empty if no metric has a value per query.
        queries: Queries of the gallery, the same for every method.
        confirmations: Digest of the confirmation whose first rerun holds the neighbors, by method.
        labels: Class of each test image.
        class_names: Names of the test classes by label.
        shown: Whether images are stored; False if the dataset's license forbids it.
        license: License of the dataset.
        side: Longer side of an image, in pixels.
        map: Map of the embedding; None if no method has one.
        relevant: Rows of the relevant images by query, for datasets that list them; None if classes decide.
        ignored: Rows of the ignored images by query, for such datasets.
    """

    key: str
    metric: str
    queries: tuple[GalleryQuery, ...]
    confirmations: dict[str, str]
    labels: tuple[int, ...]
    class_names: dict[int, str]
    shown: bool = True
    license: str = ""
    side: int = 0
    map: EmbeddingMap | None = Field(default=None)
    relevant: dict[int, tuple[int, ...]] | None = None
    ignored: dict[int, tuple[int, ...]] = Field(default_factory=dict)
