"""Tags that commits make: their names, moments and number, and what does not stop them."""

import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed import Table
from lakebed.errors import OptionError, UnsupportedError, UsageError
from lakebed.kernel import clock
from tests.tables.paimon.small import Make, rows
from tests.unit.paimon.tags.test_names import Heard

UTC = datetime.UTC


@pytest.fixture
def at() -> Iterator[Callable[[str], None]]:
    """Sets the clock to a time in UTC."""
    now = [0.0]

    def set_to(time: str) -> None:
        now[0] = datetime.datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp()

    with clock.set_clock(lambda: now[0]):
        yield set_to


def commit(table: Table, **options: str) -> tuple[str, ...]:
    """Write a row. Returns the notes of the commit."""
    return table.write(rows(("a", 1, "v", 1)), options=options).notes


def tags(table: Table) -> dict[str, int]:
    """The snapshot of each tag."""
    names = sorted(info.name.removeprefix("tag-") for info in table.store.list("tag").files)
    return {name: tagged(table, name) for name in names}


def tagged(table: Table, name: str) -> int:
    return int(json.loads(table.store.read(f"tag/tag-{name}"))["id"])


def hourly(make: Make, **options: str) -> Table:
    named = {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly", "sink.process-time-zone": "UTC"}
    return lakebed.open(make(bucket="1").location, {**named, **options})


def test_each_hour_gets_the_tag_of_the_one_before(make: Make, at: Any) -> None:
    table = hourly(make)
    for time in ("12:12", "12:59", "13:00", "13:30", "14:00"):
        at(f"2023-07-18T{time}:00")
        assert commit(table) == ()
    assert tags(table) == {"2023-07-18 11": 1, "2023-07-18 12": 3, "2023-07-18 13": 5}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"tag.creation-period": "daily"}, "2023-07-17"),
        ({"tag.creation-period": "daily", "tag.period-formatter": "without_dashes"}, "20230717"),
        ({"tag.period-formatter": "without_dashes"}, "20230718 11"),
        ({"tag.period-formatter": "without_dashes_and_spaces"}, "2023071811"),
        ({"tag.creation-period": "two-hours", "tag.period-formatter": "without_dashes"}, "2023-07-18 10"),
        ({"tag.creation-period-duration": "5 min"}, "202307181205"),
        ({"sink.process-time-zone": "Asia/Tokyo"}, "2023-07-18 20"),
        ({"sink.process-time-zone": "UTC-05:30"}, "2023-07-18 05"),
    ],
)  # fmt: skip
def test_names(make: Make, at: Any, options: dict[str, str], name: str) -> None:
    at("2023-07-18T12:13:00")
    table = hourly(make, **options)
    commit(table)
    commit(table)
    assert tags(table) == {name: 1}


def test_a_delay_leaves_a_period_open(make: Make, at: Any) -> None:
    table = hourly(make, **{"tag.creation-delay": "10 s"})
    for time in ("12:00:09", "13:00:09", "13:00:10"):
        at(f"2023-07-18T{time}")
        commit(table)
    assert tags(table) == {"2023-07-18 11": 1, "2023-07-18 12": 3}
    with pytest.raises(OptionError, match="longer"):
        commit(table, **{"tag.creation-delay": "1 h"})


def test_hours_without_a_commit_are_named_or_made_up_for(make: Make, at: Any) -> None:
    table, patient = hourly(make), hourly(make, **{"tag.automatic-completion": "true"})
    notes = []
    for time in ("16:12", "20:05", "20:10", "20:11", "20:12"):
        at(f"2024-06-26T{time}:00")
        notes += commit(table)
        assert commit(patient) == ()
    assert tags(table) == {"2024-06-26 15": 1, "2024-06-26 19": 2}
    assert [note for note in notes if "2024-06-26 16, 2024-06-26 17, 2024-06-26 18;" in note] == notes and len(
        notes
    ) == 1
    assert [*tags(patient)] == [f"2024-06-26 {hour}" for hour in (15, 16, 17, 18, 19)]


