"""Streams: where they start, what a batch takes, where they end, and the progress of a consumer."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CorruptError, DataCleanedError, LakebedError, NotInHistoryError, OptionError, UsageError
from lakebed.formats.paimon.read.stream import PaimonStream
from lakebed.kernel import clock
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.golden import unpack
from tests.tables.paimon.small import SCHEMA, Make, contents, rows

UNBOUNDED = Limits()
TIMES = (1_700_000_000_000, 1_700_000_060_000, 1_700_000_120_000)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream") / "t"
    table = lakebed.create(folder, "paimon", SCHEMA, ["id"], options={"bucket": "1"})
    for place, time in enumerate(TIMES):
        table.write(rows(("a", place + 1, "v", 1)))
        edit(folder, place + 1, timeMillis=time, watermark=10 * (place + 1))
    return folder


@pytest.fixture
def location(original: Path, tmp_path: Path) -> Path:
    """Three upserts of one row each, key 1 to 3, at known times and with watermarks 10, 20 and 30."""
    return shutil.copytree(original, tmp_path / "t")


def edit(location: Path, number: int, **changes: Any) -> None:
    path = location / "snapshot" / f"snapshot-{number}"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def stream(location: Path, **options: str) -> PaimonStream:
    spelled = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return lakebed.open(location, spelled).stream()


def ids(reader: PaimonStream, start: str | None = None, limits: Limits = UNBOUNDED) -> list[list[int]]:
    """The keys of each batch."""
    key = "id" if "id" in reader.schema.names else reader.schema.names[0]
    return [run(plan, 1).read_all()[key].to_pylist() for _, plan in drain(reader, start, limits)]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, [[3]]),
        ({"scan_mode": "latest"}, []),
        ({"scan_mode": "latest-full"}, [[1, 2, 3]]),
        ({"scan_mode": "full"}, [[1, 2, 3]]),
        ({"scan_mode": "compacted-full"}, [[1, 2, 3]]),
        ({"scan_snapshot__id": "2"}, [[2, 3]]),
        ({"scan_version": "2"}, [[2, 3]]),
        ({"scan_mode": "from-snapshot", "scan_snapshot__id": "4"}, []),
        ({"scan_mode": "from-snapshot-full", "scan_snapshot__id": "2"}, [[1, 2, 3]]),
        ({"scan_timestamp__millis": str(TIMES[1])}, [[2, 3]]),
        ({"scan_timestamp__millis": str(TIMES[1] + 1)}, [[3]]),
        ({"scan_timestamp": "2023-11-14 22:14:20"}, [[2, 3]]),
        ({"scan_timestamp__millis": "0"}, [[1, 2, 3]]),
        ({"scan_timestamp__millis": str(TIMES[2] + 1)}, []),
        ({"scan_creation__time__millis": str(TIMES[1])}, [[2, 3]]),
        ({"scan_creation__time__millis": "0"}, [[1, 2, 3]]),
        ({"scan_file__creation__time__millis": "0"}, [[1, 2, 3]]),
        ({"scan_file__creation__time__millis": "99999999999999"}, [[]]),
        ({"read_start__commit": "earliest"}, [[1, 2, 3]]),
        ({"read_start__commit": "2"}, [[2, 3]]),
        ({"read_start__commit": "2023-11-14T22:15:20"}, [[3]]),
    ],
    ids=str,
)
def test_where_it_starts(location: Path, options: dict[str, str], wanted: list[list[int]]) -> None:
    assert ids(stream(location, **options)) == wanted


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"scan_tag__name": "x"}, OptionError),
        ({"scan_watermark": "1"}, OptionError),
        ({"scan_version": "x"}, OptionError),
        ({"incremental__between": "1,2"}, OptionError),
        ({"scan_mode": "incremental"}, OptionError),
        ({"scan_mode": "from-snapshot"}, OptionError),
        ({"scan_mode": "latest", "scan_snapshot__id": "1"}, OptionError),
        ({"scan_mode": "latest-delta"}, OptionError),
        ({"scan_snapshot__id": "1", "scan_timestamp__millis": "1"}, OptionError),
        ({"read_start__commit": "1", "scan_mode": "latest"}, OptionError),
        ({"scan_snapshot__id": "9"}, NotInHistoryError),
        ({"read_start__commit": "9"}, NotInHistoryError),
        ({"read_stream_minRowsPerTrigger": "5"}, OptionError),
        ({"streaming__read__overwrite": "true", "changelog__producer": "lookup"}, OptionError),
        ({"consumer__id": "a/b"}, UsageError),
    ],
    ids=str,
)
def test_a_start_that_is_refused(location: Path, options: dict[str, str], error: type[LakebedError]) -> None:
    with pytest.raises(error):
        stream(location, **options).initial()


@pytest.mark.parametrize(
    ("options", "limits", "wanted"),
    [
        ({}, Limits(commits=1), [[1], [2], [3]]),
        ({}, Limits(files=2), [[1, 2], [3]]),
        ({}, Limits(bytes=1), [[1], [2], [3]]),
        ({"read_commits_limit": "2"}, Limits(), [[1, 2], [3]]),
        ({"read_splits_limit": "1"}, Limits(), [[1], [2], [3]]),
        ({"read_bytes_limit": "1gb"}, Limits(), [[1, 2, 3]]),
        ({"read_stream_maxFilesPerTrigger": "2"}, Limits(), [[1, 2], [3]]),
        ({"read_stream_maxBytesPerTrigger": "1"}, Limits(), [[1], [2], [3]]),
        ({"read_stream_maxRowsPerTrigger": "2"}, Limits(), [[1, 2], [3]]),
        ({"scan_bounded_watermark": "20"}, Limits(), [[1, 2]]),
        ({"scan_bounded_watermark": "9"}, Limits(), []),
        ({"scan_bounded_watermark": "30"}, Limits(), [[1, 2, 3]]),
    ],
    ids=str,
)
def test_what_a_batch_takes(location: Path, options: dict[str, str], limits: Limits, wanted: list[list[int]]) -> None:
    reader = stream(location, scan_snapshot__id="1", **options)
    assert ids(reader, limits=limits) == wanted
    assert len(reader.ends(reader.initial(), limits)) == len(wanted)


def test_a_snapshot_in_full_is_the_first_batch_where_files_are_bounded(location: Path) -> None:
    reader = stream(location, scan_mode="from-snapshot-full", scan_snapshot__id="1", read_splits_limit="5")
    assert ids(reader) == [[1], [2, 3]]


@pytest.mark.parametrize("keys", [("dt", "id"), ()], ids=["keyed", "append"])
@pytest.mark.parametrize("mode", ["from-snapshot", "from-snapshot-full"])
def test_a_large_snapshot_comes_in_pieces(make: Make, keys: tuple[str, ...], mode: str) -> None:
    """Only by the keys of Paimon's Spark source. A position inside a snapshot is one like others."""
    table = make(primary_key=keys, bucket="1", **{} if keys else {"bucket__key": "id"})
    table.write(rows(*((f"p{number}", number, "v", 1) for number in range(5))))
    table.write(rows(("p1", 7, "w", 1), ("p2", 8, "w", 1)))
    table.write(rows(("p3", 9, "w", 1)), mode="overwrite")
    table.write(rows(("p3", 10, "w", 1)))
    start = {"scan.mode": mode, "scan.snapshot-id": "1"}
    limits = {"read.stream.maxFilesPerTrigger": "2", "consumer-id": "c"}

    def reader() -> PaimonStream:
        return lakebed.open(table.location, {**start, **limits}).stream()

    whole = [key for batch in ids(lakebed.open(table.location, start).stream()) for key in batch]
    batches, position, progress = [], reader().initial(), []
    for _ in range(9):  # each batch in a process of its own
        one = reader()
        end = one.latest(position, UNBOUNDED)
        if end == position:
            break
        batches.append(run(reader().plan(position, end), 1).read_all()["id"].to_pylist())
        one.processed(end)
        progress.append(lakebed.paimon.consumers(table).get("c"))
        position = end
    assert [len(batch) for batch in batches] == [2, 2, 1, 2, 1]
    assert sorted(key for batch in batches for key in batch) == sorted(whole)
    assert progress == ([1, 1, 2, 4, 5] if mode == "from-snapshot" else [None, None, 2, 4, 5])
    lakebed.paimon.remove_consumer(table, "c")
    assert [*reader().ends(reader().initial(), UNBOUNDED)][-1] == position


