"""What the footer of a base file says of its record keys: the bloom filter, the least key and the greatest one.

A file that replaces another has its keys and those of the rows that came in. Where none goes, the filter of the old
file is added to: hashing all keys anew is a large part of a rewrite.

Rules: Hudi's `HoodieBloomFilterWriteSupport` (keys of the footer).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.formats.hudi.codec.bloom import FilterBuilder, FilterSettings

BLOOM, BLOOM_KIND = "org.apache.hudi.bloomfilter", "hoodie_bloom_filter_type_code"
LEAST, GREATEST = "hoodie_min_record_key", "hoodie_max_record_key"


class KeySummary:
    """Sums up the keys of one file. `settings` is None for files without a filter."""

    def __init__(self, settings: FilterSettings | None) -> None:
        self._settings = settings
        self._filter = FilterBuilder(settings) if settings is not None else None
        self._least: str | None = None
        self._greatest: str | None = None
        self._complete = False

    @classmethod
    def continued(cls, settings: FilterSettings | None, footer: Mapping[bytes, bytes]) -> KeySummary | None:
        """The summary of a file with all keys of an older file, whose footer is given, and with those of `add_new`.

        None where the footer does not tell enough, or has another kind of filter.
        """
        least, greatest = footer.get(LEAST.encode()), footer.get(GREATEST.encode())
        if least is None or greatest is None:
            return None
        summary = cls(settings)
        if settings is not None:
            text, kind = footer.get(BLOOM.encode()), footer.get(BLOOM_KIND.encode(), b"SIMPLE")
            try:
                summary._filter = FilterBuilder.resumed(settings, text, kind.decode()) if text else None
            except CorruptError:
                return None
            if summary._filter is None:
                return None
        summary._least, summary._greatest = least.decode(), greatest.decode()
        summary._complete = True
        return summary

    def add_new(self, keys: pa.StringArray) -> None:
        """Add keys that the older file does not have."""
        if self._filter is not None:
            self._filter.add_missing(keys)
        self._bounds(keys)

    def add(self, keys: pa.StringArray) -> None:
        """Add the keys of rows that are written. Of a summary that continues another file these are known."""
        if self._complete or not len(keys):
            return
        if self._filter is not None:
            self._filter.add(keys)
        self._bounds(keys)

    def _bounds(self, keys: pa.StringArray) -> None:
        if len(keys):
            bounds = pc.min_max(keys).as_py()
            self._least = bounds["min"] if self._least is None else min(self._least, bounds["min"])
            self._greatest = bounds["max"] if self._greatest is None else max(self._greatest, bounds["max"])

    def footer(self) -> dict[str, str]:
        """The key-value pairs of the footer."""
        pairs: dict[str, str] = {}
        if self._least is not None and self._greatest is not None:
            pairs |= {LEAST: self._least, GREATEST: self._greatest}
        if self._filter is not None and self._settings is not None:
            pairs |= {BLOOM: self._filter.finish().decode(), BLOOM_KIND: str(self._settings.kind)}
        return pairs
