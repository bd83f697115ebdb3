"""Random batches of row kinds against a dictionary: every merge engine, in one write and over many, whatever the
write buffer."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("a", pa.string()), ("s", pa.int32()), ("g", pa.string())])
Row = dict[str, Any]

keys = st.sampled_from([f"key-{i}" * (i + 1) for i in range(6)])
maybe = st.none() | st.integers(0, 5)
text = st.none() | st.sampled_from(["", "x", "a longer text", "ü"])


def batches(kinds: list[str]) -> st.SearchStrategy[list[list[Row]]]:
    row = st.fixed_dictionaries(
        {"_row_kind": st.sampled_from(kinds), "k": keys, "n": maybe, "a": text, "s": maybe, "g": text}
    )
    return st.lists(st.lists(row, max_size=12), min_size=1, max_size=4)


def written(folder: str, writes: list[list[Row]], options: dict[str, str]) -> list[Row]:
    """What a table holds after the writes."""
    table = lakebed.create(Path(folder) / "t", "paimon", SCHEMA, ["k"], options={"bucket": "2", **options})
    for rows in writes:
        table.write(pa.Table.from_pylist(rows, schema=SCHEMA.append(pa.field("_row_kind", pa.string()))))
    return sorted(table.read().read_all().to_pylist(), key=lambda row: row["k"])


def settled(state: dict[str, Row]) -> list[Row]:
    return [{name: state[key][name] for name in SCHEMA.names} for key in sorted(state)]


def live(rows: list[Row]) -> list[Row]:
    return [
        {name: row[name] for name in SCHEMA.names}
        for row in sorted(rows, key=lambda r: r["k"])
        if row["_row_kind"] in ("+I", "+U")
    ]


@settings(max_examples=8, deadline=None)
@given(batches(["+I", "+U", "-U", "-D"]), st.sampled_from(["256 mb", "1 b"]))
def test_deduplicate(writes: list[list[Row]], buffer: str) -> None:
    state: dict[str, Row] = {}
    for rows in writes:
        for row in rows:
            state[row["k"]] = row
    with TemporaryDirectory() as folder:
        assert written(folder, writes, {"write-buffer-size": buffer}) == live(list(state.values()))


@settings(max_examples=8, deadline=None)
@given(batches(["+I", "+U", "-D"]))
def test_deduplicate_by_sequence_field(writes: list[list[Row]]) -> None:
    state: dict[str, Row] = {}
    for rows in writes:
        for row in rows:
            known = state.get(row["k"])
            if known is None or (-1 if row["s"] is None else row["s"]) >= (-1 if known["s"] is None else known["s"]):
                state[row["k"]] = row
    with TemporaryDirectory() as folder:
        assert written(folder, writes, {"sequence.field": "s"}) == live(list(state.values()))


@settings(max_examples=8, deadline=None)
@given(batches(["+I", "+U"]))
def test_partial_update_with_a_sequence_group(writes: list[list[Row]]) -> None:
    for row in (row for rows in writes for row in rows):
        row["g"] = None if row["s"] is None else row["g"]  # a key's only row stays as it is, whatever its sequence
    state: dict[str, Row] = {}
    for rows in writes:
        for row in rows:
            known = state.setdefault(row["k"], dict.fromkeys(SCHEMA.names) | {"k": row["k"]})
            for name in ("n", "a"):
                known[name] = known[name] if row[name] is None else row[name]
            if row["s"] is not None and (known["s"] is None or row["s"] >= known["s"]):
                known["s"], known["g"] = row["s"], row["g"]
    with TemporaryDirectory() as folder:
        options = {"merge-engine": "partial-update", "fields.s.sequence-group": "g"}
        assert written(folder, writes, options) == settled(state)


@settings(max_examples=8, deadline=None)
@given(batches(["+I", "+U"]))
def test_aggregation(writes: list[list[Row]]) -> None:
    state: dict[str, Row] = {}
    for rows in writes:
        for row in rows:
            known = state.setdefault(row["k"], dict.fromkeys(SCHEMA.names) | {"k": row["k"]})
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
        }
        assert written(folder, writes, options) == settled(state)
