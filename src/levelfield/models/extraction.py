"""Fast extraction of pooled features, or of activations at a cut.

Three things make it fast on a CPU. BatchNorm is folded into the convolutions. The memory layout is
channels-last. Each core runs its own small batches, which fit into its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from levelfield.data import Rows
from levelfield.models._batchnorm_folding import fold_batchnorm
from levelfield.models._cuts import LowerPart
from levelfield.models._embedder import Embedder

LoadImages = Callable[[Rows], Tensor]
FeatureSource = Embedder | LowerPart


def feature_network(source: FeatureSource) -> nn.Module:
    """Return the network that computes the features: trunk and pooling, or the lower part of a cut trunk."""
    return nn.Sequential(source.trunk, source.pooling) if isinstance(source, Embedder) else source


# Maps of few images fit into the cache of a CPU core; a GPU needs large batches.
CPU_BATCH, GPU_BATCH = 4, 128


class FeatureExtractor:
    """Extractor of pooled features (n x F), or of activations (n x ...).

    Each batch is computed by one thread, so that features do not depend on the number of threads.

    Args:
        source: Embedder, whose trunk and pooling are copied (later training does not change the copy), or the
            lower part of a cut trunk.
        threads: Number of batches computed at once. Defaults to the number of threads of PyTorch.
        batch_size: Images per batch. Defaults to 4 on a CPU and 128 on a GPU.

    Example:
        >>> import numpy as np
        >>> from levelfield import models
        >>> embedder = models.create_embedder(trunk=models.create_trunk("conv4", in_channels=1, width=8))
        >>> load = lambda rows: torch.zeros(len(rows), 1, 32, 32)
        >>> FeatureExtractor(embedder).features(np.arange(10), load).shape
        torch.Size([10, 32])
    """

    def __init__(
        self, source: FeatureSource, *, threads: int | None = None, batch_size: int | None = None
    ) -> None:
        self._source = feature_network(source)
        self._network: nn.Module | None = None
        self._item: tuple[int, ...] = ()
        self.device = source.trunk.gain.device
        on_cpu = self.device.type == "cpu"
        self.threads = (threads or torch.get_num_threads()) if on_cpu else 1
        self.batch_size = batch_size or (CPU_BATCH if on_cpu else GPU_BATCH)

    def features(self, rows: Rows, load: LoadImages) -> Tensor:
        """Return the features (n x F or n x ..., float32, on the CPU) of ``rows``, in that order.

        Args:
            rows: Row numbers (n), at least one.
            load: Function that returns the images (B x C x H x W) of rows; called from several threads at
                once.
        """
        if self._network is None:
            example = load(rows[: self.batch_size]).to(self.device)
            self._network = fold_batchnorm(self._source, example)
            with torch.inference_mode():
                self._item = tuple(self._network(example[:1]).shape[1:])
        network = self._network
        output = torch.empty(len(rows), *self._item)

        def compute(start: int) -> None:
            part = slice(start, start + self.batch_size)
            with torch.inference_mode():
                output[part] = network(load(rows[part]).to(self.device)).float()

        starts = range(0, len(rows), self.batch_size)
        with _single_threaded_pool(self.threads) as pool:
            _wait_for_all([pool.submit(compute, start) for start in starts])
        return output


@contextmanager
def _single_threaded_pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Open a thread pool in which PyTorch operators use one thread each."""
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)  # the setting of the workers is partly shared by the process


def _wait_for_all(futures: list[Future[None]]) -> None:
    """Wait for all futures; cancel those that have not started at the first failure."""
    try:
        for future in futures:
            future.result()
    finally:
        for future in futures:
            future.cancel()
