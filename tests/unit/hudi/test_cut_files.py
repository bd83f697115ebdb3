"""Files of a table that were cut short after their commit: every verb that needs one says which, and none goes on with
what is left of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError

ROWS = pa.table({"id": ["a", "b", "c"], "v": ["one"] * 3})
QUIET = {"hoodie.clean.automatic": "false"}


@pytest.fixture(params=[(6, "false"), (9, "true")])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lakebed.Table:
    """One base file, and two log files; the metadata table knows their sizes, or commits alone do."""
    version, metadata = request.param
    quiet = {**QUIET, "hoodie.metadata.enable": metadata}
    options = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    made = lakebed.create(tmp_path / "t", "hudi", ROWS.schema, primary_key=["id"], options=options)
    for number in range(3):
        rows = ROWS.slice(0, 3 - number).set_column(1, "v", pa.array([str(number)] * (3 - number)))
        made.write(rows, "upsert", options=quiet)
    return made


def verbs(table: lakebed.Table) -> dict[str, Callable[[], object]]:
    """What needs the rows of all files."""
    return {
        "read": lambda: table.read().read_all(),
        "upsert": lambda: table.write(ROWS, "upsert", options=QUIET),
        "compaction": table.rewrite,
        "clustering": lambda: table.rewrite(
            options={"lakebed.rewrite.what": "clustering", "hoodie.clustering.plan.strategy.sort.columns": "v"}
        ),
        "log compaction": lambda: table.rewrite(
            options={"lakebed.rewrite.what": "log-compaction", "hoodie.log.compaction.blocks.threshold": "1"}
        ),
    }


@pytest.mark.parametrize("pattern", [".*.log.*", "*.parquet"])
def test_no_verb_goes_on_without_the_rows_of_a_file_that_was_cut(table: lakebed.Table, pattern: str) -> None:
    folder = Path(table.location)
    whole = max(folder.glob(pattern))
    unneeded = "upsert" if whole.name.startswith(".") else "log compaction"  # it reads no file of this kind
    for size in (0, whole.stat().st_size - 1):
        for name in verbs(table).keys() - {unneeded}:
            copy = shutil.copytree(folder, folder.with_name(f"{name} {size}"))
            (copy / whole.name).write_bytes(whole.read_bytes()[:size])
            with pytest.raises(CorruptError) as caught:
                verbs(lakebed.open(copy))[name]()
            assert caught.value.file == whole.name and "Restore the file" in caught.value.todo, name
            done = [i.action for i in lakebed.open(copy).history() if i.state == "completed"]
            assert [action for action in done if action != "rollback"] == ["deltacommit"] * 3, name
