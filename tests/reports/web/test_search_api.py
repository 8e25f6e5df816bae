"""The search API: answers equal those of the Searcher; bad and unauthorized requests get one line."""

from __future__ import annotations

import base64
import http.client
import json
import re
import subprocess
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.web_pages import served
from tests.reports.web.test_search_box import claims, png
from tests.retrieval.index.conftest import draw, fill, make_model

import levelfield as lf
from levelfield.core.errors import UsageError
from levelfield.reports.web._rates import RateError, RateLimit
from levelfield.reports.web._search_models import QueryAnswer, SearchResponse, parse_options, parse_request
from levelfield.reports.web.search import SearchBox
from levelfield.reports.web.search_api import SearchApi, describe_api
from levelfield.retrieval.embedders.bounded import BoundedDecoder
from levelfield.retrieval.index import add_images, add_metadata, images_from_folder, open_or_create_index

TOKEN = "a-token-of-more-than-16-characters"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("api")
    model = make_model(root / "model")
    fill(root / "images", 8)
    table = "path,year\n" + "".join(
        f"{file},{2000 + int(file.stem)}\n" for file in sorted((root / "images").rglob("*.png"))
    )
    (root / "years.csv").write_text(table)
    with open_or_create_index(root / "index", model) as store:
        add_images(store, lf.load_embedder(model), images_from_folder(root / "images"), threads=1)
        add_metadata(store, root / "years.csv")
        store.finish()
    (root / "token").write_text(TOKEN + "\n")
    return root


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    with served("--index", str(root / "index"), "--token-file", str(root / "token")) as address:
        yield int(address.rsplit(":", 1)[1])


@pytest.fixture(scope="module")
def searcher(root: Path) -> lf.Searcher:
    return lf.Searcher(root / "index")


