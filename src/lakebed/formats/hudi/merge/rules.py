"""The rules by which a table merges the versions of a row, from its properties.

From table version 8 on the merge mode decides, with the partial update mode and the properties that version 9 adds.
Before that, and where the mode is custom, the payload class decides. The classes that Hudi ships mean what its upgrade
to version 9 (`EightToNineUpgradeHandler`) turns them into. Any other payload, merger or mode is refused by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.schema import MISSING, writer_schema
from lakebed.formats.hudi.codec.timestamps import bare_unit, mislabelled_units
from lakebed.formats.hudi.config import TableConfig
from lakebed.kernel.arrays import Bools, to_numpy

_MODEL = "org.apache.hudi.common.model."
_PAYLOADS = (_MODEL, "com.uber.hoodie.common.model.")
_PROPERTY = "hoodie.record.merge.property."
_UNAVAILABLE = "__debezium_unavailable_value"
_CHANGE = "_change_operation_type"
_STRATEGIES = ("", "ce9acb64-bde0-424c-9b91-f6ebba25356d", "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5")
"""Merge strategies by commit time and by event time."""
_SINGLE = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How versions of a row are merged. `ordering` names the ordering columns; it is empty under commit-time ordering.

    A value in a newer version is a gap, and keeps the older value, where `keep_defaults` is set and the value is its
    column's default (that of `defaults`, null for a column that is not named there), or where it is the text
    `unavailable`. A row that holds the text `marker` in `marker_column` is a delete. With `sequences` the ordering
    column holds the text of two whole numbers with a dot between. `refused` names a payload class, merger or mode that
    lakebed does not know: such a table can only be read without merging.
    """

    ordering: tuple[str, ...] = ()
    keep_defaults: bool = False
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    unavailable: str = ""
    marker_column: str = ""
    marker: str = ""
    sequences: bool = False
    refused: str = ""

    @property
    def fills(self) -> bool:
        """Whether values of older versions can show through whole rows of newer ones."""
        return self.keep_defaults or bool(self.unavailable)

    def gaps(self, name: str, column: pa.Array | pa.ChunkedArray) -> Bools | None:
        """Which values of a column are gaps, that is keep what an older version holds; None where there are none."""
        if name.startswith("_hoodie_") or name in self.ordering:
            return None
        if self.keep_defaults:
            default = self.defaults.get(name)
            kept = column.is_null() if default is None else pc.equal(column, default)
        elif self.unavailable and _is_text(column.type):
            kept = pc.equal(column, pa.scalar(self.unavailable).cast(column.type))
        else:
            return None
        gaps: Bools = np.asarray(to_numpy(pc.fill_null(kept, False)))
        return gaps if gaps.any() else None

    def comparable(self, ordering: Sequence[pa.Array]) -> list[pa.Array]:
        """Ordering values, one array per ordering column, in a form that sorts as they do."""
        return [_sequence(column) for column in ordering] if self.sequences else list(ordering)


def rules_of(config: TableConfig) -> MergeRules:
    """The rules that a table's properties ask for."""
    properties = config.properties
    mode = properties.get("hoodie.record.merge.mode", "").upper()
    if config.version >= 8 and mode in ("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"):
        rules = _by_mode(MergeRules(config.ordering if mode == "EVENT_TIME_ORDERING" else ()), properties)
    else:
        rules = _by_payload(config, mode)
    column = properties.get(f"{_PROPERTY}hoodie.payload.delete.field", "")
    if column and not rules.refused:
        rules = replace(
            rules, marker_column=column, marker=properties.get(f"{_PROPERTY}hoodie.payload.delete.marker", "")
        )
    return rules


def with_defaults(rules: MergeRules, schema: str) -> MergeRules:
    """The rules with the defaults of columns in an Avro schema (JSON text), only of columns with single values."""
    defaults, units = {}, mislabelled_units(schema)
    for column in writer_schema(schema).columns if schema else ():
        if column.default in (None, MISSING) or column.type is None or not isinstance(column.default, _SINGLE):
            continue
        try:
            unit = bare_unit(column.type, units.get((column.name,)))
            defaults[column.name] = _default(column.default, column.type, unit)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError):
            continue  # a decimal's bytes, days out of range: no row can hold such a value
    return replace(rules, defaults=defaults)


