"""What lakebed writes, Paimon's own engines read with equal rows and buckets; what they write on, lakebed reads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import datasketches
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lakebed
from lakebed.formats.paimon.codec.roaring64 import chunks_from_bytes, chunks_to_bytes
from lakebed.formats.paimon.write import staging
from lakebed.formats.paimon.write.file_maker import greatest_size
from lakebed.kernel.sizing.file_counts import in_bounds
from lakebed.verbs.write import finalize_and_commit
from tests.golden import names, unpack
from tests.interop.conftest import PaimonJvm, Pypaimon

ORDERS = pa.schema(
    [
        ("dt", pa.string()),
        ("id", pa.int64()),
        ("name", pa.string()),
        ("n", pa.int32()),
        ("amount", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(30, 4)),
        ("at", pa.timestamp("us")),
        ("ms", pa.timestamp("ms")),
        ("day", pa.date32()),
        ("ok", pa.bool_()),
        ("x", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Case:
    """A table to make: keys, options, which paths of pypaimon read and write it rightly, and whether the Java engine
    compacts what it writes."""

    name: str
    primary_key: Sequence[str] = ("dt", "id")
    partition_by: Sequence[str] = ("dt",)
    options: dict[str, str] = field(default_factory=lambda: {"bucket": "3"})
    readers: tuple[str, ...] = ("pure", "native")
    writers: tuple[str, ...] = ("pure", "native")
    compacts: bool = False


AGGREGATION = {"fields.n.aggregate-function": "sum", "fields.x.aggregate-function": "max"}
CASES = [
    Case("fixed"),
    Case("no_partition", ("id",), ()),
    Case("text_key", ("dt", "name"), ("dt",)),
    Case("two_keys", ("name", "id"), (), {"bucket": "4", "bucket-key": "name"}),
    Case("sequence", options={"bucket": "2", "sequence.field": "n"}),
    Case("append_fixed", (), ("dt",), {"bucket": "3", "bucket-key": "id,name"}),
    # pypaimon 2.1.0 puts rows of a mod table into the buckets of the default function, so there it only reads
    Case("append_mod", (), (), {"bucket": "3", "bucket-key": "id", "bucket-function.type": "mod"}, writers=()),
    Case("append_unaware", (), ("dt",), {"bucket": "-1"}),
    # pypaimon assigns dynamic buckets without the index of the table, and knows no cross-partition updates
    Case("dynamic", options={"bucket": "-1", "dynamic-bucket.target-row-num": "10"}, writers=()),
    Case("cross_partition", ("id",), ("dt",), {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}, writers=()),
    Case("avro", options={"bucket": "2", "file.format": "avro"}),
    Case("first_row", options={"bucket": "2", "merge-engine": "first-row"}, writers=(), compacts=True),
    Case("partial_update", options={"bucket": "2", "merge-engine": "partial-update"}),
    Case(
        "sequence_group",
        options={"bucket": "2", "merge-engine": "partial-update", "fields.n.sequence-group": "amount,ok"},
        readers=(), writers=(),
    ),
    Case("aggregation", options={"bucket": "2", "merge-engine": "aggregation", **AGGREGATION}, writers=()),
]  # fmt: skip


def orders(ids: Sequence[int], version: int, kinds: Sequence[str] = ()) -> pa.Table:
    def some(i: int, value: Any) -> Any:
        return None if (i + version) % 7 == 0 else value

    columns = [
        [f"2024-01-0{i % 3 + 1}" for i in ids],
        list(ids),
        [f"a name well over seven bytes {i}" if i % 2 else f"n{i}" for i in ids],
        [some(i, i * 10 + version) for i in ids],
        [some(i + 1, Decimal(i * 100 + version).scaleb(-2)) for i in ids],
        [some(i + 2, Decimal(-i * 10**14 - version).scaleb(-4)) for i in ids],
        [some(i + 3, i * 1_000_003 - 5_000_000) for i in ids],
        [some(i + 4, i * 1_003 - 5_000) for i in ids],
        [some(i + 5, i - 3) for i in ids],
        [some(i + 6, i % 2 == 0) for i in ids],
        [some(i, (i - 5) * 0.25) for i in ids],
    ]
    arrays = [
        pa.array(column, pa.int32() if pa.types.is_date(f.type) else pa.int64()).cast(f.type)
        if pa.types.is_temporal(f.type)
        else pa.array(column, f.type)
        for column, f in zip(columns, ORDERS, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=ORDERS)
    return table.append_column("_row_kind", pa.array(list(kinds))) if kinds else table


def plain(table: pa.Table) -> list[str]:
    """Rows as sorted texts, as the Java program spells values: times in nanoseconds, days, bytes in hex."""
    columns = [
        [spelled(value, field.type) for value in table.column(field.name).combine_chunks()] for field in table.schema
    ]
    return sorted(repr(row) for row in zip(*columns, strict=True))


def plain_jvm(rows: list[dict[str, Any]], schema: pa.Schema) -> list[str]:
    """The Java program's rows in the same form."""
    return sorted(repr(tuple(floats(line["row"][field.name], field.type) for field in schema)) for line in rows)


