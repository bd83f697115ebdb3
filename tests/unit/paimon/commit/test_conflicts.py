"""Conflicts are the same whether live files are values or columns."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakebed.errors import CommitConflictError
from lakebed.formats.paimon.codec.binary_row import encode_row, with_arity
from lakebed.formats.paimon.codec.manifest import ADD, DELETE, DataFileMeta, ManifestEntry, SimpleStats
from lakebed.formats.paimon.codec.snapshot_json import CommitKind
from lakebed.formats.paimon.commit.conflicts import check_conflicts, check_known
from lakebed.formats.paimon.definition import new_schema
from lakebed.formats.paimon.entries import Entries

SCHEMA = new_schema(
    pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())]), ["id"], [], {"bucket": "2"}, "t"
)


def key(number: int) -> bytes:
    return with_arity(encode_row([number], [SCHEMA.field("id").type]), 1)


def drawn(draw: random.Random, name: str, kind: int = ADD) -> ManifestEntry:
    low = draw.randrange(40)
    file = DataFileMeta(
        name, 1, 1, key(low), key(low + 1), SimpleStats(), SimpleStats(), 0, 0, 0, draw.choice([0, 5, 5])
    )
    return ManifestEntry(kind, draw.choice([b"a", b"b"]), draw.choice([0, 1]), draw.choice([2, 2, 2, 2, 2, 4]), file)


def said(check: Callable[..., None], *given: Any) -> str:
    try:
        check(*given)
    except CommitConflictError as error:
        return str(error)
    return ""


def test_columns_conflict_as_values_do() -> None:
    seen: set[str] = set()
    for seed in range(150):
        draw = random.Random(seed)
        live = [drawn(draw, f"f{number}") for number in range(draw.randrange(5))]
        gone = [replace(entry, kind=DELETE) for entry in draw.sample(live, min(len(live), draw.randrange(3)))]
        ours = [*gone, *(drawn(draw, f"n{number}") for number in range(draw.randrange(3)))]
        if draw.random() < 0.2:
            ours.append(draw.choice([drawn(draw, "n9", DELETE), *live]))
        known = {(entry.partition, entry.bucket): frozenset(["f0", "f1"]) for entry in ours}
        kind = draw.choice([CommitKind.COMPACT, CommitKind.OVERWRITE])
        outcomes = [
            [said(check_conflicts, files, ours, kind, SCHEMA, "t"), said(check_known, files, known, "t")]
            for files in (live, Entries.of(live))
        ]
        assert outcomes[0] == outcomes[1], seed
        seen |= {*outcomes[0]}
    assert len(seen) > 8


@pytest.mark.parametrize("count", [0, 3])
def test_no_columns_conflict_with_nothing(count: int) -> None:
    ours = [drawn(random.Random(number), f"n{number}") for number in range(count)]
    check_known(Entries.of([]), {}, "t")
    check_conflicts(Entries.of([]), ours[:1], CommitKind.COMPACT, SCHEMA, "t")
