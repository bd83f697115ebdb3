"""Partitions that are too old: which go, by values and by update time, and what holds against other writers."""

import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest

import lakebed
from lakebed import Table
from lakebed.errors import CommitConflictError, OptionError, UnsupportedError
from lakebed.formats.paimon import partition_options as opt
from lakebed.formats.paimon.commit import attempt
from lakebed.formats.paimon.expire.partition_time import PartitionTimes
from lakebed.formats.paimon.expire.partitions import LastLook, by_update
from lakebed.formats.paimon.options import OPTIONS
from lakebed.kernel import clock
from tests.tables.paimon.small import Make, contents, rows

OLD = {"lakebed.expire.what": "partitions", "partition.expiration-time": "10 d"}
BY_UPDATE = {**OLD, "partition.expiration-strategy": "update-time"}
BY_HAND = {"write__only": "true"}
DAYS = ("2024-01-02", "2024-01-01", "2099-01-01")
DAY = 86_400


def filled(make: Make, **options: str) -> Table:
    """A table of two days long ago, each with two rows, and one of a day to come."""
    table = make(**{**BY_HAND, **options})
    for number in (1, 2):
        table.write(rows(*((day, number, "v", number) for day in DAYS)))
    return table


def days(table: Table) -> list[str]:
    return sorted({row[0] for row in contents(table)})


def actions(table: Table) -> list[str]:
    return [instant.action for instant in table.history()]


@pytest.mark.parametrize("how", [{}, {"bucket": "-1"}, {"primary_key": (), "bucket": "-1"}])
def test_what_is_too_old_goes_in_one_commit(make: Make, how: dict[str, Any]) -> None:
    table = filled(make, **how)
    before, at = contents(table), int(table.history()[-1].time)
    planned = table.expire(dry_run=True, options=OLD)
    assert (planned.expired, planned.dry_run) == (("dt=2024-01-01", "dt=2024-01-02"), True)
    assert "its time is 2024-01-01" in planned.notes[0] and "2 files" in planned.notes[0]
    assert [kept.what for kept in planned.kept] == ["dt=2099-01-01"] and "10 days" in planned.kept[0].reason
    assert contents(table) == before
    done = table.expire(options=OLD)
    assert (done.expired, done.notes) == (planned.expired, planned.notes)
    assert days(table) == ["2099-01-01"] and actions(table)[-1] == "overwrite" and len(actions(table)) == 3
    assert contents(table, as_of=at) == before, "the files stay until the snapshots go"
    assert table.expire(options=OLD).expired == () and len(actions(table)) == 3
    table.write(rows(("2024-01-01", 1, "new", 1)))
    assert [row for row in contents(table) if row[0] < "2099"] == [("2024-01-01", 1, "new", 1)]


def test_batches_and_a_greatest_number(make: Make) -> None:
    table = filled(make)
    few = {**OLD, "partition.expiration-max-num": "1"}
    assert table.expire(dry_run=True, options=few).kept[0].reason.startswith("a run drops 1")
    assert table.expire(options=few).expired == ("dt=2024-01-01",)
    table.write(rows(("2024-01-01", 1, "v", 1)))
    assert len(table.expire(options={**OLD, "partition.expiration-batch-size": "1"}).expired) == 2
    assert actions(table)[-2:] == ["overwrite"] * 2


def test_by_update_time(make: Make) -> None:
    table, now = make(**BY_HAND), time.time()
    for day, age in (("a", 20), ("b", 20), ("c", 5), ("b", 9)):
        with clock.set_clock(lambda age=age: now - age * DAY):
            table.write(rows((day, age, "v", age)))
    result = table.expire(options=BY_UPDATE)
    assert result.expired == ("dt=a",) and "its newest file is of " in result.notes[0]
    assert days(table) == ["b", "c"]


def test_a_file_of_a_far_future_holds_its_partition() -> None:
    for newest in (10**16, 10**18, 2**62):
        is_old, reason = by_update(0, DAY)(b"", newest)
        assert not is_old and "no calendar" in reason


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something once, after an expiry has planned and before its commit stands."""
    read = attempt.data_manifests

    def first_act(*arguments: Any) -> Any:
        monkeypatch.setattr(attempt, "data_manifests", read)
        act()
        return read(*arguments)

    monkeypatch.setattr(attempt, "data_manifests", first_act)


def test_a_partition_that_is_written_to_meanwhile(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps all its rows by update time; by its values it is too old whatever comes."""
    table, now = make(**BY_HAND, commit_min__retry__wait="1 ms"), time.time()
    with clock.set_clock(lambda: now - 20 * DAY):
        table.write(rows(("2024-01-01", 1, "v", 1), ("2024-01-02", 1, "v", 1)))
    other = lakebed.open(table.location)
    meanwhile(monkeypatch, lambda: other.write(rows(("2024-01-01", 2, "v", 2))))
    assert table.expire(options=BY_UPDATE).expired == ("dt=2024-01-02",)
    assert [row[:2] for row in contents(table)] == [("2024-01-01", 1), ("2024-01-01", 2)]
    meanwhile(monkeypatch, lambda: other.write(rows(("2024-01-01", 3, "v", 3), ("2099-01-01", 3, "v", 3))))
    assert table.expire(options=OLD).expired == ("dt=2024-01-01",)
    assert days(table) == ["2099-01-01"]


