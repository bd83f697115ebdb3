"""The active timeline as archival sees it: names of state files, instants with all of their files, how often the folder
is listed."""

from pathlib import Path

import pytest

import lakebed
from lakebed.formats.hudi.archive.state_files import active_from
from lakebed.formats.hudi.layout import ACTIONS, parse_state_name
from lakebed.kernel.files import FileInfo, open_store
from lakebed.testing.faults import FaultyStore
from tests.tables.hudi.timelines import FREE, Lake


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("20260101000000000.commit", ("20260101000000000", "", "commit", "completed")),
        ("20260101000000000.inflight", ("20260101000000000", "", "commit", "inflight")),
        ("20260101000000000_20260101000030000.clean", ("20260101000000000", "20260101000030000", "clean", "completed")),
        ("20260101000000.compaction.requested", ("20260101000000", "", "compaction", "requested")),
        ("001.replacecommit.inflight", ("001", "", "replacecommit", "inflight")),
    ],
)
def test_a_state_file_is_known_by_its_name(name: str, meant: tuple[str, str, str, str]) -> None:
    assert parse_state_name(name) == (*meant, name)


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "20260101000000000",
        ".commit",
        "_1.commit",
        "1_.commit",
        "1__2.commit",
        "1_2_3.commit",
        "1.",
        "1.commit.",
        "1.commit.done",
        "1.commit.requested.crc",
        ".1.commit.crc",
        "1.requested",
        "1x.commit",
        "1.Commit",
        "1.inflight.requested",
        "1 .commit",
        "1.commit.inflight\n",
    ],
)
def test_other_names_are_no_state_files(name: str) -> None:
    assert parse_state_name(name) is None


def test_every_action_has_its_three_files() -> None:
    for action in ACTIONS:
        names = (f"7.{action}.requested", f"7.{action}.inflight", f"7_8.{action}")
        files = [parse_state_name(name) for name in names]
        assert [(file.action, file.state) for file in files if file] == [
            (action, "requested"),
            (action, "inflight"),
            (action, "completed"),
        ]


def test_instants_have_their_files_in_the_order_of_states() -> None:
    names = [
        "2.commit",
        "2.compaction.inflight",
        "2.compaction.requested",
        "1.inflight",
        "1.commit.requested",
        "1.clean",
        "hoodie.properties",
    ]
    instants = active_from(FileInfo(f".hoodie/{name}", len(name)) for name in names)
    assert [(i.time, i.action, [file.path.removeprefix(".hoodie/") for file in i.files]) for i in instants] == [
        ("1", "clean", ["1.clean"]),
        ("1", "commit", ["1.commit.requested", "1.inflight"]),
        ("2", "commit", ["2.compaction.requested", "2.compaction.inflight", "2.commit"]),
    ]
    assert [(i.kind, i.done, i.last.size) for i in instants] == [
        ("clean", True, 7),
        ("commit", False, 10),
        ("commit", True, 8),
    ]


@pytest.mark.parametrize("version", [6, 8])
def test_the_timeline_is_listed_when_it_is_asked_for_and_once_a_run(tmp_path: Path, version: int) -> None:
    lake = Lake(tmp_path, version)
    lake.commit(*range(1, 8))
    folder = lake.timeline.relative_to(tmp_path).as_posix()
    store = FaultyStore(open_store(tmp_path))
    table = lakebed.open(store)

    def listed() -> int:
        return sum(1 for call in store.calls if call.verb == "list" and call.path == folder)

    assert listed() == 0
    options = {**FREE, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    planned = table.archive(dry_run=True, options=options)
    assert listed() == 1
    assert table.archive(options=options).archived == planned.archived
    assert listed() == 2
