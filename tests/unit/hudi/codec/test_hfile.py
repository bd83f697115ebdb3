"""HFile images of the golden metadata tables: whole, sorted, found by key, and refused where they are damaged."""

import random
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.errors import LakebedError
from lakebed.formats.hudi.codec.hfile import HFile, open_hfile
from lakebed.formats.hudi.codec.hfile_write import write_hfile
from lakebed.formats.hudi.codec.log import BlockKind, parse_log
from tests.golden import unpack

TABLES = ("mor_mdt_v8", "mor_mdt_v9")


def images(name: str) -> list[bytes]:
    folder: Path = unpack("hudi", name) / ".hoodie/metadata"
    logs = (parse_log(path.read_bytes()) for path in sorted(folder.glob("*/.*log*")))
    blocks = [bytes(b.content) for log in logs for b in log.blocks if b.kind is BlockKind.HFILE_DATA]
    return [*blocks, *(path.read_bytes() for path in sorted(folder.glob("*/*.hfile")))]


def opened(image: bytes) -> HFile:
    return open_hfile(lambda start, length: image[start : start + length], len(image))


@pytest.mark.parametrize("name", TABLES)
def test_images_are_read_whole_and_by_key(name: str) -> None:
    assert images(name)
    for image in images(name):
        hfile = opened(image)
        keys = hfile.scan()["key"].to_pylist()
        assert keys == sorted(keys) and len(keys) == hfile.trailer.entries
        assert "HoodieMetadataRecord" in hfile.info["schema"]
        assert all(key in hfile.around([key])["key"].to_pylist() for key in keys)
        assert not hfile.around([b""]).num_rows


@pytest.mark.parametrize("name", TABLES)
def test_damage_is_an_error_of_ours(name: str) -> None:
    chance = random.Random(7)
    for image in images(name)[::3]:
        for _ in range(8):
            data = bytearray(image)
            for _ in range(chance.randint(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            damaged = bytes(data[: chance.randrange(1, len(data) + 1)] if chance.random() < 0.3 else data)
            with suppress(LakebedError):
                opened(damaged).scan()


def test_foreign_bytes_are_no_image() -> None:
    with pytest.raises(LakebedError, match="HFile"):
        opened(b"x" * 5000)


@pytest.mark.parametrize("name", TABLES)
def test_images_are_written_as_they_were_read(name: str) -> None:
    for image in images(name):
        theirs = opened(image)
        entries = theirs.scan()
        columns = [entries[column].combine_chunks() for column in ("key", "value")]
        ours = opened(write_hfile(*columns, {"schema": theirs.info["schema"].encode()}))
        assert ours.scan() == entries and ours.info["schema"] == theirs.info["schema"]
        kept = ("entries", "indexed", "levels", "codec")
        assert [getattr(ours.trailer, field) for field in kept] == [getattr(theirs.trailer, field) for field in kept]
        if name.endswith("v8"):  # as HBase's own writer
            texts = (
                "KEY_VALUE_VERSION",
                "MAX_MEMSTORE_TS_KEY",
                "hfile.AVG_KEY_LEN",
                "hfile.AVG_VALUE_LEN",
                "hfile.LASTKEY",
            )
            assert {text: ours.info[text] for text in texts} == {text: theirs.info[text] for text in texts}
        pieces = opened(write_hfile(*columns, {}, block_bytes=100))
        assert pieces.scan() == entries and len(pieces.index) >= min(2, len(entries) // 8)
        assert all(pieces.around([key])["key"].to_pylist().count(key) == 1 for key in columns[0].to_pylist())


def test_no_entries_make_an_image_too() -> None:
    nothing = pa.array([], pa.binary())
    assert not opened(write_hfile(nothing, nothing, {})).scan().num_rows
