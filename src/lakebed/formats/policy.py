"""The policy of a table's upkeep: which verbs run, with which options, and what a run may spend. A TOML file.

    verbs = ["rewrite", "expire", "archive"]       # in this order; those that a format has. By default all
    audit = "upkeep.jsonl"                         # a line for each run is added to this file

    [budget]                                       # of one run over all its tables; without a key, no bound
    bytes = "50 gb"                                # of the files that rewrites take
    minutes = 30                                   # after them no step begins
    requests = 100000                              # to object stores; after them no step begins

    [hudi.archive]                                 # options of a verb for all tables of a format
    "hoodie.keep.max.commits" = 40

    [[table]]                                      # for the tables whose location, or database.table, fits the pattern
    name = "shop.events_*"
    verbs = ["expire"]
    [table.expire]                                 # over those of the format
    "snapshot.num-retained.max" = 20

Of several `[[table]]` that fit, a later one goes before an earlier one.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from lakebed.errors import OptionError, UsageError
from lakebed.formats.finding import short_name
from lakebed.kernel.options import memory_size, option_text

VERBS = ("rewrite", "expire", "archive")
"""The verbs of upkeep, in the order in which they run: what a rewrite replaces, the expiry removes."""
FORMATS = ("hudi", "paimon", "iceberg")
_USUAL: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("paimon", "rewrite"): {"compact_strategy": "minor"},
}
"""Options that upkeep has where the policy gives none: a full compaction would find work after every commit."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that one run may spend. None: no bound."""

    bytes: int | None = None
    minutes: float | None = None
    requests: int | None = None

    @property
    def is_bound(self) -> bool:
        """Whether there is any bound."""
        return (self.bytes, self.minutes, self.requests) != (None, None, None)


