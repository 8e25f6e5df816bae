"""Pooled features, or activations at a cut, of many images, as quickly as a CPU allows.

Three things make it quick: BatchNorm is folded into the convolutions, the layout is channels-last, and
each core runs small batches of its own, which stay in its cache and wait for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from levelfield.data import Rows
from levelfield.models._cuts import LowerPart
from levelfield.models._embedder import Embedder
from levelfield.models._fusion import fused

Load = Callable[[Rows], Tensor]
FeatureSource = Embedder | LowerPart


def feature_network(source: FeatureSource) -> nn.Module:
    """What turns images into that which is kept: trunk and pooling, or the lower part of a cut trunk."""
    return nn.Sequential(source.trunk, source.pooling) if isinstance(source, Embedder) else source


# On a CPU the maps of a few images stay in a core's cache; a GPU wants its batches large.
CPU_BATCH, GPU_BATCH = 4, 128


class Extractor:
    """Turns rows into pooled features (n x F), or into activations (n x ...), many at a time.

    Each batch is computed by one thread, so features do not depend on the number of threads.

    Args:
        source: An embedder, whose trunk and pooling are copied (later training does not change the copy), or
            the lower part of a cut trunk.
        threads: How many batches are under way at once; the number that PyTorch uses if None.
        batch_size: How many images a batch has; chosen by the device if None.

    Example:
        >>> import numpy as np
        >>> from levelfield import models
        >>> embedder = models.build(trunk=models.create_trunk("conv4", in_channels=1, width=8))
        >>> load = lambda rows: torch.zeros(len(rows), 1, 32, 32)
        >>> Extractor(embedder).features(np.arange(10), load).shape
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

    def features(self, rows: Rows, load: Load) -> Tensor:
        """The features (n x F or n x ..., float32, on the CPU) of ``rows``, in that order.

        Args:
            rows: Row numbers (n), at least one.
            load: Gives the images (B x C x H x W) of some rows; called from several threads at once.
        """
        if self._network is None:
            example = load(rows[: self.batch_size]).to(self.device)
            self._network = fused(self._source, example)
            with torch.inference_mode():
                self._item = tuple(self._network(example[:1]).shape[1:])
        network = self._network
        output = torch.empty(len(rows), *self._item)

        def compute(start: int) -> None:
            part = slice(start, start + self.batch_size)
            with torch.inference_mode():
                output[part] = network(load(rows[part]).to(self.device)).float()

        starts = range(0, len(rows), self.batch_size)
        with _one_thread_each(self.threads) as pool:
            _finish([pool.submit(compute, start) for start in starts])
        return output


@contextmanager
def _one_thread_each(workers: int) -> Iterator[ThreadPoolExecutor]:
    """A pool in which PyTorch's own operators do not start threads of their own."""
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)  # the workers' setting is partly shared by the process


def _finish(futures: list[Future[None]]) -> None:
    """Wait for all; at the first failure give up those that have not begun."""
    try:
        for future in futures:
            future.result()
    finally:
        for future in futures:
            future.cancel()
