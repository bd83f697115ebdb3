"""Random schedules of writes and compactions against a dictionary, for every merge engine and changelog producer, with
deletion vectors and without, in small levels: the rows are those of the model after each step, and the changelog of the
compactions leads from one state to the next."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.formats.paimon.codec.file_schema import KIND_FIELD
from lakebed.formats.paimon.codec.snapshot_json import CommitKind
from lakebed.formats.paimon.layout import bucket_folder
from lakebed.formats.paimon.manifests import changelog_lists, entries_of, live_files, metas_of_lists
from lakebed.formats.paimon.read.files import read_batches
from lakebed.formats.paimon.snapshot import History

SCHEMA = pa.schema(
    [pa.field("k", pa.int32(), False), ("n", pa.int64()), ("a", pa.string()), ("l", pa.list_(pa.int32()))]
)
Row = dict[str, Any]
State = dict[int, Row]

rows = st.fixed_dictionaries(
    {
        "_row_kind": st.sampled_from(["+I", "+I", "+U", "-D"]), "k": st.integers(0, 7),
        "n": st.none() | st.integers(0, 3), "a": st.none() | st.sampled_from(["", "x"]),
        "l": st.none() | st.lists(st.none() | st.integers(0, 2), max_size=2),
    }
)  # fmt: skip
steps = st.lists(st.lists(rows, min_size=1, max_size=6) | st.sampled_from(["full", "minor"]), min_size=3, max_size=9)


@dataclass(frozen=True)
class Case:
    """A table: its merge engine and options, and whether each commit's compaction takes all of level 0."""

    engine: str
    options: dict[str, str]
    looks_up: bool = False


SUM = {"fields.n.aggregate-function": "sum"}
CASES = [
    Case("deduplicate", {}),
    Case("deduplicate", {"changelog-producer": "lookup"}, True),
    Case("deduplicate", {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"}, True),
    Case("deduplicate", {"changelog-producer": "full-compaction", "changelog-producer.row-deduplicate": "true"}),
    Case("deduplicate", {"deletion-vectors.enabled": "true"}, True),
    Case("deduplicate", {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"}, True),
    Case("deduplicate", {"force-lookup": "true", "deletion-vectors.bitmap64": "true"}, True),
    Case("partial-update", {"changelog-producer": "lookup"}, True),
    Case("partial-update", {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}, True),
    Case("partial-update", {"changelog-producer": "full-compaction"}),
    Case("aggregation", SUM),
    Case("aggregation", {**SUM, "changelog-producer": "full-compaction"}),
    Case("aggregation", {**SUM, "changelog-producer": "lookup"}, True),
    Case("aggregation", {**SUM, "deletion-vectors.enabled": "true", "changelog-producer": "lookup"}, True),
    Case("first-row", {}, True),
    Case("first-row", {"changelog-producer": "lookup"}, True),
]


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(CASES), steps, st.sampled_from(["1", "2", "4"]), st.booleans())
def test_a_schedule(case: Case, schedule: list[Any], trigger: str, tiny: bool) -> None:
    options = {
        "bucket": "1", "merge-engine": case.engine, "num-sorted-run.compaction-trigger": trigger, "num-levels": "4",
        "snapshot.num-retained.min": "100", **({"target-file-size": "1 kb"} if tiny else {}), **case.options,
    }  # fmt: skip
    with TemporaryDirectory() as folder:
        table = lakebed.create(Path(folder) / "t", "paimon", SCHEMA, ["k"], options=options)
        state: State = {}
        changed: State = {}
        for step in schedule:
            if isinstance(step, str):
                table.rewrite(options={"compact_strategy": step})
            else:
                given_rows = [r if case.engine == "deduplicate" else {**r, "_row_kind": "+I"} for r in step]
                for row in given_rows:
                    fold(case.engine, state, row)
                data = pa.Table.from_pylist(given_rows, schema=SCHEMA.append(pa.field("_row_kind", pa.string())))
                assert table.write(data).notes == ()
            read = table.read().read_all().to_pylist()
            assert sorted(read, key=lambda row: row["k"]) == [state[key] for key in sorted(state)]
            check_levels(table)
        if case.options.get("changelog-producer") == "full-compaction":
            table.rewrite()
        for row in changelog(table):
            kind = row.pop("_VALUE_KIND")
            if kind in (1, 3):  # -U, -D
                assert changed.pop(row["k"]) == row
            else:
                assert row["k"] not in changed
                changed[row["k"]] = row
        if "changelog-producer" in case.options:
            assert changed == state


def fold(engine: str, state: State, row: Row) -> None:
    values = {name: row[name] for name in SCHEMA.names}
    known = state.get(row["k"])
    if row["_row_kind"] == "-D":
        state.pop(row["k"], None)
    elif known is None or engine == "deduplicate":
        state[row["k"]] = values
    elif engine == "partial-update":
        state[row["k"]] = {name: known[name] if value is None else value for name, value in values.items()}
    elif engine == "aggregation":
        merged = {name: known[name] if value is None else value for name, value in values.items()}
        merged["n"] = None if known["n"] is values["n"] is None else (known["n"] or 0) + (values["n"] or 0)
        state[row["k"]] = merged


def check_levels(table: lakebed.Table) -> None:
    """The keys of a level above 0 do not overlap."""
    levels: dict[int, list[tuple[bytes, bytes]]] = {}
    for entry in live_files(table.store, History(table.store).latest()):
        levels.setdefault(entry.file.level, []).append((entry.file.min_key, entry.file.max_key))
    for level, ranges in levels.items():
        ordered = sorted(ranges)
        assert level == 0 or all(high < low for (_, high), (low, _) in pairwise(ordered))


def changelog(table: lakebed.Table) -> list[Row]:
    """The rows of the changelog files, oldest snapshot first."""
    history = History(table.store)
    found: list[Row] = []
    for snapshot in history.snapshots():
        assert snapshot.changelog_manifest_list is None or snapshot.commit_kind is CommitKind.COMPACT
        metas = [meta for metas in metas_of_lists(table.store, changelog_lists(snapshot)) for meta in metas]
        for entry in entries_of(table.store, metas):
            schema, path = history.schema(0), f"{bucket_folder('', 0)}/{entry.file.file_name}"
            for batch in read_batches(table.store, path, schema, schema.fields, (KIND_FIELD,)):
                found += batch.to_pylist()
    return found
