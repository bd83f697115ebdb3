"""Metrics modes: which metrics of a column the manifest entry of a data file has.

Rules: MetricsConfig and MetricsModes of the reference engine, and the table properties `write.metadata.metrics.*`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lakebed.errors import OptionError
from lakebed.formats.iceberg.write.statistics.leaves import Leaf
from lakebed.kernel.options import Option

_DEFAULT = "write.metadata.metrics.default"
_COLUMN = "write.metadata.metrics.column."
_MAX_COLUMNS = Option(
    "write.metadata.metrics.max-inferred-column-defaults",
    int,
    100,
    "How many columns have metrics where the table names no default mode.",
)
_INFERRED = "truncate(16)"
_WHOLE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """Whether values are counted, and to how many characters or bytes bounds are truncated (0: no bounds)."""

    counts: bool
    length: int

    @classmethod
    def parse(cls, text: str, key: str) -> MetricsMode:
        """The mode of a text: none, counts, truncate(N) or full. OptionError names the property `key`."""
        word = text.strip().lower()
        match = re.fullmatch(r"truncate\((\d+)\)", word)
        if match and int(match[1]):
            return cls(True, int(match[1]))
        if word not in ("none", "counts", "full"):
            raise OptionError.ill_typed(key, text, "none, counts, truncate(N) or full")
        return cls(word != "none", _WHOLE if word == "full" else 0)


def metrics_modes(
    leaves: Sequence[Leaf], properties: Mapping[str, str], sorted_ids: Collection[int] = ()
) -> dict[int, MetricsMode]:
    """The mode of each column, by id.

    Columns of the sort order have bounds, unless a property names their mode. In a wide table only the first hundred
    columns have metrics without being named.
    """
    default = properties.get(_DEFAULT)
    mode = MetricsMode.parse(default or _INFERRED, _DEFAULT)
    inferred = _MAX_COLUMNS.read(properties.get(_MAX_COLUMNS.key, "100")) if default is None else len(leaves)
    none, of_sorted = MetricsMode(False, 0), mode if mode.length else MetricsMode(True, 16)
    modes = {}
    for number, leaf in enumerate(leaves):
        given = properties.get(_COLUMN + leaf.name)
        if given is not None:
            modes[leaf.id] = MetricsMode.parse(given, _COLUMN + leaf.name)
        elif leaf.id in sorted_ids:
            modes[leaf.id] = of_sorted
        else:
            modes[leaf.id] = mode if number < inferred else none
        if not leaf.has_bounds:
            modes[leaf.id] = MetricsMode(modes[leaf.id].counts, 0)
    return modes
