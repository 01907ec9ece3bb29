"""What a change of parameters costs, before it is made: partitions, documents, core- and GPU-hours, money, time.

Belongs here: comparing two parameter files, and adding up what making partitions cost before (``history.py``). Does not
belong here: deciding what is stale (``stale.py``) and starting it (``launch.py``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.funnel import BY_NAME, FUNNEL, Plan
from gristmill.params import Pipeline, PipelineParams
from gristmill.plan.history import Cost, History
from gristmill.plan.reelect import Wanted
from gristmill.plan.stale import survey
from gristmill.registry import Registry
from gristmill.store import Key, Store

# Group of the first stage that a change touches -> what a person calls the work.
CALLED = {
    "acquire": "read the landing again, and everything after it",
    "extract": "re-extract, and everything after it",
    "deduplicate": "deduplicate again, and everything after it",
    "semantic": "semantic duplicates again, and what reads them",
    "quality": "re-score, and tokenise again what the score places",
    "safety": "re-score safety, and tokenise again",
    "decontaminate": "decontaminate again",
    "tokens": "tokenise again",
    "release": "catalogue again",
    "observe": "reports only",
}
MANIFEST_ONLY = "nothing but a manifest"
NOTHING = "nothing"
ELECTED_ONLY = "score and tokenise what was elected"


@dataclass(frozen=True)
class Redo:
    """One stage of a crawl, and the partitions of it to be made."""

    crawl: str
    stage: str
    buckets: tuple[int, ...]  # (-1,) for an asset without buckets
    cost: Cost
    estimated: int  # partitions whose cost is a rate and not their own

    def wall(self, workers: int) -> float:
        """Seconds with so many workers: never under its longest partition."""
        lanes = workers if BY_NAME[self.stage].on_grid else 1
        return max(self.cost.lane_s / lanes, self.cost.longest_s)


@dataclass(frozen=True)
class Change:
    """A change, and what follows.

    Attributes:
        fields: dotted parameter -> [old, new].
        redo: stages to be made again, crawl by crawl, in order.
        restore: (crawl, asset) whose archived files are read -> bytes.
        manifest: does a manifest follow.
        elected: documents that the newest version elected and nothing tokenised.
    """

    fields: dict[str, list[Any]]
    redo: tuple[Redo, ...]
    restore: dict[tuple[str, str], int] = field(default_factory=dict)
    manifest: bool = False
    elected: Wanted = field(default_factory=Wanted)

    @property
    def called(self) -> str:
        """What a person calls it, by the first stage that is touched."""
        if not self.redo:
            return MANIFEST_ONLY if self.manifest else NOTHING
        names = {r.stage for r in self.redo}
        if self.elected.documents and not self.fields and self.redo[0].stage == "near":
            return ELECTED_ONLY
        return CALLED[next(s.group for s in FUNNEL if s.name in names)]

    @property
    def cost(self) -> Cost:
        """All of it."""
        return sum((r.cost for r in self.redo), start=Cost())

    @property
    def partitions(self) -> int:
        """To be made."""
        return sum(len(r.buckets) for r in self.redo)

    @property
    def documents(self) -> int:
        """The most documents that one stage takes again, summed over crawls."""
        most: dict[str, int] = {}
        for r in self.redo:
            most[r.crawl] = max(most.get(r.crawl, 0), r.cost.docs)
        return sum(most.values())

    def wall(self, workers: int) -> float:
        """Seconds: stages follow each other."""
        return sum(r.wall(workers) for r in self.redo)

    def money(self, values: Mapping[str, float]) -> float:
        """Of compute, and of taking archived files back."""
        compute = (self.cost.core_s * values["prices.core_hour"] + self.cost.gpu_s * values["prices.gpu_hour"]) / 3600
        return compute + sum(self.restore.values()) / 1e12 * values["prices.retrieval_tb"]


def changed_fields(old: PipelineParams, new: PipelineParams) -> dict[str, list[Any]]:
    """Dotted parameter -> [old value, new value], where they differ."""

    def walk(a: Any, b: Any, where: str) -> dict[str, list[Any]]:
        if isinstance(a, dict) and isinstance(b, dict):
            return {k: v for n in sorted({*a, *b}) for k, v in
                    walk(a.get(n), b.get(n), f"{where}.{n}" if where else n).items()}
        return {} if a == b else {where: [a, b]}

    return walk(old.model_dump(mode="json"), new.model_dump(mode="json"), "")


def change(store: Store, old: Pipeline, new: Pipeline, crawls: Sequence[str] | None = None,
           elected: Wanted | None = None) -> Change:
    """What must be redone for ``new`` to hold, and what that costs by what ``old`` cost.

    Args:
        crawls: of these only; None: every registered one.
        elected: documents to be tokenised besides (``reelect.wanted``).
    """
    plan, history = Plan(new.params), History(store, Plan(old.params).fingerprints)
    elected = elected or Wanted()
    redo: list[Redo] = []
    restore: dict[tuple[str, str], int] = {}
    site_done = False
    for crawl in crawls if crawls is not None else Registry(store).crawls():
        states = survey(store, plan, new.site, crawl, elected.touched(crawl))
        wanting = {s.stage: set(s.wanting) for s in states if s.wanting}
        for state in states:
            stage = BY_NAME[state.stage]
            if not state.wanting or (stage.by == "site" and site_done):
                continue
            cost, estimated = Cost(), 0
            for bucket in state.wanting:
                one, own = history.partition(stage.name, None if stage.by == "site" else crawl,
                                             bucket if bucket >= 0 else None)
                cost, estimated = cost + one, estimated + (not own)
            redo.append(Redo(crawl, stage.name, state.wanting, cost, estimated))
            for key in _reads(plan, crawl, stage.name, state.wanting, wanting):
                if store.archived(key) is not None and (crawl, key.asset) not in restore:
                    restore[crawl, key.asset] = _bytes(store, plan, crawl, key.asset)
        site_done = True
    wants = bool(redo) or _manifest_wanted(store, plan, new)
    return Change(changed_fields(old.params, new.params), tuple(redo), restore, wants, elected)


def _manifest_wanted(store: Store, plan: Plan, pipeline: Pipeline) -> bool:
    """With every partition current: would the next manifest differ from the newest version."""
    from gristmill.release.manifest import manifest_is_current
    from gristmill.release.standing import registered

    if not pipeline.site.recipe:
        return False
    known = registered(store)
    return not known or not manifest_is_current(store, plan, pipeline.site, Path(pipeline.site.recipe), known[-1])


def below_floor(store: Store, plan: Plan, recipe: str | Path, crawls: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Source -> (documents, bytes of text) that the recipe selects and ``tokenize.floor`` kept out of the shards.

    They cost tokenising: a lower floor.
    """
    from gristmill.mixture.predicates import Predicate
    from gristmill.mixture.recipe import read

    out: dict[str, tuple[int, int]] = {}
    sources = read(recipe).sources
    for crawl in crawls:
        for bucket in range(plan.buckets):
            key = Key("catalogue", plan.fingerprints["catalogue"], crawl, bucket)
            if store.manifest(key) is None:
                continue
            table = store.read(key)
            table = table.filter(pc.equal(table["not_tokenised"], "tokenize_floor"))
            for name, source in sources.items():
                hit = Predicate(source.where, f"source {name}", table.schema).mask(table)
                if hit.any():
                    docs, size = out.get(name, (0, 0))
                    mine = pc.sum(table["n_bytes"].filter(pa.array(hit))).as_py() or 0
                    out[name] = (docs + int(hit.sum()), size + int(mine))
    return out