def test_a_partition_that_is_always_written_to_is_a_conflict(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table, now = make(**BY_HAND), time.time()
    with clock.set_clock(lambda: now - 20 * DAY):
        table.write(rows(("a", 1, "v", 1)))

    def young(*_: Any) -> None:
        raise CommitConflictError("a partition got a file meanwhile")

    monkeypatch.setattr(attempt, "check_age", young)
    with pytest.raises(CommitConflictError):
        table.expire(options=BY_UPDATE)
    assert days(table) == ["a"]


def test_two_expiries_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(make, commit_min__retry__wait="1 ms")
    other = lakebed.open(table.location)
    meanwhile(monkeypatch, lambda: other.expire(options=OLD))
    table.expire(options=OLD)
    assert days(table) == ["2099-01-01"]


def test_a_clock_ahead_drops_nothing_by_mistake(make: Make) -> None:
    table, now = make(**BY_HAND), time.time()
    table.write(rows(("2024-01-01", 1, "v", 1)))
    with clock.set_clock(lambda: now + 365 * DAY):
        assert table.expire(dry_run=True, options=BY_UPDATE).expired == ("dt=2024-01-01",)
        assert table.expire(options=BY_UPDATE).expired == ()


def test_postponed_rows_of_another_kind_of_table_stay(make: Make) -> None:
    table = make(bucket="-2", **BY_HAND)
    table.write(rows(("2024-01-01", 1, "v", 1)))
    fixed = lakebed.open(table.location, {"bucket": "2"})
    assert fixed.expire(options=OLD).expired == ()
    assert table.expire(options=OLD).expired == ("dt=2024-01-01",)


def test_writes_expire_partitions(make: Make) -> None:
    inline = {"partition_expiration__time": "10 d"}
    row = ("2024-01-01", 1, "v", 1)
    for options, left in (
        ({"end__input_check__partition__expire": "true"}, []),
        ({"partition_expiration__check__interval": "0 ms"}, []),
        ({}, ["2024-01-01"]),
        ({"partition_expiration__check__interval": "0 ms", **BY_HAND}, ["2024-01-01"]),
    ):
        table = make(**inline, **options)
        assert table.write(rows(row)).notes == ()
        assert days(table) == left, options
        assert pickle.loads(pickle.dumps(table.sink())).commit_options.user
    table = make(**inline, partition_expiration__check__interval="0 ms")
    writer = table.writer("stream")
    for identifier in (1, 2):
        writer.write(rows(row))
        assert writer.commit(identifier, writer.prepare_commit()).notes == ()
    assert actions(table) == ["append", "overwrite"] * 2 and days(table) == []
    again = table.writer("stream")
    again.write(rows(row))
    assert again.commit(2, again.prepare_commit()).outcome == "skipped"
    failed = make(**inline, end__input_check__partition__expire="true", partition_timestamp__formatter="EEE")
    assert any("old partitions stay" in note and "EEE" in note for note in failed.write(rows(row)).notes)


def test_when_the_commits_of_an_open_table_look() -> None:
    with clock.set_clock(steady=lambda: at[0]):
        at = [0.0]
        looked = LastLook(0.0, 0.75)
        times = []
        for second in range(12):
            at[0] = second
            if looked.is_due(4000):
                times.append(second)
        assert times == [1, 5, 9]
        assert [looked.is_due(0) for _ in range(3)] == [True] * 3


def test_what_cannot_be_asked_for(make: Make) -> None:
    table = filled(make)
    with pytest.raises(OptionError, match=r"partition\.expiration-time"):
        table.expire(options={"lakebed.expire.what": "partitions"})
    for key, value in (("strategy", "access-time"), ("max-num", "0")):
        with pytest.raises(OptionError, match=key):
            table.expire(options={**OLD, f"partition.expiration-{key}": value})
    whole = make(primary_key=("id",), partition_by=())
    assert whole.expire(options=OLD).kept[0].reason == "it has no partitions"
    chained = lakebed.open(table.location, {"chain-table.enabled": "true"})
    with pytest.raises(UnsupportedError, match="chain-table"):
        chained.expire(options=OLD)


@pytest.mark.parametrize(
    "formatter", ["EEE", "yy", "yyyyy", "MMM", "HHH", "[yyyy]", "yyyyMMdd'T", "yyyyMMyyyy", "Mdyyyy", "x"]
)
def test_formatters_that_are_refused_by_name(formatter: str) -> None:
    with pytest.raises(OptionError, match="timestamp-formatter"):
        PartitionTimes.of(["dt"], OPTIONS.parse({opt.TIMESTAMP_FORMATTER.key: formatter}))


def test_values_without_a_time_stay_with_a_reason(make: Make) -> None:
    table = make(**BY_HAND)
    table.write(rows(("x", 1, "v", 1)))
    (kept,) = table.expire(options=OLD).kept
    assert kept.what == "dt=x" and "'x' is not a time" in kept.reason
    nulls = make(primary_key=(), bucket="-1", **BY_HAND)
    nulls.write(rows((None, 1, "v", 1)))
    (kept,) = nulls.expire(options=OLD).kept
    assert "null" in kept.reason
