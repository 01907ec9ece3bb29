"""New crawls: a listing appears in the landing area, and runs take it through the funnel.

Belongs here: watching listings and asking for runs. Does not belong here: what a run does. The sensor keeps no promise
in its cursor that it could lose: it asks for whatever the store says is wanting, and a run key makes asking twice
harmless. Crawls go in the order of their names, one at a time, so that a later one finds the earlier one's generation
in the band index. A listing that is at rest is taken by the first tick that sees it; one that was written a moment ago
waits until it has been at rest for a while, or is the same in the next tick.
"""

import json
import time
from collections.abc import Mapping
from typing import Any

import dagster as dg

from gristmill.acquire.landing import Listing, announces, folders, read_listing
from gristmill.blobs import Blobs, Child, open_blobs
from gristmill.errors import GristmillError
from gristmill.fingerprint import digest, fingerprint
from gristmill.funnel import BY_NAME, Plan
from gristmill.params import SiteConfig
from gristmill.plan.stale import StageState, runs, span, survey
from gristmill.registry import Registry
from gristmill.store import Store
from partitions import grid as grids
from partitions.going import CRAWL_TAG, going
from resources.places import Places

TICK_S = 30
REST_S = 30.0  # a listing and its files that were last written longer ago than this are complete
BUDGET_S = 2.0  # of a tick: with hundreds of crawls the next one goes on where this one stopped
LOOKED_AT = 50  # finished crawls whose folder is looked at again in one tick, in turn


def landing_sensor(plan: Plan, jobs: list[Any], interval_s: int = TICK_S) -> dg.SensorDefinition:
    """Watch the site's landing area. Off until someone turns it on."""
    signature = fingerprint(plan.fingerprints)

    @dg.sensor(name="new_crawls", jobs=jobs, minimum_interval_seconds=interval_s,
               description="Registers crawls whose listing has appeared, and asks for the runs that they want.")
    def _new_crawls(context: dg.SensorEvaluationContext, places: Places) -> dg.SensorResult:
        return Tick(context, plan, signature, places.open_store(), places.site(), open_blobs(places.landing)).result()

    return _new_crawls


class Tick:
    """One evaluation. Its cursor: {"crawls": {name: {"mark", "listing", "done"}}, "turn": n}."""

    def __init__(self, context: dg.SensorEvaluationContext, plan: Plan, signature: str, store: Store, site: SiteConfig,
                 landing: Blobs) -> None:
        self.context, self.plan, self.signature = context, plan, signature
        self.store, self.site, self.landing = store, site, landing
        cursor: dict[str, Any] = json.loads(context.cursor or "{}")
        self.seen: dict[str, dict[str, str]] = cursor.get("crawls", {})
        self.turn: int = cursor.get("turn", 0)
        self.waiting: list[str] = []

    def result(self) -> dg.SensorResult:
        """Look at crawls in order until one wants a run, or the tick's time is up."""
        there = folders(self.landing)
        self.seen = {c: e for c, e in self.seen.items() if c in there}
        finished = [c for c in there if self._done(c)]
        start = self.turn % max(len(finished), 1)
        again = [*finished[start:], *finished[:start]][:LOOKED_AT]
        self.turn = start + LOOKED_AT if len(finished) > LOOKED_AT else 0
        begun = time.monotonic()
        for n, crawl in enumerate([*(c for c in there if not self._done(c)), *again]):
            if n and time.monotonic() - begun > BUDGET_S:
                self.waiting.append(f"{crawl} and what follows: looked at in the next tick")
                break
            try:
                states = self._wanting(crawl, there[crawl])
            except GristmillError as error:  # a listing may name files that have not arrived yet
                self.waiting.append(f"{crawl}: {error}")
                continue
            if states:
                return self._ask(crawl, states)
        return self._answer([], [])

    def _done(self, crawl: str) -> bool:
        return self.seen.get(crawl, {}).get("done") == self.signature

    def _wanting(self, crawl: str, folder: str) -> dict[str, StageState]:
        """Stages that are not current, of a crawl whose listing is complete; empty where it waits or nothing is."""
        _, files = self.landing.children(folder)
        if not any(announces(folder, name) for name in files):
            return {}
        mark = digest(sorted([name, child.bytes, child.stamp] for name, child in files.items()))
        if self._done(crawl) and self.seen[crawl]["mark"] == mark:
            return {}
        before = self.seen.get(crawl, {})
        listing = read_listing(self.landing, crawl)
        self.seen[crawl] = {"mark": mark, "listing": listing.digest}
        if before.get("listing") != listing.digest and not self._at_rest(listing, files):
            self.waiting.append(f"{crawl}: written a moment ago; waiting until it is stable")
            return {}
        Registry(self.store).register(crawl)
        states = {s.stage: s for s in survey(self.store, self.plan, self.site, crawl) if s.wanting}
        if not states:
            self.seen[crawl]["done"] = self.signature
        return states

    def _at_rest(self, listing: Listing, files: Mapping[str, Child]) -> bool:
        """Was nothing of it written within ``REST_S``. In an object store only a whole object is there at all."""
        newest = max(child.modified for child in files.values())
        if self.landing.local("") is not None:
            newest = max(newest, *(int(f.stamp) / 1e9 for f in listing.files if f.stamp))
        return time.time() - newest >= REST_S

    def _ask(self, crawl: str, states: Mapping[str, StageState]) -> dg.SensorResult:
        if self._going(crawl):
            self.waiting.append(f"{crawl}: a run is going on")
            return self._answer([], [])
        names, on_grid = runs(states)[0]
        request = dg.RunRequest(
            # What is wanting is in the key: a run that died half-way is asked for again, one that got nowhere is not.
            run_key=fingerprint([crawl, self.seen[crawl]["listing"], self.signature, names,
                                 [list(states[n].wanting) for n in names]]),
            job_name="funnel_job" if on_grid else f"{names[0]}_job",
            # As a tag, not as partition_key: that is resolved before this result's new partition is added.
            tags={CRAWL_TAG: crawl, **(
                grids.range_tags(crawl, *span([states[n] for n in names])) if on_grid else
                {"dagster/partition": crawl} if BY_NAME[names[0]].by == "crawl" else {})},
            asset_selection=[dg.AssetKey(n) for n in names] if on_grid else None,
        )
        add = [] if self.context.instance.has_dynamic_partition(grids.CRAWL, crawl) else [
            grids.crawls().build_add_request([crawl])
        ]
        return self._answer([request], add)

    def _going(self, crawl: str) -> bool:
        """Is a run of the crawl queued or going on, whoever started it."""
        return crawl in going(self.context.instance)

    def _answer(self, requests: list[dg.RunRequest], add: list[Any]) -> dg.SensorResult:
        why = "; ".join(self.waiting)
        if why:
            self.context.log.info(why)
        return dg.SensorResult(
            run_requests=requests, dynamic_partitions_requests=add,
            cursor=json.dumps({"crawls": self.seen, "turn": self.turn}),
            skip_reason=dg.SkipReason(why[:1000]) if why and not requests else None,
        )
