"""Embedder with preprocessing: images in, unit vectors out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield.core.errors import RunError, UsageError
from levelfield.data import transforms
from levelfield.models import Embedder
from levelfield.models.extraction import FeatureExtractor
from levelfield.retrieval.embedders._card import ModelCard
from levelfield.retrieval.embedders.images import (
    ImageInput,
    as_list,
    convert_channels,
    decode_pixels,
    resize_pixels,
)
from levelfield.retrieval.embedders.text import TextEncoder
from levelfield.retrieval.rerank import Whitening, image_views

MAX_PIXELS = 1 << 24  # of all views of an image together; a card chooses size, scales and mirroring
CHUNK = 128  # images that `embed` decodes before the network sees them; bounds its memory


class ImageEmbedder(nn.Module):
    """Embedder with its preprocessing, as returned by :func:`levelfield.load_embedder`.

    Attributes:
        card: Content of ``model.json``.
        parts: Networks whose embeddings are concatenated. Parts with the same trunk share one module.
        size: Size D of the output vectors.
        text: Text tower; None if the model has none.
    """

    def __init__(
        self,
        card: ModelCard,
        parts: Sequence[Embedder],
        whitening: Whitening | None = None,
        text: TextEncoder | None = None,
    ) -> None:
        super().__init__()
        self.card = card
        self.text = text
        self.parts = nn.ModuleList(parts)
        self.size = card.size
        self._transform = transforms.create(
            card.preprocessing.transform, train=False, **card.preprocessing.options
        )
        self.register_buffer("whitening_mean", None if whitening is None else whitening.mean)
        self.register_buffer("whitening_projection", None if whitening is None else whitening.projection)
        self._extractors: list[FeatureExtractor] | None = None
        if card.preprocessing.size is not None:
            self._check_pixels(*card.preprocessing.size)
        self.eval().requires_grad_(False)

    def preprocess(self, image: ImageInput) -> Tensor:
        """Return one image as network input: uint8, C x h x w."""
        preprocessing = self.card.preprocessing
        pixels = convert_channels(decode_pixels(image), self.card.architecture.in_channels)
        if preprocessing.size is not None:
            pixels = resize_pixels(pixels, preprocessing.size)
        # An evaluation transform draws no random numbers; training transforms share the signature.
        return self._transform([pixels], torch.Generator())[0]

    def forward(self, images: Tensor) -> Tensor:
        """Return unit vectors (B x D) of preprocessed images (uint8, or floats in 0..1, B x C x h x w)."""
        return self._embed_views(images, [trunk_of.features for trunk_of in self._trunk_owners()])

    def embed(self, images: ImageInput | Iterable[ImageInput], *, threads: int | None = None) -> Tensor:
        """Return unit vectors (N x D, float32, on the CPU) of one or several images.

        At most 128 images are decoded at a time, so a long list of paths needs little memory.

        Args:
            images: Paths, bytes of files, Pillow images, or uint8 arrays or tensors.
            threads: Number of threads for decoding and for the network. Defaults to PyTorch's number.

        Raises:
            ImageError: An image cannot be read.
        """
        several = as_list(images)
        if not several:
            raise UsageError("there is no image to embed; pass at least one")
        if len(several) == 1:
            with torch.inference_mode():
                batch = self.preprocess(several[0])[None]
                with self._one_line_errors(batch):
                    return self.forward(batch.to(next(self.parameters()).device)).cpu().float()
        vectors = []
        with ThreadPoolExecutor(threads or torch.get_num_threads()) as pool:
            for start in range(0, len(several), CHUNK):
                batch = torch.stack(list(pool.map(self.preprocess, several[start : start + CHUNK])))
                with self._one_line_errors(batch):
                    vectors.append(self.embed_batch(batch, threads=threads))
        return torch.cat(vectors)

    def embed_text(self, texts: str | Sequence[str]) -> Tensor:
        """Return unit vectors (N x D, float32, on the CPU) of one or several texts, to compare with images.

        Raises:
            UsageError: The model has no text tower.
        """
        if self.text is None:
            raise UsageError(
                f"the model {self.card.name} has no text tower; search with an image, or index with a model "
                "made by levelfield export from a CLIP or SigLIP checkpoint"
            )
        return self.text.embed([texts] if isinstance(texts, str) else list(texts))

    @contextmanager
    def _one_line_errors(self, images: Tensor) -> Iterator[None]:
        """Turn the error of a network that rejects its input into one line; the card chooses both."""
        try:
            yield
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise RunError(
                f"the network of {self.card.name} rejects images of {images.shape[-2]} x {images.shape[-1]} "
                f"pixels ({str(error).splitlines()[0][:200]}); export the model again, or download it again"
            ) from error

    def embed_batch(self, images: Tensor, *, threads: int | None = None) -> Tensor:
        """Return unit vectors (N x D) of many preprocessed images (uint8, N x C x h x w).

        Faster than :meth:`forward`: the networks run as fused copies. The last digits may differ.
        """
        extractors = self._fused_extractors(threads)
        rows = np.arange(len(images))

        def features(extractor: FeatureExtractor) -> Callable[[Tensor], Tensor]:
            return lambda batch: extractor.features(rows, lambda some: batch[some]).to(extractor.device)

        with torch.no_grad():  # networks cannot be fused in inference mode
            return self._embed_views(images, [features(extractor) for extractor in extractors]).cpu().float()

    def _embed_views(self, images: Tensor, trunks: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
        """Return the vectors of images; ``trunks`` are the functions to features, one per different trunk.

        Parts with the same trunk share its features, so that it runs once per view.
        """
        owners = self._trunk_owners()
        self._check_pixels(images.shape[-2], images.shape[-1])
        totals: list[Tensor] = []
        views = self.card.preprocessing
        for view in image_views(images, scales=views.scales, flip=views.flip):
            found = {id(owner.trunk): run(view) for owner, run in zip(owners, trunks, strict=True)}
            vectors = [F.normalize(part.project(found[id(part.trunk)]), dim=1) for part in self._embedders()]
            totals = [a + b for a, b in zip(totals, vectors, strict=True)] if totals else vectors
        return self._concatenate([F.normalize(total, dim=1) for total in totals])

    def _check_pixels(self, height: int, width: int) -> None:
        """Raise if all views of an image of this size have too many pixels together."""
        views = self.card.preprocessing
        pixels = round(height * width * sum(scale**2 for scale in views.scales) * (1 + views.flip))
        if pixels > MAX_PIXELS:
            raise UsageError(
                f"the model {self.card.name} views each image with {pixels:,} pixels in total, more than "
                f"{MAX_PIXELS:,}; export it with smaller images or fewer scales"
            )

    def _embedders(self) -> list[Embedder]:
        return [part for part in self.parts if isinstance(part, Embedder)]

    def _trunk_owners(self) -> list[Embedder]:
        """Return the first part of each different trunk."""
        first: dict[int, Embedder] = {}
        for part in self._embedders():
            first.setdefault(id(part.trunk), part)
        return list(first.values())

    def _fused_extractors(self, threads: int | None) -> list[FeatureExtractor]:
        if self._extractors is None or (threads and threads != self._extractors[0].threads):
            self._extractors = [FeatureExtractor(part, threads=threads) for part in self._trunk_owners()]
        return self._extractors

    def _concatenate(self, vectors: list[Tensor]) -> Tensor:
        """Concatenate and normalize the vectors of all parts, and whiten them if the model does."""
        combined = F.normalize(torch.cat(vectors, dim=1), dim=1)
        mean, projection = self.whitening_mean, self.whitening_projection
        if isinstance(mean, Tensor) and isinstance(projection, Tensor):
            whitening = Whitening(mean.to(combined.device), projection.to(combined.device))
            combined = whitening(combined)
        return combined
