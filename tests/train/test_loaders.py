"""Loader processes give the same bits for any number of them, and do not end silently."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.helpers.odd_images import KillsReader, from_global_generator, on_gpu
from tests.helpers.one_run import files, job
from torch import Tensor

from levelfield.core.errors import RunError, UsageError
from levelfield.data import FileImages, ImageError, MemoryImages, Rows, transforms
from levelfield.records import STATE_FILE
from levelfield.train import ImageInputs, _loaders, run_job

STREAM = (7, "augment", 1)
PLAN = [np.array([3, 1, 2]), np.array([0, 5, 4]), np.array([5, 5, 0]), np.array([1, 2, 3]), np.array([4])]
CROP = partial(transforms.create, "adv", size=16, resize=20)


@pytest.fixture(scope="module")
def image_files(tmp_path_factory: pytest.TempPathFactory) -> FileImages:
    """Six JPEG files of different sizes."""
    folder = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    for number in range(6):
        pixels = random.integers(0, 256, (24 + number, 40 - number, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg")
    return FileImages(folder, [f"{number}.jpg" for number in range(6)])


@pytest.mark.slow
@pytest.mark.parametrize("transform", [CROP, from_global_generator], ids=["adv", "global generator"])
def test_bits_do_not_depend_on_the_number_of_loaders(image_files: FileImages, transform: Any) -> None:
    before = torch.get_rng_state()
    found = []
    for loaders in (0, 1, 2, 3):
        inputs = ImageInputs(image_files, transform, loaders=loaders)
        found.append([*inputs.train(PLAN, STREAM), *inputs.train(PLAN, STREAM, ahead=False)])
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(found[0][0], found[0][3])  # other rows, or other crops of the same rows


def test_evaluation_is_the_same_with_loaders_and_in_the_order_asked_for(image_files: FileImages) -> None:
    here, there = (list(ImageInputs(image_files, CROP, loaders=n).evaluate(PLAN)) for n in (0, 2))
    assert [len(batch) for batch in there] == [3, 3, 3, 3, 1]
    assert all(torch.equal(one, two) for one, two in zip(here, there, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["finetune", "memory bank"])
def test_a_run_has_the_same_bits_with_any_number_of_loaders_and_after_a_kill(
    variant: str, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = {"name": "x", "loss": "triplet", "sampler": "gc"} if variant == "memory bank" else None
    for loaders in (0, 1, 3):
        engine = {"workers": 0, "loaders": loaders}
        run_job(job(tiny, tmp_path / str(loaders), method, engine=engine))
    assert files(tmp_path / "0") == files(tmp_path / "1") == files(tmp_path / "3")

    stopped = job(tiny, tmp_path / "stopped", method, engine={"workers": 0, "loaders": 2})
    real = ImageInputs.train
    epochs = []

    def third_epoch_stops(self: ImageInputs, *arguments: Any, **options: Any) -> Iterator[Tensor]:
        epochs.append(1)
        yield from islice(real(self, *arguments, **options), 2 if len(epochs) == 3 else None)
        if len(epochs) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ImageInputs, "train", third_epoch_stops)
        with pytest.raises(KeyboardInterrupt):
            run_job(stopped)
    assert (tmp_path / "stopped" / STATE_FILE).exists()
    run_job(stopped)
    assert files(tmp_path / "stopped") == files(tmp_path / "0")


def test_a_loader_that_dies_is_one_clear_line() -> None:
    inputs = ImageInputs(KillsReader(os.getpid()), partial(transforms.create, "none"), loaders=2)
    batches = inputs.evaluate([np.array([row]) for row in range(9)])
    with pytest.raises(RunError, match=r"^a loader process died .*engine\.loaders=0.*$"):
        list(batches)


def test_an_unreadable_image_is_the_same_line_from_a_loader(image_files: FileImages, tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"not an image")
    images = FileImages(image_files.root, [*image_files.paths, str(tmp_path / "bad.jpg")])
    lines = []
    for loaders in (0, 1):
        with pytest.raises(ImageError) as caught:
            list(ImageInputs(images, CROP, loaders=loaders).train([np.array([0]), np.array([6])], STREAM))
        lines.append(str(caught.value))
    assert lines[0] == lines[1] and "\n" not in lines[0]


def test_images_that_cannot_be_sent_are_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    images = MemoryImages(np.zeros((2, 1, 4, 4), dtype=np.uint8))
    monkeypatch.setattr(images, "read", lambda row: None)
    with pytest.raises(UsageError, match=r"cannot be sent to loader processes .*set engine\.loaders to 0$"):
        list(ImageInputs(images, partial(transforms.create, "none"), loaders=1).evaluate([np.array([0])]))


@pytest.mark.parametrize(("limit", "most"), [(1 << 30, 4), (3 * 48, 3), (1, 2)])
def test_few_batches_wait(limit: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is read only a few batches ahead, also if the network is slow."""
    monkeypatch.setattr(_loaders, "MAX_QUEUE_BYTES", limit)
    images = MemoryImages(np.zeros((3, 1, 4, 4), dtype=np.uint8))  # a batch of 3 has 48 bytes
    read = []

    def plan() -> Iterator[Rows]:
        for step in range(40):
            read.append(step)
            yield np.arange(3)

    batches = ImageInputs(images, partial(transforms.create, "none"), loaders=2).evaluate(plan())
    for taken, _ in enumerate(batches, start=1):
        assert len(read) <= taken + most
    assert taken == len(read) == 40


def test_images_for_a_gpu_transform_are_read_by_loaders_and_transformed_here(image_files: FileImages) -> None:
    here, there = (list(ImageInputs(image_files, on_gpu, loaders=n).train(PLAN, STREAM)) for n in (0, 2))
    assert all(torch.equal(one, two) for one, two in zip(here, there, strict=True))
    assert {int(row[0]) for batch in there for row in batch} == {os.getpid()}


STARTS_LOADERS = """
import sys, time
from functools import partial
import numpy as np
from levelfield.data import transforms
from levelfield.train import ImageInputs
from tests.helpers.odd_images import RecordsReader

if __name__ == "__main__":
    inputs = ImageInputs(RecordsReader(sys.argv[1]), partial(transforms.create, "none"), loaders=2)
    assert len(list(inputs.evaluate([np.array([row]) for row in range(9)]))) == 9
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_loaders_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(STARTS_LOADERS)
    path = os.pathsep.join(sys.path)
    command = [sys.executable, str(script), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": path}) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        readers = [int(file.name) for file in tmp_path.glob("[0-9]*")]
        process.kill()
    assert readers and process.pid not in readers
    deadline = time.monotonic() + 120
    while any(is_running(reader) for reader in readers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(is_running(reader) for reader in readers)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process}/stat")  # a process that has ended may wait to be collected
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
