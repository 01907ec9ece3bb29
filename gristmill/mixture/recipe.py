"""The recipe: which documents, in which proportions, in which order of phases.

Belongs here: the YAML's model and its validation, weights of parts, and what is refused before a manifest is built.
Does
not belong here: reading the catalogue (``release/selection.py``) and segments (``schedule.py``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from gristmill.errors import RecipeError
from gristmill.fingerprint import digest
from gristmill.strict_json import require_text
from gristmill.validation import sentences

_SCALE = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
PLACES = 18  # decimal places of weights in a manifest: 2^-60, far under one sequence of any run


def _tokens(value: Any) -> Any:
    """``25T``, ``1.5B``, ``2_000_000``: a whole number of tokens."""
    if isinstance(value, str):
        match = re.fullmatch(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([kMBGT]?)", value.strip())
        if not match:
            raise ValueError(f"{value!r} is not a number of tokens such as 25T")
        exact = Fraction(match[1].replace("_", "")) * _SCALE[match[2]]
        if exact.denominator != 1:
            raise ValueError(f"{value!r} is not a whole number of tokens")
        return int(exact)
    return value


def _decimal(value: Any) -> Any:
    """Weights and caps are exact: 0.1 means one tenth, not the nearest double."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError("not a number")  # noqa: TRY004 - pydantic turns ValueError into its own
    try:
        number = Decimal(str(value))
    except InvalidOperation as error:
        raise ValueError(f"{value!r} is not a number") from error
    if not number.is_finite():
        raise ValueError(f"{value!r} is not finite")
    return number


