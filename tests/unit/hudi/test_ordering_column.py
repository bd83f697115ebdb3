"""An ordering column that the table does not have: nested ones, and those of writers that never checked."""

from pathlib import Path

import pytest

import lakebed
from lakebed.errors import UnsupportedError
from tests.golden import unpack


def test_only_what_merges_is_refused(tmp_path: Path) -> None:
    table = unpack("hudi", "mor_v6", into=tmp_path)
    properties = table / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("precombine.field=ts", "precombine.field=meta.ts"))
    opened = lakebed.open(table)
    rows = lakebed.open(table, {"hoodie.datasource.query.type": "read_optimized"}).read().read_all()
    assert rows.num_rows
    rows = rows.select([name for name in rows.column_names if not name.startswith("_hoodie_")])[:1]
    for act in (
        lambda: opened.read(), lambda: opened.changes(), lambda: opened.write(rows, "upsert"),
        lambda: opened.write(rows, "delete"), lambda: opened.rewrite(),
    ):  # fmt: skip
        with pytest.raises(
            UnsupportedError, match=r"orders the versions of a row by 'meta\.ts', which is not a column"
        ):
            act()


@pytest.mark.filterwarnings("ignore::lakebed.errors.ReadWarning")
def test_the_files_of_a_copy_on_write_table_are_merged_already(tmp_path: Path) -> None:
    """Older writers named `ts` in every table, whether it had such a column or not."""
    table = unpack("hudi", "cow_v8", into=tmp_path)

    def found() -> tuple[list[str], list[str]]:
        opened = lakebed.open(table)
        read, changes = (sorted(map(str, rows.read_all().to_pylist())) for rows in (opened.read(), opened.changes()))
        return read, changes

    before, properties = found(), table / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("precombine.field=ts", "precombine.field=gone"))
    assert found() == before
