"""What a release reads of the indexes in a table's metadata table, beside what the table's files and rows are."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

import lakebed
from lakebed.formats.hudi.metadata_table.named import PARTITIONS
from tests.interop.hudi_actors import Bundle
from tests.tables.hudi.listing import walked

KEY = "_hoodie_record_key"


def check_indexed(path: Path, bundle: Bundle, column: str) -> str:
    """The release finds the range of the column and all keys in each base file, and each row's key in its file group.
    Files without meta columns have no keys to look up, only ranges. What was looked at, as text."""
    table = lakebed.open(path)
    properties = (path / ".hoodie" / "hoodie.properties").read_text().splitlines()
    named = next((line.partition("=")[2] for line in properties if line.startswith(f"{PARTITIONS}=")), "")
    parts = [part for part in named.split(",") if part]
    files: list[tuple[str, str, list[str]]] = []
    wanted = {}
    keyed = "hoodie.populate.meta.fields=false" not in properties
    asked = [KEY, column] if keyed else [column]
    for partition, names in walked(table).items():
        for name in names:
            if name.endswith(".parquet"):
                rows = pq.read_table(path / partition / name, columns=asked)
                files.append((partition, name, rows[KEY].to_pylist() if keyed else []))
                ends = pc.min_max(rows[column]).as_py()
                wanted[partition, name] = [ends["min"], ends["max"], rows[column].null_count]
    place = [KEY, "_hoodie_partition_path", "_hoodie_file_name"]
    places = table.read(place).read_all().to_pylist() if keyed else []
    found, located = bundle.indexed(parts, files, [row[KEY] for row in places], column)
    for (partition, name, keys), (_, _, known, hits) in zip(files, found, strict=True):
        assert known in (None, wanted[partition, name]), (name, known, wanted[partition, name])
        assert hits in ((None, len(keys)) if keyed else (None,)), (name, hits, len(keys))
    if "record_index" in parts:
        groups = {key: (partition, file_id) for key, partition, file_id in located}
        for row in places:
            partition, file_id = groups[row[KEY]]
            assert partition == row["_hoodie_partition_path"], (row, partition)
            assert row["_hoodie_file_name"].startswith(file_id), (row, file_id)
    ranges, filters = (sum(each[at] is not None for each in found) for at in (2, 3))
    return f"{ranges} ranges, {filters} filters, {len(located)} keys, {named}"