def test_it_waits_until_snapshots_are_old_enough(location: Path) -> None:
    reader = stream(location, scan_snapshot__id="1", streaming_read_snapshot_delay="1 min")
    with clock.set_clock(now=lambda: (TIMES[2] + 30_000) / 1000):
        assert ids(reader) == [[1, 2]]


def test_it_waits_for_rows_but_not_for_ever(location: Path) -> None:
    options = {"read_stream_minRowsPerTrigger": "2", "read_stream_maxTriggerDelayMs": "5000"}
    reader = stream(location, scan_snapshot__id="1", read_commits_limit="2", **options)
    now = [0.0]
    with clock.set_clock(steady=lambda: now[0]):
        first = reader.latest(reader.initial(), Limits())
        assert json.loads(first)["next"] == 3
        assert reader.latest(first, Limits()) == first
        now[0] = 6.0
        assert json.loads(reader.latest(first, Limits()))["next"] == 4


def test_it_rests_between_looks(location: Path) -> None:
    reader = stream(location, scan_mode="latest", continuous_discovery__interval="10 s")
    now = [0.0]
    with clock.set_clock(steady=lambda: now[0]):
        start = reader.initial()
        assert reader.latest(start, Limits()) == start
        lakebed.open(location).write(rows(("a", 4, "v", 1)))
        assert reader.latest(start, Limits()) == start
        now[0] = 11.0
        assert reader.latest(start, Limits()) != start


