"""Holds Arrow rows against the expected rows of a golden table, as bags: order does not count, repeats do.

    difference = diff("hudi", table.read(), load(expected(folder) / "snapshot.jsonl"))
    assert difference is None, difference

`diff` gives None when equal, else one line saying what differs in the first bad row. Values are compared by the Arrow
type in which they came: an expected "2024-01-01" against a date32 is a date, against a string a string. Canonical form:
timestamps are nanoseconds since 1970 (any year), dates days, times nanoseconds of the day, decimals plain text without
trailing zeros, binary bytes, maps sorted pairs, NaN and infinities text, float32 is rounded to float32 on both sides,
and -0.0 equals 0.0.

Not every answer of a reference engine is a truth: see "Where the JVM's own answers are not a clean truth" in
hudi/README.md, whose caveats the reasons below name. `exempt` says which, `hudi_oracle` finds the best truth there is.
"""

import base64
import datetime
import decimal
import json
import math
import struct
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

decimal.getcontext().prec = 80

META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]
KEY = ("_hoodie_record_key", "_hoodie_partition_path")

T = pa.types
Row = dict[str, Any]

# ---- answers which are not a truth: (table, file) -> reason ----------------------------------------------------------

_OLD = (
    "caveats 1, 2: answer of the OLD reader (0.x merge rules: k0000,k0012 come back at 250 after a delete at 300, late "
    "delete of k0013 wins); event-time truth is the new reader's"
)
_V6_OLD = "caveat 2: v6 incremental uses the 0.x merge rules"
_STALE = "caveat 3: v8 incremental over a compaction returns base files only, logs after it not merged"
_LATEST = (
    "caveat 4: v8 incremental reads each file group's latest file, rows overwritten after the range's end vanish "
    "(hudi-rs disagrees)"
)
HUDI_EXEMPT = {
    ("merge_event_v6", "snapshot.jsonl"): _OLD,
    ("merge_event_v8", "snapshot.jsonl"): _OLD,
    ("merge_event_v6", "incremental_000_latest.jsonl"): _OLD,
    ("merge_event_v8", "incremental_000_latest.jsonl"): _OLD,
    ("merge_event_nodelop_v6", "incremental_000_latest.jsonl"): _V6_OLD,
    ("merge_event_nodelop_v6", "incremental_20261127210246530_20261127210258846.jsonl"): _V6_OLD,
    ("merge_event_nodelop_v6", "snapshot_oldreader.jsonl"): _V6_OLD,
    ("merge_event_nodelop_v8", "snapshot_oldreader.jsonl"): _V6_OLD,
    ("merge_commit_v6", "incremental_000_latest.jsonl"): (
        "caveat 6: old rules keep k0001,k0005; the snapshot deletes them"
    ),
    ("mor_v8", "incremental_000_latest.jsonl"): _STALE,
    ("mor_mdt_v8", "incremental_000_latest.jsonl"): _STALE,
    ("mor_v8", "incremental_20261127204536444_20261127204538016.jsonl"): _LATEST,
    ("mor_v8", "incremental_20261127204540797_20261127204544216.jsonl"): _LATEST,
    ("mor_mdt_v8", "incremental_20261127204652599_20261127204657075.jsonl"): _LATEST,
    ("mor_mdt_v8", "incremental_20261127204702684_20261127204710737.jsonl"): _LATEST,
    ("archived_mor_v8", "incremental_20261127205331642_20261127205332489.jsonl"): _LATEST,
    ("archived_v8", "incremental_20261127205224997_20261127205229213.jsonl"): _LATEST,
    ("cow_nonpart_v8", "incremental_20261127204944170_20261127204946397.jsonl"): _LATEST,
    ("cow_v8", "incremental_20261127204910140_20261127204912748.jsonl"): _LATEST,
    ("cow_v8", "incremental_20261127204915719_20261127204920368.jsonl"): _LATEST,
}
# Where an exempt answer has a sound substitute in another file of the same table.
HUDI_INSTEAD = {
    ("mor_v8", "incremental_000_latest.jsonl"): "snapshot.jsonl",
    ("mor_mdt_v8", "incremental_000_latest.jsonl"): "snapshot.jsonl",
    ("merge_commit_v6", "incremental_000_latest.jsonl"): "snapshot.jsonl",
    ("merge_event_nodelop_v6", "incremental_000_latest.jsonl"): "snapshot.jsonl",
}


