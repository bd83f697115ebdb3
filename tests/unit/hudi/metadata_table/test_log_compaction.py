"""Log compactions that a release of Hudi made in the metadata table: what they merged counts, once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.formats.hudi.codec.hfile_write import write_hfile
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey, parse_log
from lakebed.formats.hudi.codec.log_write import write_block
from lakebed.formats.hudi.codec.metadata_records import record_schema
from lakebed.formats.hudi.config import load_config
from lakebed.formats.hudi.metadata_table.opened import FOLDER
from lakebed.formats.hudi.metadata_table.records import FILES, FILES_GROUP, file_records, merge, records_of
from lakebed.formats.hudi.metadata_table.target import Target
from lakebed.formats.hudi.metadata_table.write import encoded
from lakebed.formats.hudi.timeline.writing import complete, inflight, request
from tests.tables.hudi.listing import listed, walked

ROWS = pa.table({"id": [1, 2, 3], "v": [1, 2, 3]})
ALL = "__all_partitions__"


def orders(folder: Path, version: int) -> Table:
    """A table of three commits."""
    options = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    table = lakebed.create(folder / "t", "hudi", ROWS.schema, ["id"], options=options)
    for _ in range(3):
        table.write(ROWS, "upsert")
    return table


def fold(table: Table, ends: bool = True, files: dict[str, tuple[int, bool]] | None = None) -> str:
    """Compact the logs of the part `files` as releases do: a block beside those that it merges. The name of its file.
    Where it does not end, its block lists `files`."""
    config = load_config(table.store)
    target = Target.open(table.store, config, [FILES])
    (file_slice,) = target.slices(FILES)
    merged: dict[str, dict[str, tuple[int, bool]]] = {}
    instants = []
    for log in file_slice.logs:
        (block,) = parse_log(table.store.read(f"{FOLDER}/{FILES}/{log.name}")).blocks
        instants.append(block.instant_time)
    for image in target.reader.images(file_slice):
        for key, sizes in records_of(image):
            merge(merged.setdefault(key, {}), sizes)
    partitions = merged.pop(ALL)
    if files is not None:
        merged = {".": files}
    records = file_records(config.version, {key.replace(".", ""): sizes for key, sizes in merged.items()}, partitions)
    instant = target.new_instant() if config.completion_times else f"{instants[-1]}005"
    name = target.next_log(FILES, FILES_GROUP, instant)[0]
    schema = record_schema(config.version).text
    headers = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.SCHEMA: schema.decode(),
        HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(instants),
    }
    image_ = write_hfile(records.keys, records.values, {"schema": schema})
    table.store.write(f"{FOLDER}/{FILES}/{name}", write_block(BlockKind.HFILE_DATA, headers, image_))
    request(target.store, target.config, instant, "logcompaction")
    inflight(target.store, target.config, instant, "logcompaction")
    if ends:
        done = encoded(target, [], "LOG_COMPACT")
        complete(target.store, target.config, instant, target.new_instant(instant), "logcompaction", done)
    return name


def instants(table: Table) -> str:
    folder = load_config(table.store).timeline_folder
    return " ".join(table.store.list(f"{FOLDER}/{folder}").names)


@pytest.mark.parametrize("version", [6, 9])
def test_the_listing_is_that_of_the_folders_with_and_without_what_was_merged(version: int, tmp_path: Path) -> None:
    table = orders(tmp_path, version)
    name = fold(table)
    assert listed(table) == walked(table)
    table.write(ROWS, "upsert")
    assert listed(table) == walked(table)
    again = fold(table)
    assert listed(table) == walked(table)
    for log in table.store.list(f"{FOLDER}/{FILES}").files:
        if log.name.startswith(".files") and log.name not in (name, again):
            table.store.delete_many([log.path])
    assert listed(table) == walked(table)


@pytest.mark.parametrize("version", [6, 9])
def test_it_is_taken_back_with_a_commit_that_it_merged(version: int, tmp_path: Path) -> None:
    table = orders(tmp_path, version)
    before = lakebed.open(table.location).history()[-2]
    fold(table)
    lakebed.open(table.location).rollback(before)
    assert "logcompaction" not in instants(table)
    assert listed(table) == walked(table)
    table.write(ROWS, "upsert")
    assert listed(table) == walked(table)
    assert table.read(["id"]).read_all().num_rows == 3


@pytest.mark.parametrize("version", [6, 9])
def test_one_that_did_not_end_counts_nothing_and_goes_with_the_next_write(version: int, tmp_path: Path) -> None:
    table = orders(tmp_path, version)
    fold(table, ends=False, files={"gone.parquet": (1, False)})
    assert listed(table) == walked(table)
    table.write(ROWS, "upsert")
    assert "logcompaction" not in instants(table)
    assert listed(table) == walked(table)


@pytest.mark.parametrize("version", [6, 9])
def test_the_metadata_table_is_compacted_after_it(version: int, tmp_path: Path) -> None:
    table = orders(tmp_path, version)
    fold(table)
    for _ in range(3):
        assert not table.write(ROWS, "upsert", {"hoodie.metadata.compact.max.delta.commits": 2}).notes
        assert listed(table) == walked(table)
