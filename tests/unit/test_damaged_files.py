"""Files that were cut short or damaged, in whole tables: never fewer rows, never deleted rows again, never a hang."""

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import CorruptError, LakebedError
from lakebed.formats.hudi.read.files import BaseFileReader
from lakebed.formats.iceberg.codec import puffin
from lakebed.formats.iceberg.parquet.join import ParquetJoin
from lakebed.formats.iceberg.read.formats import ParquetData
from lakebed.formats.paimon.codec import deletion_vectors
from lakebed.formats.paimon.manifests import data_manifests, index_files
from lakebed.formats.paimon.read.formats import file_batches
from lakebed.kernel.bitmaps import MOST_POSITIONS
from lakebed.kernel.files.local import LocalStore

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])


def rows_from(start: int, count: int = 3000) -> pa.Table:
    return pa.table({"id": range(start, start + count), "v": ["x"] * count}, schema=SCHEMA)


def iceberg(folder: Path, kind: str, **options: str) -> lakebed.Table:
    given = {"write.format.default": kind, "write.delete.format.default": kind, **options}
    table = lakebed.create(folder / "t", "iceberg", SCHEMA, options=given)
    table.write(rows_from(0))
    return table


def paimon(folder: Path, kind: str) -> lakebed.Table:
    table = lakebed.create(
        folder / "db.db" / "t", "paimon", SCHEMA, ["id"], options={"bucket": "1", "file.format": kind}
    )
    table.write(rows_from(0))
    table.write(rows_from(3000))
    return table


def damaged(path: Path, cuts: list[int]) -> Iterator[None]:
    """The file without its last bytes, as many as each cut says; whole again in the end."""
    whole = path.read_bytes()
    for cut in cuts:
        path.unlink()
        path.write_bytes(whole[: len(whole) - cut])
        yield
    path.unlink()
    path.write_bytes(whole)


def cuts_of(path: Path) -> list[int]:
    """Some bytes less, and, for Avro, all blocks from the second on: a file that is whole in itself."""
    whole = path.read_bytes()
    found = [1, 16, 17, 200, len(whole) // 2]
    if whole[:4] == b"Obj\x01":
        first = whole.index(whole[-16:]) + 16
        second = whole.index(whole[-16:], first) + 16
        found += [len(whole) - second, len(whole) - first]
    return [cut for cut in found if 0 < cut < len(whole)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["avro", "orc", "parquet"])
@pytest.mark.parametrize("make", [iceberg, paimon])
def test_data_files_cut_short(make: Any, kind: str, tmp_path: Path) -> None:
    table = make(tmp_path, kind)
    count = table.read().read_all().num_rows
    (path, *_) = sorted(tmp_path.rglob(f"*.{kind}"), key=lambda p: p.stat().st_mtime)
    if "metadata" in str(path):
        path = next(p for p in tmp_path.rglob(f"data/*.{kind}"))
    for _ in damaged(path, cuts_of(path)):
        for columns in (None, [], ["id"]):
            with pytest.raises(CorruptError) as caught:
                table.read(columns).read_all()
            assert path.name in caught.value.file
    assert table.read().read_all().num_rows == count


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["avro", "orc", "parquet"])
def test_delete_files_cut_short(kind: str, tmp_path: Path) -> None:
    table = iceberg(tmp_path, kind, **{"write.delete.mode": "merge-on-read"})
    before = set(tmp_path.rglob("data/**/*"))
    table.write(rows_from(0, 2000), mode="delete", options={"upsert.keys": "id"})
    (path,) = set(tmp_path.rglob("data/**/*")) - before
    for _ in damaged(path, cuts_of(path)):
        with pytest.raises(CorruptError):
            table.read().read_all()
    assert table.read().read_all().num_rows == 1000


