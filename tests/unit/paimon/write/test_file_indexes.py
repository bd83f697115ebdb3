"""Which file indexes a table may ask for, where they go, and that damaged or foreign ones lose no row."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, OptionError, StorageError, UnsupportedError
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.read.index_facts import index_file
from lakebed.kernel.files import open_store
from lakebed.testing.faults import Fault, FaultyStore, Kind
from lakebed.verbs.table import Table

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        ("u", pa.string()),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("l", pa.list_(pa.int32())),
    ]
)


def made(folder: Path, **options: str) -> Table:
    named = {f"file-index.{key.replace('__', '-').replace('_', '.')}": value for key, value in options.items()}
    return lakebed.create(folder, "paimon", SCHEMA, options={"metadata.stats-mode": "none", **named})


def written(table: Table, start: int = 0) -> list[DataFileMeta]:
    ids = range(start, start + 10)
    rows = {"id": [*ids], "u": [f"u{n}" for n in ids], "m": [[("a", n)] for n in ids], "l": [[n] for n in ids]}
    table.write(pa.table(rows, schema=SCHEMA))
    return [file for split in table.plan_read().splits for file in split.files]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"token__bloom_columns": "u"}, "of the kind 'token-bloom'"),
        ({"bitmap_columns": "no"}, "does not have: 'no'"),
        ({"bitmap_columns": "u,"}, "without a name"),
        ({"bitmap_columns": "l"}, "takes no values of type ARRAY"),
        ({"bitmap_columns": "u[a]"}, "not a map with texts"),
        ({"bsi_columns": "u"}, "takes no values of type STRING"),
        ({"bitmap_columns": "u", "bitmap_u_version": "3"}, "version 1 or 2, not 3"),
        ({"bloom__filter_columns": "u", "bloom__filter_u_fpp": "1.5"}, "fpp=1.5"),
        ({"bloom__filter_columns": "u", "bloom__filter_id_fpp": "0.5"}, "without such an index"),
    ],
)
def test_refused(tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        made(tmp_path / "t", **options)


def test_small_indexes_go_into_manifests_and_large_ones_beside_their_file(tmp_path: Path) -> None:
    table = made(tmp_path / "t", bitmap_columns="u", in__manifest__threshold="300 b")
    (file,) = written(table)
    assert file.embedded_index is not None
    assert file.extra_files == ()
    table.alter(lakebed.set_option("file-index.in-manifest-threshold", "100 b"))
    later = written(table, 10)[-1]
    assert later.embedded_index is None
    assert later.extra_files == (f"{later.file_name}.index",)
    assert [len(table.read(where=f"u = 'u{n}'").read_all()) for n in (5, 15, 25)] == [1, 1, 0]
    assert sum(len(split.files) for split in table.plan_read(where="u = 'u15'").splits) == 1
    with pytest.raises(UnsupportedError, match="cannot be renamed"):
        table.alter(lakebed.rename_column("u", "w"))


def test_keys_of_a_map_share_the_options_of_their_column(tmp_path: Path) -> None:
    options = {"file-index.bloom-filter.columns": "m[a],m[b]", "file-index.bloom-filter.m.items": "9"}
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, options=options)
    (file,) = written(table)
    assert file.embedded_index is not None
    assert len(file.embedded_index) < 500
    assert b"m[a]" in file.embedded_index


def test_a_damaged_index_says_what_to_do(tmp_path: Path) -> None:
    table = made(tmp_path / "t", bitmap_columns="u", in__manifest__threshold="0 b")
    (file,) = written(table)
    (path,) = (tmp_path / "t").glob("bucket-0/*.index")
    whole = path.read_bytes()
    path.write_bytes(whole[:90])
    with pytest.raises(CorruptError, match=r"file-index\.read\.enabled=false"):
        table.read(where="u = 'u5'").read_all()
    calm = lakebed.open(tmp_path / "t", {"file-index.read.enabled": "false"})
    assert len(calm.read(where="u = 'u5'").read_all()) == 1
    path.write_bytes(whole.replace(b"\x00\x00\x00\n\x00\x00\x00\x02u0", b"\x7f\x00\x00\n\x00\x00\x00\x02u0"))
    with pytest.raises(CorruptError, match="index of 'u' cannot be read"):
        table.read(where="u = 'u5'").read_all()
    path.unlink()
    assert len(table.read(where="u = 'u5'").read_all()) == 1
    for names in (("a.index", "b.index"), ("../x.index",)):
        with pytest.raises(CorruptError, match="no index file of its own"):
            index_file(replace(file, extra_files=names), "here")


def test_a_write_that_fails_leaves_no_index_behind(tmp_path: Path) -> None:
    made(tmp_path / "t", bitmap_columns="u", in__manifest__threshold="0 b")
    for at in (1, 2):  # the data file or its index
        store = FaultyStore(open_store(tmp_path / "t"), Fault(at, Kind.ERROR_BEFORE))
        with pytest.raises(StorageError):
            written(lakebed.open(store))
        assert store.changes[at - 1].path.startswith("bucket-0/data-")
        assert [*(tmp_path / "t").glob("bucket-0/*")] == []
