"""Upkeep on a machine whose clock is years ahead: nothing goes that is not old by the clock of the table's store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest

import lakebed
from lakebed.kernel import clock
from tests.tables.hudi.timelines import Lake, times

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
YEARS = 10.0 * 365 * 86_400


_real = clock.now


def table(folder: Path, format: str, options: Mapping[str, str] = MappingProxyType({})) -> lakebed.Table:
    made = lakebed.create(str(folder / "db.db/t"), format, SCHEMA, options=options)
    for number in range(4):
        made.write(pa.table({"id": [number], "v": ["x"]}, schema=SCHEMA))
    return made


def test_paimon_snapshots_consumers_and_staged_rows_stay(tmp_path: Path) -> None:
    options = {"bucket": "-1", "snapshot.time-retained": "1 h", "snapshot.num-retained.min": "1", "write-only": "true",
               "consumer.expiration-time": "1 d"}  # fmt: skip
    made = table(tmp_path, "paimon", options)
    root = Path(made.location)
    for name, text in (("consumer/consumer-c", '{"nextSnapshot": 1}'), (".lakebed/staging/rows", "x")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    now = _real() + YEARS
    with clock.set_clock(lambda: now):
        result = made.expire()
        assert made.write(pa.table({"id": [9], "v": ["x"]}, schema=SCHEMA)).instant == "5"
    assert result.expired == () and result.deleted_files == ()
    assert (root / "consumer/consumer-c").exists() and (root / ".lakebed/staging/rows").exists()
    os.utime(root / "consumer/consumer-c", (1000, 1000))
    os.utime(root / ".lakebed/staging/rows", (1000, 1000))
    assert set(made.expire().deleted_files) == {"consumer/consumer-c", ".lakebed/staging/rows"}


def test_iceberg_snapshots_refs_and_files_of_writers_stay(tmp_path: Path) -> None:
    made = table(tmp_path, "iceberg", {"history.expire.max-ref-age-ms": "1000"})
    made.tag("young")
    stray = Path(made.location) / "data/of-a-writer-at-work.parquet"
    stray.write_bytes(b"x")
    now = _real() + YEARS
    with clock.set_clock(lambda: now):
        result = made.expire(options={"remove-orphan-files": "true"})
    assert (result.expired, result.deleted_files) == ((), ())
    assert stray.exists() and len(made.history()) == 4
    assert not list(Path(made.location).rglob("lakebed-clock*"))
    with clock.set_clock(lambda: now), pytest.raises(lakebed.errors.OptionError, match="24 hours"):
        made.expire(options={"remove-orphan-files": "true", "orphan-files-older-than": str(int(now - YEARS) * 1000)})


def test_archived_hudi_instants_stay(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(*range(1, 9))
    day = 86_400.0
    began = 1_767_225_600.0  # 2026-01-01, when the instants are from
    assert began + 30 * day < _real(), "the instants are more than a month old"
    days = int((_real() - began) / day) + 10
    now = _real() + YEARS
    with clock.set_clock(lambda: now):
        lake.archive(2, 3, **{"lakebed.archive.retain-time": f"{days} d"})
    assert lake.archived() == times(range(1, 7))
    lake.archive(2, 3, **{"lakebed.archive.retain-time": "1 d"})
    assert lake.archived() == []
