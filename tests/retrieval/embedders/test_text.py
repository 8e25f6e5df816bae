"""Two-tower models: checkpoints of open_clip, text vectors against a slow oracle, one index for both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from tests.retrieval.index.conftest import draw, fill

import levelfield as lf
from levelfield.cli._app import run_app
from levelfield.core.errors import UsageError
from levelfield.retrieval.embedders import import_two_towers
from levelfield.retrieval.index import add_images, images_from_folder, open_or_create_index

WORDS = ("<pad>", "</s>", "a", "red", "bird", "on", "branch", "<end>")
WIDTH, SIZE, CONTEXT = 32, 16, 6
OPTIONS: dict[str, Any] = {"embed_dim": WIDTH, "depth": 1, "num_heads": 2, "img_size": 32}
TRUNKS = {"clip": "vit_base_patch16_clip_quickgelu_224", "siglip": "vit_base_patch16_siglip_224"}
# The reverse of what timm does with the names of CLIP's image tower.
NAMES = (("patch_embed.proj", "conv1"), ("norm_pre", "ln_pre"), ("blocks.", "transformer.resblocks."))
IN_BLOCK = (("norm", "ln_"), ("attn.qkv.", "attn.in_proj_"), ("attn.proj", "attn.out_proj"))
IN_MLP = (("mlp.fc1", "mlp.c_fc"), ("mlp.fc2", "mlp.c_proj"))


def tokenizer(kind: str) -> str:
    end = "<end>" if kind == "clip" else "</s>"
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [
                    {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": end, "type_id": 0}},
                ],
                "pair": [],
                "special_tokens": {end: {"id": end, "ids": [WORDS.index(end)], "tokens": [end]}},
            },
            "decoder": None,
            "model": {
                "type": "WordLevel",
                "vocab": {word: number for number, word in enumerate(WORDS)},
                "unk_token": "<pad>",
            },
        }
    )


def rename(key: str) -> str:
    """Return open_clip's name of a tensor of timm."""
    if key.startswith("norm."):
        return key.replace("norm.", "ln_post.")
    for old, new in NAMES if "blocks" not in key else (*NAMES, *IN_MLP, *IN_BLOCK):
        key = key.replace(old, new)
    return key


def visual(kind: str) -> tuple[dict[str, torch.Tensor], Any]:
    """Return a random image tower in open_clip's naming, and the same network of timm."""
    torch.manual_seed(0)
    width = WIDTH if kind == "siglip" else SIZE
    network = timm.create_model(TRUNKS[kind], **OPTIONS, num_classes=0 if kind == "siglip" else width).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    if kind == "siglip":
        return {f"visual.trunk.{key}": value.clone() for key, value in network.state_dict().items()}, network
    torch.nn.init.zeros_(network.get_parameter("head.bias"))
    state = {}
    for given, value in network.state_dict().items():
        if given == "head.bias":
            continue
        key = rename(given)
        moved = {
            "head.weight": ("proj", lambda tensor: tensor.T),
            "cls_token": ("class_embedding", lambda tensor: tensor[0, 0]),
            "pos_embed": ("positional_embedding", lambda tensor: tensor[0]),
        }
        name, change = moved.get(key, (key, lambda tensor: tensor))
        state[f"visual.{name}"] = change(value).clone().contiguous()
    return state, network


def text_state(kind: str) -> dict[str, torch.Tensor]:
    """Return a random text tower in open_clip's naming."""
    size, prefix = (SIZE, "") if kind == "clip" else (WIDTH, "text.")
    generator = torch.Generator().manual_seed(1)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embedding.weight": (len(WORDS), WIDTH),
        "positional_embedding": (CONTEXT, WIDTH),
        "ln_final.weight": (WIDTH,),
        "ln_final.bias": (WIDTH,),
    }
    for block in ("transformer.resblocks.0.", "transformer.resblocks.1."):
        for name, shape in (
            ("ln_1", (WIDTH,)),
            ("ln_2", (WIDTH,)),
            ("attn.out_proj", (WIDTH, WIDTH)),
            ("mlp.c_fc", (4 * WIDTH, WIDTH)),
            ("mlp.c_proj", (WIDTH, 4 * WIDTH)),
        ):
            shapes[f"{block}{name}.weight"] = shape
            shapes[f"{block}{name}.bias"] = shape[:1]
        shapes[f"{block}attn.in_proj_weight"] = (3 * WIDTH, WIDTH)
        shapes[f"{block}attn.in_proj_bias"] = (3 * WIDTH,)
    if kind == "clip":
        shapes["text_projection"] = (WIDTH, size)
    else:
        shapes |= {"text_projection.weight": (size, WIDTH), "text_projection.bias": (size,)}
    return {f"{prefix}{k}": 0.3 * torch.randn(*shape, generator=generator) for k, shape in shapes.items()}


