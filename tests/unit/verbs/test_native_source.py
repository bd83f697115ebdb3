"""What each format says of its own Spark source: which keys open the table, and what it reads as of an instant."""

from __future__ import annotations

import pytest

import lakebed
from lakebed.errors import OptionError
from lakebed.formats import native_source
from lakebed.formats.opening import FORMATS
from lakebed.verbs.native_source import SourceRequest
from lakebed.verbs.read import ReadPlan, run
from tests.golden import unpack

TABLES = {"hudi": "mor_v8", "paimon": "append_unaware", "iceberg": "pos_deletes"}


def ids(plan: ReadPlan) -> list[str]:
    return sorted(map(str, run(plan, 1).read_all().column("id").to_pylist()))


@pytest.mark.parametrize("name", FORMATS)
def test_a_batch_of_a_pin_is_read_as_of_it(name: str) -> None:
    table = lakebed.open(unpack(name, TABLES[name]))
    pin = [instant for instant in table.history() if instant.state == "completed"][-2]
    plan = native_source(name).plan(table, SourceRequest({}, ["id"], None, pin))
    assert ids(plan) == ids(table.plan_read(["id"], as_of=pin))


def test_only_storage_keys_open_a_hudi_table() -> None:
    opens = [
        key
        for key in ("lakebed.storage.places", "hoodie.datasource.query.type")
        if native_source("hudi").opens_table(key)
    ]
    assert opens == ["lakebed.storage.places"]
    assert native_source("paimon").opens_table("scan.mode") and native_source("iceberg").opens_table("snapshot-id")


def test_a_batch_of_hudis_source_ignores_the_bounds_of_a_stream() -> None:
    table = lakebed.open(unpack("hudi", "mor_v8"))
    source = native_source("hudi")
    assert ids(source.plan(table, SourceRequest({"read.commits.limit": "1"}, ["id"]))) == ids(table.plan_read(["id"]))
    with pytest.raises(OptionError, match="unknown option"):
        source.plan(table, SourceRequest({"read.start-commit": "earliest"}))


def test_there_is_no_newest_where_options_name_the_snapshot() -> None:
    for name, key in (("hudi", "as.of.instant"), ("iceberg", "snapshot-id")):
        folder = unpack(name, TABLES[name])
        newest = lakebed.open(folder).newest()
        assert newest is not None and lakebed.open(folder, {key: newest.time}).newest() is None
