"""Options of Hudi's own writers: accepted without effect, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
import lakebed.kernel.options as kernel_options
from lakebed.errors import OptionError, UnsupportedError
from lakebed.formats.hudi.options import READ, SPARK
from lakebed.formats.hudi.spark import SOURCE
from lakebed.formats.hudi.table import HudiTable
from lakebed.formats.hudi.tuning import TUNING
from lakebed.formats.hudi.unserved import UNSERVED, UNSERVED_READS, refuse_unserved
from lakebed.formats.hudi.upkeep import OPEN, UPKEEP
from lakebed.formats.hudi.write.settings import LEFT_OUT, WRITE
from lakebed.verbs.native_source import SourceRequest
from tests.conformance.hudi_migration import PAGE, complaints
from tests.tables.hudi.option_keys import hudi_options

ROWS = pa.table({"id": ["k1"]})


LOG = "lakebed.options"
HARMFUL = "com.example.Other"
CHOICES = ("hoodie.write.lock.provider",)
"""Options whose default a write does not take: ZooKeeper is no lock of lakebed's."""


def test_no_option_is_both_accepted_without_effect_and_refused() -> None:
    assert not set(TUNING) & set(UNSERVED)
    assert len(set(TUNING)) == len(TUNING)


def test_a_write_takes_every_option_that_tunes_hudis_own_engine() -> None:
    taken = [key for key in TUNING if LEFT_OUT.knows(key)]
    assert len(taken) > 200
    refuse_unserved(WRITE.parse(dict.fromkeys(taken, "1")).raw, "t")


def test_no_option_is_both_served_and_refused() -> None:
    assert [key for key in UNSERVED if UPKEEP.knows(key)] == []


def test_no_option_without_effect_has_one_elsewhere() -> None:
    """A key that several sets declare is noted as one without effect only where all of them say so."""
    sets = (READ, WRITE, UPKEEP)
    for option in OPEN.options:
        if option.idle:
            others = [other for each in sets for other in each.options if other.key == option.key and not other.idle]
            assert not [other for other in others if not other.doc.startswith("Refused unless")], option.key


def test_an_option_without_effect_is_noted_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_options, "_noted", set())
    table = lakebed.create(tmp_path, "hudi", {"id": "string"}, "id")
    given = {"hoodie.metrics.on": "true", "hoodie.upsert.shuffle.parallelism": "4"}
    for _ in range(2):
        table.write(ROWS, mode="upsert", options={**given, "hoodie.datasource.write.operation": "upsert"})
    assert isinstance(table, HudiTable)
    SOURCE.plan(table, SourceRequest({"hoodie.file.index.enable": "true", "hoodie.metrics.on": "true"}))
    notes = [record.getMessage().partition("own engine: ")[2] for record in caplog.records if record.name == LOG]
    assert notes == [", ".join(given), "hoodie.file.index.enable"]


def test_an_option_that_is_not_served_is_refused_by_name_unless_it_asks_for_nothing(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path, "hudi", {"id": "string"}, "id")
    left = [key for key in UNSERVED if LEFT_OUT.knows(key)]
    assert len(left) > 40
    for key in left:
        for nothing in ("", *UNSERVED[key].harmless):
            refuse_unserved(WRITE.parse({key: nothing}).raw, "t")
        asked = "false" if "true" in UNSERVED[key].harmless else HARMFUL
        with pytest.raises(UnsupportedError, match=key):
            table.write(ROWS, mode="upsert", options={key.upper(): asked})
    assert table.history() == []
    assert isinstance(table, HudiTable)
    for key in UNSERVED_READS:
        with pytest.raises(UnsupportedError, match=key):
            SOURCE.plan(table, SourceRequest({key: HARMFUL}))


def test_every_option_of_the_newest_release_is_known_and_takes_the_default_of_hudi() -> None:
    written = WRITE + UPKEEP
    options = hudi_options()
    assert len(options) > 600
    for option in options:
        for name in (option.key, *option.older):
            assert written.knows(name) or SPARK.knows(name), f"{name} of {option.group} is unknown"
        if not option.default or option.key in CHOICES:
            continue
        if written.knows(option.key):
            given = written.parse({option.key: option.default})
            refuse_unserved({key: text for key, text in given.raw.items() if LEFT_OUT.knows(key)}, "t")
        else:
            refuse_unserved(SPARK.parse({option.key: option.default}).raw, "t", UNSERVED_READS)


