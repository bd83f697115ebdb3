"""The listing of the metadata table: the same as that of the folders, taken only where it is certain, without a look
at the folders."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.hudi.metadata_table.opened import FOLDER
from lakebed.formats.hudi.read.partitions import list_partitions
from lakebed.formats.hudi.table import HudiTable
from lakebed.formats.hudi.timeline.properties import update_properties
from lakebed.kernel.files import Listing, open_store
from lakebed.kernel.files.local import LocalStore
from tests.golden import unpack

TABLES = ("mor_mdt_v8", "mor_mdt_v9")


class Counting(LocalStore):
    """A store that remembers which folders were listed."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.listed: list[str] = []

    def list(self, folder: str = "") -> Listing:
        """As the store does."""
        self.listed.append(folder)
        return super().list(folder)


def copied(name: str, folder: Path) -> str:
    return str(shutil.copytree(unpack("hudi", name), folder / name))


@pytest.mark.parametrize("name", TABLES)
def test_it_is_the_listing_of_the_folders(name: str) -> None:
    state = HudiTable(open_store(str(unpack("hudi", name))), {}).state()
    folders = list_partitions(state.store, ())
    files = {path: {f for f in files if not f.name.startswith(".hoodie")} for path, files in folders.items()}
    indexed = state.indexed_files
    assert indexed is not None
    assert {path: {*files} for path, files in indexed.items()} == files


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("where", [None, "part = 'a'"])
def test_rows_are_the_same_without_a_look_at_the_folders(name: str, where: str | None, tmp_path: Path) -> None:
    store = Counting(copied(name, tmp_path))
    rows = HudiTable(store, {}).read(where=where).read_all()
    assert all(folder.startswith(".hoodie") for folder in store.listed)
    update_properties(store, {"hoodie.table.metadata.partitions": None})
    again = HudiTable(store, {}).read(where=where).read_all()
    assert "" in store.listed
    by = [("_hoodie_record_key", "ascending")]
    assert rows.num_rows and rows.sort_by(by) == again.sort_by(by)


def test_opening_a_table_costs_the_same_however_many_partitions_it_has(tmp_path: Path) -> None:
    counts = []
    for partitions in (2, 30):
        folder = tmp_path / str(partitions)
        table = lakebed.create(folder, "hudi", {"id": "int64", "part": "string"}, ["id"], ["part"])
        numbers = list(range(partitions))
        table.write(pa.table({"id": numbers, "part": [f"p{number:02d}" for number in numbers]}))
        store = Counting(str(folder))
        assert len(HudiTable(store, {}).plan_read().splits) == partitions
        counts.append(store.listed)
    assert counts[0] == counts[1] and all(path.startswith(".hoodie") for path in counts[1])


@pytest.mark.parametrize("name", TABLES)
def test_it_is_not_taken_where_it_is_not_certain(name: str, tmp_path: Path) -> None:
    location = copied(name, tmp_path)
    store = open_store(location)
    state = HudiTable(store, {}).state()
    last = state.timeline.commits[-1].time
    folder = Path(location, FOLDER)
    (log,) = [path for path in folder.glob("files/.*log*") if last in path.name]
    whole = log.read_bytes()
    log.write_bytes(whole[:-20])
    assert HudiTable(store, {}).state().indexed_files is None  # a torn block
    log.write_bytes(whole)
    for path in folder.glob(f".hoodie/timeline/{last}_*"):
        path.unlink()
    assert HudiTable(store, {}).state().indexed_files is None  # behind the table
    shutil.rmtree(folder)
    assert HudiTable(store, {}).state().indexed_files is None  # gone
    assert HudiTable(store, {}).read().read_all().num_rows


def test_it_is_not_taken_while_it_is_built(tmp_path: Path) -> None:
    store = open_store(copied("mor_mdt_v9", tmp_path))
    update_properties(store, {"hoodie.table.metadata.partitions.inflight": "files"})
    assert HudiTable(store, {}).state().indexed_files is None
