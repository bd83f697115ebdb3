"""Tag files, with and without a time to live."""

import datetime
import json

import pytest

from lakebed.errors import CorruptError
from lakebed.formats.paimon.codec.snapshot_json import snapshot_from_json
from lakebed.formats.paimon.codec.tag_json import Tag, tag_from_json, tag_to_json
from tests.unit.paimon.codec.test_snapshot_json import WRITTEN

SNAPSHOT = snapshot_from_json(json.dumps(WRITTEN).encode())
MOMENT = datetime.datetime(2024, 2, 29, 23, 59, 1, 500)


def with_life(created: object, retained: object) -> bytes:
    return json.dumps({**WRITTEN, "tagCreateTime": created, "tagTimeRetained": retained}).encode()


@pytest.mark.parametrize(
    ("created", "retained", "tag"),
    [
        ([2024, 2, 29, 23, 59, 1, 500_000], 60, Tag(SNAPSHOT, MOMENT, datetime.timedelta(minutes=1))),
        ("2024-02-29T23:59:01.0005", 0.5, Tag(SNAPSHOT, MOMENT, datetime.timedelta(seconds=0.5))),
        ([2024, 2, 29, 0, 0], 1, Tag(SNAPSHOT, datetime.datetime(2024, 2, 29), datetime.timedelta(seconds=1))),
        ([2024, 2, 29, 0, 0], None, Tag(SNAPSHOT, datetime.datetime(2024, 2, 29))),
        (None, None, Tag(SNAPSHOT)),
    ],
)
def test_what_engines_write(created: object, retained: object, tag: Tag) -> None:
    assert tag_from_json(with_life(created, retained)) == tag
    if None not in (created, retained):
        assert tag_from_json(tag_to_json(tag)) == tag


def test_a_life_beyond_all_dates_does_not_end() -> None:
    for seconds in (1e30, 10**18, float("inf"), 300_000_000_000):
        assert tag_from_json(with_life([9999, 1, 1, 0, 0], seconds)).ends is None


@pytest.mark.parametrize(
    ("created", "retained"),
    [
        ([2024, 13, 1], 1), ([2024], 1), ([2024, 1, 1, 0, 0, 0, 0, 0], 1), ([2024, 1, "1"], 1), (7, 1), ("soon", 1),
        ([2024, 1, 1], "1 d"), ([2024, 1, 1], True), ([2024, 1, 1], float("nan")), ([2024, 1, 1], [1]),
    ],
)  # fmt: skip
def test_damaged_ones_are_errors(created: object, retained: object) -> None:
    with pytest.raises(CorruptError):
        tag_from_json(with_life(created, retained))
