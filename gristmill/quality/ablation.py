"""What a threshold is worth: for each candidate the pool is built, proxies are trained on equal tokens, and judged.

Belongs here: pools, draws, seeds, intervals, warnings, the table. Does not belong here: the proxy (``byte_model.py``,
or a command that trains a real one), diversity (``diversity.py``), reading a store (``pools.py``).

All pools of a seed draw in one order, so that differences to the unfiltered control are paired. A pool that is smaller
than the draw is read again from its start, as a training run would; how often is reported, since a strict filter looks
better the shorter the horizon (Goyal et al. 2024, arXiv 2404.07177).
"""

import json
import math
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.stats import t as student

from gristmill.errors import GristmillError, ParameterError
from gristmill.fingerprint import digest
from gristmill.quality import diversity
from gristmill.quality.byte_model import ByteModel
from gristmill.quality.diversity import Diversity

CONTROL = "unfiltered"
FEW_EPOCHS = 4  # up to four passes are worth about as much as new text (Muennighoff et al. 2023, arXiv 2305.16264)


class ProxyError(GristmillError):
    """A proxy could not be trained or judged."""


class Proxy(Protocol):
    """Trains on texts and judges; lower is better. ``size`` is a text's tokens, as this proxy counts them."""

    def size(self, text: str) -> int:
        """Tokens."""
        ...

    def judge(self, texts: Sequence[str], evaluations: Mapping[str, Sequence[str]], seed: int) -> dict[str, float]:
        """Evaluation -> loss of a model trained on ``texts``."""
        ...


class ByteProxy:
    """A byte n-gram model; its tokens are bytes and its losses bits per byte. The seed decides the draw alone."""

    def size(self, text: str) -> int:
        """UTF-8 bytes."""
        return len(text.encode("utf-8", "replace"))

    def judge(self, texts: Sequence[str], evaluations: Mapping[str, Sequence[str]], seed: int) -> dict[str, float]:
        """Bits per byte of each evaluation."""
        model = ByteModel(texts)
        return {name: model.bits(held) for name, held in evaluations.items()}


