"""An embedder with its own preprocessing: pictures in, unit vectors out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield.data import transforms
from levelfield.embedders._card import ModelCard
from levelfield.embedders.pictures import Picture, as_list, pixels_of, resized, with_channels
from levelfield.errors import UsageError
from levelfield.models import Embedder
from levelfield.models.extraction import Extractor
from levelfield.rerank import Whitening, embed_views


class PictureEmbedder(nn.Module):
    """What :func:`levelfield.load_embedder` returns.

    Attributes:
        card: What ``model.json`` says.
        parts: The networks; their embeddings are concatenated.
        size: D, the width of the vectors.
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
        self._extractors: list[Extractor] | None = None
        self.eval().requires_grad_(False)

    def preprocess(self, picture: Picture) -> Tensor:
        """One picture as the networks take it: uint8, C x h x w."""
        wanted = self.card.preprocessing
        pixels = with_channels(pixels_of(picture), self.card.architecture.in_channels)
        if wanted.size is not None:
            pixels = resized(pixels, wanted.size)
        # An evaluation transform draws nothing; the generator is there because training's twin has one.
        return self._transform([pixels], torch.Generator())[0]

    def forward(self, images: Tensor) -> Tensor:
        """Unit vectors (B x D) of preprocessed images (uint8, or floats in 0..1, B x C x h x w)."""
        wanted = self.card.preprocessing
        vectors = [embed_views(part, images, scales=wanted.scales, flip=wanted.flip) for part in self.parts]
        return self._finish(vectors)

    def embed(self, pictures: Picture | Iterable[Picture], *, threads: int | None = None) -> Tensor:
        """Unit vectors (N x D, float32, on the CPU) of one picture or several.

        Args:
            pictures: Paths, bytes of files, Pillow images, or uint8 arrays or tensors.
            threads: How many pictures are decoded, and batches computed, at once; PyTorch's number if None.

        Raises:
            ImageError: One of them cannot be read.
        """
        several = as_list(pictures)
        if not several:
            raise UsageError("there is no picture to embed; give at least one")
        if len(several) == 1:
            with torch.inference_mode():
                image = self.preprocess(several[0])[None]
                return self.forward(image.to(next(self.parameters()).device)).cpu().float()
        with ThreadPoolExecutor(threads or torch.get_num_threads()) as pool:
            batch = torch.stack(list(pool.map(self.preprocess, several)))
        return self.embed_batch(batch, threads=threads)

    def embed_batch(self, images: Tensor, *, threads: int | None = None) -> Tensor:
        """Unit vectors (N x D) of many preprocessed images (uint8, N x C x h x w), as quickly as may be.

        The networks run as fused copies, so that the last digits may differ from :meth:`forward`.
        """
        extractors = self._fused(threads)
        wanted = self.card.preprocessing
        rows = np.arange(len(images))
        vectors = []
        with torch.no_grad():  # not inference mode, in which networks cannot be fused
            for part, extractor in zip(self.parts, extractors, strict=True):
                assert isinstance(part, Embedder)

                def network(batch: Tensor, part: Embedder = part, extractor: Extractor = extractor) -> Tensor:
                    features = extractor.features(rows, lambda some: batch[some])
                    return part.project(features.to(extractor.device)).cpu().float()

                vectors.append(embed_views(network, images, scales=wanted.scales, flip=wanted.flip))
            return self._finish(vectors)

    def _fused(self, threads: int | None) -> list[Extractor]:
        if self._extractors is None or (threads and threads != self._extractors[0].threads):
            parts = [part for part in self.parts if isinstance(part, Embedder)]
            self._extractors = [Extractor(part, threads=threads) for part in parts]
        return self._extractors

    def _finish(self, vectors: list[Tensor]) -> Tensor:
        together = F.normalize(torch.cat(vectors, dim=1), dim=1)
        mean, projection = self.whitening_mean, self.whitening_projection
        if isinstance(mean, Tensor) and isinstance(projection, Tensor):
            whitening = Whitening(mean.to(together.device), projection.to(together.device))
            together = whitening(together)
        return together
