"""The callbacks that lakebed brings: partitions in a SQL database, tags in an Iceberg catalog."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import lakebed
from lakebed.callbacks import PublishIcebergTags, RegisterPartitions
from lakebed.errors import RuntimeMissingError, UsageError
from tests.unit.paimon.conftest import Make, rows


def test_partitions_go_to_whatever_database_there_is(make: Make, tmp_path: Path) -> None:
    table, file = make(), tmp_path / "p.sqlite"
    for _ in range(2):
        writer = table.writer(callbacks=[RegisterPartitions(lambda: sqlite3.connect(file))])
        writer.write(rows(("a", 1, "v", 1), ("it's", 2, "v", 1)))
        writer.commit(messages=writer.prepare_commit())
    with sqlite3.connect(file) as connection:
        found = connection.execute("SELECT partition, snapshot_id FROM lakebed_partitions ORDER BY 1").fetchall()
    assert found == [('{"dt": "a"}', 1), ('{"dt": "it\'s"}', 1)]


@dataclass
class IcebergTable:
    """As much of pyiceberg's Table as tags need; counts its commits."""

    snapshots: tuple[int, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    refs: dict[str, Any] = field(default_factory=dict)
    commits: int = 0

    @property
    def metadata(self) -> Any:
        return SimpleNamespace(refs=self.refs)

    def snapshot_by_id(self, snapshot_id: int) -> Any:
        return snapshot_id if snapshot_id in self.snapshots else None

    def manage_snapshots(self) -> "IcebergTable":
        return self

    def create_tag(self, snapshot_id: int, tag: str) -> "IcebergTable":
        self.refs[tag] = SimpleNamespace(snapshot_id=snapshot_id)
        return self

    def remove_tag(self, tag: str) -> "IcebergTable":
        del self.refs[tag]
        return self

    def commit(self) -> None:
        self.commits += 1

    @contextmanager
    def transaction(self) -> Iterator["IcebergTable"]:
        yield self
        self.commits += 1

    def set_properties(self, properties: dict[str, str]) -> None:
        self.properties.update(properties)

    def remove_properties(self, *names: str) -> None:
        for name in names:
            del self.properties[name]


@pytest.mark.parametrize("snapshots", [(), (1,)], ids=["no such snapshot", "its snapshot"])
def test_tags_are_published_once(make: Make, monkeypatch: pytest.MonkeyPatch, snapshots: tuple[int, ...]) -> None:
    found = IcebergTable(snapshots)
    module = ModuleType("pyiceberg.catalog")
    module.load_catalog = lambda name: SimpleNamespace(load_table=lambda table: {("prod", "s.t"): found}[name, table])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyiceberg", ModuleType("pyiceberg"))
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", module)
    name = "lakebed.callbacks:PublishIcebergTags"
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    table = lakebed.open(table.location, {"tag.callbacks": name, f"tag.callback.{name}.param": "prod:s.t"})
    table.tag("daily")
    commits = found.commits
    assert found.properties == {"lakebed.tag.daily": "1"}
    assert list(found.refs) == (["daily"] if snapshots else [])
    PublishIcebergTags("prod:s.t").notify_creation("daily", 1)
    assert found.commits == commits
    table.delete_tag("daily")
    assert (found.properties, found.refs) == ({}, {})
    PublishIcebergTags("prod:s.t").notify_deletion("daily")
    assert found.commits == 2 * commits


def test_without_pyiceberg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(RuntimeMissingError, match="pip install pyiceberg"):
        PublishIcebergTags("prod:shop.orders").notify_creation("daily", 1)
    with pytest.raises(UsageError, match=r"CATALOG:NAMESPACE\.TABLE"):
        PublishIcebergTags("orders")
