"""Files of models: which files are seeds of one model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path


def group_files(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Return the files of each model: names like ``a-1``, ``a-2`` are seeds of the model ``a``.

    Numbers must count from 0 or 1 without a gap, because ``resnet-18`` and ``resnet-50`` are two models.
    After the word "seed" any numbers will do. Files of one name keep their directory in the name.

    Example:
        >>> found = group_files([Path(n) for n in ("a-1.npz", "a-2.npz", "net-18.npz", "net-50.npz")])
        >>> {name: len(group) for name, group in found.items()}
        {'a': 2, 'net-18': 1, 'net-50': 1}
    """
    stems = [file.stem for file in files]
    names = [
        stem if stems.count(stem) == 1 else str(file.with_suffix(""))
        for stem, file in zip(stems, files, strict=True)
    ]
    seeds: dict[str, dict[int, int]] = {}
    spelled: set[str] = set()
    for place, name in enumerate(names):
        match = re.fullmatch(r"(?P<model>.+?)[-_. ]?(?P<word>seed)?[-_. ]?(?P<number>\d{1,6})", name)
        if match and (match["word"] or re.fullmatch(r".+[-_.]\d{1,6}", name)):
            key = match["model"]
            seeds.setdefault(key, {})[int(match["number"])] = place
            if match["word"]:
                spelled.add(key)
    grouped: dict[int, str] = {}
    for model, numbers in seeds.items():
        counted = sorted(numbers) in (list(range(len(numbers))), list(range(1, len(numbers) + 1)))
        if len(numbers) > 1 and model not in names and (model in spelled or counted):
            grouped |= dict.fromkeys(numbers.values(), model)
    found: dict[str, list[Path]] = {}
    for place, file in enumerate(files):
        found.setdefault(grouped.get(place, names[place]), []).append(file)
    return found
