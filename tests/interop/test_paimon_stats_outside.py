"""Statistics beside Paimon's engine: lakebed's manifests say of each file what the engine's say, by every option, and
each skips by those of the other."""

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakebed
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.snapshot import History
from tests.interop.conftest import PaimonJvm, Pypaimon
from tests.interop.test_paimon_indexes_outside import printed

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        ("n", pa.int64()),
        ("u", pa.string()),
        ("f", pa.float64()),
        pa.field("k2", pa.string(), False),
    ]
)
ROWS: list[list[Any]] = [
    [1, 5, "a text of more than sixteen characters", 0.5, "x" * 20],
    [2, None, None, -0.0, "y" * 200],
    [3, -7, "b", 1e9, "z"],
]
OPTIONS: dict[str, dict[str, str]] = {
    "default": {},
    "full": {"metadata.stats-mode": "full"},
    "counts": {"metadata.stats-mode": "counts"},
    "none": {"metadata.stats-mode": "none"},
    "first": {"metadata.stats-keep-first-n-columns": "2"},
    "none_at_first": {"metadata.stats-keep-first-n-columns": "0"},
    "own": {"fields.u.stats-mode": "truncate(3)", "fields.n.stats-mode": "none", "fields.f.stats-mode": "counts"},
    "own_and_first": {"fields.f.stats-mode": "full", "metadata.stats-keep-first-n-columns": "1"},
    "whole": {"metadata.stats-dense-store": "false", "fields.n.stats-mode": "none"},
    "whole_none": {"metadata.stats-dense-store": "false", "metadata.stats-mode": "none"},
}

TWO = (
    (("parquet", "append"), ("avro", "key")),
    (("parquet", "key"), ("parquet", "thin")),
)
"""The tables that an option is tried in, by turns."""


def files(table: lakebed.Table) -> list[DataFileMeta]:
    return [entry.file for entry in live_files(table.store, History(table.store).latest())]


def test_manifests_say_what_those_of_the_engine_say(tmp_path: Path, paimon_jvm: PaimonJvm, pypaimon: Pypaimon) -> None:
    asked: list[str] = []
    for name, (file_format, kind) in product(OPTIONS, product(("parquet", "avro"), ("append", "key", "thin"))):
        if name != "own_and_first" and (file_format, kind) not in TWO[len(name) % 2]:
            continue
        key = ["id", "k2"] if kind != "append" else []
        options = {"file.format": file_format, **OPTIONS[name]}
        options |= {"bucket": "1"} if key else {}
        options |= {"data-file.thin-mode": "true"} if kind == "thin" else {}
        folder = tmp_path / "d.db" / f"{name}_{file_format}_{kind}"
        table = lakebed.create(folder, "paimon", SCHEMA, key, options=options)
        paimon_jvm.write(folder, [["+I", *row] for row in ROWS], 1)
        columns = dict(zip(SCHEMA.names, zip(*ROWS, strict=True), strict=True))
        table.write(pa.table({n: list(values) for n, values in columns.items()}, schema=SCHEMA))
        theirs, ours = sorted(files(table), key=lambda file: file.creation_time or 0)
        assert theirs.value_stats_cols == ours.value_stats_cols, folder.name
        assert theirs.value_stats == ours.value_stats, folder.name
        assert theirs.key_stats == ours.key_stats, folder.name
        if not key:
            asked += [str(folder), ">", "n", "5"]
            assert table.read(where="n > 4").read_all().num_rows == 2
            assert table.read(where="n > 5").read_all().num_rows == 0
    for line, folder_name in zip(printed("FileIndexAsk", *asked), asked[::4], strict=True):
        rows, matching = map(int, line.split())
        assert matching == 0
        known = any(word in folder_name for word in ("default", "full", "/first", "whole_p", "whole_a"))
        assert rows == 0 or not known or "whole" in folder_name, folder_name
    read = pypaimon.read(tmp_path / "d.db" / "full_parquet_append", "native")
    assert read.num_rows == 2 * len(ROWS)


def test_the_engine_goes_on_after_deletes_without_statistics(tmp_path: Path, paimon_jvm: PaimonJvm) -> None:
    folder = tmp_path / "d.db" / "t"
    options = {"bucket": "1", "manifest.delete-file-drop-stats": "true"}
    table = lakebed.create(folder, "paimon", SCHEMA, ["id", "k2"], options=options)
    for number in range(6):
        columns = {name: [row[place] for row in ROWS] for place, name in enumerate(SCHEMA.names)}
        table.write(pa.table({**columns, "n": [number] * 3}, schema=SCHEMA))
    table.rewrite()
    paimon_jvm.write(folder, [["+I", *ROWS[0]]], 9, compact=True)
    rows, _ = paimon_jvm.dump(folder)
    assert sorted(line["row"]["n"] for line in rows) == sorted(table.read().read_all()["n"].to_pylist())
    assert [len(files(table))] == [1]
