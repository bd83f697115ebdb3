"""Properties and summaries that are not what they should be: refused by name, or left out as by Iceberg itself."""

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, OptionError
from lakebed.formats.iceberg.commit.summary import with_totals
from tests.unit.iceberg.test_places import ROWS, create, edit, ids


@pytest.mark.parametrize(
    "key", ["write.metadata.previous-versions-max", "write.metadata.metrics.max-inferred-column-defaults"]
)
def test_a_number_that_is_none_is_refused_by_name(key: str, tmp_path: Path) -> None:
    create(tmp_path / "t", 1)
    edit(tmp_path / "t", lambda document: document["properties"].update({key: "../../x"}))
    table = lakebed.open(tmp_path / "t")
    with pytest.raises(OptionError, match=key):
        table.write(pa.table({"id": [1]}, ROWS))
    assert ids(table) == [0]


@pytest.mark.parametrize("text", ["../../x", "{}", '[{"names": 5}]', "[" * 5000])
def test_a_name_mapping_that_is_none_is_refused_by_name(text: str, tmp_path: Path) -> None:
    create(tmp_path / "t", 1)
    edit(tmp_path / "t", lambda document: document["properties"].update({"schema.name-mapping.default": text}))
    with pytest.raises(CorruptError, match=r"schema\.name-mapping\.default is not a name mapping"):
        lakebed.open(tmp_path / "t").read()


def test_a_total_after_no_number_is_left_out() -> None:
    """As SnapshotProducer.updateTotal does with what Long.parseLong does not take."""
    totals = with_totals({"added-records": "2"}, {"total-records": "../x", "total-data-files": "4"})
    assert totals == {"added-records": "2", "total-data-files": "4"}


def test_a_schema_without_fields_is_damage(tmp_path: Path) -> None:
    create(tmp_path / "t", 1)
    edit(tmp_path / "t", lambda document: [schema.pop("fields") for schema in document["schemas"]])
    with pytest.raises((CorruptError, lakebed.errors.UnsupportedError), match="fields"):
        lakebed.open(tmp_path / "t").read()