def spelled(value: pa.Scalar, kind: pa.DataType) -> Any:
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(kind):
        return value.value * {"ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
    if pa.types.is_temporal(kind):
        return value.value
    if pa.types.is_map(kind):
        keys, items = value.values.field(0), value.values.field(1)
        return [[spelled(k, kind.key_type), spelled(v, kind.item_type)] for k, v in zip(keys, items, strict=True)]
    if pa.types.is_list(kind):
        return [spelled(item, kind.value_type) for item in value.values]
    if pa.types.is_struct(kind):
        return {field.name: spelled(value[field.name], field.type) for field in kind}
    if pa.types.is_binary(kind):
        return value.as_py().hex()
    return f"{value.as_py():f}" if pa.types.is_decimal(kind) else value.as_py()


def floats(value: Any, kind: pa.DataType) -> Any:
    """The Java program writes floats as text."""
    if value is not None and pa.types.is_floating(kind):
        return pa.scalar(float(value), kind).as_py()
    return value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_they_read_and_write_on(case: Case, tmp_path: Path, pypaimon: Pypaimon, paimon_jvm: PaimonJvm) -> None:
    folder = tmp_path / "db.db" / case.name
    table = lakebed.create(folder, "paimon", ORDERS, case.primary_key, case.partition_by, case.options)
    table.write(orders(range(60), 1))
    table.write(orders(range(30, 90), 2))
    if case.primary_key and not case.options.get("merge-engine"):
        table.write(orders(range(5), 3, kinds=["-D"] * 5))
    check(table, folder, case, pypaimon, paimon_jvm)

    for path in case.writers:
        pypaimon.write(folder, path, orders(range(80, 100), 4 + len(path)).cast(table.schema))
    theirs = [
        "+I",
        "2024-01-01",
        99,
        "n",
        5,
        "1.25",
        "2.5000",
        "2024-01-01 00:00:00.123456",
        "2024-01-01 00:00:00.123",
        "2024-02-29",
        "true",
        "0.5",
    ]
    paimon_jvm.write(folder, [theirs, [*theirs[:2], 3000, *theirs[3:]]], 1, compact=case.compacts)
    table.write(orders(range(95, 105), 5))
    check(table, folder, case, pypaimon, paimon_jvm)


@pytest.mark.parametrize(("file_format", "target"), [("parquet", 20_000), ("orc", 10_000), ("avro", 30_000)])
def test_appends_routed_by_size(
    file_format: str, target: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pypaimon: Pypaimon,
    paimon_jvm: PaimonJvm,
) -> None:  # fmt: skip
    """Several tasks put rows aside below the table, and files are cut to the bytes of each partition; a dead write's
    rows lie there still."""
    monkeypatch.setattr(staging, "INLINE_BYTES", 0)
    options = {"bucket": "-1", "target-file-size": str(target), "file.format": file_format}
    case = Case("routed", (), ("dt",), options)
    folder = tmp_path / "db.db" / case.name
    schema = pa.schema([field for field in ORDERS if file_format != "orc" or field.name not in ("at", "ms")])
    table = lakebed.create(folder, "paimon", schema, (), case.partition_by, case.options)
    data = orders(range(4000), 1).select(schema.names)
    sink = table.sink()
    plan = sink.plan()
    messages: list[Any] = []
    for start in range(0, 4000, 1000):
        writer = plan.task_writer()
        writer.write(data.slice(start, 1000).combine_chunks().to_batches()[0])
        messages += writer.finish()
    finalize_and_commit(sink, plan, messages, lakebed.LocalEngine(), 1)
    dead = table.sink().plan().task_writer()
    dead.write(data.to_batches()[0])
    assert dead.finish()
    assert list((folder / ".lakebed" / "staging").iterdir())
    for partition in folder.glob("dt=*"):
        sizes = [path.stat().st_size for path in partition.glob("bucket-0/data-*")]
        assert len(sizes) > 1
        assert in_bounds(len(sizes), sum(sizes), target, greatest_size(target)), sizes
    assert plain(table.read().read_all()) == plain(data)
    check(table, folder, case, pypaimon, paimon_jvm)


def check(table: lakebed.Table, folder: Path, case: Case, pypaimon: Pypaimon, paimon_jvm: PaimonJvm) -> None:
    """All engines read the same rows, and every row lies in the bucket that the reference gives it."""
    ours = plain(table.read().read_all())
    rows, _ = paimon_jvm.dump(folder)
    assert plain_jvm(rows, table.schema) == ours
    assert all(line["bucket"] == line.get("expected", line["bucket"]) for line in rows)
    for path in case.readers:
        assert plain(pypaimon.read(folder, path).select(table.schema.names).cast(table.schema)) == ours


def test_manifests_say_of_a_file_what_the_jvm_would_say(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    """The same rows written by both: equal statistics, keys and counts of every file."""
    schema = pa.schema(
        [("k", pa.string()), ("v", pa.string()), ("n", pa.int64()), ("b", pa.bool_()), ("d", pa.float64())]
    )
    values = [
        ["+I", "key-1", "a text of more than sixteen characters", -5, "true", "1.5"],
        ["+I", "k" * 200, "ü" * 40, 7, "false", "-2.5"],
        ["+U", "z" * 150, None, None, None, None],
        ["-D", "key-2", "", 0, "true", "0.0"],
    ]
    folders = []
    for name in ("jvm", "ours"):
        folders.append(tmp_path / "db.db" / name)
        lakebed.create(folders[-1], "paimon", schema, ["k"], options={"bucket": "2"})
    paimon_jvm.write(folders[0], values, 1)
    columns = list(zip(*values, strict=True))
    data = pa.table(
        {
            "k": list(columns[1]),
            "v": list(columns[2]),
            "n": pa.array(columns[3], pa.int64()),
            "b": [None if b is None else b == "true" for b in columns[4]],
            "d": [None if d is None else float(d) for d in columns[5]],
            "_row_kind": list(columns[0]),
        }
    )
    lakebed.open(folders[1]).write(data)
    theirs, ours = (
        sorted(({k: v for k, v in file.items() if k != "file"} for file in paimon_jvm.dump(folder)[1]), key=repr)
        for folder in folders
    )
    assert ours == theirs


REFUSED = ("types_orc", "types_pk_orc")
"""What lakebed does not write: times before 1970 in ORC files."""
SHARED = [name for name in names("paimon") if name not in REFUSED]


@pytest.mark.parametrize("name", SHARED)
def test_we_write_on_in_their_tables(name: str, tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    """Five rows written again: where a key is upserted nothing changes, elsewhere they are there twice; and both
    engines agree."""
    folder = unpack("paimon", name, into=tmp_path)
    table = lakebed.open(folder)
    before = table.read().read_all()
    table.write(before.slice(0, 5))
    after = table.read().read_all()
    rows, _ = paimon_jvm.dump(folder)
    assert plain_jvm(rows, table.schema) == plain(after)
    assert all(line["bucket"] == line.get("expected", line["bucket"]) for line in rows)
    schema = table.table_schema  # type: ignore[attr-defined]
    engine = schema.options.get("merge-engine", "deduplicate")
    if engine == "deduplicate" and schema.primary_keys:
        assert plain(after) == plain(before)
    elif not schema.primary_keys:
        assert plain(after) == sorted(plain(before) + plain(before.slice(0, 5)))


def test_postponed_rows_go_both_ways(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    """The JVM streams our postponed rows and compacts them; we compact its rows, it reads the result."""
    ours, theirs = (tmp_path / "db.db" / name for name in ("ours", "theirs"))
    options = {"bucket": "-2", "postpone.default-bucket-num": "3"}
    for folder in (ours, theirs):
        table = lakebed.create(folder, "paimon", ORDERS, ["dt", "id"], ["dt"], options)
        table.write(orders(range(60), 1))
        table.write(orders(range(40, 80), 2, kinds=["-D" if i < 45 else "+U" for i in range(40, 80)]))
    streamed = paimon_jvm.delta(ours, 2)
    assert [line["kind"] for line in streamed].count("-D") == 5
    assert plain_jvm(streamed, ORDERS) == plain(orders(range(40, 80), 2))
    paimon_jvm.postpone_compact(ours, 3, 7)

    written = ["+U", "2024-01-01", 0, "n", 5, "1.25", "2.5000", "2024-01-01 00:00:00.123456"]
    written += ["2024-01-01 00:00:00.123", "2024-02-29", "true", "0.5"]
    paimon_jvm.write(theirs, [written, [*written[:2], 3000, *written[3:]]], 8)
    assert lakebed.open(theirs).rewrite().groups == 3
    for folder, count in ((ours, 75), (theirs, 76)):
        rows, files = paimon_jvm.dump(folder)
        assert len(rows) == count
        assert all(file["bucket"] >= 0 for file in files)
        assert plain_jvm(rows, ORDERS) == plain(lakebed.open(folder).read().read_all())
        lakebed.open(folder).write(orders(range(5), 9))
        lakebed.open(folder).rewrite()
        rows, _ = paimon_jvm.dump(folder)
        assert plain_jvm(rows, ORDERS) == plain(lakebed.open(folder).read().read_all())


def test_nanoseconds(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    """The JVM reads our Parquet files with timestamps of nanoseconds, beside other timestamps, and we read its own."""
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), False), ("ns", pa.timestamp("ns")), ("utc", pa.timestamp("ns", "UTC")),
            ("us", pa.timestamp("us")), ("ms", pa.timestamp("ms", "UTC")), ("all", pa.list_(pa.timestamp("ns"))),
        ]
    )  # fmt: skip
    folder = tmp_path / "db.db" / "nanoseconds"
    table = lakebed.create(folder, "paimon", schema, ["id"], options={"bucket": "2"})
    numbers = [1_700_000_000_123_456_789, -5_000_000_001, 0, None, -(2**62)]
    scaled = {
        "ns": numbers, "utc": numbers, "us": [None if n is None else n // 1000 for n in numbers],
        "ms": [None if n is None else n // 10**6 for n in numbers],
    }  # fmt: skip
    columns = [pa.array(range(5)), *(pa.array(scaled[name], schema.field(name).type) for name in scaled)]
    table.write(pa.table([*columns, pa.array([[n, None] for n in numbers], schema.field("all").type)], schema=schema))
    rows, _ = paimon_jvm.dump(folder)
    assert plain_jvm(rows, schema) == plain(table.read().read_all())
    assert [line["row"]["ns"] for line in sorted(rows, key=lambda line: line["row"]["id"])] == numbers


def test_orc_files(tmp_path: Path, paimon_jvm: PaimonJvm, pypaimon: Pypaimon) -> None:
    schema = pa.schema([(field.name, field.type) for field in ORDERS if field.name not in ("at", "ms")])
    folder = tmp_path / "db.db" / "orc"
    table = lakebed.create(folder, "paimon", schema, ["id"], options={"bucket": "2", "file.format": "orc"})
    table.write(orders(range(60), 1).select(schema.names))
    table.write(orders(range(30, 90), 2).select(schema.names))
    rows, _ = paimon_jvm.dump(folder)
    assert plain_jvm(rows, schema) == plain(table.read().read_all())
    for path in ("pure", "native"):
        assert plain(pypaimon.read(folder, path).select(schema.names).cast(table.schema)) == plain(
            table.read().read_all()
        )


FOLDED = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        ("orders", pa.list_(pa.struct([("no", pa.int32()), ("item", pa.string())]))),
        ("events", pa.list_(pa.struct([("no", pa.int32()), ("item", pa.string())]))),
        ("tags", pa.list_(pa.string())),
        ("all", pa.list_(pa.int32())),
        ("props", pa.map_(pa.string(), pa.int32())),
        ("words", pa.string()),
        ("times", pa.int64()),
        ("money", pa.decimal128(9, 2)),
        ("users", pa.binary()),
        ("low", pa.int32()),
        ("first", pa.string()),
        ("any", pa.bool_()),
    ]
)
FUNCTIONS = {
    "orders": {"aggregate-function": "nested_update", "nested-key": "no"},
    "events": {"aggregate-function": "nested_update"},
    "tags": {"aggregate-function": "collect", "distinct": "true"},
    "all": {"aggregate-function": "collect"},
    "props": {"aggregate-function": "merge_map"},
    "words": {"aggregate-function": "listagg", "list-agg-delimiter": "|", "ignore-retract": "true"},
    "times": {"aggregate-function": "product"},
    "money": {"aggregate-function": "product", "ignore-retract": "true"},
    "users": {"aggregate-function": "rbm32", "ignore-retract": "true"},
    "low": {"aggregate-function": "min", "ignore-retract": "true"},
    "first": {"aggregate-function": "first_value", "ignore-retract": "true"},
    "any": {"aggregate-function": "bool_or", "ignore-retract": "true"},
}


def folded(turn: int, kind: str) -> pa.Table:
    def row(i: int) -> dict[str, Any]:
        def some(number: int, value: Any) -> Any:
            return None if (i * 3 + turn + number) % 5 == 0 else value

        pairs = [{"no": (i + turn + n) % 3, "item": f"{turn % 2}-{n}"} for n in range((i + turn) % 4)]
        return {
            "id": i, "orders": some(0, pairs), "events": some(1, pairs), "tags": some(2, list("abc"[turn % 3 :])),
            "all": some(3, [turn % 2, i, turn % 2]), "props": some(4, [(f"k{turn % 3}", i), (f"l{i % 2}", turn)]),
            "words": some(5, ["", "one", "two"][turn % 3]), "times": some(6, [2, 3, -2, 5][(i + turn) % 4]),
            "money": some(7, Decimal([105, 333, -250][(i + turn) % 3]).scaleb(-2)),
            "users": some(8, BitMap(range(i, i + 9000 * (turn + 1), 1 + turn)).serialize()),
            "low": some(9, i - turn * 7),
            "first": some(10, f"v{turn}"), "any": some(11, turn % 2 == 0), "_row_kind": kind,
        }  # fmt: skip

    schema = FOLDED.append(pa.field("_row_kind", pa.string()))
    return pa.Table.from_pylist([row(i) for i in range(20)], schema=schema)


def unordered(rows: list[str]) -> list[Any]:
    """Rows with their arrays and maps sorted: the Java engine keeps some of them in hash maps."""
    return [
        [sorted(value, key=repr) if isinstance(value, list) else value for value in row]
        for row in map(eval, rows)
    ]  # fmt: skip


def test_arrays_maps_and_bitmaps_are_folded_alike(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    folder = tmp_path / "db.db" / "folded"
    options = {f"fields.{name}.{key}": value for name, keys in FUNCTIONS.items() for key, value in keys.items()}
    options |= {"bucket": "2", "merge-engine": "aggregation"}
    table = lakebed.create(folder, "paimon", FOLDED, ["id"], options=options)
    for turn, kind in enumerate(["+I", "+U", "+U", "-U", "+U", "-D"]):
        table.write(folded(turn, kind))
        rows, _ = paimon_jvm.dump(folder)
        assert unordered(plain_jvm(rows, FOLDED)) == unordered(plain(table.read().read_all())), turn


SETS = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        ("people", pa.binary()),
        ("seen", pa.binary()),
        ("hits", pa.binary()),
        ("share", pa.decimal128(38, 4)),
    ]
)
SET_FUNCTIONS = {"people": "rbm64", "seen": "theta_sketch", "hits": "hll_sketch", "share": "product"}


