"""Policy: what may be shown, decided when a manifest is built, never by a stage.

Belongs here: the rules, their order, their parameters, the licence registry. Does not belong here: which documents a
recipe wants (``mixture/``), and carrying verdicts from records to documents and clusters (``eligibility.py``).
"""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gristmill import shuffle
from gristmill.acquire import robots
from gristmill.errors import ManifestError
from gristmill.fingerprint import canonical_json, digest
from gristmill.mixture.recipe import Positive, _plain
from gristmill.release.language_tiers import LanguageTiers
from gristmill.release.tombstones import Tombstones, host_covered
from gristmill.store import Store
from gristmill.tokens.strata import shard_key
from gristmill.validation import sentences

LICENCES = "registry/licences"

# Rules about one fetch. A document stays while one of its records passes them all. A record is counted under the first
# that it fails, in this order.
RECORD_RULES = (
    "ok",
    "tombstone_url",
    "tombstone_host",
    "tombstone_contract",
    "host_excluded",
    "trap",
    "robots",
    "robots_retro",
    "licence_unknown",
    "licence_denied",
    "licence_expired",
    "licence_scope",
    "crawl_cutoff",
    "contract_cutoff",
    "generator_cutoff",
)
# Rules about a text, after those.
DOCUMENT_RULES = (
    "tombstone_doc",
    "holdout",
    "holdout_copy",
    "contamination",
    "derived",  # made from a document that is contaminated or held out
    "hard_removal",
    "safety",
    "quality_tier",
    "downweight",
)
RULES = (*RECORD_RULES, *DOCUMENT_RULES)
NUMBER = {name: i for i, name in enumerate(RULES)}


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LicencePolicy(_Model):
    """Which licences may be used."""

    allow: tuple[str, ...] | None = None  # None: every known one
    deny: tuple[str, ...] = ()
    unknown: bool = True  # records with no licence known: web pages have none
    scope: str = "training"  # what the licence's scope must name, where the registry states a scope


class Downweight(_Model):
    """Keep a share of the documents that a predicate names, by keyed sampling: the same ones in every build."""

    where: str
    keep: Positive


class Policy(_Model):
    """What may be shown.

    ``as_of`` is the day for which expiry is judged. It is a parameter and not the clock, so that a manifest built again
    is the same manifest.
    """

    as_of: dt.date | None = None
    licences: LicencePolicy = LicencePolicy()
    robots: tuple[str, ...] = ("disallowed_at_fetch", "retro_optout")  # states at fetch that exclude
    # ... beside what the newest robots.txt of any crawl says of the URL to any of these agents today. Empty: not asked.
    robots_agents: tuple[str, ...] = ("CCBot",)
    hosts: tuple[str, ...] = ()  # excluded, with everything under them
    traps: tuple[str, ...] = ()  # crawler traps, likewise, ...
    found_traps: bool = True  # ... beside the hosts that intake found to be traps
    knowledge_cutoff: dt.date | None = None  # nothing from this day on
    tier_cutoffs: dict[str, dt.date] = Field(default_factory=dict)  # commits ("code"), say, by another day
    generator_cutoffs: dict[str, dt.date] = Field(default_factory=dict)  # generator model -> what it may know of
    contamination: bool = True  # exclude what holds a benchmark item, and what is made from such a document
    contamination_benchmarks: tuple[str, ...] | None = None  # of these only; None: of all
    hard_removal: bool = True  # exclude what a hash list of params.safety names
    safety: tuple[str, ...] = ()  # predicates; what one names is excluded
    language_tiers: LanguageTiers | None = None  # thresholds by size of language; {} is the reference table
    downweight: tuple[Downweight, ...] = ()
    seed: int = 0  # of the keyed sampling

    def plain(self) -> dict[str, Any]:
        """Plain JSON values."""
        data = json.loads(self.model_dump_json())
        data["downweight"] = _plain([d.model_dump() for d in self.downweight])
        data["language_tiers"] = None if self.language_tiers is None else _plain(self.language_tiers.model_dump())
        return dict(data)


def parse(data: Any, where: str = "policy") -> Policy:
    """A policy from plain data. Raises ManifestError naming the field."""
    try:
        return Policy.model_validate(data or {})
    except ValidationError as error:
        raise ManifestError(f"{where}: {sentences(error, Policy)}") from error


class Licence(_Model):
    """One contract or public licence, as the registry knows it."""

    license_id: str
    scope: tuple[str, ...] | None = None
    signed: dt.date | None = None
    expires: dt.date | None = None


def put_licence(store: Store, licence: Licence) -> None:
    """Write or replace a registry entry."""
    store.blobs.put(
        f"{LICENCES}/{digest(licence.license_id)[:24]}.json", canonical_json(json.loads(licence.model_dump_json()))
    )


def licences(store: Store) -> dict[str, Licence]:
    """The licence registry."""
    found = [Licence.model_validate(json.loads(store.blobs.get(path))) for path, _ in store.blobs.list(LICENCES)]
    return {entry.license_id: entry for entry in sorted(found, key=lambda e: e.license_id)}


def registry_digest(store: Store) -> str:
    """sha256 over the licence registry: state that a manifest consumed."""
    return digest([json.loads(entry.model_dump_json()) for entry in licences(store).values()])


