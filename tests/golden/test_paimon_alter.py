"""Changes of a table, compared with the schema files that Paimon's Java engine made of the same changes."""

import json
from pathlib import Path
from typing import Any

import lakebed
from tests.golden import unpack

CHANGES: list[list[Any]] = [
    [lakebed.add_column("d", "double")],
    [lakebed.rename_column("b", "b2"), lakebed.drop_column("c")],
    [lakebed.widen("a", "int64"), lakebed.add_column("c", "INT", comment="re-added under an old name", first=True)],
    [lakebed.add_column("s.z", "string"), lakebed.set_option("write-buffer-size", "8 mb"),
     lakebed.set_comment(None, "evolved")],
]  # fmt: skip


def test_the_same_versions(tmp_path: Path) -> None:
    made = unpack("paimon", "evolve")
    folder = tmp_path / "schema"
    folder.mkdir()
    (folder / "schema-0").write_bytes((made / "schema" / "schema-0").read_bytes())
    table = lakebed.open(tmp_path)
    for version, changes in enumerate(CHANGES, 1):
        assert table.alter(changes).version == str(version)
        ours, theirs = (json.loads((place / f"schema-{version}").read_bytes()) for place in (folder, made / "schema"))
        del ours["timeMillis"], theirs["timeMillis"]
        assert ours == theirs
