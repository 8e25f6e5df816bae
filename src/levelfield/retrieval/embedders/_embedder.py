"""Embedder with preprocessing: images in, unit vectors out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from levelfield.retrieval.rerank import Whitening, embed_views


class ImageEmbedder(nn.Module):
    """Embedder with its preprocessing, as returned by :func:`levelfield.load_embedder`.

    Attributes:
        card: Content of ``model.json``.
        parts: Networks whose embeddings are concatenated.
        size: Size D of the output vectors.
    """

    def __init__(
        self, card: ModelCard, parts: Sequence[Embedder], whitening: Whitening | None = None
    ) -> None:
        super().__init__()
        self.card = card
        self.parts = nn.ModuleList(parts)
        self.size = card.size
        self._transform = transforms.create(
            card.preprocessing.transform, train=False, **card.preprocessing.options
        )
        self.register_buffer("whitening_mean", None if whitening is None else whitening.mean)
        self.register_buffer("whitening_projection", None if whitening is None else whitening.projection)
        self._extractors: list[FeatureExtractor] | None = None
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
        views = self.card.preprocessing
        vectors = [embed_views(part, images, scales=views.scales, flip=views.flip) for part in self.parts]
        return self._concatenate(vectors)

    def embed(self, images: ImageInput | Iterable[ImageInput], *, threads: int | None = None) -> Tensor:
        """Return unit vectors (N x D, float32, on the CPU) of one or several images.

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
        with ThreadPoolExecutor(threads or torch.get_num_threads()) as pool:
            batch = torch.stack(list(pool.map(self.preprocess, several)))
        with self._one_line_errors(batch):
            return self.embed_batch(batch, threads=threads)

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
        preprocessing = self.card.preprocessing
        rows = np.arange(len(images))
        vectors = []
        with torch.no_grad():  # networks cannot be fused in inference mode
            for part, extractor in zip(self.parts, extractors, strict=True):
                assert isinstance(part, Embedder)

                def network(
                    batch: Tensor, part: Embedder = part, extractor: FeatureExtractor = extractor
                ) -> Tensor:
                    features = extractor.features(rows, lambda some: batch[some])
                    return part.project(features.to(extractor.device)).cpu().float()

                vectors.append(
                    embed_views(network, images, scales=preprocessing.scales, flip=preprocessing.flip)
                )
            return self._concatenate(vectors)

    def _fused_extractors(self, threads: int | None) -> list[FeatureExtractor]:
        if self._extractors is None or (threads and threads != self._extractors[0].threads):
            parts = [part for part in self.parts if isinstance(part, Embedder)]
            self._extractors = [FeatureExtractor(part, threads=threads) for part in parts]
        return self._extractors

    def _concatenate(self, vectors: list[Tensor]) -> Tensor:
        """Concatenate and normalize the vectors of all parts, and whiten them if the model does."""
        combined = F.normalize(torch.cat(vectors, dim=1), dim=1)
        mean, projection = self.whitening_mean, self.whitening_projection
        if isinstance(mean, Tensor) and isinstance(projection, Tensor):
            whitening = Whitening(mean.to(combined.device), projection.to(combined.device))
            combined = whitening(combined)
        return combined
