"""The pages under docs/ are true: their picture is the funnel's, their links lead somewhere, their commands exist."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

import launch
from gristmill import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])


def test_the_picture_is_what_the_funnel_is_today():
    spec = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    picture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(picture)
    drawn = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    assert drawn == picture.draw(), "the funnel has changed: run `python docs/picture.py`"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_to_files_and_headings(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in anchors, f"{page.name} links to {target}"


def commands_of(page):
    """Lines of shell in fenced blocks that call gristmill; a line that ends in a backslash goes on."""
    blocks = re.findall(r"^```(?:sh)?\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip().startswith("gristmill ") and "..." not in line]


@pytest.mark.parametrize(("page", "line"), [(p.name, line) for p in PAGES for line in commands_of(p)])
def test_every_command_on_a_page_is_one_that_the_command_line_takes(page, line):
    words = shlex.split(line, comments=True)[1:]
    if words[0] == "run":
        launch.parse(words[1:])
    else:
        cli.build_parser().parse_args(words)  # exits, and fails, on what it does not know
