"""Where the time of a crawl went: a line a stage, its bottleneck, and how a GPU was used.

Belongs here: adding up what partitions recorded in ``_run.json`` and naming what holds a stage back. Does not belong
here: measuring (``profile_meter.py``) and what the time costs (``plan/bill.py``).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from gristmill.funnel import FUNNEL, Plan
from gristmill.observe.yields import committed
from gristmill.store import Key, PartitionManifest, Store

KINDS = ("compute", "gpu", "read", "write", "wait")
ADVICE = {
    "compute": "more cores, or a cheaper engine",
    "gpu": "more GPUs, larger batches, or a smaller model",
    "read": "a nearer or faster store: the stage waits for its input",
    "write": "a faster store: the stage waits until its output is down",
    "wait": "fewer workers on this machine, or work cut finer: processes stand idle or share cores",
}
SKEW = 2.0  # a partition that took this many times the median is worth a look


@dataclass(frozen=True)
class StageProfile:
    """Seconds of a stage over its partitions of a crawl, by kind; see ``profile_meter.account``."""

    stage: str
    partitions: int
    unmeasured: int  # committed before seconds were recorded
    docs: int
    bytes_in: int
    wall_s: float
    cpu_s: float
    seconds: dict[str, float] = field(default_factory=dict)  # kind -> seconds
    slowest: tuple[int | None, float] = (None, 0.0)  # bucket, its wall seconds over the median's
    padding_waste: float | None = None  # share of the tokens given to a model that were padding

    @property
    def bottleneck(self) -> str:
        """The kind that took most; empty where nothing was measured."""
        kind = max(KINDS, key=lambda k: self.seconds.get(k, 0.0))
        return kind if self.seconds.get(kind, 0.0) > 0 else ""

    def share(self, kind: str) -> float:
        """Of all its seconds."""
        total = sum(self.seconds.values())
        return self.seconds.get(kind, 0.0) / total if total else 0.0

    @property
    def gpu_utilisation(self) -> float | None:
        """Seconds in which the GPU worked over the wall seconds of the partitions; None where none did."""
        return self.seconds["gpu"] / self.wall_s if self.seconds.get("gpu") and self.wall_s else None


def stage_profile(store: Store, stage: str, manifests: Iterable[PartitionManifest]) -> StageProfile:
    """Add up a stage's committed partitions."""
    seconds = dict.fromkeys(KINDS, 0.0)
    walls: list[tuple[int | None, float]] = []
    cpu = 0.0
    docs = bytes_in = unmeasured = 0
    padded: list[tuple[float, float]] = []  # weight, waste
    for manifest in manifests:
        run = store.run_info(Key(stage, manifest.fingerprint, manifest.crawl, manifest.bucket))
        docs += manifest.counts.docs_in
        bytes_in += manifest.counts.bytes_in
        if "compute_s" not in run:
            unmeasured += 1
            continue
        for kind in KINDS:
            seconds[kind] += float(run.get(f"{kind}_s", 0.0))
        cpu += float(run["cpu_s"])
        walls.append((manifest.bucket, float(run["wall_s"])))
        waste = run.get("padding_waste", manifest.info.get("padding_waste"))
        if waste is not None:
            padded.append((max(float(run.get("gpu_s", 0.0)), 1e-9), float(waste)))
    slowest: tuple[int | None, float] = (None, 0.0)
    if walls:
        bucket, worst = max(walls, key=lambda w: w[1])
        middle = median(w for _, w in walls)
        slowest = (bucket, worst / middle if middle else 1.0)
    weight = sum(w for w, _ in padded)
    return StageProfile(
        stage=stage, partitions=len(walls) + unmeasured, unmeasured=unmeasured, docs=docs, bytes_in=bytes_in,
        wall_s=sum(w for _, w in walls), cpu_s=cpu, seconds=seconds, slowest=slowest,
        padding_waste=sum(w * p for w, p in padded) / weight if padded else None,
    )


def profile(store: Store, plan: Plan, crawl: str) -> list[StageProfile]:
    """Every stage of a crawl that has committed partitions, in the funnel's order."""
    out = []
    for stage in FUNNEL:
        manifests = committed(store, plan, stage.name, crawl) if stage.by != "site" else []
        if manifests:
            out.append(stage_profile(store, stage.name, manifests))
    return out


def render(profiles: list[StageProfile]) -> str:
    """The report as plain text: a line a stage, then what to do about the stages that took most."""
    head = (f"{'stage':<20} {'cpu s':>9} {'wall s':>9} " + " ".join(f"{k:>8}" for k in KINDS)
            + f" {'docs/s':>9} {'slowest':>9}  bottleneck")
    lines = [head, "-" * len(head)]
    for p in profiles:
        if not p.wall_s:
            lines.append(f"{p.stage:<20} {p.partitions} partitions made before seconds were recorded")
            continue
        rate = f"{p.docs / p.cpu_s:>9,.0f}" if p.docs and p.cpu_s else f"{'':>9}"
        parts = " ".join(f"{p.seconds[k]:>8.2f}" for k in KINDS)
        skew = f"{p.slowest[1]:>8.1f}x" if p.partitions > 1 else f"{'':>9}"
        lines.append(f"{p.stage:<20} {p.cpu_s:>9.2f} {p.wall_s:>9.2f} {parts} {rate} {skew}  "
                     f"{p.bottleneck} {p.share(p.bottleneck):.0%}" if p.bottleneck else f"{p.stage:<20} nothing to do")
        if p.gpu_utilisation is not None:
            lines.append(f"{'':<20} GPU at work {p.gpu_utilisation:.0%} of the wall time")
        if p.padding_waste is not None:
            lines.append(f"{'':<20} padding: {p.padding_waste:.1%} of what the model was given")
    total = sum(p.cpu_s + p.seconds.get("gpu", 0.0) for p in profiles)
    lines.append("")
    for p in sorted(profiles, key=lambda p: -sum(p.seconds.values()))[:3]:
        if p.bottleneck and total:
            lines.append(f"{p.stage} ({sum(p.seconds.values()):,.1f} s, most of it {p.bottleneck}): "
                         f"{ADVICE[p.bottleneck]}")
            if p.partitions > 1 and p.slowest[1] >= SKEW:
                lines.append(f"  bucket {p.slowest[0]:04d} took {p.slowest[1]:.1f} times the median of its buckets")
    if any(p.unmeasured for p in profiles):
        lines.append(f"{sum(p.unmeasured for p in profiles)} partitions were made before seconds were recorded: "
                     "`--force` makes them again")
    return "\n".join(lines)
