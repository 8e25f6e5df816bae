"""An experiment whose test set lists what is relevant: scores, re-ranking, gallery and report follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.oracles import layouts

import levelfield as lf
from levelfield.records import CLASSES, Store
from levelfield.reports import verify_experiment

pytestmark = pytest.mark.slow


def test_lists_decide_from_the_scores_to_the_report(tiny: dict[str, Any], tmp_path: Path) -> None:
    for seed in range(32):
        layouts.draw_image(tmp_path / "train" / f"class {seed // 4}" / f"{seed}.png", seed, (16, 16))
    for seed in range(20):
        layouts.draw_image(tmp_path / "test" / f"{seed}.png", 100 + seed, (16, 16))
    queries = [
        {
            "image": f"{n}.png",
            "relevant": [f"{n + 6}.png"],
            "ignored": [f"{n + 12}.png"],
            "group": f"g{n // 2}",
        }
        for n in range(6)
    ]
    (tmp_path / "test" / "lists.json").write_text(json.dumps({"queries": queries}))
    tiny["dataset"] = {
        "name": "relevance",
        "file": str(tmp_path / "test" / "lists.json"),
        "train": str(tmp_path / "train"),
    }
    tiny["trunk"] = {"name": "conv4", "width": 4}
    tiny["split"] = {"name": "class_disjoint", "folds": 2}
    tiny["metrics"] = ["map_at_r", "map", "precision_at_1"]
    tiny["confirm"] |= {"rerank": ["aqe"], "gallery": 6, "reruns": 1}
    root = lf.run(lf.Experiment.build(**tiny | {"methods": ["triplet"]}), tmp_path / "run").path
    store = Store(root)
    (selection,) = store.experiment_record().selection_ids("triplet")
    rerun = store.reruns(selection, 1)[0]
    values = load_file(store.rerun_file(selection, 0).with_suffix(".safetensors"))
    # 13 images are searched and one is ignored: with one relevant image, mAP is one over its rank
    ranks = 1 / values["concatenated.map"]
    assert len(ranks) == 6 and np.allclose(ranks, ranks.round(), atol=1e-4) and ranks.max() <= 13
    assert len(np.unique(values[CLASSES])) == 3, "groups of queries are the units"
    assert [way.name for way in rerun.reranked] == ["none", "aqe"]
    assert rerun.reranked[0].scores["map_at_r"].value == pytest.approx(rerun.folds[0]["map_at_r"], abs=1e-5)
    gallery = store.gallery()
    assert gallery is not None and gallery.relevant is not None
    for query in gallery.queries:
        assert len(gallery.relevant[query.row]) <= 1
    page = (root / "report" / "index.html").read_text()
    assert "listed as relevant" in page and '"relevant":{' in page
    assert verify_experiment(root) == []