def test_a_table_without_a_snapshot(tmp_path: Path) -> None:
    """What is committed after the start comes; a time decides once there is a snapshot."""
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, ["id"], options={"bucket": "1"})
    readers = [stream(tmp_path / "t", **options) for options in ({}, {"scan_timestamp__millis": str(TIMES[1])})]
    starts = [reader.initial() for reader in readers]
    assert [ids(reader, start) for reader, start in zip(readers, starts, strict=True)] == [[], []]
    for number, time in enumerate(TIMES[:2], 1):
        table.write(rows(("a", number, "v", 1)))
        edit(tmp_path / "t", number, timeMillis=time)
    assert ids(readers[0], starts[0]) == [[1, 2]]
    assert ids(readers[1], starts[1]) == [[], [2]]


def test_an_expired_snapshot_is_an_error_that_says_what_is_left(location: Path) -> None:
    reader = stream(location, scan_snapshot__id="1")
    start = reader.initial()
    end = reader.latest(start, Limits())
    retention = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    lakebed.open(location).expire(options=retention)
    for act in (lambda: reader.latest(start, Limits()), lambda: stream(location).plan(start, end)):
        with pytest.raises(DataCleanedError, match="snapshots 3 to 3 can still be read"):
            act()
    assert ids(stream(location, scan_snapshot__id="1")) == [[3]]  # as Paimon's own sources do
    with pytest.raises(DataCleanedError, match="snapshots 3 to 3"):
        stream(location, read_start__commit="2").initial()


def test_a_table_that_was_rolled_back(location: Path) -> None:
    reader = stream(location, scan_mode="latest")
    start = reader.initial()
    lakebed.open(location).rollback(1)
    with pytest.raises(NotInHistoryError, match="snapshot 4 next, but the newest is 1"):
        reader.latest(start, Limits())