def ask(
    port: int, path: str, body: Any = None, *, kind: str = "application/json", **headers: str
) -> tuple[int, Any]:
    """Return the status and the content of an answer; ``body`` is bytes, or sent as JSON."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind} | headers
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET" if data is None else "POST", path, data, given)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    is_json = answer.headers.get_content_type() == "application/json"
    return answer.status, json.loads(content) if is_json else content


def encoded(number: int) -> str:
    return base64.b64encode(png(draw(number))).decode()


def pairs(answer: dict[str, Any]) -> list[tuple[int, Any]]:
    return [(each["row"], pytest.approx(each["similarity"], abs=1e-5)) for each in answer["neighbors"]]


@pytest.mark.parametrize("rerank", ["none", "alpha_qe", "k_reciprocal"])
def test_an_image_is_answered_as_the_searcher_does(port: int, searcher: lf.Searcher, rerank: str) -> None:
    address = (
        f"/api/v1/search?k=4&rerank={rerank}&filter=year%3E%3D2002&filter=label!%3Dclass0&min_similarity=-1"
    )
    status, found = ask(port, address, png(draw(3)), kind="image/png")
    wanted = searcher.search(
        draw(3), k=4, rerank=rerank, filters=["year>=2002", "label!=class0"], min_similarity=-1
    )
    assert status == 200 and SearchResponse.model_validate(found).model == "model 0"
    assert pairs(found["answers"][0]) == [(each.row, each.similarity) for each in wanted.neighbors]
    first = found["answers"][0]["neighbors"][0]
    assert first["name"].startswith("class") and int(first["metadata"]["year"]) >= 2002


def test_a_batch_of_images_vectors_and_rows_has_an_answer_each(port: int, searcher: lf.Searcher) -> None:
    vector = searcher.embedder.embed(draw(5))[0].tolist()
    queries = [{"image": encoded(2)}, {"vector": vector}, {"row": 6}]
    status, found = ask(port, "/api/v1/search", {"queries": queries, "k": 3})
    assert status == 200
    names = [answer["neighbors"][0]["name"] for answer in found["answers"]]
    stored = searcher.store.images([6])[0].name
    assert names[:2] == ["class2/0002.png", "class2/0005.png"] and stored.endswith(names[2])
    assert all(len(QueryAnswer.model_validate(answer).neighbors) == 3 for answer in found["answers"])


def test_no_answer_has_a_path_of_the_server(port: int, root: Path) -> None:
    for path in ("/api/v1/indexes", "/api/v1/openapi.json", "/search"):
        assert str(root) not in str(ask(port, path)[1])
    assert str(root) not in str(ask(port, "/api/v1/search", {"queries": [{"row": 0}]}))


@pytest.mark.parametrize(
    ("path", "headers", "status", "words"),
    [
        ("/api/v1/nothing", {}, 404, "openapi.json"),
        ("/api/v1/search", {}, 405, "does not take GET"),
        ("/api/v1/indexes/0/images/-1", {}, 404, "openapi.json"),
        ("/api/v1/indexes", {"Host": "evil.example"}, 403, "--allow-host"),
    ],
)
def test_every_error_of_the_api_is_json(
    port: int, path: str, headers: dict[str, str], status: int, words: str
) -> None:
    got, answer = ask(port, path, **headers)
    assert got == status and list(answer) == ["error"] and words in answer["error"]


def test_pages_of_a_server_without_experiments_have_no_links_to_them(port: int) -> None:
    status, page = ask(port, "/search")
    assert status == 200 and b'href="/compare"' not in page


def test_indexes_and_thumbnails(port: int) -> None:
    status, found = ask(port, "/api/v1/indexes")
    (index,) = found["indexes"]
    assert status == 200 and index["images"] == 8 and index["columns"] == ["label", "folder", "year"]
    _, answer = ask(port, "/api/v1/search", {"queries": [{"row": 0}], "k": 1})
    status, image = ask(port, answer["answers"][0]["neighbors"][0]["image"])
    assert status == 200 and image[:4] == b"RIFF"


@pytest.mark.parametrize(
    "path", ["/search", "/", "/api/v1/indexes", "/api/v1/indexes/0/images/0", "/search/0/image/0"]
)
@pytest.mark.parametrize(
    "given", ["", "Bearer wrong", f"Bearer {TOKEN}x", "Basic !!!", f"Token {TOKEN}", "Bearer "]
)
def test_everything_but_the_health_needs_the_token(port: int, path: str, given: str) -> None:
    status, _ = ask(port, path, Authorization=given)
    assert status == 401
    assert ask(port, "/api/v1/health", Authorization=given) == (200, {"status": "ok"})


def test_a_browser_sends_the_token_as_password(port: int) -> None:
    secret = base64.b64encode(f"anyone:{TOKEN}".encode()).decode()
    assert ask(port, "/search", Authorization=f"Basic {secret}")[0] == 200
    assert ask(port, "/api/v1/search", png(draw(1)), kind="image/png", Authorization="Bearer no")[0] == 401


VECTOR = [1.0] + [0.0] * 15
HOSTILE: dict[str, tuple[Any, int]] = {
    "no JSON": (b"{", 422),
    "nothing": (b"", 422),
    "deep nesting": (b"[" * 200_000, 422),
    "a list": ([], 422),
    "no queries": ({"queries": []}, 422),
    "too many queries": ({"queries": [{"row": 0}] * 65}, 422),
    "an unknown key": ({"queries": [{"row": 0}], "path": "/etc/passwd"}, 422),
    "two kinds": ({"queries": [{"row": 0, "vector": VECTOR}]}, 422),
    "no kind": ({"queries": [{}]}, 422),
    "null": ({"queries": [{"row": None}]}, 422),
    "no such row": ({"queries": [{"row": 999}]}, 422),
    "a huge row": ({"queries": [{"row": 10**30}]}, 422),
    "k of 0": ({"queries": [{"row": 0}], "k": 0}, 422),
    "a huge k": ({"queries": [{"row": 0}], "k": 10**9}, 422),
    "not a number": (b'{"queries": [{"vector": [NaN, 1]}]}', 422),
    "infinite": (b'{"queries": [{"vector": [1e999]}]}', 422),
    "a short vector": ({"queries": [{"vector": [1.0]}]}, 422),
    "a zero vector": ({"queries": [{"vector": [0.0] * 16}]}, 422),
    "an endless vector": ({"queries": [{"vector": [0.0] * 70_000}]}, 422),
    "no base64": ({"queries": [{"image": "%%%"}]}, 422),
    "no image": ({"queries": [{"image": base64.b64encode(b"<svg/>").decode()}]}, 422),
    "a bomb": ({"queries": [{"image": base64.b64encode(claims(100_000, 100_000)).decode()}]}, 422),
    "an unknown column": ({"queries": [{"row": 0}], "filters": ["nothing=1"]}, 422),
    "injection": ({"queries": [{"row": 0}], "filters": ["year=1' or 1=1; drop table items --"]}, 200),
    "an unknown order": ({"queries": [{"row": 0}], "rerank": "magic"}, 422),
    "no such index": ({"queries": [{"row": 0}], "index": 7}, 404),
    "not UTF-8": (b'{"queries": [{"image": "\xff"}]}', 422),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_bad_requests_get_one_line(port: int, root: Path, name: str) -> None:
    body, wanted = HOSTILE[name]
    status, found = ask(port, "/api/v1/search", body)
    assert status == wanted
    if status != 200:
        assert "\n" not in found["error"] and str(root) not in found["error"] and len(found["error"]) < 500
    assert ask(port, "/api/v1/search", {"queries": [{"row": 0}]})[0] == 200, "it goes on"


@pytest.mark.parametrize("values", [b"[],", b"{},", b'"a":1,', b"1," * 300])
def test_a_body_of_many_small_values_is_refused_before_it_is_parsed(values: bytes) -> None:
    with pytest.raises(UsageError, match="more values than 64 queries"):
        parse_request(b'{"queries": [' + values * 20_001 + b"]}")


def test_the_images_of_a_request_are_decoded_one_after_the_other(root: Path) -> None:
    living: set[int] = set()
    most = 0

    class Decoder(BoundedDecoder):
        def decode(self, data: bytes) -> torch.Tensor:
            nonlocal most
            pixels = torch.zeros(3, 32, 32, dtype=torch.uint8)
            living.add(id(pixels))
            weakref.finalize(pixels, living.discard, id(pixels))
            most = max(most, len(living))
            return pixels

    box = SearchBox([root / "index"], decoder=Decoder())
    body = json.dumps({"queries": [{"image": encoded(1)}] * 20}).encode()
    assert len(SearchApi(box)._answer_json(body, [], "me").answers) == 20
    assert most <= 2
    box.close()


def test_types_sizes_and_origins_are_checked(port: int) -> None:
    image = png(draw(1))
    assert ask(port, "/api/v1/search", image, kind="text/html")[0] == 415
    assert ask(port, "/api/v1/search", b"\xff" * 20_000_001, kind="image/png")[0] == 413
    assert ask(port, "/api/v1/search?k=1&k=2", image, kind="image/png")[0] == 422
    assert ask(port, "/api/v1/search?unknown=2", image, kind="image/png")[0] == 422
    assert ask(port, "/api/v1/search", image, kind="image/png", Origin="http://evil.example")[0] == 403
    assert ask(port, "/api/v1/search", image, kind="image/png", Host="evil.example")[0] == 403
    assert ask(port, "/api/v1/search")[0] == 405


def test_a_client_that_searches_too_often_waits(root: Path) -> None:
    with served("--index", str(root / "index"), "--rate", "5") as address:
        port = int(address.rsplit(":", 1)[1])
        three = {"queries": [{"row": 0}] * 3, "k": 1}
        assert ask(port, "/api/v1/search", three)[0] == 200
        status, found = ask(port, "/api/v1/search", three)
        assert status == 429 and "try again in" in found["error"]
        assert ask(port, "/api/v1/health")[0] == 200 and ask(port, "/search")[0] == 200


def test_the_curl_commands_of_the_documentation_work(port: int, root: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "search.md").read_text(encoding="utf-8")
    (block,) = [each for each in re.findall(r"```console\n(.*?)```", page, re.DOTALL) if "curl -s" in each]
    lines = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    commands = [line for line in lines if not line.startswith("levelfield")]
    assert sum("curl" in command for command in commands) >= 6
    script = "set -euo pipefail\n" + "\n".join(f"{command} && echo" for command in commands)
    script = script.replace("8321", str(port)).replace("curl -s", "curl -sf")
    draw(4).save(tmp_path / "photo.jpg")
    (tmp_path / "token").write_text(TOKEN + "\n")
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    assert answers[0] == {"status": "ok"} and len(answers) >= 5
    found = [SearchResponse.model_validate(each) for each in answers if "answers" in each]
    assert found[0].answers[0].neighbors[0].name.endswith("0004.png") and len(found) >= 3
    assert (tmp_path / "thumbnail.webp").read_bytes()[:4] == b"RIFF"


def test_searches_left_come_back_with_time_and_by_client() -> None:
    now = [0.0]
    limit = RateLimit(60, clock=lambda: now[0])
    limit.spend("a", 60)
    limit.spend("b", 60)
    with pytest.raises(RateError, match="in 11 s") as found:
        limit.spend("a", 10)
    now[0] += found.value.seconds
    limit.spend("a", 10)
    now[0] += 3600
    limit.spend("a", 64)  # more than a minute has: allowed once, and the client waits the longer
    now[0] += 4
    with pytest.raises(RateError):
        limit.spend("a")
    RateLimit(0).spend("a", 10**9)


def test_the_description_names_every_route_and_resolves(root: Path) -> None:
    box = SearchBox([root / "index"])
    try:
        routes = {re.sub(r":int", "", route.path) for route in box.routes(False) if "/api/" in route.path}
    finally:
        box.close()
    described = describe_api()
    assert routes == set(described["paths"])
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described)):
        assert name in described["components"]["schemas"]
    parameters = described["paths"]["/api/v1/search"]["post"]["parameters"]
    assert {each["name"] for each in parameters} == {"index", "k", "filter", "min_similarity", "rerank"}


def test_defaults_can_be_overridden_once() -> None:
    assert parse_options([], k=24).k == 24 and parse_options([("k", "3")], k=24).k == 3
    with pytest.raises(UsageError, match="twice"):
        parse_options([("k", "3"), ("k", "4")], k=24)


def test_short_tokens_are_refused(tmp_path: Path) -> None:
    from levelfield.cli.serve import _read_token

    for text in ("short", "two words of more than 16", "\xe9" * 20):
        (tmp_path / "token").write_text(text, encoding="latin-1")
        with pytest.raises(UsageError, match="token"):
            _read_token(tmp_path / "token")
