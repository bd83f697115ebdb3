"""File indexes beside Paimon's engine: it skips by the indexes that lakebed writes, and lakebed by those that it
writes, after compactions of either too."""

import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from tests.golden.test_paimon_file_indexes import VECTORS
from tests.interop.conftest import PaimonJvm, Pypaimon, java, named

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("n", pa.int64()), ("u", pa.string())])
TEXT_INDEXES, NUMBER_INDEXES = (
    ("bloom-filter", "bitmap", "range-bitmap"),
    ("bloom-filter", "bitmap", "bsi", "range-bitmap"),
)
BIG, SMALL = "1 mb", "0 b"
FILES, ROWS = 4, 20


def printed(name: str, *arguments: str) -> list[str]:
    """What a Java program says, line by line."""
    command = java("-Xmx1g", "-cp", named("LAKEBED_PAIMON_CLASSPATH"), name, *arguments)
    return subprocess.run(command, capture_output=True, check=True, timeout=300).stdout.decode().splitlines()


def test_the_vectors_are_what_the_engine_prints() -> None:
    kept = VECTORS.read_text(encoding="utf-8").splitlines()
    assert [(one, other) for one, other in zip(printed("FileIndexVectors"), kept, strict=True) if one != other] == []


def made(folder: Path, column: str, index: str, threshold: str, key: bool = False) -> lakebed.Table:
    options = {
        f"file-index.{index}.columns": column,
        "file-index.in-manifest-threshold": threshold,
        "metadata.stats-mode": "none",  # so that indexes alone skip
        **({"bucket": "1", "num-sorted-run.compaction-trigger": "100"} if key else {}),
    }
    if index == "bloom-filter":
        options[f"file-index.{index}.{column}.items"] = "200"
    return lakebed.create(folder, "paimon", SCHEMA, ["id"] if key else [], options=options)


def values(number: int) -> list[tuple[int, int, str]]:
    """The rows of a file: no value of `n` and `u` is in two files."""
    return [
        (i, number + FILES * (i // 2), f"file {number} row {i // 2}") for i in range(number * ROWS, (number + 1) * ROWS)
    ]


def written(table: lakebed.Table, folder: Path, jvm: PaimonJvm | None) -> None:
    for number in range(FILES):
        rows = values(number)
        if jvm is not None:
            jvm.write(folder, [["+I", *row] for row in rows], number)
        else:
            table.write(pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA))


def test_each_engine_skips_by_the_indexes_of_the_other(
    tmp_path: Path, paimon_jvm: PaimonJvm, pypaimon: Pypaimon
) -> None:
    asked: list[str] = []
    cases = [("u", index) for index in TEXT_INDEXES] + [("n", index) for index in NUMBER_INDEXES]
    for (column, index), threshold, writer in product(cases, (BIG, SMALL), (None, paimon_jvm)):
        folder = tmp_path / "d.db" / f"{column}_{index}_{threshold[0]}_{writer is None}"
        table = made(folder, column, index, threshold)
        written(table, folder, writer)
        value, absent = (str(v) for v in (values(2)[5][SCHEMA.names.index(column)], "none" if column == "u" else -5))
        quote = "'" if column == "u" else ""
        where = f"{column} = {quote}{value}{quote}"
        assert table.read(where=where).read_all().num_rows == 2
        planned = sum(len(split.files) for split in table.plan_read(where=where).splits)
        assert planned == (1 if threshold == BIG else FILES), folder.name
        assert table.read(where=f"{column} = {quote}{absent}{quote}").read_all().num_rows == 0
        asked += [str(folder), "=", column, value]
    for line, folder_name in zip(printed("FileIndexAsk", *asked), asked[::4], strict=True):
        rows, matching = map(int, line.split())
        assert matching == 2, folder_name
        assert rows < FILES * ROWS // 2, folder_name
    read = pypaimon.read(tmp_path / "d.db" / "u_bitmap_0_True", "native").select(SCHEMA.names)
    assert read.num_rows == FILES * ROWS


@pytest.mark.parametrize("compacts", ["ours", "jvm"])
def test_compactions_build_indexes_again(compacts: str, tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    folder = tmp_path / "d.db" / "t"
    table = made(folder, "u", "bitmap", SMALL, key=True)
    written(table, folder, None)
    if compacts == "ours":
        table.rewrite()
    else:
        paimon_jvm.write(folder, [["+I", 10**6, 0, "new"]], 99, compact=True)
    files = [file for split in table.plan_read().splits for file in split.files]
    assert files and all(file.level > 0 and [*file.extra_files] == [f"{file.file_name}.index"] for file in files)
    answers: list[Any] = printed("FileIndexAsk", str(folder), "=", "u", values(2)[5][2], str(folder), "=", "u", "none")
    assert [line.split()[1] for line in answers] == ["2", "0"]
    assert table.read(where=f"u = '{values(2)[5][2]}'").read_all().num_rows == 2
    assert table.read(where="u = 'none'").read_all().num_rows == 0