@pytest.mark.parametrize("behind", [True, False])
def test_a_snapshot_of_another_line_with_the_same_number(location: Path, behind: bool) -> None:
    """What was committed after a rollback must not pass for what the stream has read, nor for the end of a batch that
    is read again. `behind`: its writer's clock is behind the snapshots', so it has the time of the one before."""
    reader = stream(location, scan_snapshot__id="1")
    start = reader.initial()
    end = reader.latest(start, Limits())
    table = lakebed.open(location)
    if behind:
        edit(location, 3, timeMillis=TIMES[1])
    with clock.set_clock(now=lambda: TIMES[2] / 1000 - 90 if behind else TIMES[2] / 1000):
        table.rollback(2)
        table.write(rows(("a", 9, "v", 1)))
    time = json.loads((location / "snapshot" / "snapshot-3").read_text())["timeMillis"]
    assert time == (TIMES[1] if behind else TIMES[2])
    for _ in range(2):
        with pytest.raises(NotInHistoryError, match="snapshot 3 is not the one that the stream has read"):
            stream(location).latest(end, Limits())
        with pytest.raises(NotInHistoryError, match="snapshot 3 is not the one that the stream has read"):
            stream(location).plan(start, end)
        table.write(rows(("a", 10, "v", 1)))


def test_a_snapshot_of_another_line_where_a_part_was_read(make: Make) -> None:
    """The rest of it is not that of the snapshot which has its number now."""
    table = make(primary_key=("dt", "id"), bucket="1")
    for key in (0, 5):
        table.write(rows(*((f"p{number}", key + number, "v", 1) for number in range(3))))
    options = {"read.stream.maxFilesPerTrigger": "2", "scan.mode": "latest-full"}

    def reader() -> PaimonStream:
        return lakebed.open(table.location, options).stream()

    start = reader().initial()
    inside = reader().latest(start, UNBOUNDED)
    table.rollback(1)
    for act in (lambda: reader().latest(inside, UNBOUNDED), lambda: reader().plan(start, inside)):
        with pytest.raises((NotInHistoryError, DataCleanedError)):
            act()
    table.write(rows(*((f"p{number}", 8 + number, "v", 1) for number in range(3))))
    for act in (lambda: reader().latest(inside, UNBOUNDED), lambda: reader().plan(start, inside)):
        with pytest.raises(NotInHistoryError, match="snapshot 2 is not the one that the stream has read"):
            act()


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[1]", '{"version": 9, "next": 1, "whole": false}', '{"version": 1}', "nan",
        '{"version": 1, "next": 3, "whole": false, "read-list": 7}',
        '{"version": 1, "next": -3, "whole": false}', '{"version": 1, "next": 1, "whole": true, "index": -1}',
    ],
)  # fmt: skip
def test_what_is_no_position(location: Path, text: str) -> None:
    with pytest.raises(UsageError, match="not a position of a Paimon stream"):
        stream(location).latest(text, Limits())


def test_overwrites_come_where_options_ask_for_them(make: Make) -> None:
    def kinds(table: Table, **options: str) -> list[tuple[Any, ...]]:
        reader = lakebed.open(table.location, {"scan.snapshot-id": "2", **options}).stream()
        return [
            (row["_row_kind"], row["id"]) for _, plan in drain(reader) for row in run(plan, 1).read_all().to_pylist()
        ]

    for keys, option, wanted in (
        (("dt", "id"), "streaming-read-overwrite", [("-D", 1), ("-D", 2), ("+I", 2), ("+I", 3)]),
        ((), "streaming-read-append-overwrite", [("+I", 2), ("+I", 3)]),
    ):
        table = make(primary_key=keys, bucket="1", **{} if keys else {"bucket__key": "id"})
        table.write(rows(("a", 1, "v", 1), ("a", 2, "v", 1)))
        table.write(rows(("a", 2, "w", 1), ("a", 3, "v", 1)), mode="overwrite")
        assert kinds(table) == []
        assert kinds(table, **{option: "true"}) == wanted


def test_a_key_that_moves_to_another_partition_is_deleted_before_it_is_inserted(make: Make) -> None:
    table = make(primary_key=("id",), bucket="-1", dynamic__bucket_target__row__num="2")
    table.write(rows(*(("a", number, "v", 1) for number in range(20))))
    table.write(rows(*(("b", number, "w", 1) for number in range(0, 20, 2))))
    table.write(rows(*(("a", number, "x", 1) for number in range(0, 20, 4))))
    wanted = {row[1]: row for row in contents(table)}
    reader = lakebed.open(table.location, {"read.start-commit": "earliest"}).stream()
    for read in (run(reader.plan(reader.initial(), reader.latest(reader.initial(), UNBOUNDED)), 4), table.changes()):
        state = {}
        for row in read.read_all().to_pylist():
            kind = row.pop("_row_kind")
            state[row["id"]] = tuple(row.values()) if kind in ("+I", "+U") else None
        assert state == wanted