class Judge:
    """A policy with the registries it reads, ready for tables.

    Raises:
        ManifestError: a licence has an expiry and the policy names no day to judge it by.
    """

    def __init__(self, policy: Policy, tombstones: Tombstones, known: dict[str, Licence]) -> None:
        self.policy = policy
        self.tombstones = tombstones
        self.known = known
        expiring = sorted(name for name, entry in known.items() if entry.expires)
        if expiring and policy.as_of is None:
            raise ManifestError(
                f"licences expire ({', '.join(expiring[:5])}): name the day to judge them by (policy.as_of)"
            )

    def records(self, table: pa.Table, rules: robots.Registry | None = None) -> np.ndarray:
        """Rule number of the first rule each row of ``catalogue_records`` fails; 0 where it passes all.

        Args:
            table: rows of CATALOGUE_RECORDS.
            rules: every robots.txt that any crawl fetched from these hosts.

        Returns:
            int8 [rows], an index into RULES.
        """
        n = table.num_rows
        out = np.zeros(n, np.int8)

        def mark(rule: str, hit: np.ndarray) -> None:
            out[(out == 0) & hit] = NUMBER[rule]

        stones, policy = self.tombstones, self.policy
        hosts, host_index = _dictionary(table, "host")
        licences_, licence_index = _dictionary(table, "license_id")
        if stones.urls:
            hashes = np.array(sorted(stones.urls), np.uint64)
            mark("tombstone_url", np.isin(table.column("url_hash").to_numpy(), hashes))
        mark("tombstone_host", _lookup([host_covered(h or "", stones.hosts) for h in hosts], host_index))
        mark("tombstone_contract", _lookup([x in stones.contracts for x in licences_], licence_index))
        mark("host_excluded", _lookup([host_covered(h or "", frozenset(policy.hosts)) for h in hosts], host_index))
        mark("trap", _lookup([host_covered(h or "", frozenset(policy.traps)) for h in hosts], host_index))
        if policy.found_traps:
            mark("trap", table.column("trap").fill_null(False).to_numpy(zero_copy_only=False).astype(bool))
        states, state_index = _dictionary(table, "robots_state")
        mark("robots", _lookup([s in policy.robots for s in states], state_index))
        if rules is not None and rules.authorities and policy.robots_agents:
            mark("robots_retro", _opted_out(table.column("url").to_pylist(), rules, policy.robots_agents))
        for rule, verdicts in self._licence_rules(licences_).items():
            mark(rule, _lookup(verdicts, licence_index))
        self._cutoffs(table, licences_, licence_index, mark)
        return out

    def _licence_rules(self, names: list[str | None]) -> dict[str, list[bool]]:
        rules = self.policy.licences
        known = [self.known.get(n) if n is not None else None for n in names]
        day = self.policy.as_of
        return {
            "licence_unknown": [n is None and not rules.unknown for n in names],
            "licence_denied": [
                n is not None and (n in rules.deny or (rules.allow is not None and n not in rules.allow)) for n in names
            ],
            "licence_expired": [bool(k and k.expires and day and k.expires <= day) for k in known],
            "licence_scope": [bool(k and k.scope is not None and rules.scope not in k.scope) for k in known],
        }

    def _cutoffs(self, table: pa.Table, names: list[str | None], licence_index: np.ndarray, mark: Any) -> None:
        policy = self.policy
        tiers, tier_index = _dictionary(table, "source_tier")
        by_tier = [policy.tier_cutoffs.get(t or "", policy.knowledge_cutoff) for t in tiers]
        if any(by_tier):
            never = np.iinfo(np.int64).max
            bound = _lookup([_micros(day) if day else never for day in by_tier], tier_index, np.int64)
            fetched = table.column("fetch_ts").cast(pa.int64()).fill_null(-1).to_numpy()
            mark("crawl_cutoff", fetched >= bound)
        if policy.knowledge_cutoff:
            signed = [self.known[n].signed if n is not None and n in self.known else None for n in names]
            late = [day is not None and day >= policy.knowledge_cutoff for day in signed]
            mark("contract_cutoff", _lookup(late, licence_index))
        if policy.knowledge_cutoff and "generator_model_id" in table.column_names:
            models, model_index = _dictionary(table, "generator_model_id")
            # A generator whose own cutoff is not known may have seen anything.
            mark(
                "generator_cutoff",
                _lookup(
                    [
                        m is not None and policy.generator_cutoffs.get(m, dt.date.max) > policy.knowledge_cutoff
                        for m in models
                    ],
                    model_index,
                ),
            )


def _opted_out(urls: list[str], rules: robots.Registry, agents: tuple[str, ...]) -> np.ndarray:
    """Which URLs the newest robots.txt closes to one of the agents."""
    return np.array([any(rules.current(u, a)[0] == robots.RETRO for a in agents) for u in urls], bool)


def sampled_out(doc_id: pa.ChunkedArray, keep: Decimal, seed: int, number: int) -> np.ndarray:
    """bool: which documents a down-weighting rule drops; the share ``keep`` stays, the same in every build."""
    bound = int(keep * 2**64)
    if bound >= 2**64:
        return np.zeros(len(doc_id), bool)
    keys = shard_key(shuffle.first_uint64(doc_id), seed * 1_000_003 + number + 1)
    return keys >= np.uint64(bound)


def _dictionary(table: pa.Table, name: str) -> tuple[list[str | None], np.ndarray]:
    """Distinct values of a column, and the index of each row's; nulls are a value."""
    column = table.column(name).combine_chunks()
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _lookup(values: list[Any], index: np.ndarray, dtype: Any = bool) -> np.ndarray:
    if not len(index):
        return np.zeros(0, dtype)
    return np.array(values, dtype)[index]


def _micros(day: dt.date) -> int:
    return int(dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC).timestamp()) * 1_000_000