def _reads(plan: Plan, crawl: str, stage: str, buckets: Sequence[int], wanting: Mapping[str, set[int]]) -> list[Key]:
    """Partitions that a stage reads and that are not made again themselves."""
    out = []
    for source in BY_NAME[stage].inputs:
        spec = BY_NAME[source.asset]
        if not spec.on_grid:
            continue
        read = set(range(plan.buckets)) if source.scope == "crawl" or not BY_NAME[stage].on_grid else set(buckets)
        out += [Key(source.asset, plan.fingerprints[source.asset], crawl, b)
                for b in sorted(read - wanting.get(source.asset, set()))]
    return out


def _bytes(store: Store, plan: Plan, crawl: str, asset: str) -> int:
    keys = (Key(asset, plan.fingerprints[asset], crawl, b) for b in range(plan.buckets))
    return sum(f.bytes for k in keys if store.archived(k) is not None for f in store.require(k).files)


def render(found: Change, values: Mapping[str, float], workers: int) -> str:
    """The change as a person reads it."""
    lines = [f"{name}: {a!r} -> {b!r}" for name, (a, b) in found.fields.items()]
    lines.append(f"to do: {found.called}")
    if found.redo:
        head = (f"{'crawl':<20} {'stage':<20} {'partitions':>10} {'documents':>12} {'core time':>10} {'GPU time':>9} "
                f"{'wall':>9}")
        lines += ["", head, "-" * len(head)]
        for r in found.redo:
            told = " unknown: never measured" if r.cost.unknown else (" by rate" if r.estimated else "")
            lines.append(f"{r.crawl:<20} {r.stage:<20} {_buckets(r.buckets):>10} {r.cost.docs:>12,} "
                         f"{_time(r.cost.core_s):>10} {_time(r.cost.gpu_s):>9} {_time(r.wall(workers)):>9}{told}")
        lines.append("")
    if found.elected.documents:
        lines.append(f"{found.elected.documents:,} documents of version {found.elected.version} were elected and are "
                     "in no shard yet:")
        for (crawl, bucket), docs in found.elected.places.items():
            lines.append(f"  {crawl}|{bucket:04d}  {', '.join(docs[:4])}{' ...' if len(docs) > 4 else ''}")
    if found.elected.nowhere:
        lines.append(f"{len(found.elected.nowhere):,} elected documents have no row under these parameters and cannot "
                     "be tokenised")
    for (crawl, asset), size in sorted(found.restore.items()):
        lines.append(f"first restore {size / 1e6:,.1f} MB from the archive: gristmill restore {crawl} --asset {asset}")
    cost, wall = found.cost, _time(found.wall(workers))
    lines.append(f"{found.partitions:,} partitions, {found.documents:,} documents, {cost.core_s / 3600:,.4f} "
                 f"core-hours, {cost.gpu_s / 3600:,.4f} GPU-hours, ${found.money(values):,.4f}, about {wall} "
                 f"with {workers} workers")
    if cost.unknown:
        lines.append(f"{cost.unknown} partitions of stages that this store never measured are not in these sums")
    if found.manifest:
        lines.append("then a manifest: gristmill run --manifest next")
    return "\n".join(lines)


def _buckets(buckets: tuple[int, ...]) -> str:
    if buckets == (-1,):
        return "1"
    whole = buckets == tuple(range(buckets[0], buckets[-1] + 1))
    return f"{len(buckets)} ({buckets[0]}-{buckets[-1]})" if whole and len(buckets) > 1 else f"{len(buckets)}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