@pytest.mark.parametrize("producer", ["none", "input"])
@pytest.mark.parametrize("rescaled", [False, True], ids=["dynamic", "rescaled"])
def test_an_overwrite_that_moves_keys_to_other_buckets_retracts_them_first(
    make: Make, producer: str, rescaled: bool
) -> None:
    """In one batch with the commits around it, whatever the number of tasks."""
    given = {"bucket": "5"} if rescaled else {"bucket": "-1", "dynamic__bucket_target__row__num": "2"}
    table = make(changelog__producer=producer, **given, streaming__read__overwrite="true")
    writer = table.writer()
    writer.write(rows(*(("a", number, "v", 1) for number in range(9)), *(("b", number, "v", 1) for number in range(9))))
    writer.write(rows(("a", 3, "v", 2), ("a", 3, "v", 2), kinds=["-U", "-D"]))
    writer.write(rows(("a", 3, "w", 3), kinds=["+I"]))
    writer.commit(1, writer.prepare_commit())
    if rescaled:
        table.alter(lakebed.set_option("bucket", "2"))
        table = lakebed.open(table.location)
    table.write(rows(*(("a", number, "x", 4) for number in range(8, 0, -1))), mode="overwrite")
    table.write(rows(("a", 5, "y", 5), ("b", 5, "y", 5)))
    table.write(rows(("a", 6, "x", 4)), mode="delete")
    wanted = {row[:2]: row for row in contents(table)}
    reader = lakebed.open(table.location, {"read.start-commit": "earliest"}).stream()
    plan = reader.plan(reader.initial(), reader.latest(reader.initial(), UNBOUNDED))
    for tasks in (1, 4):
        state: dict[tuple[str, int], tuple[Any, ...] | None] = {}
        for row in run(plan, tasks).read_all().to_pylist():
            kind = row.pop("_row_kind")
            state[row["dt"], row["id"]] = tuple(row.values()) if kind in ("+I", "+U") else None
        assert {key: row for key, row in state.items() if row is not None} == wanted


def test_rows_of_a_key_that_an_overwrite_moved_stay_in_order(make: Make) -> None:
    """Where the overwrite itself is not read, in a stream and in a batch of changes. Buckets that keep their keys are
    read side by side."""
    table = make(bucket="-1", dynamic__bucket_target__row__num="2")
    table.write(rows(*(("a", number, "v", 1) for number in range(9)), ("b", 1, "v", 1)))
    table.write(rows(("a", 8, "x", 2)), mode="overwrite")
    table.write(rows(*(("a", number, "y", 3) for number in range(7, -1, -1))))
    reader = lakebed.open(table.location, {"read.start-commit": "earliest"}).stream()
    plan = reader.plan(reader.initial(), reader.latest(reader.initial(), UNBOUNDED))
    assert len(plan.splits) == 2
    for read in (run(plan, 4), table.changes()):
        state = {(row["dt"], row["id"]): row["n"] for row in read.read_all().to_pylist()}
        assert state == {**{("a", number): 3 for number in range(8)}, ("a", 8): 1, ("b", 1): 1}
    table.write(rows(("a", 1, "z", 4)))
    full = lakebed.open(table.location, {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "3"}).stream()
    assert len(full.plan(full.initial(), full.latest(full.initial(), UNBOUNDED)).splits) == 6


