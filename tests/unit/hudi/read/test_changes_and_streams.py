"""Ranges and streams: which rows belong to a range, and that no commit is lost or delivered twice, whoever was late."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakebed.errors import DataCleanedError, NotInHistoryError, OptionError, UnsupportedError, UsageError
from lakebed.formats.hudi.table import HudiTable
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.tables.hudi.writing import HudiFolder, changed, rows, t

NO_LIMITS = Limits()
BOTH = pytest.mark.parametrize("version", [6, 8])


def _cow(folder: Path, commits: int = 3, version: int = 6) -> HudiFolder:
    """Copy-on-write: one file group, each commit n changes key n and rewrites the file."""
    writer = HudiFolder(folder, version, table__type="COPY_ON_WRITE")
    for number in range(1, commits + 1):
        actual = [{"id": f"k{n}", "ts": n, "x": f"v{n}", "_hoodie_commit_time": t(n)} for n in range(1, number + 1)]
        writer.done(number, [writer.base("g", number, actual)], "commit", previous=t(number - 1))
    return writer


def _clean(table: HudiFolder, instant: float, names: list[str], retained: float) -> None:
    actual = {
        "earliestCommitToRetain": t(retained),
        "partitionMetadata": {"": {"partitionPath": "", "successDeleteFiles": names}},
    }
    for name in names:
        (table.folder / name).unlink()
    time = f"{t(instant)}_{t(instant + 0.1)}" if table.version >= 8 else t(instant)
    (table.timeline / f"{time}.clean").write_text(json.dumps(actual))


def _streamed(table: HudiTable, start: str | None = None, limits: Limits = NO_LIMITS) -> list[dict[str, Any]]:
    """Each batch of a stream: the value of x by key, "-D" for deletes."""
    batches = []
    for _, plan in drain(table.stream(["id", "x"]), start, limits):
        actual = run(plan, 1).read_all()
        kinds = actual["_row_kind"].to_pylist()
        batches.append(
            {
                k: "-D" if d == "-D" else x
                for k, x, d in zip(actual["id"].to_pylist(), actual["x"].to_pylist(), kinds, strict=True)
            }
        )
    return batches


@BOTH
def test_both_ends_are_exact(tmp_path: Path, version: int) -> None:
    table = _cow(tmp_path, 4, version).open()
    half = 0.5 if version >= 8 else 0
    assert changed(table, "x", after=t(1 + half), until=t(3 + half)) == {"k2": "v2", "k3": "v3"}
    assert changed(table, "x", after=t(3 + half)) == {"k4": "v4"}
    assert changed(table, "x", until=t(1 + half)) == {"k1": "v1"}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_range_between_two_commits_is_empty(tmp_path: Path, kind: str) -> None:
    table = HudiFolder(tmp_path, table__type=kind)
    for number in (1, 4):
        table.done(number, [table.base(f"g{number}", number, [{"id": f"k{number}"}])])
    assert changed(table.open(), "x", after=t(2), until=t(3)) == {}


@BOTH
def test_a_late_row_that_loses_is_no_change(tmp_path: Path, version: int) -> None:
    table = HudiFolder(tmp_path, version)
    table.done(1, [table.base("g", 1, [{"id": "a", "ts": 10, "x": "a1"}, {"id": "b", "ts": 10, "x": "b1"}])])
    late = table.data(2, [{"id": "a", "ts": 5, "x": "late"}, {"id": "b", "ts": 11, "x": "b2"}])
    table.done(2, [table.log("g", 2 if version >= 8 else 1, late)])
    assert changed(table.open(), "x", after=t(1.6)) == {"b": "b2"}


@BOTH
def test_a_compaction_that_spans_the_border_brings_its_own_range_alone(tmp_path: Path, version: int) -> None:
    table = HudiFolder(tmp_path, version)
    table.done(1, [table.base("g", 1, [{"id": k, "ts": 1, "x": "old"} for k in "abc"])])
    slice_of = (lambda n: n) if version >= 8 else (lambda n: 1)
    for number, key in ((2, "a"), (3, "b")):
        table.done(
            number,
            [
                table.log(
                    "g",
                    slice_of(number),
                    table.data(number, [{"id": key, "ts": number, "x": f"{key}{number}"}]),
                    number,
                )
            ],
        )
    full = [
        {"id": k, "ts": n, "x": x, "_hoodie_commit_time": t(n)}
        for k, n, x in (("a", 2, "a2"), ("b", 3, "b3"), ("c", 1, "old"))
    ]
    table.done(4, [table.base("g", 4, full)], "commit", operation="COMPACT")
    assert changed(table.open(), "x", after=t(2.6)) == {"b": "b3"}
    assert changed(table.open(), "x", after=t(2.6), until=t(3.6)) == {"b": "b3"}
    assert changed(table.open(), "x", after=t(3.6)) == {}


@BOTH
def test_deletes_in_logs_and_folded_ones(tmp_path: Path, version: int) -> None:
    table = HudiFolder(tmp_path, version)
    table.done(1, [table.base("g", 1, [{"id": k, "ts": 1, "x": k} for k in "abc"])])
    table.done(2, [table.log("g", 2 if version >= 8 else 1, table.deletes(2, {"a": None}))], deletes=1)
    assert changed(table.open(), "x", after=t(1.6)) == {"a": "-D"}
    left = [{"id": k, "ts": 1, "x": k, "_hoodie_commit_time": t(1)} for k in "bc"]
    base = table.base("g", 3, left)
    table.done(3, [base], "commit", operation="COMPACT")
    assert changed(table.open(), "x", after=t(1.6)) == {"a": "-D"}, "the compaction folded it"
    row = table.open().changes(after=t(1.6)).read_all().to_pylist()[0]
    assert {name: value for name, value in row.items() if value is not None} == {
        "_hoodie_record_key": "a",
        "_hoodie_partition_path": "",
        "id": "a",
        "_row_kind": "-D",
    }


def test_deletes_of_copy_on_write(tmp_path: Path) -> None:
    table = _cow(tmp_path, 3)
    left = [
        {"id": "k1", "ts": 1, "x": "v1", "_hoodie_commit_time": t(1)},
        {"id": "k3", "ts": 3, "x": "v3", "_hoodie_commit_time": t(3)},
    ]
    table.done(4, [table.base("g", 4, left)], "commit", operation="DELETE", deletes=1, previous=t(3))
    assert changed(table.open(), "x", after=t(2)) == {"k3": "v3", "k2": "-D"}
    assert changed(table.open(), "x", after=t(3)) == {"k2": "-D"}


def test_an_overwrite_deletes_what_it_does_not_bring_again(tmp_path: Path) -> None:
    table = _cow(tmp_path, 3, 8)
    new = table.base("h", 4, [{"id": "k2", "ts": 4, "x": "again"}])
    table.done(4, [new], "replacecommit", operation="INSERT_OVERWRITE", replaced={"": ["g"]}, inserts=1)
    assert changed(table.open(), "x", after=t(3.6)) == {"k1": "-D", "k3": "-D", "k2": "again"}
    skipping = table.open(**{"read__start-commit": t(3.6), "read__streaming__skip_insertoverwrite": True})
    assert _streamed(skipping) == []


def test_clustering_brings_nothing_and_hides_nothing(tmp_path: Path) -> None:
    table = _cow(tmp_path, 2)
    moved = [{"id": f"k{n}", "ts": n, "x": f"v{n}", "_hoodie_commit_time": t(n)} for n in (1, 2)]
    table.done(3, [table.base("h", 3, moved)], "replacecommit", operation="CLUSTER", replaced={"": ["g"]})
    assert changed(table.open(), "x", after=t(2)) == {}
    assert changed(table.open(), "x", after=t(1)) == {"k2": "v2"}


def test_a_key_that_moved_to_another_group_is_not_deleted(tmp_path: Path) -> None:
    table = HudiFolder(tmp_path)
    table.done(1, [table.base("g", 1, [{"id": k, "ts": 1, "x": k} for k in "ab"])])
    table.done(2, [table.log("g", 1, table.deletes(2, {"a": None}))], deletes=1)
    table.done(3, [table.base("h", 3, [{"id": "a", "ts": 3, "x": "back"}])], inserts=1)
    assert changed(table.open(), "x", after=t(1)) == {"a": "back"}


# The full scan warns of what it cannot see.
@pytest.mark.filterwarnings("ignore:files that this read needs were cleaned:lakebed.errors.ReadWarning")
def test_cleaned_files_are_an_error_or_a_full_scan(tmp_path: Path) -> None:
    table = _cow(tmp_path, 6)
    _clean(table, 7, [f"g-0_0-1-1_{t(n)}.parquet" for n in (1, 2, 3)], retained=5)
    with pytest.raises(DataCleanedError, match=t(5)):
        table.open().changes(after=t(1), until=t(3))
    scanned = table.open(read__streaming__fallback="full-scan")
    assert changed(scanned, "x", after=t(1), until=t(3)) == {"k2": "v2", "k3": "v3"}
    assert scanned.plan_changes(after=t(1), until=t(3)).warnings
    assert changed(table.open(), "x", after=t(1)) == {f"k{n}": f"v{n}" for n in range(2, 7)}
    with pytest.raises(DataCleanedError):
        table.open().read(as_of=t(2))
    assert rows(table.open(), "x", as_of=t(5)) == {f"k{n}": f"v{n}" for n in range(1, 6)}


def test_deletes_that_cannot_be_told_stop_a_stream_and_warn_a_batch(tmp_path: Path) -> None:
    table = _cow(tmp_path, 2)
    left = [{"id": "k1", "ts": 1, "x": "v1", "_hoodie_commit_time": t(1)}]
    table.done(3, [table.base("g", 3, left)], "commit", deletes=1, previous=t(2))
    _clean(table, 4, [f"g-0_0-1-1_{t(2)}.parquet"], retained=3)
    plan = table.open().plan_changes(after=t(2))
    assert f"deletes of {t(3)}" in plan.warnings[0]
    with pytest.raises(DataCleanedError):
        _streamed(table.open(**{"read__start-commit": t(3)}))


@pytest.mark.parametrize("text", ["99", "2026-13-45", "yesterday"])
def test_a_snapshot_as_of_no_moment_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="Give an instant"):
        _cow(tmp_path).open().plan_read(as_of=text)


def test_before_the_first_commit(tmp_path: Path) -> None:
    with pytest.raises(NotInHistoryError, match=t(1)):
        _cow(tmp_path).open().read(as_of=t(0.5))


@pytest.mark.parametrize("text", ["2026-01-01T00:00:02", "2026-01-01T02:00:02+02:00", "2026-01-01T00:00:02Z"])
def test_timestamps_name_moments(tmp_path: Path, text: str) -> None:
    table = HudiFolder(tmp_path, table__timeline__timezone="UTC")
    for number in (1, 2, 3):
        table.done(number, [table.base(f"g{number}", number, [{"id": f"k{number}", "x": "x"}])])
    assert set(rows(table.open(), "x", as_of=text)) == {"k1", "k2"}
    assert set(changed(table.open(), "x", after=text)) == {"k3"}


def test_a_table_without_meta_columns(tmp_path: Path) -> None:
    """Keys come from the key fields, and no range can be read."""
    table = HudiFolder(tmp_path, populate__meta__fields="false")
    base = table.base("g", 1, [{"id": "a", "ts": 1, "x": "a"}, {"id": "b", "ts": 1, "x": "b"}], meta=False)
    table.done(1, [base])
    assert rows(table.open(), "x") == {"a": "a", "b": "b"}
    table.done(2, [table.log("g", 1, table.data(2, [{"id": "a", "ts": 2, "x": "a2"}]) + table.deletes(2, {"b": None}))])
    assert rows(table.open(), "x") == {"a": "a2"}
    assert table.open().schema.names == ["id", "ts", "x", "n"]
    with pytest.raises(UnsupportedError, match="meta"):
        table.open().changes()


# ---- streams ---------------------------------------------------------------------------------------------------------


@BOTH
def test_a_stream_starts_with_the_newest_commit(tmp_path: Path, version: int) -> None:
    assert _streamed(_cow(tmp_path, 3, version).open()) == [{"k3": "v3"}]


@BOTH
def test_commit_by_commit(tmp_path: Path, version: int) -> None:
    table = _cow(tmp_path, 4, version).open(**{"read__start-commit": t(2), "read__commits__limit": 1})
    assert _streamed(table) == [{"k2": "v2"}, {"k3": "v3"}, {"k4": "v4"}]
    ended = _cow(tmp_path, 4, version).open(**{"read__start-commit": t(2), "read__end-commit": t(3)})
    assert _streamed(ended) == [{"k2": "v2", "k3": "v3"}]


def test_earliest_is_the_table_as_it_stands(tmp_path: Path) -> None:
    table = _cow(tmp_path, 3)
    stream = table.open(**{"read__start-commit": "earliest"})
    assert _streamed(stream) == [{"k1": "v1", "k2": "v2", "k3": "v3"}]


@pytest.mark.parametrize("limits", [Limits(commits=1), Limits(files=1), Limits(bytes=1)])
def test_a_batch_always_takes_a_commit(tmp_path: Path, limits: Limits) -> None:
    table = _cow(tmp_path, 4).open(**{"read__start-commit": t(1)})
    assert len(_streamed(table, limits=limits)) == (4 if limits.files is None else 1)


@BOTH
def test_a_writer_that_begins_first_and_ends_last_is_delivered_once(tmp_path: Path, version: int) -> None:
    table = HudiFolder(tmp_path, version)
    table.done(1, [table.base("g", 1, [{"id": "a", "x": "a"}])])
    table.state(2, "deltacommit.inflight")
    late = table.base("h", 2, [{"id": "b", "x": "late"}])
    table.done(3, [table.base("i", 3, [{"id": "c", "x": "c"}])])
    opened = table.open(**{"read__start-commit": t(1)})
    [(position, plan)] = list(drain(opened.stream(["id", "x"])))
    assert sorted(run(plan, 1).read_all()["id"].to_pylist()) == ["a", "c"]
    table.done(2, [late], completed=5)
    assert _streamed(opened, position) == [{"b": "late"}]
    first = opened.stream(["id", "x"]).plan(opened.stream().initial(), position)
    assert sorted(run(first, 1).read_all()["id"].to_pylist()) == ["a", "c"], "a replay gives the same"


@BOTH
def test_a_commit_that_shows_up_behind_the_position_is_delivered_once(tmp_path: Path, version: int) -> None:
    """Its writer's clock was behind: no file of it was there when a later instant was delivered."""
    table = HudiFolder(tmp_path, version)
    table.done(1, [table.base("g", 1, [{"id": "a", "x": "a"}])])
    table.done(3, [table.base("i", 3, [{"id": "c", "x": "c"}])])
    opened = table.open(**{"read__start-commit": t(1)})
    ((position, _),) = drain(opened.stream())
    table.done(2, [table.base("h", 2, [{"id": "b", "x": "behind"}])])
    ((later, _),) = drain(opened.stream(), position)
    table.done(0.5, [table.base("j", 0.5, [{"id": "d", "x": "first"}])])
    table.done(4, [table.base("k", 4, [{"id": "e", "x": "e"}])])
    assert _streamed(opened, position) == [{"b": "behind", "d": "first", "e": "e"}]
    assert _streamed(opened, later) == [{"d": "first", "e": "e"}]
    for start, end, ids in ((opened.stream().initial(), position, "ac"), (position, later, "b")):
        again = run(opened.stream(["id", "x"]).plan(start, end), 1).read_all()
        assert sorted(again["id"].to_pylist()) == list(ids), "a replay gives the same"