def test_a_job_may_give_the_defaults_of_all_options(tmp_path: Path) -> None:
    """As a tool prints all of them. Those that name a table or ask for another writer are left out."""
    table = lakebed.create(tmp_path, "hudi", {"id": "string", "ts": "int64"}, "id")
    engines = (
        "HoodieLockConfig",
        "HoodieTableConfig",
        "KeyGeneratorOptions",
        "HoodieIndexConfig",
    )
    given = {
        option.key: option.default
        for option in hudi_options()
        if option.default.strip()
        and option.group not in engines
        and OPEN.knows(option.key)
        and not READ.knows(option.key)
    }
    for key in (
        "hoodie.datasource.write.operation",
        "hoodie.write.table.version",
        "hoodie.datasource.write.recordkey.field",
    ):
        given.pop(key, None)
    assert len(given) > 300
    table.write(pa.table({"id": ["k1"], "ts": [1]}), mode="upsert", options=given)
    assert table.read().read_all()["id"].to_pylist() == ["k1"]


def test_reads_take_the_options_of_writes_and_refuse_what_chooses_rows(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path, "hudi", {"id": "string"}, "id")
    table.write(ROWS)
    assert isinstance(table, HudiTable)
    shared = {"hoodie.datasource.write.operation": "upsert", "hoodie.datasource.view.type": "snapshot"}
    assert SOURCE.plan(table, SourceRequest(shared)).splits
    with pytest.raises(UnsupportedError, match=r"incr\.path\.glob"):
        SOURCE.plan(table, SourceRequest({**shared, "hoodie.datasource.read.incr.path.glob": "a/*"}))


@pytest.mark.parametrize(
    "key",
    [
        "hoodie.index.bloom.fpp",
        "hoodie.index.bloom.num_entries",
        "hoodie.record.size.estimation.threshold",
        "hoodie.client.heartbeat.interval_in_ms",
    ],
)
@pytest.mark.parametrize("text", ["nan", "0", "-1", "few", "9" * 400])
def test_a_number_out_of_bounds_is_refused_by_its_option(key: str, text: str) -> None:
    with pytest.raises(OptionError, match=key):
        WRITE.parse({key: text})


def test_a_refused_write_leaves_nothing_behind(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path, "hudi", {"id": "string"}, "id")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsupportedError, match="Hive metastore"):
        table.write(ROWS, mode="upsert", options={"hoodie.datasource.hive_sync.enable": "true"})
    with pytest.raises(OptionError, match=r"hoodie\.metrics\.on\b"):
        table.write(ROWS, mode="upsert", options={"hoodie.metrics.onn": "true"})
    assert sorted(tmp_path.rglob("*")) == before
    table.write(
        ROWS, mode="upsert", options={"hoodie.datasource.hive_sync.enable": "false", "hoodie.metrics.on": "true"}
    )
    assert table.read().read_all()["id"].to_pylist() == ["k1"]


def test_the_page_of_the_migration_claims_what_is_so() -> None:
    assert complaints(PAGE.read_text(encoding="utf-8")) == []
    assert complaints("") and complaints(PAGE.read_text(encoding="utf-8").replace("refused: ", ""))


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": (1 << 63) - 1},
        {"lakebed.expire.what": "partitions", "hoodie.partition.ttl.strategy.days.retain": (1 << 31) - 1},
    ],
)
def test_what_is_kept_longer_than_there_are_dates_is_kept(tmp_path: Path, options: dict[str, Any]) -> None:
    table = lakebed.create(tmp_path / "t", "hudi", {"id": "int64", "dt": "string"}, ["id"], ["dt"])
    for _ in range(2):
        table.write(pa.table({"id": [1], "dt": ["a"]}), mode="upsert")
    assert not table.expire(options=options).expired