def exempt(kind: str, table: str, file: str) -> str | None:
    """The reason why that answer of the reference engine is not a truth, or None."""
    return HUDI_EXEMPT.get((table, file)) if kind == "hudi" else None


# ---- reading ---------------------------------------------------------------------------------------------------------


def rows(data: Any) -> pa.Table:
    """Any Arrow thing (table, reader, batch, iterable of batches) as a table."""
    if isinstance(data, pa.Table):
        return data
    if hasattr(data, "read_all"):
        return data.read_all()
    if hasattr(data, "to_arrow_table"):
        return data.to_arrow_table()
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    batches = list(data)
    return pa.Table.from_batches(batches) if batches else pa.table({})


def load(path: Path | str) -> list[Row]:
    """Expected rows; decimals and doubles are kept as Decimal."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line, parse_float=Decimal) for line in lines if line.strip()]


# ---- comparing -------------------------------------------------------------------------------------------------------


def diff(
    kind: str, data: Any, expected: list[Row], ignore: Iterable[str] = (), key: Sequence[str] | None = None
) -> str | None:
    """None when `data` holds the expected rows of a `kind` ("hudi", "paimon", "iceberg"), else what is wrong.

    `ignore` names columns to leave out; `key` those by which the nearest wrong row is shown.
    """
    table = rows(data)
    if len(set(table.column_names)) != len(table.column_names):
        return f"column named twice in {table.column_names}"
    ignored = set(ignore)
    names = sorted(name for name in table.column_names if name not in ignored)
    if expected:
        wanted = {name for name in expected[0] if name not in ignored}
        if set(names) != wanted:
            missing, extra = sorted(wanted - set(names)), sorted(set(names) - wanted)
            return f"columns differ: missing {missing}, extra {extra}"
    types = {name: table.schema.field(name).type for name in names}
    columns = {name: got_values(table.column(name)) for name in names}
    expected = _variants(names, columns, expected)
    got = [tuple(columns[name][i] for name in names) for i in range(table.num_rows)]
    want = [tuple(want_value(kind, row.get(name), types[name]) for name in names) for row in expected]
    count_got, count_want = Counter(map(repr, got)), Counter(map(repr, want))
    if count_got == count_want:
        return None
    missing_rows = [row for row in want if count_want[repr(row)] > count_got[repr(row)]]
    extra_rows = [row for row in got if count_got[repr(row)] > count_want[repr(row)]]
    same_length = f"{len(got)} rows, values differ"
    head = same_length if len(got) == len(want) else f"{len(got)} rows, expected {len(want)}"
    return f"{head}; {_first_bad_row(names, missing_rows, extra_rows, key or KEY)}"


def _variants(names: list[str], columns: dict[str, list[Any]], expected: list[Row]) -> list[Row]:
    """A reader may give a variant as JSON text, compared as JSON, or as a struct of binaries, left out."""
    for name in names:
        if not any(isinstance(row.get(name), dict) and "$variant" in row[name] for row in expected):
            continue
        values = columns[name]
        if all(value is None or isinstance(value, str) for value in values):
            columns[name] = [
                None if value is None else ("$variant", json.dumps(json.loads(value), sort_keys=True))
                for value in values
            ]
        else:
            columns[name] = [None if value is None else "variant" for value in values]
            expected = [row | {name: None if row.get(name) is None else "variant"} for row in expected]
    return expected


def _first_bad_row(names: list[str], missing: list[Any], extra: list[Any], key: Sequence[str]) -> str:
    def shown(row: tuple[Any, ...]) -> str:
        hidden = ("_hoodie_commit_seqno", "_hoodie_file_name")
        return str({name: value for name, value in zip(names, row, strict=True) if name not in hidden})[:400]

    if not (missing and extra):
        return f"missing row {shown(missing[0])}" if missing else f"extra row {shown(extra[0])}"
    keys = [name for name in key if name in names]

    def nearness(one: tuple[Any, ...], other: tuple[Any, ...]) -> int:
        return sum(10 if name in keys else 1 for name, x, y in zip(names, one, other, strict=True) if x == y)

    bad = missing[0]
    nearest = max(extra, key=lambda row: nearness(bad, row))
    differences = [
        f"{name}: got {x!r}, expected {y!r}"
        for name, x, y in zip(names, nearest, bad, strict=True)
        if repr(x) != repr(y)
    ]
    identity = {name: value for name, value in zip(names, bad, strict=True) if name in (keys or names[:1])}
    return f"first bad row {identity}: {'; '.join(differences)[:600]}"


# ---- Hudi's truths ---------------------------------------------------------------------------------------------------


def hudi_oracle(folder: Path, file: str, v8: bool = False) -> tuple[str | None, Any, bool]:
    """The best truth for one read of a golden Hudi table: (how, value, begin_exclusive).

    `folder` is the table's `NAME.expected`. how "keys": {record key: commit instant} (replay.json); "rows": expected
    rows (bundle 1.1.1's file where it corrects the older one, else the file itself); None: there is none, value says
    why.
    """
    table = folder.name.removesuffix(".expected")
    exclusive = not v8 or table.endswith("_v9")
    replay = folder / "replay.json"
    if replay.exists():
        answers = json.loads(replay.read_text())
        if file in answers:
            return "keys", answers[file], exclusive
    corrected = folder / f"{file.removesuffix('.jsonl')}_h111.jsonl"
    if corrected.exists():
        return "rows", load(corrected), True
    why = exempt("hudi", table, file)
    if why and (table, file) not in HUDI_INSTEAD:
        return None, why, True
    return "rows", load(folder / HUDI_INSTEAD.get((table, file), file)), exclusive


def hudi_snapshot_diff(data: Any, folder: Path) -> str | None:
    """Holds a snapshot read of a golden Hudi table against the best truth in its `NAME.expected` folder."""
    table = rows(data)
    how, expected, _ = hudi_oracle(folder, "snapshot.jsonl")
    if how is None:
        return merge_event_diff(table, load(folder / "snapshot.jsonl"))
    if expected and table.column_names[:5] != META:
        return f"the meta columns are not first: {table.column_names[:6]}"
    return keys_diff(table, expected) if how == "keys" else diff("hudi", table, expected)


def keys_diff(data: Any, expected: dict[str, str]) -> str | None:
    """Compares only record keys and the instants that wrote them."""
    table = rows(data)
    keys, instants = table.column("_hoodie_record_key").to_pylist(), table.column("_hoodie_commit_time").to_pylist()
    got = dict(zip(keys, instants, strict=True))
    if table.num_rows != len(got):
        return f"{table.num_rows} rows for {len(got)} keys"
    if got == expected:
        return None
    missing, extra = sorted(set(expected) - set(got))[:4], sorted(set(got) - set(expected))[:4]
    other = sorted(key for key in got if key in expected and got[key] != expected[key])[:4]
    return f"{len(got)} keys, expected {len(expected)}; missing {missing}, extra {extra}, other instant {other}"


def merge_event_diff(data: Any, expected: list[Row]) -> str | None:
    """merge_event_*: the old reader's snapshot, put right by the event-time rules.

    That is without the keys deleted at 300 (k0000, k0012: the upsert at 250 is older) and with k0013 live again (late
    delete at 50 over 100). k0013's row is not in the file, so only its key is asked for.
    """
    table = rows(data)
    keys = table.column("_hoodie_record_key").to_pylist()
    if "k0000" in keys or "k0012" in keys:
        return "k0000/k0012 live, but their delete at ts 300 is newer than the upsert at 250"
    if "k0013" not in keys:
        return "k0013 missing: a late delete (ts 50) must not remove a row with ts 100"
    others = [i for i in range(len(keys)) if i != keys.index("k0013")]
    return diff("hudi", table.take(others), [r for r in expected if r[KEY[0]] not in ("k0000", "k0012")])


def net(data: Any, keys: Sequence[str] = KEY) -> pa.Table:
    """Changes as the rows that live at the end: the last of each key in the order given, without deletes and -U.

    The column _row_kind is dropped.
    """
    table = rows(data)
    if "_row_kind" not in table.column_names:
        raise ValueError(f"changes() has no column _row_kind: {table.column_names}")
    kinds = table.column("_row_kind").to_pylist()
    last = {}
    for i, key in enumerate(zip(*(table.column(name).to_pylist() for name in keys), strict=True)):
        if kinds[i] != "-U":
            last[key] = i
    keep = sorted(i for i in last.values() if kinds[i] in ("+I", "+U"))
    return (table.take(keep) if keep else table.slice(0, 0)).drop_columns(["_row_kind"])


# ---- canonical values ------------------------------------------------------------------------------------------------

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
EPOCH = datetime.date(1970, 1, 1).toordinal()


def got_values(array: Any) -> list[Any]:
    """An Arrow array or chunked array as canonical values."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in got_values(chunk)]
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        values = got_values(array.storage)
        return [None if v is None else _uuid(v) for v in values] if "uuid" in str(kind).lower() else values
    if T.is_dictionary(kind):
        return got_values(array.dictionary_decode())
    if T.is_struct(kind):
        children = {kind.field(i).name: got_values(child) for i, child in enumerate(array.flatten())}
        valid = array.is_valid().to_pylist()
        return [{name: c[i] for name, c in children.items()} if valid[i] else None for i in range(len(array))]
    if T.is_map(kind):
        return [_map_pairs(value) if value.is_valid else None for value in array]
    if T.is_list(kind) or T.is_large_list(kind) or T.is_fixed_size_list(kind):
        return [got_values(value.values) if value.is_valid else None for value in array]
    values, canonical = _scalars(array)
    return [None if value is None else canonical(value) for value in values]


def _map_pairs(value: Any) -> list[Any]:
    entries = value.values
    keys, items = got_values(entries.field(0)), got_values(entries.field(1))
    return _sorted([[key, item] for key, item in zip(keys, items, strict=True)])


def _scalars(array: Any) -> tuple[list[Any], Callable[[Any], Any]]:
    """Plain Python values of an array without children, and what makes each canonical."""
    kind = array.type
    if T.is_timestamp(kind):
        return array.cast(pa.int64()).to_pylist(), lambda v: v * NANOSECONDS[kind.unit]
    if T.is_time(kind):
        integers = array.cast(pa.int32() if T.is_time32(kind) else pa.int64())
        return integers.to_pylist(), lambda v: v * NANOSECONDS[kind.unit]
    if T.is_date32(kind):
        return array.cast(pa.int32()).to_pylist(), lambda v: v
    if T.is_date64(kind):
        return array.cast(pa.int64()).to_pylist(), lambda v: v // 86400000
    if T.is_floating(kind):
        return array.to_pylist(), lambda v: _float(v, T.is_float32(kind))
    if T.is_decimal(kind):
        return array.to_pylist(), _decimal
    return array.to_pylist(), lambda v: v


def want_value(kind: str, value: Any, arrow: Any) -> Any:
    """An expected JSON value as a canonical one, by the Arrow type of the column that it is held against."""
    if value is None:
        return None
    if isinstance(arrow, pa.BaseExtensionType):
        if "uuid" in str(arrow).lower():
            return str(value)
        arrow = arrow.storage_type
    if T.is_dictionary(arrow):
        arrow = arrow.value_type
    try:
        if isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith("$"):
            return _tagged(kind, *next(iter(value.items())), arrow)
        return _wanted(kind, value, arrow)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return (f"not comparable with {arrow}", repr(value))


def _tagged(kind: str, tag: str, value: Any, arrow: Any) -> Any:
    """Iceberg's expected values say their type: {"$dec": ...}."""
    if tag == "$dec" and T.is_decimal(arrow):
        return _decimal(value)
    if tag == "$ts" and T.is_timestamp(arrow):
        return _timestamp(value)[0]
    if tag == "$date" and T.is_date(arrow):
        return _days(value)
    if tag == "$time" and T.is_time(arrow):
        return _time_of_day(value)
    if tag == "$bin" and _is_binary(arrow):
        return bytes.fromhex(value)
    if tag == "$map" and T.is_map(arrow):
        return _want_map(kind, value, arrow)
    if tag == "$variant":
        return (tag, json.dumps(value, sort_keys=True, default=str))
    return (tag, value)


def _wanted(kind: str, value: Any, arrow: Any) -> Any:
    if T.is_timestamp(arrow):
        nanoseconds, zoned = _timestamp(value)
        if kind == "paimon" and zoned != (arrow.tz is not None):
            return (f"timestamp {'with' if zoned else 'without'} local time zone expected", value)
        return nanoseconds
    if T.is_date(arrow):
        return _days(value)
    if T.is_time(arrow):
        return value * 10**6 if isinstance(value, int) else _time_of_day(value)
    if T.is_floating(arrow):
        return _float(value, T.is_float32(arrow))
    if T.is_decimal(arrow):
        return _decimal(value)
    if _is_binary(arrow):
        if kind == "iceberg" and isinstance(value, str) and T.is_fixed_size_binary(arrow):
            return uuid.UUID(value).bytes
        return bytes.fromhex(value[2:]) if kind == "paimon" else base64.b64decode(value)
    if T.is_struct(arrow):
        if not set(value) <= {field.name for field in arrow}:
            return ("struct", value)
        return {field.name: want_value(kind, value.get(field.name), field.type) for field in arrow}
    if T.is_map(arrow):
        return _want_map(kind, value.items() if isinstance(value, dict) else value, arrow)
    if T.is_list(arrow) or T.is_large_list(arrow) or T.is_fixed_size_list(arrow):
        return [want_value(kind, item, arrow.value_type) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def _want_map(kind: str, pairs: Iterable[Any], arrow: Any) -> list[Any]:
    return _sorted([[want_value(kind, k, arrow.key_type), want_value(kind, v, arrow.item_type)] for k, v in pairs])


def _is_binary(arrow: Any) -> bool:
    return bool(
        T.is_binary(arrow) or T.is_large_binary(arrow) or T.is_fixed_size_binary(arrow) or T.is_binary_view(arrow)
    )


def _float(value: Any, single: bool = False) -> float | str:
    if isinstance(value, str):
        value = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}.get(value, value)
    number = float(value)
    if single:
        try:
            number = struct.unpack("f", struct.pack("f", number))[0]
        except OverflowError:
            number = math.copysign(math.inf, number)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number + 0.0


def _decimal(value: Any) -> str:
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    return format(number.normalize() + 0, "f") if number else "0"


def _days(text: str) -> int:
    return datetime.date.fromisoformat(text).toordinal() - EPOCH


def _time_of_day(text: str) -> int:
    """'HH:MM:SS[.f]' as nanoseconds."""
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 10**9 + int((fraction + "0" * 9)[:9])


def _timestamp(text: str) -> tuple[int, bool]:
    """Nanoseconds since 1970, and whether it ended in Z."""
    date, _, time = text.rstrip("Z").split("+")[0].partition("T")
    return _days(date) * 86400 * 10**9 + _time_of_day(time or "00:00:00"), text.endswith("Z")


def _uuid(value: Any) -> str:
    return str(uuid.UUID(bytes=bytes(value))) if isinstance(value, bytes | bytearray) else str(value)


def _sorted(pairs: list[Any]) -> list[Any]:
    return sorted(pairs, key=repr)


if __name__ == "__main__":  # KIND FILE.parquet EXPECTED.jsonl
    difference = diff(sys.argv[1], pq.read_table(sys.argv[2]), load(sys.argv[3]))
    print(difference or "equal")
    sys.exit(1 if difference else 0)
