"""Options of Hudi's own writers: accepted without effect, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import OptionError, UnsupportedError
from lakebed.formats.hudi.tuning import TUNING
from lakebed.formats.hudi.unserved import UNSERVED, refuse_unserved
from lakebed.formats.hudi.write.settings import WRITE

ROWS = pa.table({"id": ["k1"]})


def test_no_option_is_both_accepted_without_effect_and_refused_or_served() -> None:
    assert not set(TUNING) & set(UNSERVED)
    assert len(set(TUNING)) == len(TUNING)
    served = {option.key for option in WRITE.options if not option.doc.startswith("Accepted without effect")}
    assert not served & set(TUNING)


def test_a_write_takes_every_option_that_tunes_hudis_own_engine() -> None:
    assert all(WRITE.knows(key) for key in TUNING)
    WRITE.parse(dict.fromkeys(TUNING, "1"))


@pytest.mark.parametrize("key", UNSERVED)
def test_an_option_that_is_not_served_is_refused_by_name_unless_it_asks_for_nothing(key: str) -> None:
    for nothing in ("", "false", "False"):
        refuse_unserved(WRITE.parse({key: nothing}).raw, "t")
    with pytest.raises(UnsupportedError, match=key):
        refuse_unserved(WRITE.parse({key.upper(): "true"}).raw, "t")


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