def sets(turn: int, kind: str) -> pa.Table:
    """Sketches as the package of other languages makes them, of few and of many numbers."""

    def row(i: int) -> dict[str, Any]:
        numbers = range(turn * 3, turn * 3 + (i * i * 40 if i % 2 else i))
        people: dict[bytes, BitMap] = {}
        for number in numbers:
            people.setdefault((number * i >> 1 << 7).to_bytes(6, "big"), BitMap()).add(number % 70)
        seen, hits = datasketches.update_theta_sketch(9), datasketches.hll_sketch(8 + turn % 2)
        for number in numbers:
            seen.update(number)
            hits.update(number)
        share = Decimal([80_000, 25_000, -12_500, 640_000][(i + turn) % 4]).scaleb(-4)
        taken = kind == "-D"
        return {
            "id": i, "people": None if taken else chunks_to_bytes(people), "share": share, "_row_kind": kind,
            "seen": None if taken else seen.compact().serialize(), "hits": None if taken else hits.serialize_compact(),
        }  # fmt: skip

    schema = SETS.append(pa.field("_row_kind", pa.string()))
    return pa.Table.from_pylist([row(i) for i in range(16)], schema=schema)


def of_numbers(rows: list[str]) -> list[Any]:
    """Rows with the numbers of `people`: its bytes have room for more, or an order of their own."""
    found = map(eval, rows)
    return [(key, people and chunks_from_bytes(bytes.fromhex(people)), *rest) for key, people, *rest in found]


