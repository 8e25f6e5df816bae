"""The command of all attacks names only files that exist, and says what fell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.robustness import attacks


def test_every_attack_is_a_file() -> None:
    for attack in attacks.ATTACKS:
        script = attack.command[0]
        if script == "-m":
            script = "" if attack.command[1] == "pytest" else attack.command[1].replace(".", "/") + ".py"
        files = attacks.TESTS if attack.name == "single" else (script,)
        assert all((attacks.ROOT / file).is_file() for file in files), attack.name


@pytest.mark.parametrize("ends_well", [True, False])
def test_the_table_says_what_fell(
    ends_well: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = f"import sys; print('1 attack'); sys.exit({int(not ends_well)})"
    monkeypatch.setattr(attacks, "ATTACKS", (attacks.Attack("one", ("-c", code)),))
    monkeypatch.setattr(sys, "argv", ["attacks", "--out", str(tmp_path)])
    assert attacks.main() == int(not ends_well)
    said = capsys.readouterr().out
    assert f"| {'yes' if ends_well else '**no**'} |" in said
    assert "| 1 attack |" in said
    attacks.main()  # a finished attack is not repeated
    assert ("one ..." in capsys.readouterr().out) is not ends_well
