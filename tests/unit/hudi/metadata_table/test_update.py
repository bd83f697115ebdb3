"""The property that names the maintained partitions, changed in the commit that would make them stale."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import lakebed
from lakebed.formats.hudi.codec.properties import parse_properties, properties_text
from lakebed.formats.hudi.config import PROPERTIES, TableConfig, load_config
from lakebed.formats.hudi.metadata_table.change import MetadataChange
from lakebed.formats.hudi.metadata_table.update import update
from lakebed.formats.hudi.timeline.properties import update_properties
from lakebed.formats.hudi.write.settings import WRITE
from lakebed.kernel import clock
from lakebed.kernel.files import Store, open_store
from lakebed.kernel.options import Options
from tests.golden import names, unpack

EVERY_PARTITION = {
    "hoodie.datasource.write.operation": "delete_partition",
    "hoodie.datasource.write.partitions.to.delete": "*",
}


@dataclass
class Table:
    store: Store
    config: TableConfig
    options: Options = field(default_factory=lambda: WRITE.parse({}))


def test_properties_are_written_as_java_writes_them() -> None:
    for name in names("hudi"):
        text = (unpack("hudi", name) / PROPERTIES).read_bytes()
        lines = text.decode().splitlines()
        properties = parse_properties(text)
        again = properties_text(properties, "x", clock.moment()).decode().splitlines()
        assert again[2:] == [line for line in lines if not line.startswith("#")], name


def test_odd_text_survives_the_properties() -> None:
    odd = {"a b": "  x = y: #!", "c": "täb\t\n\\ \U0001f600", "d": ""}
    assert parse_properties(properties_text(odd, "x", clock.moment())) == odd


def test_a_partition_that_is_not_maintained_is_named_no_longer(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    shutil.copytree(unpack("hudi", "cow_v8"), folder)
    store = open_store(str(folder))
    config = update_properties(store, {"hoodie.table.metadata.partitions": "column_stats,expr_index_of_mine"})
    notes = update(Table(store, config), "20260101000000000", MetadataChange("commit"))
    assert len(notes) == 1 and "expr_index_of_mine" in notes[0]
    assert "expr_index_of_mine" not in load_config(store).properties["hoodie.table.metadata.partitions"]
    assert not store.exists(f"{PROPERTIES}.backup")


def test_an_index_that_is_not_maintained_is_defined_no_longer(tmp_path: Path) -> None:
    """Hudi's readers rule out partitions by an expression index that is defined, whatever the properties say."""
    folder = shutil.copytree(unpack("hudi", "mor_mdt_v9"), tmp_path / "table")
    defined = folder / ".hoodie/.index_defs/index.json"
    whole = json.loads(defined.read_text())
    mine = {"indexName": "expr_index_day", "indexType": "column_stats", "indexFunction": "from_unixtime"}
    defined.write_text(json.dumps({"indexDefinitions": {**whole["indexDefinitions"], "expr_index_day": mine}}))
    parts = "column_stats,expr_index_day,files,partition_stats,record_index"
    update_properties(open_store(str(folder)), {"hoodie.table.metadata.partitions": parts})
    table = lakebed.open(folder)
    (note,) = table.write(table.schema.empty_table(), mode="delete", options=EVERY_PARTITION).notes
    assert "expr_index_day" in note
    assert json.loads(defined.read_text()) == whole
