"""What a Paimon table's own files say neither runs code nor leads out of its folder."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError, UnsupportedError, UsageError
from lakebed.formats.paimon import manifests
from lakebed.formats.paimon.codec.manifest_avro import manifest_from_bytes
from tests.tables.paimon.small import Make, rows


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("kind", ["commit", "tag"])
@pytest.mark.parametrize("name", ["evil_callbacks:Run", "org.example.Callback"])
def test_callbacks_of_the_table_are_not_run(
    kind: str, name: str, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil_callbacks.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    key = f"{kind}.callbacks"
    told = {key: name, f"{kind}.callback.{name}.param": "x", "lakebed.scratch.dir": str(tmp_path / "scratch")}
    edit(Path(table.location) / "schema" / "schema-0", lambda document: document["options"].update(told))

    def act(given: dict[str, str]) -> None:
        opened = lakebed.open(table.location, given)
        if kind == "commit":
            opened.write(rows(("a", 2, "v", 1)))
        else:
            opened.tag("t")
            opened.delete_tag("t")

    before = len(table.history())
    with pytest.raises(UnsupportedError, match="lakebed runs nothing that a table names"):
        act({})
    assert len(table.history()) == before
    act({key: ""})
    assert lakebed.open(table.location).read().read_all().num_rows
    assert not (tmp_path / "ran").exists() and not (tmp_path / "scratch").exists()


def test_callbacks_given_to_create_are_not_kept(tmp_path: Path) -> None:
    name = "lakebed.callbacks:RegisterPartitions"
    told = {"commit.callbacks": name, f"commit.callback.{name}.param": str(tmp_path / "p.sqlite"), "bucket": "1"}
    table = lakebed.create(tmp_path / "t", "paimon", pa.schema([("id", pa.int32())]), options=told | {"bucket": "-1"})
    table.write(pa.table({"id": pa.array([1], pa.int32())}))
    assert (tmp_path / "p.sqlite").exists(), "this call named it"
    assert "callback" not in (tmp_path / "t" / "schema" / "schema-0").read_text()


def test_files_elsewhere_are_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))

    def moved(data: bytes, file: str) -> list[Any]:
        found = manifest_from_bytes(data, file)
        return [replace(entry, file=replace(entry.file, external_path="file:/etc/passwd")) for entry in found]

    monkeypatch.setattr(manifests, "manifest_from_bytes", moved)
    for act in (lambda: table.read().read_all(), lambda: table.write(rows(("a", 1, "v", 2)), "overwrite")):
        with pytest.raises(UnsupportedError, match="is outside the table"):
            act()


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a/../../../x", "\0"])
def test_names_in_snapshots_stay_inside(name: str, make: Make, tmp_path: Path) -> None:
    table = make()
    table.write(rows(("a", 1, "v", 1)))
    (tmp_path / "secret").write_text("x")
    newest = Path(table.location) / "snapshot" / "snapshot-1"
    edit(newest, lambda document: document.update(deltaManifestList=name))
    for act in (lambda: table.read().read_all(), lambda: table.write(rows(("a", 2, "v", 1)))):
        with pytest.raises(LakebedError, match=r"leaves the table|a manifest is gone"):
            act()


@pytest.mark.parametrize("branch", ["../x", "a/../../../x", "/x"])
def test_branches_stay_inside(branch: str, make: Make) -> None:
    table = make()
    with pytest.raises(LakebedError):
        lakebed.open(table.location, {"branch": branch})
    with pytest.raises((UsageError, LakebedError)):
        table.tag("../x")
    assert sorted(os.listdir(table.location)) == ["schema"]
