"""The entries of small manifests are kept: the same ones are decoded once, and no others are ever taken for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

import lakebed
from lakebed.formats.iceberg.codec import manifest
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.kernel.avro.recent import Recent

FILE = ManifestFile("metadata/m.avro", 3, 0, sequence_number=4, added_snapshot_id=7)
FIELD = PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="p")
SPEC, PLAIN = PartitionSpec(FIELD, spec_id=0), pa.struct([pa.field("p", pa.string())])


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each time that manifests are decoded, which the entries then have."""
    times: list[int] = []

    def decode(*_: object) -> pa.Table:
        times.append(len(times))
        return pa.table({"n": [len(times)]})

    monkeypatch.setattr(manifest, "_RECENT", Recent())
    monkeypatch.setattr(manifest, "_decode", decode)
    return times


def test_the_same_manifests_are_decoded_once_and_others_anew(decoded: list[int]) -> None:
    first = manifest.decode_entries([FILE], [b"abc"], SPEC, PLAIN)
    assert manifest.decode_entries([FILE], [b"abc"], SPEC, PLAIN).equals(first)
    assert decoded == [0]
    renamed = PartitionSpec(FIELD.model_copy(update={"name": "q"}), spec_id=0)
    for others in (
        ([replace(FILE, sequence_number=5)], [b"abc"], SPEC, PLAIN),
        ([replace(FILE, first_row_id=0)], [b"abc"], SPEC, PLAIN),
        ([FILE], [b"abd"], SPEC, PLAIN),
        ([FILE, FILE], [b"ab", b"c"], SPEC, PLAIN),
        ([FILE, FILE], [b"a", b"bc"], SPEC, PLAIN),
        ([FILE], [b"abc"], PartitionSpec(FIELD, spec_id=1), PLAIN),
        ([FILE], [b"abc"], renamed, PLAIN),
        ([FILE], [b"abc"], SPEC, pa.struct([pa.field("p", pa.binary())])),
        ([FILE], [b"abc"], SPEC, PLAIN, ("file_path",)),
        ([FILE], [b"abc"], SPEC, PLAIN, manifest.COLUMNS, False),
    ):
        decoded.clear()
        manifest.decode_entries(*others)
        manifest.decode_entries(*others)
        assert decoded == [0]


def test_large_manifests_are_not_kept(decoded: list[int]) -> None:
    for _ in range(2):
        manifest.decode_entries([FILE], [bytes(300 << 10)], SPEC, PLAIN)
    assert decoded == [0, 1]


def test_a_second_read_decodes_no_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lakebed.create(str(tmp_path / "t"), "iceberg", pa.schema([pa.field("id", pa.int64())]))
    table.write(pa.table({"id": [1, 2]}))
    assert lakebed.open(str(tmp_path / "t")).count() == 2
    monkeypatch.setattr(manifest, "_decode", None)
    assert lakebed.open(str(tmp_path / "t")).count() == 2
    monkeypatch.setattr(manifest, "_RECENT", Recent())
    with pytest.raises(TypeError):
        lakebed.open(str(tmp_path / "t")).read().read_all()