Tokens = Annotated[int, BeforeValidator(_tokens), Field(gt=0)]
Exact = Annotated[Decimal, BeforeValidator(_decimal)]
Positive = Annotated[Exact, Field(gt=0)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Upsample(_Model):
    """Documents of a source that count more (or less) than once, the source's own share staying what it is.

    ``{where: "n_tokens >= 32768", factor: 5}`` upsamples long documents inside their domain;
    ``{where: "fetch_ts >= DATE '2026-01-01'", factor: 2}`` prefers recent ones.
    """

    where: str
    factor: Positive
    name: str = Field("", pattern=r"^[A-Za-z0-9_.-]*$")


class Source(_Model):
    """A predicate over the catalogue."""

    where: str = "TRUE"
    max_epochs: Positive = Decimal(4)  # "Scaling Data-Constrained Language Models": up to 4 repeats cost little
    upsample: tuple[Upsample, ...] = ()


class Ramp(_Model):
    """Samples per step for a number of steps; the last of a list has no ``steps`` and holds to the end."""

    samples: int = Field(gt=0)
    steps: int | None = Field(None, gt=0)


class Phase(_Model):
    """A stretch of training with constant weights."""

    name: str = Field(pattern=NAME)
    tokens: Tokens
    seq_len: int = Field(gt=0)
    samples_per_step: int | tuple[Ramp, ...]
    packing: Literal["concat", "best_fit", "related"] = "concat"
    # A number, or numbers by length bucket ("len0" ... "len4"): weights by (source, length bucket) jointly.
    weights: dict[str, Positive | dict[Literal["len0", "len1", "len2", "len3", "len4"], Positive]] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "Phase":
        total = sum(
            (w if isinstance(w, Decimal) else sum(w.values(), Decimal(0)) for w in self.weights.values()), Decimal(0)
        )
        if total != 1:
            raise ValueError(f"the weights of phase {self.name} add up to {total}, not 1")
        ramp = self.ramp
        if (
            not ramp
            or ramp[-1][1] is not None
            or any(steps is None for _, steps in ramp[:-1])
            or any(s < 1 for s, _ in ramp)
        ):
            raise ValueError(
                f"phase {self.name}: every entry of samples_per_step needs steps, but the last must have none"
            )
        return self

    @property
    def ramp(self) -> list[tuple[int, int | None]]:
        """(samples per step, steps or None for the rest)."""
        if isinstance(self.samples_per_step, int):
            return [(self.samples_per_step, None)]
        return [(r.samples, r.steps) for r in self.samples_per_step]


class Recipe(_Model):
    """All of it."""

    name: str = Field("recipe", pattern=NAME)
    seed: int = Field(0, ge=0, lt=2**63)
    # What happens where a phase asks more of a source than its cap leaves: refuse the recipe, or hand the rest of the
    # weight to the other sources from there on (a new segment).
    on_cap: Literal["refuse", "redistribute"] = "refuse"
    # A shard of whose documents less than this share is selected is not read as it is: what is selected of it moves
    # into new shards with others of its stratum. 0: shards are never rewritten.
    compact_below: Annotated[Exact, Field(ge=0, le=1)] = Decimal(0)
    sources: dict[Annotated[str, Field(pattern=NAME)], Source] = Field(min_length=1)
    phases: tuple[Phase, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> "Recipe":
        names = [p.name for p in self.phases]
        if len(set(names)) != len(names):
            raise ValueError(f"phases must have different names, not {names}")
        for phase in self.phases:
            unknown = sorted(set(phase.weights) - set(self.sources))
            if unknown:
                raise ValueError(f"phase {phase.name} weighs {unknown}, but the sources are {sorted(self.sources)}")
        unused = sorted(set(self.sources) - {s for p in self.phases for s in p.weights})
        if unused:
            raise ValueError(f"no phase weighs {unused}: drop the source or weigh it")
        return self

    def plain(self) -> dict[str, Any]:
        """Plain JSON values, numbers as decimal strings: what the manifest holds and its hash covers."""
        data: dict[str, Any] = _plain(self.model_dump())
        return data

    @property
    def hash(self) -> str:
        """sha256 (hex) of the canonical JSON of ``plain``."""
        return digest(self.plain())


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def parse(data: Any, where: str = "recipe") -> Recipe:
    """A recipe from plain data. Raises RecipeError naming the field and what is wrong."""
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise RecipeError(f"{where}: {sentences(error, Recipe, 'recipe')}") from error


def read(path: str | Path) -> Recipe:
    """The recipe of a YAML file. Raises RecipeError."""
    return read_with_policy(path)[0]


def read_with_policy(path: str | Path) -> tuple[Recipe, dict[str, Any] | None]:
    """The recipe of a YAML file, and its ``policy`` section as plain data where it has one.

    Raises:
        RecipeError: naming the file, the field and what is wrong.
    """
    file = Path(path)
    try:
        data = yaml.load(file.read_text("utf-8"), Loader=_ExactLoader)  # noqa: S506 - a SafeLoader with exact numbers
        require_text(data)
    except FileNotFoundError as error:
        raise RecipeError(f"no recipe {file}") from error
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise RecipeError(f"{file} cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise RecipeError(f"{file} holds no mapping: a recipe has sources and phases")
    policy = data.pop("policy", None)
    return parse(data, str(file)), policy


class _ExactLoader(yaml.SafeLoader):
    """Floats stay the characters that were written."""


def _as_written(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    return loader.construct_scalar(node)


_ExactLoader.add_constructor("tag:yaml.org,2002:float", _as_written)


# -- parts: a source, or what is left of it when upsampling and joint weights have cut it --


@dataclass(frozen=True)
class Part:
    """What the sampler knows as a source.

    Attributes:
        name: the source's name, ``source/long`` for an upsampled part, ``source/len2`` for a length bucket.
        source: the recipe's source it belongs to.
        predicates: all must hold ...
        excluded: ... and none of these.
        factor: weight of one of its tokens against another of the source.
        bucket: its length bucket, where weights are joint.
    """

    name: str
    source: str
    predicates: tuple[str, ...]
    excluded: tuple[str, ...]
    factor: Fraction
    bucket: int | None = None


def parts_of(recipe: Recipe) -> list[Part]:
    """Disjoint parts of every source, sorted by name.

    A document goes to the first ``upsample`` entry that names it, else to the rest. Where a phase weighs a source by
    length bucket, its parts are cut by bucket too.
    """
    out: list[Part] = []
    for name, source in recipe.sources.items():
        joint = any(isinstance(p.weights.get(name), dict) for p in recipe.phases)
        pieces: list[tuple[str, tuple[str, ...], tuple[str, ...], Fraction]] = []
        earlier: tuple[str, ...] = ()
        for number, entry in enumerate(source.upsample):
            pieces.append(
                (f"{name}/{entry.name or f'up{number}'}", (source.where, entry.where), earlier, Fraction(entry.factor))
            )
            earlier = (*earlier, entry.where)
        pieces.append((f"{name}/rest" if pieces else name, (source.where,), earlier, Fraction(1)))
        for piece, predicates, excluded, factor in pieces:
            if joint:
                out += [
                    Part(f"{piece}/len{b}", name, (*predicates, f"length_bucket = {b}"), excluded, factor, b)
                    for b in range(5)
                ]
            else:
                out.append(Part(piece, name, predicates, excluded, factor))
    names = [p.name for p in out]
    if len(set(names)) != len(names):
        raise RecipeError(f"upsample entries of one source need different names: {sorted(names)}")
    return sorted(out, key=lambda p: p.name)


def part_weights(
    recipe: Recipe, phase: Phase, tokens: Mapping[str, int], selected: Mapping[str, int] | None = None
) -> dict[str, Fraction]:
    """Weight of every part with tokens in a phase; they add up to exactly 1.

    A source's weight is dealt to its parts by tokens x factor, so upsampling inside a source leaves the shares between
    sources where they are.

    Args:
        recipe, phase: from the recipe.
        tokens: part name -> unique tokens, those that whole sequences hold where that is known.
        selected: part name -> unique tokens selected, where ``tokens`` are fewer.

    Raises:
        RecipeError: a weighed source (or length bucket of one) selects nothing, or nowhere as much as a sequence.
    """
    out: dict[str, Fraction] = {}
    parts = parts_of(recipe)
    for source, weight in phase.weights.items():
        groups: list[tuple[str, Fraction, list[Part]]] = []
        own = [p for p in parts if p.source == source]
        if isinstance(weight, dict):
            groups = [
                (f"{source}/{k}", Fraction(w), [p for p in own if p.bucket == int(k[3:])]) for k, w in weight.items()
            ]
        else:
            groups = [(source, Fraction(weight), own)]
        for name, share, members in groups:
            mass = {p.name: p.factor * tokens.get(p.name, 0) for p in members}
            total = sum(mass.values(), Fraction(0))
            there = sum((selected or {}).get(p.name, 0) for p in members)
            if not total and there:
                raise RecipeError(
                    f"phase {phase.name}: {name} selects {show(there)} tokens, but no shard holds the "
                    f"{phase.seq_len:,} of one sequence, and sequences end with their shard: ask for a shorter "
                    "seq_len, widen the source, or make larger shards (params.tokenize.shard_tokens)"
                )
            if not total:
                raise RecipeError(f"phase {phase.name} gives {name} the weight {share}, but it selects no tokens")
            for part, value in mass.items():
                if value:
                    out[part] = out.get(part, Fraction(0)) + share * value / total
    return out


def decimal_strings(weights: Mapping[str, Fraction]) -> dict[str, str]:
    """Fractions that add up to 1 as decimal strings that do too: rounded down to 18 places, the rest to the largest."""
    unit = 10**PLACES
    floors = {name: int(w * unit) for name, w in sorted(weights.items())}
    lead = max(floors, key=lambda n: (floors[n], n))
    floors[lead] += unit - sum(floors.values())
    return {name: format((Decimal(v).scaleb(-PLACES)).normalize(), "f") for name, v in floors.items() if v > 0}


def demand(recipe: Recipe, tokens: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """What the phases ask of every part, were its weight never redistributed.

    Returns:
        part -> {"unique", "asked" (tokens, Fraction), "epochs" (Fraction), "cap" (Fraction), "by_phase"}; parts that
        select nothing are left out.

    Raises:
        RecipeError: a weighed source selects nothing.
    """
    caps = {p.name: Fraction(recipe.sources[p.source].max_epochs) for p in parts_of(recipe)}
    by_phase: dict[str, dict[str, Fraction]] = {}
    for phase in recipe.phases:
        for part, weight in part_weights(recipe, phase, tokens).items():
            by_phase.setdefault(part, {})[phase.name] = weight * phase.tokens
    return {
        part: {
            "unique": tokens[part],
            "asked": sum(asked.values(), Fraction(0)),
            "epochs": sum(asked.values(), Fraction(0)) / tokens[part],
            "cap": caps[part],
            "by_phase": asked,
        }
        for part, asked in sorted(by_phase.items())
    }


def refuse_impossible(recipe: Recipe, tokens: Mapping[str, int]) -> None:
    """Refuse a recipe that asks for more epochs than its caps allow, with the numbers.

    With ``on_cap: redistribute`` only what no source can take is refused, and that is ``compile_schedule``'s to say.

    Raises:
        RecipeError: naming every source, what is asked, what there is, the epochs and the cap.
    """
    lines = []
    for name, d in demand(recipe, tokens).items():
        if d["epochs"] > d["cap"] and recipe.on_cap == "refuse":
            phases = ", ".join(f"{p} {show(t)}" for p, t in d["by_phase"].items())
            lines.append(
                f"source {name}: {show(d['asked'])} tokens asked ({phases}) of {show(d['unique'])} unique is "
                f"{float(d['epochs']):.1f} epochs, over its cap of {float(d['cap']):g}"
            )
    if lines:
        raise RecipeError(
            "; ".join(lines) + ". Lower the weight or the tokens, widen the source, raise max_epochs, or set "
            "on_cap: redistribute"
        )


def show(tokens: Fraction | int) -> str:
    """A number of tokens for people: 1.1T, 25.3M, 812."""
    value = float(tokens)
    for letter, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.4g}{letter}"
    return f"{value:.4g}"
