"""Attack the reader of experiment files with mutated files.

From the root of the repository::

    python -m tools.attacks.config_files --files 10000

Each file must be accepted, or refused in one line, within 10 seconds. The mutations are those of
tests/config/test_fuzz.py, and raw YAML that no dump of a value writes: bad dates and numbers, deep nesting,
tags, duplicate keys, aliases.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.config import test_fuzz
from tests.conftest import TOY_PLUGIN

from levelfield.core.registry import load_plugin_file

RAW = [
    *("2024-99-99", "2024-02-30 25:61:61", "190:20:30", "1e" + "9" * 400),
    *("!!int x", "!!float x", "!!bool x", "!!timestamp x", "!!binary '%'", "!!python/object:os.x 1"),
    *("9" * 5000, "-" + "9" * 4299, "0x" + "f" * 5000, "0b" + "1" * 20000),
    *("[" * 3000 + "]" * 3000, "{a: " * 3000 + "1" + "}" * 3000, "[" * 100000, "- " * 3000, "? " * 3000),
    *("&a [*a]", "&a {x: *a}", "*missing", "{<<: 3}", "{? [a] : 1}", "{? {a: 1} : 2}"),
    *("!!omap [a: 1]", "!!set {a, b}", "!!pairs [a: 1]", "{1: 2}", "{~: 2}", "{a: 1, a: 2}"),
    *("|", ">-", "%TAG x", '"a\\0b"', '"\\ud800"', '"/dev/zero"', '"/proc/self/mem"'),
    *('"' + "x" * 5000 + '"', '"' + "x/" * 3000 + '"'),
    "[" + ", ".join(f"&a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]" for n in range(8)) + "]",
]


@st.composite
def raw_files(draw: st.DrawFn) -> tuple[str, tuple[str, ...]]:
    """Return a mutated file in which one value is raw YAML, and overrides."""
    text, overrides = draw(test_fuzz.experiments())
    lines = text.splitlines()
    at = draw(st.integers(0, len(lines) - 1))
    key, colon, _ = lines[at].partition(":")
    if colon:
        lines[at] = f"{key}: {draw(st.sampled_from(RAW))}"
    elif draw(st.booleans()):
        lines.insert(at, lines[at])
    return "\n".join(lines) + "\n", overrides


def main() -> int:
    """Try the files and print the figures; return 1 if any file gave an unexpected result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=10, help="limit for one file")
    options = parser.parse_args()
    test_fuzz.SECONDS = options.seconds
    os.environ["HF_HUB_OFFLINE"] = "1"
    load_plugin_file(TOY_PLUGIN)  # the files name its dataset; what is drawn must not depend on earlier files
    seen: Counter[str] = Counter()
    slowest = 0.0

    @settings(
        max_examples=options.files,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of(test_fuzz.experiments(), raw_files()))
    def attempt(case: tuple[str, tuple[str, ...]]) -> None:
        nonlocal slowest
        if sum(seen.values()) >= options.files:
            return
        start = time.process_time()
        result = test_fuzz.outcome(*case)
        slowest = max(slowest, time.process_time() - start)
        if result not in ("accepted", "refused"):
            Path(f"unexpected-{sum(seen.values())}.txt").write_text(
                f"{result}\n{case[1]}\n{case[0]}", errors="surrogatepass"
            )
            print(result[:300], flush=True)
            result = "unexpected"
        seen[result] += 1
        if sum(seen.values()) % 500 == 0:
            print(dict(seen), f"slowest {slowest:.1f} s of CPU", flush=True)

    with tempfile.TemporaryDirectory(prefix="levelfield-config-") as directory:
        os.chdir(directory)
        attempt()
        os.chdir("/")
    print(f"{sum(seen.values())} files: {dict(seen)}; slowest {slowest:.1f} s of CPU")
    return int(seen["unexpected"] > 0)


if __name__ == "__main__":
    sys.exit(main())