@pytest.mark.parametrize("mode", ["upsert", "overwrite"])
def test_postponed_rows_come_after_those_that_they_replace(make: Make, mode: str) -> None:
    """Whatever the number of tasks: rows of real buckets that were read in full, or that an overwrite removed, and
    postponed ones that it removed."""
    table = make(bucket="-2", postpone_default__bucket__num="2", streaming__read__overwrite="true")
    table.write(rows(*(("a", number, "v", 1) for number in range(9, -1, -1)), ("b", 1, "v", 1)))
    table.rewrite()
    reader = lakebed.open(table.location, {"scan.mode": "latest-full"}).stream()
    start = reader.initial()
    table.write(rows(*(("a", number, "w", 2) for number in range(11, 5, -1))))
    table.write(rows(*(("a", number, "x", 3) for number in range(9, 4, -1))), mode=mode)
    plan = reader.plan(start, reader.latest(start, UNBOUNDED))
    table.rewrite()
    wanted = {row[:2]: row for row in contents(table)}
    for order in (plan.splits, plan.splits[::-1]):
        state: dict[tuple[str, int], tuple[Any, ...] | None] = {}
        for row in (row for split in order for batch in plan.read(split) for row in batch.to_pylist()):
            kind = row.pop("_row_kind")
            state[row["dt"], row["id"]] = tuple(row.values()) if kind in ("+I", "+U") else None
        assert {key: row for key, row in state.items() if row is not None} == wanted


def test_a_column_that_is_added_comes_with_the_next_stream(location: Path) -> None:
    reader = stream(location, scan_snapshot__id="1", read_commits_limit="1")
    batches = drain(reader)
    schemas = [next(batches)[1].schema]
    table = lakebed.open(location)
    table.alter(lakebed.add_column("note", "string"))
    table.write(rows(("a", 4, "v", 1)))
    schemas += [plan.schema for _, plan in batches]
    assert schemas == [reader.schema] * 4
    assert "note" in stream(location).schema.names


def test_postponed_rows_come_from_the_commit_that_wrote_them() -> None:
    reader = stream(unpack("paimon", "pk_postpone"), scan_mode="from-snapshot", scan_snapshot__id="1")
    assert [len(batch) for batch in ids(reader, limits=Limits(commits=1))] == [20, 7, 5]
    full = stream(unpack("paimon", "pk_postpone"), scan_mode="from-snapshot-full", scan_snapshot__id="1")
    assert len(ids(full, limits=Limits(commits=1))[0]) == 20


def test_a_changelog_outlives_its_snapshot(tmp_path: Path) -> None:
    """Paimon's engine keeps a copy of an expired snapshot in the folder `changelog`."""
    location = unpack("paimon", "cl_input", into=tmp_path)
    (location / "changelog").mkdir()
    reader = stream(location, scan_mode="from-snapshot", scan_snapshot__id="1")
    wanted = ids(reader)
    start = reader.initial()
    (location / "snapshot" / "snapshot-1").rename(location / "changelog" / "changelog-1")
    (location / "snapshot" / "EARLIEST").write_text("2")
    assert ids(stream(location), start) == wanted == ids(stream(location, scan_snapshot__id="1"))


def test_a_consumer_keeps_its_progress_in_the_table(location: Path) -> None:
    options = {"scan_snapshot__id": "1", "consumer__id": "c", "read_commits_limit": "1"}
    batches = drain(stream(location, **options))
    next(batches)
    assert lakebed.paimon.consumers(location) == {"c": 1}  # the first batch may still fail
    next(batches)
    assert json.loads((location / "consumer" / "consumer-c").read_text()) == {"nextSnapshot": 2}
    assert ids(stream(location, **options)) == [[2], [3]]
    assert lakebed.paimon.consumers(location) == {"c": 4}
    assert ids(stream(location, **options)) == []
    assert ids(stream(location, **options, consumer_ignore__progress="true")) == [[1], [2], [3]]


def test_a_consumer_holds_snapshots_until_it_is_moved_or_removed(location: Path) -> None:
    retention = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = lakebed.open(location)

    def left() -> list[str]:
        table.expire(options=retention)
        return [instant.time for instant in table.history()]

    lakebed.paimon.reset_consumer(table, "c", 2)
    assert left() == ["2", "3"]
    lakebed.paimon.reset_consumer(str(location), "c", 1)
    assert left() == ["2", "3"]
    with pytest.raises(DataCleanedError, match="snapshots 2 to 3"):
        stream(location, consumer__id="c").initial()
    lakebed.paimon.remove_consumer(table, "c")
    lakebed.paimon.remove_consumer(table, "c")
    assert left() == ["3"]
    assert lakebed.paimon.consumers(table) == {}


