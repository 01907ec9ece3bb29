"""The audit of what is installed sees what it is there for."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "requirements" / "audit.py"
_spec = importlib.util.spec_from_file_location("audit", FILE)
assert _spec is not None
assert _spec.loader is not None
audit = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(audit)

HASH = "--hash=sha256:" + "0" * 64


@pytest.mark.parametrize(("text", "bad"), [
    (f"numpy==2.4.6 \\\n    {HASH} \\\n    {HASH}", []),
    (f"dagster-k8s[a, b]==1.0 ; python_version < '3.13' \\\n    {HASH}", []),
    ("numpy==2.4.6", ["numpy==2.4.6"]),
    (f"numpy>=2 \\\n    {HASH}", ["numpy>=2"]),
    ("git+https://example.com/x.git", ["git+https://example.com/x.git"]),
    ("# a remark\n", []),
])
def test_what_is_not_one_version_with_a_hash_is_seen(text: str, bad: list[str]) -> None:
    assert audit.unpinned(text.splitlines()) == bad


@pytest.mark.parametrize("licence", ["MIT", "Apache-2.0 WITH LLVM-exception", "BSD License", "MPL-1.1 OR GPL-2.0-only",
                                     "BSD-3-Clause AND MIT", "Python Software Foundation License", "ISC"])
def test_permissive_licences_pass(licence: str) -> None:
    assert audit.verdict("x", licence) is None


@pytest.mark.parametrize("licence", ["", "AGPL-3.0-only", "GNU General Public License v3 (GPLv3)", "GPL-3.0 AND MIT",
                                     "SSPL-1.0", "Proprietary", "permitted under limited miscellaneous terms"])
def test_others_want_a_persons_look(licence: str) -> None:
    assert audit.verdict("x", licence) is not None


def test_every_list_of_this_project_is_pinned() -> None:
    lists = [f for f in FILE.parent.glob("*.txt") if f.name != "embed.txt"]
    assert len(lists) >= 6
    for file in lists:
        assert audit.unpinned(file.read_text().splitlines()) == [], file.name


@pytest.mark.parametrize(("code", "err", "clean", "said"), [
    (0, "No known vulnerabilities found", True, "No known"),
    (1, "Found 1 known vulnerability in 1 package", False, "Found 1"),
    (1, "ProxyError: 403 Forbidden", None, "NOT looked up"),
    (1, "HTTPSConnectionPool: Max retries exceeded", None, "NOT looked up"),
])
def test_a_database_that_cannot_be_asked_is_said_and_not_clean(monkeypatch, capsys, code, err, clean, said) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, code, "", err))
    assert audit._vulnerabilities() is clean
    assert said in capsys.readouterr().out


def test_without_the_tool_it_says_what_was_not_done(monkeypatch, capsys) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert audit._vulnerabilities() is None
    assert "NOT looked up" in capsys.readouterr().out
