"""Random batches of row kinds against a dictionary: every bucket mode and merge engine, in one write and over many,
whatever the write buffer.

Each mode is what `MODES` says: postponed rows are given real buckets after each write, or once at the end. In the mode
of cross-partition updates the partition of a row is drawn too, and the engine says which one counts.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.formats.paimon.write.sink import PaimonSink

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("a", pa.string()), ("s", pa.int32()), ("g", pa.string())])
KINDS = ["+I", "-U", "+U", "-D"]
Row = dict[str, Any]

keys = st.sampled_from([f"key-{i}" * (i + 1) for i in range(6)])
maybe = st.none() | st.integers(0, 5)
text = st.none() | st.sampled_from(["", "x", "a longer text", "ü"])


def batches(kinds: list[str]) -> st.SearchStrategy[list[list[Row]]]:
    row = st.fixed_dictionaries(
        {
            "_row_kind": st.sampled_from(kinds), "k": keys, "n": maybe, "a": text, "s": maybe, "g": text,
            "p": st.integers(0, 2),
        }
    )  # fmt: skip
    return st.lists(st.lists(row, max_size=12), min_size=1, max_size=4)


@dataclass(frozen=True)
class Mode:
    """A bucket mode: its options, whether to compact postponed rows after each write, and whether the partition `p` is
    no part of the key."""

    name: str
    options: dict[str, str]
    compacts: str = ""
    partition: bool = False


MODES = [
    Mode("fixed", {"bucket": "2"}),
    Mode("dynamic", {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}),
    Mode("cross-partition", {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}, partition=True),
    Mode("postponed, each", {"bucket": "-2", "postpone.default-bucket-num": "2"}, compacts="each"),
    Mode("postponed, once", {"bucket": "-2"}, compacts="once"),
]
modes = st.sampled_from(MODES)


buffers = st.sampled_from(["256 mb", "1 b"])
producers = st.sampled_from(["none", "input"])


def common(buffer: str, producer: str) -> dict[str, str]:
    """Options that change no row of any engine. With a small buffer writes also compact early."""
    trigger = "2" if buffer == "1 b" else "5"
    return {
        "write-buffer-size": buffer, "changelog-producer": producer, "num-sorted-run.compaction-trigger": trigger,
    }  # fmt: skip


def written(folder: str, writes: list[list[Row]], options: dict[str, str], mode: Mode = MODES[0]) -> list[Row]:
    """What a table holds after the writes. Its changelog has each row as it came, where its producer is the input and
    no bucket mode changes rows before."""
    schema = SCHEMA.append(pa.field("p", pa.int32())) if mode.partition else SCHEMA
    by = ["p"] if mode.partition else []
    table = lakebed.create(Path(folder) / "t", "paimon", schema, ["k"], by, options={**mode.options, **options})
    for turn, rows in enumerate(writes):
        table.write(pa.Table.from_pylist(rows, schema=schema.append(pa.field("_row_kind", pa.string()))))
        if mode.compacts == "each" or (mode.compacts and turn == len(writes) - 1):
            table.rewrite()
    if options.get("changelog-producer") == "input" and not mode.partition:
        assert_changelog(Path(folder) / "t", [row for rows in writes for row in rows])
    elif options.get("changelog-producer") == "none":
        assert not list((Path(folder) / "t").glob("**/changelog-*"))
    return sorted(table.read().read_all().to_pylist(), key=lambda row: row["k"])


def assert_changelog(folder: Path, came: list[Row]) -> None:
    """The changelog files hold those rows with their kinds, each sorted by key."""
    found = []
    for path in folder.glob("**/changelog-*"):
        rows = pq.ParquetFile(path).read().to_pylist()
        assert [row["k"] for row in rows] == sorted(row["k"] for row in rows)
        found += [(KINDS[row["_VALUE_KIND"]], *(row[name] for name in SCHEMA.names)) for row in rows]
    assert sorted(found, key=repr) == sorted(
        ((row["_row_kind"], *(row[name] for name in SCHEMA.names)) for row in came), key=repr
    )


def finalized(state: dict[str, Row], mode: Mode) -> list[Row]:
    names = [*SCHEMA.names, "p"] if mode.partition else SCHEMA.names
    return [{name: state[key][name] for name in names} for key in sorted(state)]


def live(state: dict[str, Row], mode: Mode) -> list[Row]:
    return finalized({key: row for key, row in state.items() if row["_row_kind"] in ("+I", "+U")}, mode)


@settings(max_examples=20, deadline=None)
@given(batches(["+I", "+U", "-U", "-D"]), buffers, producers, modes)
def test_deduplicate(writes: list[list[Row]], buffer: str, producer: str, mode: Mode) -> None:
    state: dict[str, Row] = {}
    for rows in writes:
        for row in rows:
            state[row["k"]] = row
    with TemporaryDirectory() as folder:
        assert written(folder, writes, common(buffer, producer), mode) == live(state, mode)


def by_sequence(writes: list[list[Row]]) -> dict[str, Row]:
    """The row of each key that has the greatest `s`; of equal ones the last."""
    state: dict[str, Row] = {}
    for rows in writes:
        for row in rows:
            known = state.get(row["k"])
            if known is None or (-1 if row["s"] is None else row["s"]) >= (-1 if known["s"] is None else known["s"]):
                state[row["k"]] = row
    return state


in_one_partition = st.sampled_from([mode for mode in MODES if not mode.partition])


@settings(max_examples=10, deadline=None)
@given(batches(["+I", "+U", "-D"]), buffers, producers, in_one_partition)
def test_deduplicate_by_sequence_field(writes: list[list[Row]], buffer: str, producer: str, mode: Mode) -> None:
    """Without compactions: they forget deletes, and a row that is older than a forgotten one counts."""
    options = {"write-only": "true", **common(buffer, producer)}
    with TemporaryDirectory() as folder:
        assert written(folder, writes, {"sequence.field": "s", **options}, mode) == live(by_sequence(writes), mode)


@settings(max_examples=10, deadline=None)
@given(
    batches(["+I", "+U"]), buffers, st.sampled_from(["none", "input", "lookup", "full-compaction"]), in_one_partition
)
def test_deduplicate_by_sequence_field_in_compactions(
    writes: list[list[Row]], buffer: str, producer: str, mode: Mode
) -> None:
    """Where nothing is deleted, compactions change no row, in small levels and of every producer."""
    options = {"num-levels": "3", **common(buffer, producer), "num-sorted-run.compaction-trigger": "2"}
    with TemporaryDirectory() as folder:
        assert written(folder, writes, {"sequence.field": "s", **options}, mode) == live(by_sequence(writes), mode)


@settings(max_examples=15, deadline=None)
@given(batches(["+I", "+U"]), buffers, producers, modes)
def test_partial_update_with_a_sequence_group(writes: list[list[Row]], buffer: str, producer: str, mode: Mode) -> None:
    for row in (row for rows in writes for row in rows):
        row["g"] = None if row["s"] is None else row["g"]  # a key's only row stays as it is, whatever its sequence
    state: dict[str, Row] = {}
    for rows in writes:
        for row in rows:
            known = state.setdefault(row["k"], dict.fromkeys(SCHEMA.names) | {"k": row["k"], "p": row["p"]})
            for name in ("n", "a"):
                known[name] = known[name] if row[name] is None else row[name]
            if row["s"] is not None and (known["s"] is None or row["s"] >= known["s"]):
                known["s"], known["g"] = row["s"], row["g"]
    with TemporaryDirectory() as folder:
        options = {"merge-engine": "partial-update", "fields.s.sequence-group": "g", **common(buffer, producer)}
        assert written(folder, writes, options, mode) == finalized(state, mode)


@settings(max_examples=15, deadline=None)
@given(batches(["+I", "+U"]), buffers, producers, modes)
def test_aggregation(writes: list[list[Row]], buffer: str, producer: str, mode: Mode) -> None:
    state: dict[str, Row] = {}
    for rows in writes:
        for row in rows:
            known = state.setdefault(row["k"], dict.fromkeys(SCHEMA.names) | {"k": row["k"], "p": row["p"]})
            known["n"] = known["n"] if row["n"] is None else (known["n"] or 0) + row["n"]
            known["a"] = known["a"] if row["a"] is None else row["a"]
            known["g"] = row["g"]
            if row["s"] is not None:
                known["s"] = row["s"] if known["s"] is None else max(known["s"], row["s"])
    with TemporaryDirectory() as folder:
        options = {
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "sum",
            "fields.g.aggregate-function": "last_value",
            "fields.s.aggregate-function": "max",
            **common(buffer, producer),
        }
        assert written(folder, writes, options, mode) == finalized(state, mode)


@settings(max_examples=15, deadline=None)
@given(batches(["+I", "+U"]), buffers, st.sampled_from(MODES[:3]))
def test_first_row(writes: list[list[Row]], buffer: str, mode: Mode) -> None:
    state: dict[str, Row] = {}
    for row in (row for rows in writes for row in rows):
        state.setdefault(row["k"], row)
    with TemporaryDirectory() as folder:
        options = {"merge-engine": "first-row", "write-buffer-size": buffer}
        assert written(folder, writes, options, mode) == finalized(state, mode)
        table = lakebed.open(Path(folder) / "t")
        sink = table.sink()
        assert isinstance(sink, PaimonSink)
        found = [key for _, some in sink.plan().live_keys() for key in some["k"].to_pylist()]
    assert sorted(found) == sorted(state)


@settings(max_examples=15, deadline=None)
@given(batches(["+I"]), buffers, st.sampled_from([{"bucket": "-1"}, {"bucket": "3", "bucket-key": "n"}]))
def test_rows_without_a_key(writes: list[list[Row]], buffer: str, options: dict[str, str]) -> None:
    """Every row stays; without buckets in the order in which they came."""
    came = [{name: row[name] for name in SCHEMA.names} for rows in writes for row in rows]
    with TemporaryDirectory() as folder:
        table = lakebed.create(Path(folder) / "t", "paimon", SCHEMA, options={**options, "write-buffer-size": buffer})
        for rows in writes:
            table.write(pa.Table.from_pylist(rows, schema=SCHEMA))
        found = table.read().read_all().to_pylist()
    assert sorted(found, key=repr) == sorted(came, key=repr)
    if options["bucket"] == "-1":
        assert found == came


@settings(max_examples=15, deadline=None)
@given(batches(["+I", "+U", "-D"]), st.sampled_from(MODES[3:]), st.sampled_from(["256 mb", "1 b"]))
def test_deletion_vectors(writes: list[list[Row]], mode: Mode, buffer: str) -> None:
    """Postponed rows of such tables are merged into the highest level, and no delete stays there."""
    state: dict[str, Row] = {}
    for rows in writes:
        for row in rows:
            state[row["k"]] = row
    with TemporaryDirectory() as folder:
        options = {"deletion-vectors.enabled": "true", "write-buffer-size": buffer}
        assert written(folder, writes, options, mode) == live(state, mode)