@dataclass(frozen=True, slots=True)
class TableRule:
    """What holds for the tables that fit `name`: their verbs (None: as for all), and options by verb."""

    name: str
    verbs: tuple[str, ...] | None = None
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def fits(self, table: str) -> bool:
        """Whether a table, by the location or name that was given to open it, is one of them."""
        return fnmatchcase(table, self.name) or fnmatchcase(short_name(table), self.name)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy that was checked. `options` are those by format and verb; `audit` is a file, "" for none."""

    verbs: tuple[str, ...] = VERBS
    budget: Budget = Budget()
    options: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    tables: tuple[TableRule, ...] = ()
    audit: str = ""

    def verbs_of(self, table: str) -> tuple[str, ...]:
        """The verbs for a table, in the order in which they run."""
        chosen = self.verbs
        for rule in self.tables:
            if rule.verbs is not None and rule.fits(table):
                chosen = rule.verbs
        return tuple(verb for verb in VERBS if verb in chosen)

    def options_of(self, table: str, table_format: str, verb: str) -> dict[str, str]:
        """The options of a verb for a table of a format."""
        key = (table_format, verb)
        options = {**_USUAL.get(key, {}), **self.options.get(key, {})}
        for rule in self.tables:
            if rule.fits(table):
                options |= rule.options.get(verb, {})
        return options


def policy_of(given: Policy | Mapping[str, Any] | str | os.PathLike[str] | None) -> Policy:
    """A policy from a TOML file, from what such a file holds, or the one that is given. None: the default.

    Raises UsageError for a file that cannot be read, and for the first key that is unknown or has a wrong value.
    """
    if given is None or isinstance(given, Policy):
        return given or Policy()
    if isinstance(given, Mapping):
        return _Document("the policy", given).policy()
    file = os.fspath(given)
    try:
        with open(file, "rb") as stream:
            return _Document(file, tomllib.load(stream)).policy()
    except FileNotFoundError:
        raise UsageError("there is no such policy file", file=file, todo="Check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("cannot read the policy file", file=file, why=str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError("this policy is not a TOML file", file=file, why=str(error)) from error


@dataclass(frozen=True, slots=True)
class _Document:
    """The content of one policy. Each method checks the keys that it reads."""

    file: str
    content: Mapping[str, Any]

    def policy(self) -> Policy:
        self._known(self.content, ("verbs", "audit", "budget", "table", *FORMATS), "a policy")
        options = {}
        for name in FORMATS:
            section = self._section(self.content.get(name, {}), name)
            self._known(section, VERBS, f"[{name}]")
            for verb, given in section.items():
                options[name, verb] = self._options(given, f"{name}.{verb}")
        rules = self.content.get("table", [])
        if not isinstance(rules, list):
            raise self._wrong("table", rules, "sections, [[table]]")
        audit = self.content.get("audit", "")
        if not isinstance(audit, str):
            raise self._wrong("audit", audit, "the path of a file")
        verbs = self._verbs(self.content, "verbs")
        return Policy(VERBS if verbs is None else verbs, self._budget(), options, tuple(map(self._rule, rules)), audit)

    def _budget(self) -> Budget:
        section = self._section(self.content.get("budget", {}), "budget")
        self._known(section, ("bytes", "minutes", "requests"), "[budget]")
        size = section.get("bytes")
        if size is not None:
            try:
                size = memory_size(str(size).strip())
            except (ValueError, KeyError):
                raise self._wrong("budget.bytes", size, 'a number of bytes, or a size such as "50 gb"') from None
        for key in ("minutes", "requests"):
            value = section.get(key)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and (not (whole or (key == "minutes" and isinstance(value, float))) or not value >= 0):
                raise self._wrong(f"budget.{key}", value, "a number, 0 or more")
        return Budget(size, section.get("minutes"), section.get("requests"))

    def _rule(self, given: object) -> TableRule:
        section = self._section(given, "table")
        self._known(section, ("name", "verbs", *VERBS), "[[table]]")
        if "name" not in section:
            raise UsageError("table.name is missing", file=self.file, why="a [[table]] says which tables it is for")
        name = section["name"]
        if not isinstance(name, str) or not name:
            raise self._wrong("table.name", name, "a pattern of locations, or of database.table")
        options = {verb: self._options(section[verb], f"table.{verb}") for verb in VERBS if verb in section}
        return TableRule(name, self._verbs(section, "table.verbs"), options)

    def _verbs(self, section: Mapping[str, Any], place: str) -> tuple[str, ...] | None:
        given = section.get("verbs")
        if given is None:
            return None
        if not isinstance(given, list):
            raise self._wrong(place, given, f"a list of {', '.join(VERBS)}")
        for verb in given:
            if verb not in VERBS:
                raise OptionError.unknown(str(verb), VERBS, where=f"{place} of the policy", file=self.file)
        return tuple(given)

    def _options(self, given: object, place: str) -> dict[str, str]:
        return dict(self._flat(self._section(given, place), place, ""))

    def _flat(self, given: Mapping[str, Any], place: str, prefix: str) -> Iterator[tuple[str, str]]:
        """Options as texts. A key without quotes, `a.b = 1`, is a table inside a table in TOML. Here it is `a.b`."""
        for key, value in given.items():
            if isinstance(value, Mapping):
                yield from self._flat(value, place, f"{prefix}{key}.")
            elif isinstance(value, str | int | float | bool):
                yield f"{prefix}{key}", option_text(value)
            else:
                raise self._wrong(f"{place}.{prefix}{key}", value, "a text, a number, true or false")

    def _section(self, given: object, place: str) -> Mapping[str, Any]:
        if not isinstance(given, Mapping):
            raise self._wrong(place, given, f"a section, [{place}]")
        return given

    def _known(self, section: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
        for key in section:
            if key not in keys:
                raise OptionError.unknown(key, keys, where=where, file=self.file)

    def _wrong(self, place: str, value: object, expected: str) -> UsageError:
        return UsageError(f"{place} is {value!r}", file=self.file, why=f"expected {expected}")