@pytest.mark.parametrize("consumer", ["", " ", "a/b", "..\\x", "a\nb", "../../snapshot/LATEST"])
def test_a_hostile_consumer(location: Path, consumer: str) -> None:
    for act in (
        lambda: lakebed.paimon.reset_consumer(location, consumer, 1),
        lambda: lakebed.paimon.remove_consumer(location, consumer),
    ):
        with pytest.raises(UsageError, match="cannot name a consumer"):
            act()


@pytest.mark.parametrize("data", ["", "{}", "[]", '{"nextSnapshot": 0}', '{"nextSnapshot": "2"}', "\x00"])
def test_a_consumer_file_that_is_damaged(location: Path, data: str) -> None:
    (location / "consumer").mkdir()
    (location / "consumer" / "consumer-c").write_text(data)
    with pytest.raises(CorruptError, match="consumer"):
        stream(location, consumer__id="c").initial()
    lakebed.paimon.reset_consumer(location, "c", 3)
    assert ids(stream(location, consumer__id="c")) == [[3]]


@pytest.mark.parametrize("number", [0, -1, True, "2", 1.5])
def test_a_consumer_needs_a_snapshot(location: Path, number: Any) -> None:
    with pytest.raises(UsageError, match="not a snapshot"):
        lakebed.paimon.reset_consumer(location, "c", number)


def test_only_paimon_tables_have_consumers() -> None:
    with pytest.raises(UsageError, match="Only Paimon tables"):
        lakebed.paimon.consumers(unpack("hudi", "cow_v9"))


def test_a_restarted_stream_reads_neither_twice_nor_past(location: Path) -> None:
    """The saved position wins over the mode that a stream starts in."""
    for mode in ("latest", "latest-full"):
        reader = stream(location, scan_mode=mode)
        saved = reader.latest(reader.initial(), Limits()) if mode == "latest-full" else reader.initial()
        table = lakebed.open(location)
        before = len(table.history())
        for number in range(before + 1, before + 4):
            table.write(rows(("a", number, "v", 1)))
        assert ids(stream(location, scan_mode=mode), saved) == [[*range(before + 1, before + 4)]]


def test_the_cost_of_a_snapshot_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch reads a snapshot, its manifest list and its manifest once for each of its snapshots, and a few files
    more, however many snapshots there are. A batch of one snapshot costs the same at 20 and at 100."""
    location = tmp_path / "t"
    lakebed.create(location, "paimon", SCHEMA, ["id"], options={"bucket": "1"}).write(rows(("a", 1, "v", 1)))
    first = json.loads((location / "snapshot" / "snapshot-1").read_text())
    costs = {}
    for newest in (20, 100):
        for number in range(2, newest + 1):
            (location / "snapshot" / f"snapshot-{number}").write_text(json.dumps({**first, "id": number}))
        (location / "snapshot" / "LATEST").write_text(str(newest))
        for start in (1, newest):
            reader = stream(location, scan_snapshot__id=str(start))
            position = reader.initial()

            def one_batch(reader: PaimonStream = reader, position: str = position) -> None:
                end = reader.latest(position, Limits())
                assert json.loads(end)["next"] == newest + 1  # noqa: B023
                reader.plan(position, end)

            costs[newest, start] = files_read(location, one_batch, monkeypatch)
    assert costs[20, 20] == costs[100, 100] < 12
    assert [(costs[newest, 1] - costs[newest, newest]) / (newest - 1) for newest in (20, 100)] == [3, 3]


def files_read(location: Path, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many files of a table `act` reads whole."""
    kind, paths = type(lakebed.open(location).store), list[str]()
    read, read_many = kind.read, kind.read_many

    def counted(self: Any, path: str, *more: Any) -> bytes:
        paths.append(path)
        return read(self, path, *more)

    def counted_many(self: Any, several: Sequence[str]) -> Sequence[bytes]:
        paths.extend(several)
        return read_many(self, several)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "read", counted)
        patch.setattr(kind, "read_many", counted_many)
        act()
    return len(paths)
