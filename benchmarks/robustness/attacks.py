"""Run all long attacks, one after the other, and print a table of what held.

    python -m benchmarks.robustness.attacks                     # the figures of docs/reliability.md; hours
    python -m benchmarks.robustness.attacks --share 0.01        # a hundredth of each attack; minutes
    python -m benchmarks.robustness.attacks --only records ray

Each attack is a command of its own, and the table names it. An attack that was finished is not repeated when
the command is given again with the same ``--out``; ``--again`` repeats it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = (
    *("tests/retrieval/embedders/test_strangers.py", "tests/data/test_raster_formats.py"),
    *("tests/retrieval/embedders/test_tokenizers.py", "tests/retrieval/index/test_postgres_addresses.py"),
    *("tests/data/test_content.py", "tests/protocol/test_changed_images.py"),
    *("tests/data/test_hostile_downloads.py", "tests/core/test_plugin_files.py"),
    *("tests/records/test_deleted_and_locked.py", "tests/reports/web/test_connections.py"),
    *("tests/reports/web/test_deleted_while_served.py", "tests/reports/web/test_search_box.py"),
    *("tests/reports/web/test_server.py", "tests/data/test_archive.py", "tests/engine/test_never_stuck.py"),
    *("tests/engine/test_torchrun_kills.py", "tests/retrieval/index/test_postgres_away.py"),
    *("tests/train/test_odd_images.py", "tests/train/test_zero_embeddings.py"),
    *("tests/retrieval/index/test_strange_catalogs.py", "tests/records/test_clock_jumps.py"),
    *("tests/analysis/test_run_frauds.py", "tests/engine/test_ray.py"),
    *(
        "tests/core/test_pipes_and_devices.py",
        "tests/core/test_passwords.py",
        "tests/config/test_bad_yaml.py",
    ),
)


@dataclass(frozen=True)
class Attack:
    """Command, and the option that sets its size.

    Attributes:
        name: Name for ``--only``.
        command: Arguments of Python.
        option: Option with the number of attacks; "" if it is fixed.
        count: Number of attacks of the whole attack.
    """

    name: str
    command: tuple[str, ...]
    option: str = ""
    count: int = 0

    def arguments(self, share: float) -> list[str]:
        """Return the arguments of Python for this share of the attack."""
        size = [self.option, str(max(1, round(share * self.count)))] if self.option else []
        return [*self.command, *size]


ATTACKS = (
    Attack("single", ("-m", "pytest", "-q", *TESTS)),
    Attack("cards", ("-m", "tools.attacks.model_cards"), "--count", 10_000),
    Attack("records", ("-m", "tools.attacks.records"), "--count", 10_000),
    Attack("config", ("-m", "tools.attacks.config_files"), "--files", 10_000),
    Attack("images", ("-m", "tools.attacks.images"), "--count", 60_000),
    Attack("io", ("-m", "tools.attacks.io_errors"), "--attacks", 60),
    Attack("kills", ("-m", "benchmarks.robustness.kill_engine"), "--kills", 100),
    Attack("torchrun", ("-m", "benchmarks.robustness.kill_torchrun"), "--kills", 20),
    Attack("ray", ("-m", "benchmarks.robustness.kill_ray"), "--kills", 100),
)


@dataclass(frozen=True)
class Outcome:
    """End of one attack; ``said`` is the last line of its output."""

    name: str
    command: str
    held: bool
    seconds: float
    said: str


def run(attack: Attack, share: float, log: Path) -> Outcome:
    """Run one attack; its whole output goes to ``log``."""
    arguments = attack.arguments(share)
    variables = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    variables["PYTHONPATH"] = os.pathsep.join(
        str(part) for part in (ROOT / "src", ROOT, os.environ.get("PYTHONPATH", "")) if str(part)
    )
    began = time.monotonic()
    with log.open("w") as file:
        done = subprocess.run(
            [sys.executable, *arguments], check=False, cwd=ROOT, env=variables, stdout=file, stderr=file
        )
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    command = "pytest (single attacks)" if attack.name == "single" else " ".join(["python", *arguments])
    said = lines[-1].strip("= ") if lines else ""
    return Outcome(attack.name, command, done.returncode == 0, round(time.monotonic() - began, 1), said)


def table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as a Markdown table.

    Example:
        >>> print(table([Outcome("io", "python io.py", True, 3.0, "60 attacks")]))
        | attack | command | held | seconds | last line |
        |---|---|---|---|---|
        | io | `python io.py` | yes | 3 | 60 attacks |
    """
    rows = ["| attack | command | held | seconds | last line |", "|---|---|---|---|---|"]
    for each in outcomes:
        said = each.said.replace("|", "/")[:300]
        held = "yes" if each.held else "**no**"
        rows.append(f"| {each.name} | `{each.command}` | {held} | {each.seconds:.0f} | {said} |")
    return "\n".join(rows)


def main() -> int:
    """Run the attacks and print the table; return 1 if any fell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    names = [attack.name for attack in ATTACKS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--share", type=float, default=1.0, help="part of each attack")
    parser.add_argument("--out", type=Path, default=Path("build/attacks"), help="directory of the outputs")
    parser.add_argument("--again", action="store_true", help="repeat finished attacks")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for attack in ATTACKS:
        if attack.name not in options.only:
            continue
        kept = options.out / f"{attack.name}-{options.share:g}.json"
        if kept.exists() and not options.again:
            outcomes.append(Outcome(**json.loads(kept.read_text())))
            continue
        print(f"{attack.name} ...", flush=True)
        outcomes.append(run(attack, options.share, options.out / f"{attack.name}.log"))
        if outcomes[-1].held:
            kept.write_text(json.dumps(asdict(outcomes[-1])))
    print(table(outcomes))
    (options.out / "table.md").write_text(table(outcomes) + "\n")
    return int(not all(outcome.held for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