def test_only_so_many_stay_and_the_files_of_the_others_go(make: Make, at: Any) -> None:
    table = hourly(
        make, **{"tag.num-retained-max": "2", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    )
    at("2024-06-26T09:00:00")
    commit(table)
    table.tag("by hand")
    for hour in range(10, 16):
        at(f"2024-06-26T{hour}:00:00")
        table.write(rows(("a", hour, "v", 1)), mode="overwrite")
    assert tags(table) == {"2024-06-26 13": 6, "2024-06-26 14": 7, "by hand": 1}
    assert len(data_files(table)) == 3
    for name in ("by hand", "2024-06-26 13"):
        assert table.read(as_of=f"tag:{name}").read_all().num_rows == 1


def test_tags_that_are_wrong_block_nothing(make: Make, at: Any) -> None:
    table = hourly(make)
    at("2024-06-26T10:00:00")
    commit(table)
    table.store.write("tag/tag-2024-06-26 22", b"not a tag")
    table.store.write("tag/tag-2099-01-01 00", table.store.read("snapshot/snapshot-1"))
    of_a_lost_one = table.store.read("snapshot/snapshot-1").replace(b'"id": 1', b'"id": 77')
    table.store.write("tag/tag-2024-06-26 08", of_a_lost_one)
    table.store.delete("tag/tag-2024-06-26 09")
    at("2024-06-26T11:00:00")
    commit(table)
    assert tagged(table, "2024-06-26 10") == 2
    at("2024-06-26T12:00:00")
    table.store.write(
        "tag/tag-2050-01-01 00", table.store.read("tag/tag-2024-06-26 10").replace(b'"id": 2', b'"id": 3')
    )
    commit(table)
    assert not table.store.exists("tag/tag-2024-06-26 11")  # snapshot 3 has a tag named like it, which Paimon fails on
    commit(table)
    assert tagged(table, "2024-06-26 11") == 4


def test_a_tag_of_the_same_name_is_left_alone(make: Make, at: Any) -> None:
    table = hourly(make)
    at("2024-06-26T10:00:00")
    commit(table)
    table.tag("2024-06-26 10 late")
    with pytest.raises(UsageError, match="second automatic tag"):
        table.tag("2024-06-26 10")
    at("2024-06-26T10:30:00")
    commit(table)
    table.tag("2024-06-26 10")
    for hour in (11, 12):
        at(f"2024-06-26T{hour}:00:00")
        assert commit(table) == ()
    assert tags(table) == {"2024-06-26 09": 1, "2024-06-26 10": 2, "2024-06-26 10 late": 1, "2024-06-26 11": 4}


def test_another_length_of_periods_goes_on(make: Make, at: Any) -> None:
    table = hourly(make)
    at("2023-07-18T12:00:09")
    commit(table)
    at("2023-07-20T12:00:01")
    commit(lakebed.open(table.location, {**table.options, "tag.creation-period": "daily"}))
    assert tags(table) == {"2023-07-18 11": 1, "2023-07-19": 2}


def test_watermarks_make_tags(make: Make) -> None:
    table = lakebed.open(make().location, {"tag.automatic-creation": "watermark", "tag.creation-period": "hourly"})
    start = int(datetime.datetime(2023, 7, 18, 12, tzinfo=UTC).timestamp() * 1000)
    writer = table.writer(commit_user="u")
    for number, watermark in enumerate((None, -(1 << 63), start, start + 3_599_999, start + 3_600_000)):
        writer.with_watermark(watermark).write(rows(("a", number, "v", 1)))
        writer.commit(number, writer.prepare_commit())
    assert tags(table) == {"2023-07-18 11": 3, "2023-07-18 12": 5}
    assert commit(table, **{"end-input.watermark": str(start + 7_200_000)}) == ()
    assert tags(table)["2023-07-18 13"] == 6
    with pytest.raises(UsageError):
        writer.with_watermark("now")


def test_a_stream_that_is_idle_makes_a_snapshot_for_its_tag(make: Make, at: Any) -> None:
    options = {"tag.automatic-creation": "watermark", "snapshot.watermark-idle-timeout": "10 s"}
    table = lakebed.open(make().location, options)
    at("2023-07-18T12:00:00")
    writer = table.writer(commit_user="u").ignore_empty_commit(True)
    writer.with_watermark(clock.now_ms()).write(rows(("a", 1, "v", 1)))
    writer.commit(1, writer.prepare_commit())
    at("2023-07-18T12:00:09")
    assert writer.commit(2, []).instant == ""
    at("2023-07-18T12:00:10")
    assert writer.commit(3, []).instant == "2"


def test_a_batch_renews_the_tag_of_its_day(make: Make, at: Any) -> None:
    options = {"tag.automatic-creation": "batch", "tag.num-retained-max": "2", "sink.process-time-zone": "UTC"}
    table = lakebed.open(make().location, options)
    for day in (1, 1, 2, 3):
        at(f"2024-01-0{day}T10:00:00")
        commit(table)
        if day == 1:
            table.tag(f"by hand {len(table.history())}")
    assert tags(table) == {"batch-write-2024-01-02": 3, "batch-write-2024-01-03": 4, "by hand 1": 1, "by hand 2": 2}
    named = lakebed.open(table.location, {**options, "tag.batch.customized-name": "newest"})
    commit(named)
    commit(named)
    assert str(tags(table)["newest"]) == table.history()[-1].time
    table.rewrite()
    assert tags(table)["batch-write-2024-01-03"] == 4


def test_the_jobs_of_a_write_only_table_leave_tags_to_its_compaction(make: Make, at: Any) -> None:
    table = hourly(make, **{"write-only": "true"})
    at("2024-01-01T10:00:00")
    for _ in range(2):
        commit(table)
    assert tags(table) == {}
    table.rewrite()
    assert tags(table) == {"2024-01-01 09": 1}


def test_callbacks_and_success_files_tell_of_them(make: Make, at: Any) -> None:
    callbacks = {"tag.callbacks": "tests.unit.paimon.tags.test_names:Heard", "tag.create-success-file": "true"}
    Heard.events.clear()
    table = hourly(make, **callbacks, **{"tag.num-retained-max": "1"})
    for hour in (10, 11):
        at(f"2024-01-01T{hour}:00:00")
        commit(table)
    assert Heard.events == [("2024-01-01 09", 1), ("2024-01-01 10", 2), ("2024-01-01 09",)]
    assert [info.name for info in table.store.list("tag/tag-success-file").files] == ["2024-01-01 10_SUCCESS"]


def test_callbacks_that_only_the_table_names_are_refused_before_rows_are_written(make: Make) -> None:
    table = make()
    path = Path(table.location) / "schema" / "schema-0"
    text = path.read_text().replace(
        '"bucket"', '"tag.callbacks": "com.x.Y", "tag.automatic-creation": "process-time", "bucket"'
    )
    path.write_text(text)
    with pytest.raises(UnsupportedError, match="com"):
        commit(lakebed.open(table.location))


def data_files(table: Table) -> list[str]:
    return [info.path for info in table.store.walk("dt=a")]
