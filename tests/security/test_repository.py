"""No secret and no door left open in what is committed."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEYS = re.compile(
    rb"(?<![A-Za-z0-9/+])A[KS]IA(?![0-9A-Z]{9}EXAMPLE)[0-9A-Z]{16}(?![A-Za-z0-9/+])"
    rb"|-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}"
    rb"|gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40}|glpat-[A-Za-z0-9_-]{20}"
    rb"|xox[abprs]-[A-Za-z0-9-]{20}|hooks\.slack\.com/services/T[A-Z0-9]{8}"
    rb"|hf_[A-Za-z]{34}|sk-[A-Za-z0-9_-]{40}|AIza[0-9A-Za-z_-]{35}|pypi-AgE[A-Za-z0-9_-]{50}"
)
NAMED = re.compile(rb"(?i)(?<![a-z])(?:password|passwd|secret(?:_access)?_key|api_key|client_secret|auth_token)\b"
                   rb"\s*[:=]\s*"
                   rb"[\"']([A-Za-z0-9/+_-]{16,})[\"']")


def found_in(data: bytes) -> list[bytes]:
    return [m[0] for m in KEYS.finditer(data)] + [m[0] for m in NAMED.finditer(data)]


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if done.returncode:
        pytest.skip("this copy has no history: what is committed cannot be listed")
    return [ROOT / name.decode() for name in done.stdout.split(b"\0") if name]


@pytest.mark.parametrize("planted", [
    b"AKIA" + b"ABCDEFGHIJKLMNOP", b"-----BEGIN RSA " + b"PRIVATE KEY-----\n" + b"MIIE" * 16, b"ghp_" + b"a1" * 18,
    b'password: "' + b'correcthorsebattery"', b"aws_secret_access_key = " + b"'wJalrXUtnFEMI/K7MDENGbPxRfi'",
])
def test_the_search_finds_what_it_is_for(planted: bytes) -> None:
    assert found_in(b"x = 1\n" + planted + b"\n")


def test_no_committed_file_holds_a_secret() -> None:
    files = [f for f in tracked() if f.is_file()]
    assert len(files) > 200
    assert {str(f.relative_to(ROOT)): s for f in files if (s := found_in(f.read_bytes()))} == {}


def test_configuration_names_secrets_by_variable_only() -> None:
    for file in [f for f in tracked() if f.suffix in (".yaml", ".yml") and f.is_file()]:
        for line in file.read_text().splitlines():
            value = re.match(r"\s*-?\s*\{?(?:password|secret_key|client_secret|token):\s*(.*)", line)
            if value:
                assert value[1].startswith(("{env:", "{{")) or value[1] in ("", '""'), (file.name, line)


def writers() -> set[str]:
    """Modules that write HTML pages."""
    return {str(f.relative_to(ROOT)) for f in (ROOT / "gristmill").rglob("*.py")
            if re.search(r"<!doctype html>|<html", f.read_text(), re.IGNORECASE)
            and f.parts[len(ROOT.parts) + 1] not in ("extract", "demo")}


# Each page shows what strangers wrote, and has a test that feeds it markup. A new writer must be added, with its test.
TESTED = {
    "gristmill/deduplicate/audit.py": "tests/deduplicate/test_audit.py",
    "gristmill/decontaminate/report.py": "tests/decontaminate/test_report.py",
    "gristmill/observe/dashboard.py": "tests/observe/test_dashboard.py",
    "gristmill/release/card.py": "tests/release/test_card.py",
}
# Its words are the project's own: names of assumptions, formulas, sources.
OWN_WORDS = {"gristmill/plan/page.py"}


def test_every_page_is_fed_hostile_text_by_a_test() -> None:
    assert writers() <= {*TESTED, *OWN_WORDS}
    for test in TESTED.values():
        assert re.search(r"<script>alert\(", (ROOT / test).read_text()), test
