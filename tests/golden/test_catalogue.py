"""The golden tables are whole: each opens, has answers, stands in its README, and packs to the same bytes."""

import re
from pathlib import Path

import pytest

from tests.golden import HERE, expected, names, pack, unpack

TABLES = [(table_format, name) for table_format in ("hudi", "paimon", "iceberg") for name in names(table_format)]


@pytest.mark.parametrize(("table_format", "name"), TABLES)
def test_table_opens_with_its_answers(table_format: str, name: str) -> None:
    table = unpack(table_format, name)
    marker = {"hudi": ".hoodie/hoodie.properties", "paimon": "schema/schema-0", "iceberg": "metadata/*.metadata.json"}
    assert any(table.glob(marker[table_format]))
    assert (expected(table) / "meta.json").is_file()


@pytest.mark.parametrize("table_format", ["hudi", "paimon", "iceberg"])
def test_catalogue_names_every_table(table_format: str) -> None:
    readme = (HERE / table_format / "README.md").read_text(encoding="utf-8")
    spelled_out = re.sub(r"\b(\w+?)_(v6|h015)/(v8)", r"\1_\2, \1_\3", readme)
    missing = [name for name in names(table_format) if name not in spelled_out]
    assert not missing


@pytest.mark.parametrize(("table_format", "name"), [("hudi", "merge_event_v6"), ("paimon", "tags_branches")])
def test_packing_gives_the_same_bytes(
    table_format: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack(table_format, name, into=tmp_path / "unpacked")
    monkeypatch.setattr(pack, "HERE", tmp_path / "packed")
    archive = pack.pack(table_format, tmp_path / "unpacked", name)
    assert archive.read_bytes() == (HERE / table_format / f"{name}.tar.xz").read_bytes()


def test_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(KeyError, match="mor_v6"):
        unpack("hudi", "no_such_table")


def test_a_copy_of_ones_own_is_fresh(tmp_path: Path) -> None:
    own = unpack("hudi", "mor_v6", into=tmp_path)
    (own / ".hoodie" / "hoodie.properties").unlink()
    assert (unpack("hudi", "mor_v6") / ".hoodie" / "hoodie.properties").is_file()
