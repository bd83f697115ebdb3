"""The record index of a golden table: it knows every key where the rows are, and no other."""

import pickle

import pyarrow as pa
import pytest

from lakebed.formats.hudi.metadata_table.record_index import NO_INDEX, RecordIndex, _file_id, halves_of
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel.files import open_store
from tests.golden import unpack


@pytest.mark.parametrize("times", [1, 100])  # few keys block by block, many at once
def test_it_knows_where_each_key_is(times: int) -> None:
    table = HudiTable(open_store(str(unpack("hudi", "mor_mdt_v9"))), {})
    rows = table.read(columns=["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]).read_all()
    opened = table.state().metadata_table
    assert opened is not None
    keys = [*rows["_hoodie_record_key"].to_pylist(), "k0004", "nowhere"] * times  # the first of these was deleted
    found = pickle.loads(pickle.dumps(RecordIndex(opened))).locate(pa.array(keys)).to_pylist()
    for row, place in zip(rows.to_pylist(), found, strict=False):
        assert place["partition"] == row["_hoodie_partition_path"]
        assert row["_hoodie_file_name"].startswith(place["file_id"])
    assert found[len(rows)] == found[-1] == {"partition": None, "file_id": None}


def test_halves_of_file_ids() -> None:
    for text in ("6e7fd576-20bf-4029-8010-7abfb480d2c7-2", "ffffffff-20bf-4029-8010-7abfb480d2c7"):
        halves = halves_of(text)
        assert halves is not None and _file_id(*halves) == text
    assert halves_of("6e7fd576-20bf-4029-8010-7abfb480d2c7-0") == (7962317369546588201, -9218733473441721657, 0)
    assert halves_of("00000001-bucket") is None
    assert (halves_of("ffffffff-20bf-4029-8010-7abfb480d2c7") or (0, 0, 0))[2] == NO_INDEX
