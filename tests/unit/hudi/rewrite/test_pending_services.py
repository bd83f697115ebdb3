"""Which file groups the plans of pending services take."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.errors import CorruptError
from lakebed.formats.hudi.config import load_config
from lakebed.formats.hudi.timeline.active import timeline_from
from lakebed.formats.hudi.timeline.pending_services import PendingServices, pending_services
from lakebed.kernel.files import open_store
from tests.golden import unpack


def pending(table: Path) -> PendingServices:
    store = open_store(str(table))
    config = load_config(store)
    return pending_services(store, timeline_from(store.list(config.timeline_folder), config))


@pytest.mark.parametrize(
    ("table", "instant"),
    [("mor_v6", "20261127204525986"), ("mor_h015", "20261127213939493"), ("mor_v9", "20261127213940568")],
)
def test_a_pending_compaction_takes_its_file_groups(table: str, instant: str) -> None:
    services = pending(unpack("hudi", table))
    assert list(services.compactions) == [instant]
    assert set(services.compacting.values()) == {instant}
    assert len(services.compacting) == 3
    assert not services.clustering
    group = next(iter(services.compacting))
    assert services.taken(group) == instant
    assert not services.taken(("elsewhere", group[1]))


def test_a_pending_clustering_takes_its_file_groups(tmp_path: Path) -> None:
    table = unpack("hudi", "cow_v9", into=tmp_path)
    timeline = table / ".hoodie" / "timeline"
    (timeline / "20261127214045293_20261127214046678.replacecommit").unlink()
    services = pending(table)
    assert set(services.clustering.values()) == {"20261127214045293"}
    assert len(services.clustering) == 6


def test_a_pending_insert_overwrite_is_no_service(tmp_path: Path) -> None:
    table = unpack("hudi", "cow_v9", into=tmp_path)
    (table / ".hoodie" / "timeline" / "20261127214046949_20261127214047752.replacecommit").unlink()
    assert not pending(table).clusterings


def test_a_damaged_plan_is_named(tmp_path: Path) -> None:
    table = unpack("hudi", "mor_v6", into=tmp_path)
    file = table / ".hoodie" / "20261127204525986.compaction.requested"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(CorruptError, match=r"20261127204525986\.compaction\.requested"):
        pending(table)