def known_rules(rules: MergeRules) -> MergeRules:
    """The rules for a read that merges nothing: those that lakebed does not know count as none."""
    return MergeRules() if rules.refused else rules


def check_known(rules: MergeRules, table: str, columns: Collection[str] | None = None) -> None:
    """Raise UnsupportedError, naming what decides, when lakebed does not know how the table merges rows; with the names
    of its `columns` also where an ordering column is none of them."""
    if rules.refused:
        raise UnsupportedError(
            f"the table merges rows by {rules.refused}",
            table=table,
            why="lakebed does not know its rules, and guessing could give wrong rows",
            todo="Read without merging (hoodie.datasource.merge.type = skip_combine), or compact it first",
        )
    unknown = [name for name in rules.ordering if columns is not None and name not in columns]
    if unknown:
        raise UnsupportedError(
            f"the table orders the versions of a row by {', '.join(map(repr, unknown))}, which is not a column of it",
            table=table,
            why="without its values older rows could win",
            todo="Set hoodie.table.ordering.fields or hoodie.table.precombine.field in hoodie.properties to a column",
        )


def _by_mode(rules: MergeRules, properties: Mapping[str, str]) -> MergeRules:
    match properties.get("hoodie.table.partial.update.mode", "").upper():
        case "" | "NONE" | "KEEP_VALUES":  # each log block says which columns it brings
            return rules
        case "IGNORE_DEFAULTS":
            return replace(rules, keep_defaults=True)
        case "FILL_UNAVAILABLE":
            keys = ("hoodie.write.partial.update.unavailable.value", "partial.update.unavailable.value")
            return replace(rules, unavailable=next((v for k in keys if (v := properties.get(_PROPERTY + k))), ""))
        case mode:
            return MergeRules(refused=f"partial update mode {mode}")


def _by_payload(config: TableConfig, mode: str) -> MergeRules:
    payload = config.properties.get("hoodie.compaction.payload.class", "")
    if not payload:
        strategy = config.properties.get("hoodie.record.merge.strategy.id", "")
        if mode == "CUSTOM" or strategy not in _STRATEGIES:
            return MergeRules(refused=f"a merger of its own (merge strategy {strategy or 'unknown'})")
        name = "DefaultHoodieRecordPayload" if mode.startswith("EVENT") else "OverwriteWithLatestAvroPayload"
    else:
        name = next((payload.removeprefix(p) for p in _PAYLOADS if payload.startswith(p)), "")
    match name:
        case "DefaultHoodieRecordPayload" | "EventTimeAvroPayload":
            return MergeRules(config.ordering)
        case "OverwriteWithLatestAvroPayload":
            return MergeRules()
        case "PartialUpdateAvroPayload":
            return MergeRules(config.ordering, keep_defaults=True)
        case "OverwriteNonDefaultsWithLatestAvroPayload":
            return MergeRules(keep_defaults=True)
        case "AWSDmsAvroPayload":
            return MergeRules(marker_column="Op", marker="D")
        case "debezium.PostgresDebeziumAvroPayload":
            rules = MergeRules(("_event_lsn",), marker_column=_CHANGE, marker="d")
            return replace(rules, unavailable=_UNAVAILABLE)
        case "debezium.MySqlDebeziumAvroPayload":
            return MergeRules(("_event_seq",), marker_column=_CHANGE, marker="d", sequences=True)
    return MergeRules(refused=payload)


def _default(value: str | float, kind: pa.DataType, unit: str) -> pa.Scalar:
    if pa.types.is_timestamp(kind):
        return pa.scalar(value, pa.int64()).cast(pa.timestamp(unit, kind.tz)).cast(kind)
    if pa.types.is_temporal(kind):
        return pa.scalar(value, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
    return pa.scalar(value.encode("latin-1") if isinstance(value, str) and pa.types.is_binary(kind) else value, kind)


def _sequence(column: pa.Array) -> pa.Array:
    """Texts such as 12.345, padded so that they sort as the two numbers do; null for any other text."""
    pairs = pc.if_else(pc.match_substring_regex(column, r"^\d+\.\d+$"), column, pa.scalar(None, column.type))
    parts = pc.split_pattern(pairs, ".", max_splits=1)
    padded = [pc.utf8_lpad(pc.list_element(parts, place), 20, "0") for place in (0, 1)]
    return pc.binary_join_element_wise(*padded, "")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
