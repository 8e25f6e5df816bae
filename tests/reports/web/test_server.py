"""The server: what it answers, what it refuses, and that it writes nothing."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.helpers.made_experiments import written
from tests.helpers.web_pages import served

from levelfield.core.files import lock
from levelfield.records import Store
from levelfield.reports import write_tables
from levelfield.reports.web import ExperimentMonitor, _html, read_experiment_state
from levelfield.reports.web._active_runs import estimate_progress
from levelfield.reports.web._experiment_states import experiments_below
from levelfield.reports.web._site import page_names
from levelfield.reports.web.server import _host_header

Writer = Callable[..., Path]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    written(root / "one", name="one", dataset="cub200")
    written(root / "group" / "two", name="two", dataset="cars196", means={"contrastive": 0.3, "triplet": 0.4})
    (root / "broken").mkdir()
    (root / "broken" / "experiment.json").write_text("{")
    return root


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[str]:
    with served(str(directory)) as address:
        yield address


def get(address: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers or {})) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def keys(directory: Path) -> dict[str, str]:
    return {state.name: state.key for state in ExperimentMonitor([directory]).states()}


def test_all_experiments_are_listed_with_the_best_so_far(server: str, directory: Path) -> None:
    status, text = get(server)
    assert status == 200
    assert "highest test mean so far: 50." in text, "no verdict on record: no method is called the best"
    assert "broken" in text and "is damaged" in text, "one that cannot be read says why"
    assert str(directory.parent) not in text.replace(str(directory), ""), "no path but those of problems"


@pytest.mark.slow
def test_a_finished_experiment_shows_its_report(server: str, directory: Path) -> None:
    status, text = get(f"{server}/e/{keys(directory)['one']}")
    assert status == 200 and "Test scores" in text and 'src="/assets/plotly-basic.min.js?v=' in text


def test_a_click_on_a_trial_shows_what_was_tried(server: str, directory: Path) -> None:
    key = keys(directory)["one"]
    _, text = get(f"{server}/e/{key}/trials?method=triplet")
    link = next(part.split('"')[0] for part in text.split('href="') if "/trial/" in part)
    status, text = get(server + link)
    assert status == 200 and "weight" in text and "rate" in text
    assert "the loss is NaN" in get(f"{server}/e/{key}/trials?method=triplet")[1]


@pytest.mark.slow
def test_experiments_stand_side_by_side_as_compare_puts_them(server: str, directory: Path) -> None:
    known = keys(directory)
    status, text = get(f"{server}/compare?e={known['one']}&e={known['two']}&metric=precision_at_1")
    assert status == 200
    assert "cannot be ranked" in text, "two methods in common are too few for Friedman"
    assert "contrastive is better than arcface" in text or "triplet is better than arcface" in text
    assert "Left out because they are not in every experiment: <bdi>arcface</bdi>" in text
    assert "Published numbers" in text
    assert get(f"{server}/compare?e={known['one']}")[1].count('type="checkbox"') == 2, "choose two"


@pytest.mark.parametrize(
    "path",
    [
        "/e/0000000000000000",
        "/e/../../etc/passwd",
        "/e/%2e%2e%2f%2e%2e%2fetc%2fpasswd/report",
        "/assets/..%2f..%2fpyproject.toml",
        "/assets/%2e%2e/templates/report.html",
        "/e/KEY/trials?method=../../x",
        "/e/KEY/trial/..%2f..%2fsearches/0",
        "/e/KEY/trial/SEARCH/99999999",
        "/experiment.json",
        "/search",
    ],
)
def test_nothing_outside_its_directories_is_served(server: str, directory: Path, path: str) -> None:
    key = keys(directory)["one"]
    search = next((directory / "one" / "searches").iterdir()).name
    status, text = get(server + path.replace("KEY", key).replace("SEARCH", search))
    assert status == 404 and "Not found" in text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""])
def test_other_hosts_names_are_refused(server: str, host: str) -> None:
    status, text = get(server, {"Host": host})
    assert status in (400, 403) and "Experiments" not in text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:99"])
def test_the_machines_own_names_are_answered(server: str, host: str) -> None:
    assert get(server, {"Host": host})[0] == 200


def test_names_that_are_allowed_are_compared_as_browsers_send_them() -> None:
    assert [_host_header(name) for name in ("MyBox.local", "fe80::1", "[::1]")] == [
        "mybox.local",
        "[fe80::1]",
        "[::1]",
    ]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_it_takes_nothing(server: str, method: str) -> None:
    connection = http.client.HTTPConnection(server.removeprefix("http://"))
    connection.request(method, "/list", body=b"x")
    assert connection.getresponse().status == 405


def test_every_answer_forbids_what_is_not_needed(server: str) -> None:
    for path in ("/", "/nothing", "/assets/page.js"):
        connection = http.client.HTTPConnection(server.removeprefix("http://"))
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.getheader("x-content-type-options") == "nosniff"
        assert "default-src 'none'" in (answer.getheader("content-security-policy") or "")
        answer.read()


def test_scripts_are_compressed_and_kept_by_the_browser(server: str) -> None:
    page = get(server)[1]
    address = page.split('src="')[1].split('"')[0]
    assert "plotly" in address and "?v=" in address

    def ask(path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(server.removeprefix("http://"))
        connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer, answer.read()

    plain, script = ask(address)
    packed, data = ask(address, Accept_Encoding="gzip")
    assert packed.getheader("content-encoding") == "gzip" and gzip.decompress(data) == script
    assert len(data) < 0.4 * len(script)
    assert "immutable" in (packed.getheader("cache-control") or "")
    bare, _ = ask(address.partition("?")[0])
    assert bare.getheader("cache-control") == "private, no-cache", "it may change under this address"
    again, nothing = ask(address, If_None_Match=plain.getheader("etag") or "")
    assert again.status == 304 and nothing == b""
    assert ask("/")[0].getheader("cache-control") == "no-store"


def test_a_list_says_who_is_tied(tmp_path: Path) -> None:
    """The verdict of the report stands in lists and on the live page, until the ledger grows."""
    root = written(tmp_path / "made", trials=3, reruns=2, queries=60)
    assert "so far" in read_experiment_state(root).result
    write_tables(root)
    state = read_experiment_state(root)
    assert state.verdict is not None and state.result == "contrastive, tied with 1"
    assert state.verdict.text in _html.live_fragment(state, since="")[1]
    Store(root).verdict_file.write_text('{"use": 3}')
    assert read_experiment_state(root).verdict is None, "a damaged verdict hides nothing else"


def test_it_writes_nothing(server: str, directory: Path) -> None:
    def listing() -> list[tuple[str, int]]:
        return sorted((str(path), path.stat().st_mtime_ns) for path in directory.rglob("*"))

    before, known = listing(), keys(directory)
    for path in ("/", f"/e/{known['one']}/report", f"/e/{known['two']}/live", f"/e/{known['one']}/state"):
        assert get(server + path)[0] == 200
    assert listing() == before


def test_links_that_lead_out_are_not_followed(directory: Path, tmp_path: Path) -> None:
    written(tmp_path / "elsewhere" / "secret", name="secret")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "elsewhere")
    assert list(experiments_below(inside)) == []


def test_an_index_cannot_name_a_record_elsewhere(tmp_path: Path) -> None:
    root = written(tmp_path / "made")
    index = json.loads((root / "experiment.json").read_text())
    index["selections"]["triplet"] = ["../../secret-1"]
    (root / "experiment.json").write_text(json.dumps(index))
    assert "not a valid name of a record" in read_experiment_state(root).problem


def test_states_follow_the_files(tmp_path: Path) -> None:
    root = written(tmp_path / "made", trials=3)
    monitor = ExperimentMonitor([tmp_path])
    (state,) = monitor.states()
    assert state.state == "finished" and state.progress == (3 * (3 + 3), 3 * (3 + 3))
    assert state.record is not None
    score = root / "confirmations" / state.record.selection_ids("triplet")[0] / "rerun-02.json"
    score.unlink()
    os.utime(score.parent)
    monitor._refreshed_at = 0.0
    (after,) = monitor.states()
    assert after.state == "stopped" and after.version != state.version
    with lock(root / ".lock"):
        monitor._refreshed_at = 0.0
        assert [found.state for found in monitor.states()] == ["running"]


def test_the_time_left_follows_the_pace(tmp_path: Path) -> None:
    root = written(tmp_path / "made", trials=3)
    for number in range(10):
        directory = root / "runs" / f"run{number}"
        directory.mkdir(parents=True)
        (directory / "result.json").write_text("{}")
        os.utime(directory / "result.json", (1000 + 6 * number, 1000 + 6 * number))
    progress = estimate_progress(read_experiment_state(root), folds=2)
    assert (progress.done, progress.total) == (10, 3 * (3 + 3) * 2)
    assert progress.remaining is not None and progress.remaining.total_seconds() == 6 * (36 - 10)
    assert progress.remaining_text == "about 3 minutes left"


def test_names_of_pages_are_plain_and_apart() -> None:
    names = ["triplet", "Triplet", "../../etc/passwd", "<b>", "a b", "a-b", "\u202e", "x" * 200 + "/"]
    found = page_names(names)
    assert len({name.lower() for name in found}) == len(names)
    assert all(
        set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") for name in found
    )
    assert all(0 < len(name) < 60 for name in found) and found[0] == "triplet"