def test_wide_bitmaps_sketches_and_quotients_are_folded_alike(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    folder = tmp_path / "db.db" / "sets"
    options = {f"fields.{name}.aggregate-function": function for name, function in SET_FUNCTIONS.items()}
    options |= {f"fields.{name}.ignore-retract": "true" for name in SET_FUNCTIONS if name != "share"}
    options |= {"bucket": "2", "merge-engine": "aggregation"}
    table = lakebed.create(folder, "paimon", SETS, ["id"], options=options)
    for turn, kind in enumerate(["+I", "+U", "-D", "+U", "compact", "-D", "+U"]):
        if kind == "compact":  # Paimon writes what it makes of ours, and we go on from there
            paimon_jvm.write(folder, [("+I", i, None, None, None, None) for i in range(20)], 1, compact=True)
        else:
            table.write(sets(turn, kind))
        rows, _ = paimon_jvm.dump(folder)
        assert of_numbers(plain_jvm(rows, SETS)) == of_numbers(plain(table.read().read_all())), turn


@pytest.mark.parametrize("options", [
    {"fields.n.sequence-group": "name,x", "partial-update.remove-record-on-sequence-group": "n"},
    {"partial-update.remove-record-on-delete": "true"},
    {"ignore-delete": "true"},
    {"fields.n.sequence-group": "name,x", "fields.x.aggregate-function": "sum", "fields.at,ms.sequence-group": "ok"},
], ids=["group removes", "delete removes", "ignored", "retracted"])  # fmt: skip
def test_deletes_in_partial_update_are_the_same(options: dict[str, str], tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    folder = tmp_path / "db.db" / "partial"
    options = {"bucket": "2", "merge-engine": "partial-update", **options}
    table = lakebed.create(folder, "paimon", ORDERS, ["dt", "id"], ["dt"], options)
    for turn in range(6):
        kinds = ["-D" if turn and (i + turn) % 3 == 0 else "+U" for i in range(20)]
        # keys in groups of few turns, so that a delete is also the last and the first row of a file's key
        table.write(orders(range(turn * 3, turn * 3 + 20), turn % 4 + 1, kinds=kinds))
        rows, _ = paimon_jvm.dump(folder)
        assert plain_jvm(rows, ORDERS) == plain(table.read().read_all()), turn


def test_deletes_in_aggregation_are_the_same(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    folder = tmp_path / "db.db" / "removed"
    options = {
        "bucket": "2",
        "merge-engine": "aggregation",
        "aggregation.remove-record-on-delete": "true",
        **AGGREGATION,
    }
    table = lakebed.create(folder, "paimon", ORDERS, ["dt", "id"], ["dt"], options)
    for turn in range(5):
        kinds = ["-D" if turn and (i + turn) % 3 == 0 else "+U" for i in range(20)]
        table.write(orders(range(turn, turn + 20), turn + 1, kinds=kinds))
        rows, _ = paimon_jvm.dump(folder)
        assert plain_jvm(rows, ORDERS) == plain(table.read().read_all()), turn


EXPIRED = {
    "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms",
    "lakebed.owed.time-retained": "0 ms",
}  # fmt: skip


@pytest.mark.parametrize("name", ["pk_universal", "pk_dv", "pk_dynamic", "cl_input", "append_dv", "tags_branches"])
def test_they_go_on_after_an_expiry_of_ours(name: str, tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    folder = unpack("paimon", name, into=tmp_path)
    table = lakebed.open(folder)
    rows, _ = paimon_jvm.dump(folder)
    assert table.expire(options=EXPIRED).expired
    again, _ = paimon_jvm.dump(folder)
    assert plain_jvm(again, table.schema) == plain_jvm(rows, table.schema) == plain(table.read().read_all())


def test_we_go_on_after_an_expiry_of_theirs(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    """Their commits expire by the same options, and ours and theirs may take turns."""
    folder = tmp_path / "db.db" / "turns"
    schema = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])
    options = {"bucket": "1", "snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
    table = lakebed.create(folder, "paimon", schema, ["id"], options={**options, "snapshot.time-retained": "1 ms"})
    for turn in range(5):
        table.write(pa.table({"id": [turn], "v": ["ours"]}, schema=schema))
        paimon_jvm.write(folder, [["+I", turn + 100, "theirs"]], turn)
        assert len(table.history()) in (2, 3)
    rows, _ = paimon_jvm.dump(folder)
    assert plain_jvm(rows, schema) == plain(table.read().read_all())
    assert len(rows) == 10


def test_a_branch_is_written_by_both(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    folder = unpack("paimon", "tags_branches", into=tmp_path)
    main, branch = lakebed.open(folder), lakebed.open(folder, {"branch": "b1"})
    before = plain(main.read().read_all())
    place = branch.schema.get_field_index("k")
    row = branch.read().read_all().slice(0, 1)
    branch.write(row.set_column(place, branch.schema.field(place), pa.array([4711], pa.int32())))
    theirs = ["4712" if name == "k" else None for name in branch.schema.names]
    paimon_jvm.write(f"{folder}@branch=b1", [["+I", *theirs]], 77)
    rows, _ = paimon_jvm.dump(f"{folder}@branch=b1")
    assert plain_jvm(rows, branch.schema) == plain(branch.read().read_all())
    assert {4711, 4712} <= {line["row"]["k"] for line in rows}
    rows, _ = paimon_jvm.dump(folder)
    assert plain_jvm(rows, main.schema) == plain(main.read().read_all()) == before


def test_a_branch_of_ours_is_followed_by_both(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    folder = tmp_path / "db.db" / "forked"
    schema = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])
    table = lakebed.create(folder, "paimon", schema, ["id"], options={"bucket": "1"})
    table.write(pa.table({"id": [1], "v": ["ours"]}, schema=schema))
    table.tag("t")
    table.branch("b", "tag:t")
    branch = lakebed.open(folder, {"branch": "b"})
    paimon_jvm.write(folder, [["+I", 2, "on main"]], 1)
    paimon_jvm.write(f"{folder}@branch=b", [["+I", 3, "theirs"]], 2)
    branch.write(pa.table({"id": [4], "v": ["ours"]}, schema=schema))
    rows, _ = paimon_jvm.dump(f"{folder}@branch=b")
    assert plain_jvm(rows, schema) == plain(branch.read().read_all())
    assert sorted(line["row"]["id"] for line in rows) == [1, 3, 4]
    table.fast_forward("b")
    table.delete_branch("b")
    paimon_jvm.write(folder, [["+I", 5, "theirs"]], 3)
    rows, _ = paimon_jvm.dump(folder)
    assert plain_jvm(rows, schema) == plain(table.read().read_all())
    assert sorted(line["row"]["id"] for line in rows) == [1, 3, 4, 5]


@pytest.mark.parametrize(
    "options",
    [{"merge-engine": "first-row"}, {"deletion-vectors.enabled": "true"}],
    ids=["first row", "deletion vectors"],
)
def test_postponed_rows_of_tables_without_level_0(
    options: dict[str, str], tmp_path: Path, paimon_jvm: PaimonJvm
) -> None:
    """We give their rows buckets of the highest level; the Java engine reads them, and adds rows that we compact."""
    folder = tmp_path / "db.db" / "lifted"
    options = {"bucket": "-2", "postpone.default-bucket-num": "2", **options}
    table = lakebed.create(folder, "paimon", ORDERS, ["dt", "id"], ["dt"], options)
    for turn in range(3):
        table.write(orders(range(turn * 10, turn * 10 + 40), turn + 1))
        if "deletion-vectors.enabled" in options and turn:
            table.write(orders(range(turn * 10, turn * 10 + 5), 9, kinds=["-D"] * 5))
        table.rewrite()
        rows, files = paimon_jvm.dump(folder)
        assert plain_jvm(rows, ORDERS) == plain(table.read().read_all())
        assert len(rows) == (40, 50 if "merge-engine" in options else 45, 60 if "merge-engine" in options else 50)[turn]
        assert {file["level"] for file in files} == {5}
    theirs = ["2024-01-01", 3000, "n", 5, "1.25", "2.5000", "2024-01-01 00:00:00.123456", "2024-01-01 00:00:00.123"]
    paimon_jvm.write(folder, [["+I", *theirs, "2024-02-29", "true", "0.5"]], 8)
    assert table.rewrite().groups == 1
    rows, _ = paimon_jvm.dump(folder)
    assert plain_jvm(rows, ORDERS) == plain(table.read().read_all())
    assert len(rows) == (61 if "merge-engine" in options else 51)


PARTITIONS: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
    "float": (pa.float32(), [0.1, 1e-7, 12345678.0, None], ["0.1", "0.5"]),
    "double": (pa.float64(), [1e-7, 0.1, 1e7, float("inf")], ["1.0E-7", "2.5"]),
    "time": (pa.time32("ms"), [0, 3_723_004, 86_399_990], ["01:02:03.004", "05:00:00"]),
    "date": (pa.date32(), [0, 19_723, -1], ["2024-01-01", "2020-02-29"]),
    "timestamp": (
        pa.timestamp("us"), [0, 1_704_164_645_006_007],
        ["2024-01-02 03:04:05.006007", "2020-01-01 00:00:00"]),
    "decimal": (pa.decimal128(10, 7), [Decimal("0.0000001"), Decimal(-3)], ["0.0000001", "5.5"]),
    "text": (pa.string(), ["a/b=c", " ", "", "\xa0", None, "\u00e4"], ["a/b=c", "x"]),
}  # fmt: skip
"""For each type: values that lakebed writes, and texts that the JVM writes, the first into a partition of ours."""


@pytest.mark.parametrize("legacy", ["true", "false"])
@pytest.mark.parametrize("name", PARTITIONS)
def test_partitions_of_every_type_and_default_values(
    name: str, legacy: str, tmp_path: Path, paimon_jvm: PaimonJvm
) -> None:
    """The JVM finds our partitions and adds rows to them, whose nulls get the column's default as ours do."""
    kind, values, texts = PARTITIONS[name]
    schema = pa.schema([("p", kind), ("k", pa.int32()), ("v", pa.int32())])
    folder = tmp_path / "db.db" / "t"
    lakebed.create(folder, "paimon", schema, partition_by=["p"], options={"partition.legacy-name": legacy})
    value = json.loads((folder / "schema" / "schema-0").read_text("utf-8"))
    value["fields"][2]["defaultValue"] = "7"
    (folder / "schema" / "schema-1").write_text(json.dumps({**value, "id": 1}), "utf-8")
    table = lakebed.open(folder)
    temporal = pa.types.is_temporal(kind)
    plain_kind = (pa.int32() if kind.bit_width == 32 else pa.int64()) if temporal else kind
    column = pa.array(values, plain_kind).cast(kind)
    table.write(pa.table([column, pa.array(range(len(values)), pa.int32())], names=["p", "k"]))
    before = {path.name for path in folder.glob("p=*")}
    paimon_jvm.write(folder, [("+I", text, 100 + place, None) for place, text in enumerate(texts)], 1)
    assert len({path.name for path in folder.glob("p=*")} - before) == 1
    rows, _ = paimon_jvm.dump(folder)
    assert plain_jvm(rows, schema) == plain(table.read().read_all())
    assert set(table.read(["v"]).read_all()["v"].to_pylist()) == {7}