def test_paimon_manifests_and_indexes_cut_short(tmp_path: Path) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, ["id"], options=options)
    table.write(rows_from(0, 3))
    table.write(rows_from(3, 3))
    newest = table.snapshots.latest()
    lists = [newest.base_manifest_list, newest.delta_manifest_list]
    manifests = [meta.file_name for meta in data_manifests(table.store, newest)]
    for name in (*lists, *manifests):
        path = tmp_path / "t" / "manifest" / name
        for _ in damaged(path, cuts_of(path)):
            with pytest.raises(CorruptError) as caught:
                lakebed.open(table.location).read().read_all()
            assert name in caught.value.file
    for entry in index_files(table.store, newest):
        path = tmp_path / "t" / "index" / entry.file_name
        for _ in damaged(path, [1, 4]):
            with pytest.raises(CorruptError) as caught:
                table.write(rows_from(0, 6), "upsert")
            assert path.name in caught.value.file
    table.write(rows_from(0, 6), "upsert")
    assert table.read().read_all().num_rows == 6


@pytest.mark.slow
def test_manifests_and_lists_with_a_flipped_bit_never_hang(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", SCHEMA)
    table.write(rows_from(0, 1))
    chance = random.Random(5)
    for path in sorted((tmp_path / "t" / "metadata").glob("*.avro")):
        whole = path.read_bytes()
        start = whole.index(whole[-16:])
        for _ in range(40):
            at = chance.randrange(start, len(whole))
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
            with suppress(LakebedError):
                assert table.read().read_all().num_rows <= 1
        path.write_bytes(whole)


def flip_a_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"needle")] ^= 4
    path.write_bytes(bytes(data))


def test_page_checksums_are_verified(tmp_path: Path) -> None:
    """In a read, and where row groups are copied byte for byte."""
    options: dict[str, Any] = {
        "compression": "none",
        "use_dictionary": False,
        "write_page_checksum": True,
        "data_page_size": 500,
    }
    options["write_statistics"] = False
    rows = pa.table({"id": range(2000), "v": [f"text {n}" if n != 1500 else "needle" for n in range(2000)]})
    for number, damage in enumerate((False, True)):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(rows, path, **options, row_group_size=700)
        if damage:
            flip_a_page(path)
        with pa.OSFile(str(tmp_path / "out"), "wb") as out, pa.OSFile(str(path)) as source:
            join = ParquetJoin(out)
            if damage:
                with pytest.raises(CorruptError, match="checksum"):
                    join.add(source)
            else:
                join.add(source)
                join.finish()
    store = LocalStore(str(tmp_path))

    def hudi_batches(name: str) -> Iterator[pa.RecordBatch]:
        with BaseFileReader(store, name).opened() as opened:
            yield from opened.batches(rows.schema)

    readers = [
        lambda name: ParquetData(store.open_input(name)).pieces([0, 1]),
        lambda name: file_batches(store, name, ["id", "v"]),
        hudi_batches,
    ]
    for read in readers:
        assert sum(getattr(some, "rows", None) or some.num_rows for some in read("0.parquet")) == 2000
        with pytest.raises((CorruptError, OSError), match=r"(?i)crc|checksum"):
            list(read("1.parquet"))


def test_deletion_vectors_are_bounded() -> None:
    """Four bytes of a run stand for 65,536 rows: a vector is held against its file before it is laid out."""
    for codec in (puffin, deletion_vectors):
        blob = (
            puffin.encode_vector(np.arange(100)) if codec is puffin
            else deletion_vectors.encode_vector(np.arange(100), True)
        )  # fmt: skip
        assert codec.decode_vector(blob, "f", 100, 100).tolist() == list(range(100))
        for rows, stated in ((99, None), (100, 99), (None, 101), (50, 100)):
            with pytest.raises(CorruptError) as caught:
                codec.decode_vector(blob, "f", rows, stated)
            assert caught.value.file == "f"
    assert f"{MOST_POSITIONS:,}" in Path("docs/security.md").read_text(encoding="utf-8")
