"""`incremental-between`: the rows that appends between two snapshots added, as Paimon's engine reads them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError, NotInHistoryError, OptionError, UnsupportedError, UsageError
from tests.golden import expected, unpack
from tests.tables.paimon.small import SCHEMA, Make, contents, rows

TIMES = (1_700_000_000_000, 1_700_000_060_000, 1_700_000_120_000)


@pytest.mark.parametrize("name", ["append_dv", "append_fixed", "append_unaware", "overwrite", "row_tracking"])
def test_the_engine_s_own_answers(name: str) -> None:
    """Compactions, overwrites and commits that only delete add nothing."""
    folder = unpack("paimon", name)
    answers = [path for path in expected(folder).glob("delta_*.jsonl") if not path.name.endswith(".diff.jsonl")]
    assert answers
    for path in answers:
        _, first, second = path.stem.split("_")
        table = lakebed.open(folder, options={"incremental-between": f"{first},{second}"})
        wanted = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        assert {line.pop("rowkind") for line in wanted} <= {"+I"}
        plain = [f.name for f in table.schema if pa.types.is_integer(f.type) or pa.types.is_string(f.type)]
        found = [tuple(row.values()) for row in table.read(plain).read_all().to_pylist()]
        assert sorted(found, key=repr) == sorted((tuple(row[c] for c in plain) for row in wanted), key=repr), path.name


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three appends of one row each, at known times, tagged first and last."""
    folder = tmp_path_factory.mktemp("appended") / "t"
    table = lakebed.create(folder, "paimon", SCHEMA)
    for place, time in enumerate(TIMES):
        table.write(rows(("a", place + 1, "v", 1)))
        path = folder / "snapshot" / f"snapshot-{place + 1}"
        path.write_text(json.dumps({**json.loads(path.read_text()), "timeMillis": time}))
    table.tag("first", 1)
    table.tag("last", 3)
    return folder


def ids(location: Path, **how: Any) -> list[int]:
    options = {key.replace("__", "."): value for key, value in how.items()}
    spelled = {key if "." in key else key.replace("_", "-"): value for key, value in options.items()}
    return [row[1] for row in contents(lakebed.open(location, options=spelled))]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"incremental_between": "1,3"}, [2, 3]),
        ({"incremental_between": "0,3"}, [1, 2, 3]),
        ({"incremental_between": " 1 , 2 "}, [2]),
        ({"incremental_between": "2,2"}, []),
        ({"incremental_between": "1,2", "scan__mode": "incremental"}, [2]),
        ({"incremental_between": "1,2", "incremental_between_scan_mode": "delta"}, [2]),
        ({"incremental_between": "first,last", "incremental_between_tag_to_snapshot": "true"}, [2, 3]),
        ({"incremental_between_timestamp": f"{TIMES[0]},{TIMES[1]}"}, [2]),
        ({"incremental_between_timestamp": f"{TIMES[0] - 1},{TIMES[1]}"}, [1, 2]),
        ({"incremental_between_timestamp": f"{TIMES[0]},{TIMES[2] + 9}"}, [2, 3]),
        ({"incremental_between_timestamp": "2023-11-14 22:13:20,2023-11-14 22:14:20"}, [2]),
        ({"incremental_between_timestamp": f"{TIMES[2] + 1},{TIMES[2] + 9}"}, []),
        ({"incremental_between_timestamp": f"0,{TIMES[0] - 1}"}, []),
        ({"incremental_between_timestamp": f"{TIMES[0]},{TIMES[0]}"}, []),
    ],
    ids=str,
)
def test_ranges(location: Path, options: dict[str, str], wanted: list[int]) -> None:
    assert ids(location, **options) == wanted


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"incremental_between": "3,1"}, OptionError),
        ({"incremental_between": "3"}, OptionError),
        ({"incremental_between": "1,2,3"}, OptionError),
        ({"incremental_between": "1,9"}, NotInHistoryError),
        ({"incremental_between": "1,last"}, NotInHistoryError),
        ({"incremental_between": "first,last"}, UnsupportedError),
        ({"incremental_between": "1,2", "incremental_between_scan_mode": "diff"}, UnsupportedError),
        ({"incremental_between": "1,2", "incremental_between_scan_mode": "changelog"}, UnsupportedError),
        ({"incremental_between": "1,2", "incremental_between_timestamp": "1,2"}, OptionError),
        ({"incremental_between": "1,2", "scan__snapshot-id": "2"}, OptionError),
        ({"incremental_between": "1,2", "scan__mode": "latest"}, OptionError),
        ({"incremental_between_timestamp": "2,1"}, OptionError),
        ({"incremental_between_timestamp": "soon,later"}, NotInHistoryError),
        ({"scan__mode": "incremental"}, OptionError),
        ({"scan__mode": "incremental", "scan__snapshot-id": "2"}, OptionError),
    ],
    ids=str,
)
def test_what_is_refused(location: Path, options: dict[str, str], error: type[LakebedError]) -> None:
    with pytest.raises(error):
        ids(location, **options)


def test_a_range_and_a_snapshot_exclude_each_other(location: Path) -> None:
    table = lakebed.open(location, options={"incremental-between": "1,3"})
    with pytest.raises(UsageError, match="as_of"):
        table.read(as_of=2)
    assert table.newest() is None


def test_tables_with_a_primary_key_are_refused(make: Make) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    with pytest.raises(UnsupportedError, match="incremental-between"):
        lakebed.open(table.location, options={"incremental-between": "0,1"}).read()


def test_a_table_without_a_snapshot(tmp_path: Path) -> None:
    lakebed.create(tmp_path / "t", "paimon", SCHEMA)
    assert ids(tmp_path / "t", incremental_between="1,2") == []
