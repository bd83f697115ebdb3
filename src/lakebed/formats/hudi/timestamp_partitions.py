"""Partition paths that a timestamp-based key generator makes: a column's moment, written by a pattern.

The column holds a number (of seconds, of the unit that the options name, of days for a date) or, for the types
DATE_STRING and MIXED, a text that one of some patterns reads. A null counts as 1, so its path is that of 1970 unless
days are counted. Without a time zone among the options it is that of the machine that writes, as with Hudi's own
writers.

Rules: Hudi's `TimestampBasedAvroKeyGenerator`, `HoodieDateTimeParser`, `TimestampKeyGeneratorConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import OptionError, SchemaError, UnsupportedError, UsageError
from lakebed.formats.hudi import table_options as opt
from lakebed.kernel.arrays import Int64s, from_numpy, one_chunk
from lakebed.kernel.joda.pattern import parse_pattern
from lakebed.kernel.joda.reading import read_times
from lakebed.kernel.joda.writing import texts_of
from lakebed.kernel.joda.zones import GMT, Zone, is_zone, java_zone, local_zone
from lakebed.kernel.options import Options, OptionSet

SETTINGS = OptionSet(opt.TIMESTAMP_BASED, "timestamp-based key generators")
_TEXTS = ("DATE_STRING", "MIXED")
_UNITS = {
    "UNIX_TIMESTAMP": (1000, 1), "EPOCHMILLISECONDS": (1, 1), "EPOCHMICROSECONDS": (1, 1000), "NANOSECONDS": (1, 10**6),
    "MICROSECONDS": (1, 1000), "MILLISECONDS": (1, 1), "SECONDS": (1000, 1), "MINUTES": (60_000, 1),
    "HOURS": (3_600_000, 1), "DAYS": (86_400_000, 1),
}  # fmt: skip
"""Each time unit as a factor and a divisor that turn a number into milliseconds."""
_PARSER = opt.DATE_PARSER.default


@dataclass(frozen=True, slots=True)
class TimestampPartitions:
    """Makes the partition values of one column. Picklable.

    `unit` says what a number counts, "" where the column holds texts, which `formats` read. `read_zone` is the zone of
    texts that name none, `written_zone` that of paths; None where the options name none. `local` is the machine's.
    """

    unit: str
    formats: tuple[str, ...]
    pattern: str
    read_zone: Zone | None
    written_zone: Zone | None
    local: Zone

    @classmethod
    def of(cls, properties: Mapping[str, str], given: Options, table: str) -> TimestampPartitions:
        """The partitioning that the table's settings and a write's options give.

        OptionError if an option is missing or a pattern is not valid, UsageError if the write contradicts the table,
        UnsupportedError for patterns that lakebed does not support.
        """
        stored = SETTINGS.over(properties, {}, "hoodie.")
        for option in opt.TIMESTAMP_BASED:
            if stored.given(option) and given.given(option) and stored[option] != given[option]:
                raise UsageError(
                    f"the option {option.key} does not agree with the table",
                    table=table,
                    why=f"the table has {stored[option]!r}, the option says {given[option]!r}",
                    todo="Leave the option out: other paths would put rows of one partition into two",
                )
        texts = {option.key: given[option] for option in opt.TIMESTAMP_BASED if given.given(option)}
        return cls._from(SETTINGS.over(properties, texts, "hoodie."), table)

    @classmethod
    def _from(cls, options: Options, table: str) -> TimestampPartitions:
        for option in (opt.TIMESTAMP_TYPE, opt.OUTPUT_FORMAT):
            if not options[option]:
                raise OptionError(
                    "a timestamp-based key generator needs to know how a partition's path is made",
                    key=option.key,
                    table=table,
                    todo=f"Give the option {option.key}",
                )
        if options[opt.DATE_PARSER] != _PARSER:
            raise UnsupportedError(
                f"lakebed does not have the parser of dates {options[opt.DATE_PARSER]}",
                table=table,
                todo=f"Leave out the option {opt.DATE_PARSER.key}",
            )
        kind = options[opt.TIMESTAMP_TYPE]
        formats: tuple[str, ...] = ()
        if kind in _TEXTS:
            if not options[opt.INPUT_FORMAT]:
                raise OptionError(
                    f"columns of type {kind} need a format", key=opt.INPUT_FORMAT.key, table=table,
                    todo=f"Give the option {opt.INPUT_FORMAT.key}",
                )  # fmt: skip
            parts = re.split(options[opt.INPUT_DELIMITER], options[opt.INPUT_FORMAT])
            formats = tuple(part.strip() for part in parts if part.strip())
        for pattern in formats:
            parse_pattern(pattern, reads=True)
        parse_pattern(options[opt.OUTPUT_FORMAT])
        both = options[opt.BOTH_ZONES] if options.given(opt.BOTH_ZONES) else ""
        read, written = both or options[opt.INPUT_ZONE], both or options[opt.OUTPUT_ZONE]
        return cls(
            "" if formats else options[opt.TIME_UNIT].upper() if kind == "SCALAR" else kind,
            formats,
            options[opt.OUTPUT_FORMAT],
            java_zone(read) if read.strip() else None,
            java_zone(written) if written.strip() else None,
            GMT if written.strip() and (read.strip() or not formats) else local_zone(),
        )

    def check_column(self, field: pa.Field, table: str) -> None:
        """SchemaError for a column whose values Hudi does not take for such a time."""
        kind, types = field.type, pa.types
        text = types.is_string(kind) or types.is_large_string(kind)
        number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        moment = types.is_date32(kind) or types.is_timestamp(kind)
        if not (text if self.formats else number or moment):
            raise SchemaError(
                f"column {field.name!r} is {kind}, which makes no partition of that timestamp type",
                table=table,
                todo=f"Give {opt.TIMESTAMP_TYPE.key} DATE_STRING for texts, another type for numbers, dates and "
                "timestamps",
            )

    def values(self, column: pa.Array) -> pa.StringArray:
        """The partition value of each row. SchemaError for a text that no format reads, or a time out of range."""
        texts = self._of_texts if self.formats else self._of_numbers
        if not column.null_count:
            return texts(column)
        known = column.is_valid()
        paths = texts(column.drop_null())
        places = pc.cast(pc.cumulative_sum(known.cast(pa.int64())), pa.int64()).to_numpy() - 1
        places = np.where(known.to_numpy(zero_copy_only=False), places, len(paths))
        return pa.concat_arrays([paths, texts(self._of_null(column.type))]).take(from_numpy(places))

    def _of_null(self, kind: pa.DataType) -> pa.Array:
        """The time used for null: 1, or the first millisecond after 1970 began, as the first format writes it."""
        if not self.formats:
            return pa.array([1], pa.int64())
        zone = self.read_zone or self.written_zone or GMT
        offsets = zone.offsets(np.zeros(1, np.int64))
        return texts_of(offsets * 1000 + 1, offsets, parse_pattern(self.formats[0]))

    def _of_numbers(self, column: pa.Array) -> pa.StringArray:
        numbers = _longs(column)
        times, by = _UNITS[self.unit]
        greatest = (1 << 62) // times
        if by == 1 and len(numbers) and (numbers.max() > greatest or numbers.min() < -greatest):
            raise SchemaError(
                f"a time of {max(numbers.max(), -numbers.min())} {self.unit} is out of range",
                todo="Check hoodie.keygen.timebased.timestamp.type and its unit",
            )
        millis = numbers * times if by == 1 else np.sign(numbers) * (np.abs(numbers) // by)
        return self._written(millis, self.written_zone or self.local)

    def _of_texts(self, column: pa.Array) -> pa.StringArray:
        times = read_times(column.cast(pa.string()), self.formats)
        zone = self.read_zone or self.local
        offsets = times.offsets
        if not times.zoned.all():
            seconds, none = zone.moments(times.local // 1000)
            gap = none & ~times.zoned
            if gap.any():
                text = column[int(np.flatnonzero(gap)[0])].as_py()
                raise SchemaError(
                    f"{text!r} is not a time in {zone.id}",
                    why="clocks were put forward over it",
                    todo="Write an offset into the text, or take UTC as time zone",
                )
            offsets = np.where(times.zoned, offsets, times.local // 1000 - seconds)
        if self.written_zone is None and self.read_zone is None:  # each text keeps its own zone
            return texts_of(times.local, offsets, parse_pattern(self.pattern))
        return self._written(times.local - offsets * 1000, self.written_zone or zone)

    def _written(self, millis: Int64s, zone: Zone) -> pa.StringArray:
        offsets = zone.offsets(millis // 1000)
        return texts_of(millis + offsets * 1000, offsets, parse_pattern(self.pattern))


def check_zones(options: Options, table: str) -> None:
    """OptionError for a time zone that Java would take for GMT without a word: a new table does not begin with it."""
    for option in (opt.INPUT_ZONE, opt.OUTPUT_ZONE, opt.BOTH_ZONES):
        if options[option].strip() and not is_zone(options[option]):
            raise OptionError(
                f"{options[option]!r} is not a time zone",
                key=option.key,
                table=table,
                todo="Give one such as UTC, Europe/Berlin or GMT+05:30",
            )


def _longs(column: pa.Array) -> Int64s:
    """Values as Java's `longValue` has them: without their fraction. Dates are days, timestamps microseconds."""
    types, kind = pa.types, column.type
    if types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz))
    elif types.is_date32(kind):
        column = column.cast(pa.int32())
    elif types.is_decimal(kind):
        column = column.cast(pa.decimal128(38, 0), safe=False)
    elif types.is_floating(kind):
        numbers = one_chunk(column).cast(pa.float64()).to_numpy()
        return np.where(np.isnan(numbers), 0, np.clip(np.nan_to_num(numbers), -(2.0**63), 2.0**63 - 1024)).astype(
            np.int64
        )
    longs: Int64s = column.cast(pa.int64()).to_numpy()
    return longs
