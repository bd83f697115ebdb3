"""Which statistics the columns of a data file get, by the options of a table.

Rules: Paimon's StatsCollectorFactories. `fields.NAME.stats-mode` holds for one column, `metadata.stats-mode` (of a
level or of changelogs) for the others. With `metadata.stats-keep-first-n-columns` only the first columns get it,
besides those with a mode of their own. Key columns of files get texts of 128 characters. In Avro files they get what
other columns get, and count among the first columns, with the sequence number and the row kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lakebed.errors import OptionError
from lakebed.formats.paimon.codec.schema_json import TableSchema

_KEY_CHARACTERS = 128
_FULL = 2**31 - 1
_SYSTEM_COLUMNS = 2
"""The sequence number and the row kind."""


@dataclass(frozen=True, slots=True)
class StatsMode:
    """Whether to count the nulls of a column, and the characters that its bounds are cut to (0: no bounds)."""

    counts: bool
    characters: int

    @classmethod
    def parse(cls, text: str, key: str = "metadata.stats-mode") -> StatsMode:
        """Read none, counts, full or truncate(N). OptionError for another text."""
        word = text.strip().lower()
        match = re.fullmatch(r"truncate\((\d+)\)", word)
        if match and int(match[1]) > 0:
            return cls(True, int(match[1]))
        if word in ("none", "counts", "full"):
            return cls(word != "none", _FULL if word == "full" else 0)
        raise OptionError.ill_typed(key, text, "none, counts, full or truncate(N)")


KEY_MODE = StatsMode(True, _KEY_CHARACTERS)
NO_STATS = StatsMode(False, 0)


@dataclass(frozen=True, slots=True)
class StatsModes:
    """The statistics of each value column, and of each column of the key by its name in the table.

    `dense`: columns without statistics are left out of the rows of statistics.
    """

    columns: Mapping[str, StatsMode]
    keys: Mapping[str, StatsMode]
    dense: bool


@dataclass(frozen=True, slots=True)
class StatsRules:
    """What options say of statistics. `first`: the columns that get `mode`, -1 for all. `own`: modes of single
    columns."""

    mode: StatsMode
    own: Mapping[str, StatsMode]
    first: int = -1
    dense: bool = True

    def modes(self, schema: TableSchema, avro: bool, thin: bool) -> StatsModes:
        """The modes of the columns of a file. `thin`: the file has no columns of the key besides the value columns."""
        keys = schema.trimmed_primary_keys if schema.primary_keys else ()
        columns, counted = dict[str, StatsMode](), 0
        of_keys = dict.fromkeys(keys, KEY_MODE)
        if keys and avro:
            for name in () if thin else keys:
                of_keys[name], counted = self._at(counted), counted + 1
            counted += _SYSTEM_COLUMNS
        for name in schema.names:
            if name in self.own:
                columns[name], counted = self.own[name], counted + 1
            elif thin and not avro and name in keys:
                columns[name] = KEY_MODE
            else:
                columns[name], counted = self._at(counted), counted + 1
        return StatsModes(columns, {name: columns[name] for name in keys} if thin else of_keys, self.dense)

    def _at(self, counted: int) -> StatsMode:
        return NO_STATS if 0 <= self.first <= counted else self.mode


def own_modes(schema: TableSchema, options: Mapping[str, str]) -> dict[str, StatsMode]:
    """The modes of single columns, `fields.NAME.stats-mode`. OptionError for what is no mode."""
    keys = {key.lower(): key for key in options}
    named = {name: keys.get(f"fields.{name}.stats-mode".lower()) for name in schema.names}
    return {name: StatsMode.parse(options[key], key) for name, key in named.items() if key is not None}
