"""A tag of a Hudi table that is made or removed is there or not, whatever storage call it dies at."""

from __future__ import annotations

import itertools
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import NotInHistoryError, UsageError
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Kind, check_crash_safety
from tests.tables.hudi.fresh import fresh_table

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64())])
FAULTS = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.ERROR_AFTER, Kind.UNKNOWN_AFTER)


def tag(store: Store) -> None:
    with suppress(UsageError):  # the first attempt made it
        lakebed.open(store).tag("here")


def untag(store: Store) -> None:
    with suppress(NotInHistoryError):  # the first attempt removed it
        lakebed.open(store).delete_tag("here")


def observe(store: Store) -> int | None:
    try:
        return lakebed.open(store).read(as_of="tag:here").read_all().num_rows
    except NotInHistoryError:
        return None


@pytest.mark.parametrize("version", [6, 9])
def test_a_tag_can_be_made_and_removed_again(tmp_path: Path, version: int) -> None:
    number, original = itertools.count(), tmp_path / "original"
    table = fresh_table(original, SCHEMA, version=version)
    table.write(pa.table({"dt": ["a"], "id": [1]}, SCHEMA))

    def make() -> Store:
        return open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))

    assert check_crash_safety(make, tag, observe, FAULTS) > 2
    table.tag("here")
    assert check_crash_safety(make, untag, observe, FAULTS) > 2
    table.delete_tag("here")
    assert [i.state for i in table.history()] == ["completed"]