def test_positions_remember_a_bounded_number_of_commits(tmp_path: Path) -> None:
    table = HudiFolder(tmp_path, 6)
    for number in range(1, 131):
        table.done(number, [table.base("g", number, [{"id": "a", "x": str(number)}])], previous=t(number - 1))
    opened = table.open(**{"read__start-commit": t(1)})
    ((position, _),) = drain(opened.stream())
    assert len(position) < 4000
    assert _streamed(opened, position) == []
    table.done(100.5, [table.base("h", 100.5, [{"id": "b", "x": "behind"}])])
    assert _streamed(opened, position) == [{"b": "behind"}]
    old = json.dumps({"version": 1, "until": t(130), "pending": []})
    assert _streamed(opened, old) == [], "a position of before knows of no such commits"


def test_table_services_add_no_rows(tmp_path: Path) -> None:
    table = _cow(tmp_path, 1)
    opened = table.open(**{"read__start-commit": t(1)})
    [(position, _)] = list(drain(opened.stream()))
    full = [{"id": "k1", "ts": 1, "x": "v1", "_hoodie_commit_time": t(1)}]
    table.done(2, [table.base("g", 2, full)], "commit", operation="COMPACT")
    table.done(3, [table.base("h", 3, full)], "replacecommit", operation="CLUSTER", replaced={"": ["g"]})
    assert [batch for batch in _streamed(opened, position) if batch] == []
    table.done(4, [table.base("i", 4, [{"id": "k4", "x": "v4"}])])
    assert [batch for batch in _streamed(opened, position) if batch] == [{"k4": "v4"}]


def test_positions_that_are_none(tmp_path: Path) -> None:
    stream = _cow(tmp_path).open().stream()
    for text in ("", "{}", '{"version": 9, "until": "", "pending": []}', "5"):
        with pytest.raises(UsageError):
            stream.latest(text, Limits())


def test_options_are_known_by_name(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"read\.start-commit"):
        _cow(tmp_path).open(read__start_commit="1")


def test_every_table_has_an_archive_that_may_be_empty(tmp_path: Path) -> None:
    table = _cow(tmp_path, 3).open()
    assert [instant.archived for instant in table.history(archived=True)] == [False] * 3
