"""HFile images of the golden metadata tables: whole, sorted, found by key, and refused where they are damaged."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from lakebed.errors import LakebedError
from lakebed.formats.hudi.codec.hfile import HFile, open_hfile
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