def slow_text(state: dict[str, torch.Tensor], ids: list[int], kind: str) -> np.ndarray:
    """Return the vector of one text: every attention weight computed in float64, one by one."""
    get = {key.removeprefix("text."): value.double() for key, value in state.items()}
    eps, heads = (1e-5, 2) if kind == "clip" else (1e-6, 2)

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        centered = x - x.mean(-1, keepdim=True)
        scaled = centered / (centered.square().mean(-1, keepdim=True) + eps).sqrt()
        return scaled * get[f"{name}.weight"] + get[f"{name}.bias"]

    x = get["token_embedding.weight"][ids] + get["positional_embedding"][: len(ids)]
    for block in ("transformer.resblocks.0.", "transformer.resblocks.1."):
        given = (
            norm(x, f"{block}ln_1") @ get[f"{block}attn.in_proj_weight"].T + get[f"{block}attn.in_proj_bias"]
        )
        wanted, keys, values = given.split(WIDTH, dim=1)
        out, step = torch.zeros_like(x), WIDTH // heads
        for head in range(heads):
            part = slice(head * step, (head + 1) * step)
            for place in range(len(ids)):
                seen = range(place + 1) if kind == "clip" else range(len(ids))
                scores = torch.stack([wanted[place, part] @ keys[other, part] / step**0.5 for other in seen])
                for weight, other in zip(scores.softmax(0), seen, strict=True):
                    out[place, part] += weight * values[other, part]
        x = x + out @ get[f"{block}attn.out_proj.weight"].T + get[f"{block}attn.out_proj.bias"]
        inner = norm(x, f"{block}ln_2") @ get[f"{block}mlp.c_fc.weight"].T + get[f"{block}mlp.c_fc.bias"]
        inner = inner * torch.sigmoid(1.702 * inner) if kind == "clip" else torch.nn.functional.gelu(inner)
        x = x + inner @ get[f"{block}mlp.c_proj.weight"].T + get[f"{block}mlp.c_proj.bias"]
    x = norm(x, "ln_final")
    if kind == "clip":
        vector = x[ids.index(max(ids))] @ get["text_projection"]
    else:
        vector = x[-1] @ get["text_projection.weight"].T + get["text_projection.bias"]
    return (vector / vector.norm()).numpy()


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for kind, trunk in TRUNKS.items():
        root = tmp_path_factory.mktemp(kind)
        extra = {"logit_scale": torch.tensor(1.0)}
        save_file(visual(kind)[0] | text_state(kind) | extra, root / "checkpoint.safetensors")
        (root / "tokenizer.json").write_text(tokenizer(kind))
        import_two_towers(
            root / "model",
            root / "checkpoint.safetensors",
            trunk=f"timm:{trunk}",
            tokenizer=root / "tokenizer.json",
            heads=2,
            trunk_options=OPTIONS,
        )
        found[kind] = root
    return found


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_both_towers_return_the_vectors_of_the_checkpoint(checkpoints: dict[str, Path], kind: str) -> None:
    embedder = lf.load_embedder(checkpoints[kind] / "model")
    end, pad = (7, 0) if kind == "clip" else (1, 1)
    ids = {
        "a Red  bird": [2, 3, 4, end, pad, pad],
        "a red bird on a branch on a branch": [2, 3, 4, 5, 2, end],
    }
    found = embedder.embed_text(list(ids))
    for row, tokens in zip(found, ids.values(), strict=True):
        np.testing.assert_allclose(row, slow_text(text_state(kind), tokens, kind), atol=1e-5)
    image = draw(1).resize((32, 32))
    network = visual(kind)[1]
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255
    mean, std = (torch.tensor(network.pretrained_cfg[key]).view(3, 1, 1) for key in ("mean", "std"))
    with torch.inference_mode():
        wanted = torch.nn.functional.normalize(network((pixels - mean) / std), dim=1)[0]
    torch.testing.assert_close(embedder.embed(image)[0], wanted, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_words_and_images_search_the_same_index(
    checkpoints: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = checkpoints["clip"] / "model"
    embedder = lf.load_embedder(model)
    images = fill(tmp_path / "images", 6)
    with open_or_create_index(tmp_path / "index", model) as index:
        add_images(index, embedder, images_from_folder(images), threads=1)
    searcher = lf.Searcher(tmp_path / "index")
    answer = searcher.search_text("a red bird", k=6)
    text = embedder.embed_text("a red bird")[0]
    values = [float(embedder.embed(each.name)[0] @ text) for each in answer.neighbors]
    assert values == sorted(values, reverse=True) and answer.found is None
    np.testing.assert_allclose([each.similarity for each in answer.neighbors], values, atol=1e-5)
    assert run_app(["search", str(tmp_path / "index"), "--text", "a red bird", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["neighbors"]
    assert [each["name"] for each in told] == [each.name for each in answer.neighbors]
    assert searcher.search(answer.neighbors[0].name).neighbors[0].name == answer.neighbors[0].name


def test_bad_input_ends_in_one_line(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    root = checkpoints["clip"]
    embedder = lf.load_embedder(root / "model")
    for words in ("", "  ", "a " * 6000):
        with pytest.raises(UsageError, match="text"):
            embedder.embed_text(words)
    given: dict[str, Any] = {"tokenizer": root / "tokenizer.json", "heads": 2, "trunk_options": OPTIONS}
    (tmp_path / "bad.json").write_text("{}")
    for change, message in (
        ({"tokenizer": tmp_path / "bad.json"}, "tokenizer.json"),
        ({"tokenizer": tmp_path / "none.json"}, "cannot read"),
        ({"trunk_options": {**OPTIONS, "depth": 2}}, "does not fit"),
    ):
        with pytest.raises(UsageError, match=message):
            import_two_towers(
                tmp_path / "out",
                root / "checkpoint.safetensors",
                trunk=f"timm:{TRUNKS['clip']}",
                **{**given, **change},
            )
    state = {key: value for key, value in visual("clip")[0].items()}
    save_file(state, tmp_path / "no-text.safetensors")
    with pytest.raises(UsageError, match="no text tower"):
        import_two_towers(
            tmp_path / "out", tmp_path / "no-text.safetensors", trunk=f"timm:{TRUNKS['clip']}", **given
        )
