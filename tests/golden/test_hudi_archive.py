"""Archival of every golden `archived_*` table, run by run: what the JVM archived leaves, into the same files."""

import json
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.formats.hudi.codec.archive_v1 import parse_archive
from lakebed.formats.hudi.codec.log import parse_log
from lakebed.kernel.scratch import Scratch
from tests.golden import compare, expected, names, unpack
from tests.tables.hudi.replay import Replay, replay_of

REPLAYED = [name for name in names("hudi") if name.startswith("archived_") and name != "archived_upgraded_v9"]
"""Tables to replay; the upgraded table's history before its upgrade is that of another table."""


def play(replay: Replay) -> None:
    """The whole life, with our archival in the place of the JVM's, held to what left the active timeline."""
    for step in replay.steps:
        for _ in replay.play(step):
            if step.what.startswith("savepoint"):
                continue
            table = lakebed.open(replay.table)
            planned = table.archive(dry_run=True, options=replay.options)
            result = table.archive(options=replay.options)
            assert planned.archived == result.archived == step.archived, step.what
            assert (planned.dry_run, result.dry_run) == (True, False)
            assert planned.blockers == result.blockers


def oracle(replay: Replay) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((expected(replay.table) / "archived.json").read_text())["archived"]
    return found


def records(archive: Path) -> list[tuple[str, str, str, str, int]]:
    """(instant, action, state, file, block) of every archived state of layout 1."""
    states = []
    for path in sorted(archive.glob(".commits_.archive.*")):
        data = path.read_bytes()
        scan = parse_log(data)
        assert not scan.corrupt
        for number, block in enumerate(scan.blocks):
            part = data[block.offset : block.offset + block.length]
            states += [
                (entry.instant, entry.action, entry.state, path.name, number)
                for entry in parse_archive([part], Scratch()).entries
            ]
    return sorted(states)


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLAYED)
def test_the_same_instants_leave_into_the_same_files(name: str, tmp_path: Path) -> None:
    replay = replay_of(name, tmp_path)
    play(replay)
    assert replay.state_names() == replay.active
    wanted = oracle(replay)
    if (replay.archive / "_version_").exists():
        version = (replay.archive / "_version_").read_text()
        manifest = json.loads((replay.archive / f"manifest_{version}").read_text())["files"]
        assert all((replay.archive / file["fileName"]).stat().st_size == file["fileLen"] for file in manifest)
        assert {file["fileName"] for file in manifest} == {entry["file"] for entry in wanted}
    elif name == "archived_merge_h015":
        assert [path.name for path in replay.archive.iterdir()] == [".commits_.archive.7_1-0-1"]
        assert {r[:3] for r in records(replay.archive)} == {(e["instant"], e["action"], e["state"]) for e in wanted}
    else:
        keys = ("instant", "action", "state", "file", "block")
        assert records(replay.archive) == sorted(tuple(entry[key] for key in keys) for entry in wanted)
    assert compare.hudi_snapshot_diff(lakebed.open(replay.table).read(), expected(replay.table)) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REPLAYED if name.endswith(("_v8", "_v9"))])
def test_the_same_history_files_stay_on_disk(name: str, tmp_path: Path) -> None:
    golden = {path.name for path in (unpack("hudi", name) / ".hoodie/timeline/history").iterdir()}
    replay = replay_of(name, tmp_path)
    play(replay)
    assert {path.name for path in replay.archive.iterdir()} == golden


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLAYED)
def test_archived_metadata_reads_as_before(name: str, tmp_path: Path) -> None:
    """Commits of the archive have the operation, schema and files that the JVM's archive gives."""
    golden = lakebed.open(unpack("hudi", name)).state().archived  # type: ignore[attr-defined]
    replay = replay_of(name, tmp_path)
    play(replay)
    ours = lakebed.open(replay.table).state().archived  # type: ignore[attr-defined]
    assert ours.commits("", "") == golden.commits("", "")
    assert ours.cleans() == golden.cleans()
    assert [(i.time, i.completed, i.action) for i in ours.instants()] == [
        (i.time, i.completed, i.action) for i in golden.instants()
    ]