class CommandProxy(ByteProxy):
    """A command of one's own, called as ``COMMAND TRAIN.jsonl EVALUATIONS_FOLDER SEED``.

    It trains a model on the texts of the first (objects with ``text``, one a line, in order), judges it on each
    ``NAME.jsonl`` of the second, and prints one JSON object, name to loss, as its last line.
    """

    def __init__(self, command: str) -> None:
        self._command = shlex.split(command)

    def judge(self, texts: Sequence[str], evaluations: Mapping[str, Sequence[str]], seed: int) -> dict[str, float]:
        """What the command prints.

        Raises:
            ProxyError: it failed, or printed something else.
        """
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "evaluations").mkdir()
            for held, rows in (("train", texts), *((f"evaluations/{k}", v) for k, v in evaluations.items())):
                lines = "".join(json.dumps({"text": t}) + "\n" for t in rows)
                (folder / f"{held}.jsonl").write_text(lines, "utf-8")
            command = [*self._command, str(folder / "train.jsonl"), str(folder / "evaluations"), str(seed)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            found = {k: float(v) for k, v in json.loads(done.stdout.strip().rsplit("\n", 1)[-1]).items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise ProxyError(f"{self._command[0]} gave no losses (exit {done.returncode}): "
                             f"{(done.stderr or done.stdout).strip()[-300:]}") from error
        if done.returncode or set(found) != set(evaluations):
            raise ProxyError(f"{self._command[0]} ended with {done.returncode} and judged {sorted(found)}")
        return found


@dataclass(frozen=True)
class Pool:
    """Documents with a score, their hosts, and the generation (crawl, or round of synthesis) they belong to."""

    ids: Sequence[str]
    texts: Sequence[str]
    scores: np.ndarray  # float64 (n), NaN: no score, in the control alone
    hosts: Sequence[str]
    generations: Sequence[str]


@dataclass(frozen=True)
class Mean:
    """Over seeds: mean and the half-width of its 95 % interval (Student's t; NaN for one seed)."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Of one value a seed."""
        n = len(values)
        spread = float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else float("nan")
        return cls(float(np.mean(values)), spread * float(student.ppf(0.975, n - 1)) if n > 1 else float("nan"))


@dataclass(frozen=True)
class Candidate:
    """One pool, judged."""

    name: str
    threshold: float | None  # None: the control
    tokens: int  # of the pool
    share: float  # of the control's tokens
    epochs: float  # passes over the pool in one draw
    losses: Mapping[str, Mean]
    gains: Mapping[str, Mean]  # control minus candidate, paired by seed: above 0 is better
    diversity: Diversity
    by_generation: Mapping[str, Diversity]


@dataclass(frozen=True)
class Ablation:
    """The whole table."""

    tokens: int  # of each draw
    horizon: int  # of the run that the threshold is for
    seeds: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    warnings: tuple[str, ...] = field(default=())

    def plain(self) -> dict[str, Any]:
        """Plain JSON values; what is not a number is null."""
        return dict(_finite(asdict(self)))


def ablate(pool: Pool, evaluations: Mapping[str, Sequence[str]], thresholds: Sequence[float], *, tokens: int,
           horizon: int | None = None, seeds: Sequence[int] = (1, 2, 3), proxy: Proxy | None = None) -> Ablation:
    """Judge candidate thresholds.

    Args:
        pool: every document, filtered and not.
        evaluations: held-out texts by name; none of them may be in the pool.
        thresholds: a candidate keeps scores of at least this.
        tokens: each proxy is trained on, as the proxy counts them.
        horizon: tokens that the run will take from this source, scaled to this pool; default: ``tokens``.
        seeds: one draw each.
        proxy: default a byte n-gram model.

    Raises:
        ParameterError: nothing to judge with, or a candidate without a document.
    """
    proxy = proxy or ByteProxy()
    held = {t for texts in evaluations.values() for t in texts}
    if not held or tokens < 1 or not seeds:
        raise ParameterError("an ablation needs evaluation texts, tokens to train on and at least one seed")
    leaked = sum(t in held for t in pool.texts)
    if leaked:
        raise ParameterError(f"{leaked} evaluation texts are in the pool: hold them out")
    sizes = np.array([proxy.size(t) for t in pool.texts], np.int64)
    masks: dict[str, tuple[float | None, np.ndarray]] = {CONTROL: (None, np.ones(len(pool.texts), bool))}
    for x in sorted(set(thresholds)):
        masks[f">= {x:g}"] = (x, np.nan_to_num(pool.scores, nan=-np.inf) >= x)
    empty = [name for name, (_, mask) in masks.items() if not sizes[mask].sum()]
    if empty:
        raise ParameterError(f"no document has a score {empty[0]}: drop that threshold")
    losses: dict[str, list[dict[str, float]]] = {name: [] for name in masks}
    for seed in seeds:
        order = np.argsort([digest([seed, name]) for name in pool.ids], kind="stable")
        for name, (_, mask) in masks.items():
            drawn = _draw(order[mask[order]], sizes, tokens)
            losses[name].append(proxy.judge([pool.texts[i] for i in drawn], evaluations, seed))
    subjects = diversity.topics(pool.texts)
    candidates = []
    for name, (bound, mask) in masks.items():
        size = int(sizes[mask].sum())
        rows: list[int] = np.flatnonzero(mask).tolist()
        generations = sorted({pool.generations[i] for i in rows})
        candidates.append(Candidate(
            name, bound, size, size / int(sizes.sum()), tokens / size,
            {e: Mean.of([run[e] for run in losses[name]]) for e in evaluations},
            {e: Mean.of([c[e] - run[e] for c, run in zip(losses[CONTROL], losses[name], strict=True)])
             for e in evaluations},
            _diversity(pool, subjects, rows),
            {g: _diversity(pool, subjects, [i for i in rows if pool.generations[i] == g]) for g in generations},
        ))
    told = _warnings(candidates, losses, tokens, horizon or tokens)
    return Ablation(tokens, horizon or tokens, tuple(seeds), tuple(candidates), tuple(told))


def _draw(order: np.ndarray, sizes: np.ndarray, tokens: int) -> list[int]:
    """Documents in order until ``tokens`` are reached, from the start again when they end. The last one is whole."""
    out: list[int] = []
    total = 0
    while total < tokens:
        for i in order.tolist():
            out.append(i)
            total += int(sizes[i])
            if total >= tokens:
                break
    return out


def _diversity(pool: Pool, subjects: np.ndarray, rows: Sequence[int]) -> Diversity:
    texts, hosts = [pool.texts[i] for i in rows], [pool.hosts[i] for i in rows]
    return diversity.measure(texts, hosts, subjects[np.array(rows, int)])


def _warnings(candidates: Sequence[Candidate], losses: Mapping[str, Sequence[Mapping[str, float]]], tokens: int,
              horizon: int) -> list[str]:
    out, seeds = [], len(losses[CONTROL])
    if horizon > tokens:
        out.append(f"the horizon is short: proxies saw {tokens:,} tokens, the run takes {horizon:,}; a strict filter "
                   "looks better the shorter the horizon")
    for c in candidates:
        if horizon / c.tokens > FEW_EPOCHS:
            out.append(f"{c.name}: at the horizon its {c.tokens:,} tokens are shown {horizon / c.tokens:.1f} times; "
                       f"over {FEW_EPOCHS} passes repeated text is worth less than new text")
    if seeds < 3:
        out.append(f"{seeds} seed{'s' if seeds > 1 else ''}: intervals of fewer than 3 say little")
    for name in candidates[0].losses:
        ordered = sorted(candidates, key=lambda c: c.losses[name].mean)
        first, second = ordered[0].name, ordered[-1 if len(ordered) < 2 else 1].name
        apart = Mean.of([b[name] - a[name] for a, b in zip(losses[first], losses[second], strict=True)])
        if first != second and not apart.mean > (0.0 if math.isnan(apart.half) else apart.half):
            out.append(f"{name}: {first} and {second} cannot be told apart")
    return out


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def render(found: Ablation) -> str:
    """The table as text: losses, paired gains over the control, diversity by pool and generation, warnings."""
    lines = [f"{found.tokens:,} tokens a proxy, seeds {', '.join(map(str, found.seeds))}; losses: lower is better"]
    for name in found.candidates[0].losses:
        lines += ["", f"{name:<16} {'loss':>18} {'gain on control':>20} {'tokens':>14} {'share':>7} {'epochs':>7}"]
        for c in found.candidates:
            loss, gain = c.losses[name], c.gains[name]
            shown = "" if c.threshold is None else f"{gain.mean:+.4f} ± {gain.half:.4f}"
            lines.append(f"{c.name:<16} {loss.mean:>9.4f} ± {loss.half:.4f} {shown:>20} {c.tokens:>14,} "
                         f"{c.share:>6.1%} {c.epochs:>7.2f}")
    lines += ["", f"{'diversity':<30} {'documents':>9} {'type/token':>10} {'hosts':>7} {'eff. hosts':>10} "
                  f"{'eff. topics':>11} {'words p10/50/90':>18}"]
    for c in found.candidates:
        for label, d in ((c.name, c.diversity), *((f"  {g}", d) for g, d in c.by_generation.items())):
            lines.append(
                f"{label:<30} {d.documents:>9,} {d.type_token_ratio:>10.3f} {d.hosts:>7,} {d.effective_hosts:>10.1f} "
                f"{d.effective_topics:>11.1f} {f'{d.length_p10:.0f}/{d.length_p50:.0f}/{d.length_p90:.0f}':>18}")
    return "\n".join([*lines, *(["", *(f"warning: {w}" for w in found.warnings)] if found.warnings else [])])
