"""Marks of partitions that are complete."""

import json
from pathlib import Path

import pytest

import lakebed
from lakebed.errors import OptionError, UnsupportedError, UsageError
from lakebed.kernel import clock
from tests.tables.paimon.small import Make, contents, rows


def test_a_partition_is_marked_and_marked_again(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    before = contents(table)
    assert table.mark_partition_done([{"dt": "a"}], dry_run=True) == ("dt=a/_SUCCESS",)
    file = Path(table.location) / "dt=a" / "_SUCCESS"
    assert not file.exists()
    for now, times in ((5.0, (5000, 5000)), (7.0, (5000, 7000))):
        with clock.set_clock(lambda now=now: now):
            assert table.mark_partition_done([{"dt": "a"}, {"dt": "a"}]) == ("dt=a/_SUCCESS",)
        assert tuple(json.loads(file.read_text()).values()) == times
    file.write_text("")  # as Hadoop's jobs leave it
    table.mark_partition_done([{"dt": "a"}])
    assert set(json.loads(file.read_text())) == {"creationTime", "modificationTime"}
    assert contents(table) == before
    assert table.expire(options={"lakebed.expire.what": "orphan-files"}).kept == ()


def test_names_stay_inside_the_table(make: Make) -> None:
    table = make()
    assert table.mark_partition_done([{"dt": None}], dry_run=True) == ("dt=__DEFAULT_PARTITION__/_SUCCESS",)
    assert table.mark_partition_done([{"dt": "../../x"}], dry_run=True) == ("dt=..%2F..%2Fx/_SUCCESS",)


def test_what_is_refused(make: Make) -> None:
    table = make(partition_by=("dt", "n"), primary_key=(), bucket="-1")
    for partitions in ([], [{"dt": "a"}], [{"dt": "a", "n": 1, "v": "x"}], [{"dt": "a", "n": "x"}], ["dt=a"]):
        with pytest.raises(UsageError):
            table.mark_partition_done(partitions)
    with pytest.raises(UsageError, match="no partitions"):
        make(primary_key=("id",), partition_by=()).mark_partition_done([{"dt": "a"}])
    key = "partition.mark-done-action"
    for action in ("done-partition", "success-file,mark-event", "http-report", "custom"):
        stored = make(partition_mark__done__action=action)
        with pytest.raises(UnsupportedError, match=action.rpartition(",")[2]):
            stored.mark_partition_done([{"dt": "a"}])
        assert stored.mark_partition_done([{"dt": "a"}], options={key: "success-file"})
    for action in ("", "somehow"):
        with pytest.raises(OptionError, match="mark-done-action"):
            table.mark_partition_done([{"dt": "a", "n": 1}], options={key: action})
    with pytest.raises(UnsupportedError, match="marks of partitions"):
        lakebed.open(lakebed.example("orders")).mark_partition_done([{"dt": "a"}])
