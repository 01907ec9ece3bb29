"""Which project, parameter file, store and plan a command works on.

Belongs here: finding them, as ``definitions.py`` does. Does not belong here: commands.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill.errors import GristmillError, ParameterError

if TYPE_CHECKING:  # a training host has the loader's dependencies only, and calls `gristmill replay`
    from gristmill.funnel import Plan
    from gristmill.params import Pipeline, SiteConfig
    from gristmill.store import Store

PIPELINE_VARIABLE = "GRISTMILL_PIPELINE"
DEFAULTS = ("pipeline.yaml", "demo/pipeline.yaml")


@dataclass(frozen=True)
class Workplace:
    """What most commands need."""

    pipeline: Pipeline
    file: Path

    @property
    def store(self) -> Store:
        """The store."""
        from gristmill.store import Store

        return Store(self.pipeline.site.store)

    @cached_property
    def plan(self) -> Plan:
        """Parameters and fingerprints, to look the store's partitions up by.

        Raises:
            ParameterError: the store's grid has another number of host buckets: nothing would be found in it.
        """
        from gristmill.frozen import require_buckets
        from gristmill.funnel import Plan

        plan = Plan(self.pipeline.params)
        require_buckets(self.store, plan, record=False)
        return plan

    @property
    def site(self) -> SiteConfig:
        """Places."""
        return self.pipeline.site


def project_folder() -> Path:
    """The folder with ``launch.py``: this one or one above it, else the checkout that the package is installed from.

    Raises:
        GristmillError: when the package was installed alone, without the project.
    """
    here = Path.cwd().resolve()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (folder / "launch.py").is_file() and (folder / "definitions.py").is_file():
            return folder
    raise GristmillError(
        "commands that launch runs need the project's folder (launch.py, definitions.py): clone the repository and "
        "call them there; the installed package alone holds the library and the loader"
    )


def add_pipeline(parser: argparse.ArgumentParser) -> None:
    """The option that names the parameter file."""
    parser.add_argument("--pipeline", type=Path, metavar="FILE",
                        help=f"parameter file (default: ${PIPELINE_VARIABLE}, pipeline.yaml, demo/pipeline.yaml)")


def parameter_file(project: Path) -> Path:
    """The parameter file in force: the variable's, else one here, else one in the project's folder.

    Raises:
        ParameterError: there is none.
    """
    from gristmill.params import NAME_A_FILE

    named = os.environ.get(PIPELINE_VARIABLE)
    if named:
        return Path(named)
    found = [base / name for base in (Path.cwd(), project) for name in DEFAULTS]
    for file in found:
        if file.exists():
            return file
    raise ParameterError(f"no parameter file {found[0]}: {NAME_A_FILE}")


def pipeline_of(args: argparse.Namespace) -> Workplace:
    """The parameter file in force, read."""
    from gristmill.params import read_pipeline

    file = args.pipeline or parameter_file(project_folder())
    return Workplace(read_pipeline(file), file)


def crawls_of(args: argparse.Namespace, store: Store) -> list[str]:
    """The crawls that a command names, or every crawl in order; where there is none, that is printed.

    Raises:
        LandingError: no such crawl; the message lists those there are.
    """
    from gristmill.registry import NO_CRAWL, Registry

    registry = Registry(store)
    named = [args.crawl] if isinstance(args.crawl, str) else list(args.crawl or ())
    for crawl in named:
        registry.ordinal(crawl)
    found = named or registry.crawls()
    if not found:
        print(NO_CRAWL)
    return found


def nothing_of(crawl: str) -> str:
    """What is said in place of a table of a crawl that would be empty."""
    return f"{crawl}: nothing of it is made by today's parameters; `gristmill run --crawl {crawl}` makes it"
