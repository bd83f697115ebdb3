"""Every option and table property of Iceberg, one per line in iceberg_options.txt: it is served, or only tunes (no row
depends on it), or is refused by name before a row is read or written."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
import lakebed.formats.iceberg
import lakebed.kernel.options as kernel_options
from lakebed.errors import LakebedError, NotInHistoryError, OptionError, UnsupportedError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.formats.iceberg.unserved import REFUSED, TUNING
from lakebed.formats.iceberg.write.options import OPTIONS as WRITE_OPTIONS
from tests.conformance.iceberg_migration import PAGE, rendered

LINES = (Path(__file__).parent / "iceberg_options.txt").read_text("utf-8").splitlines()
ALL = [line.split() for line in LINES if not line.startswith("#")]
ROWS = pa.table({"k": pa.array([1], pa.int64()), "v": ["a"]})
FAMILY = {"snapshot-property": "snapshot-property.x"}


def keys(kind: str, group: str) -> list[str]:
    return [key for one, key, found in ALL if (one, found) == (kind, group)]


def table_of(folder: Path, **properties: str) -> IcebergTable:
    table = lakebed.create(folder, "iceberg", ROWS.schema, options=properties)
    assert isinstance(table, IcebergTable)
    return table


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("options") / "t"
    table_of(folder).write(ROWS)
    yield folder
    assert len(lakebed.open(folder).history()) == 1  # nothing that was refused left a snapshot


def test_every_option_has_its_group() -> None:
    known = opt.OPTIONS + WRITE_OPTIONS
    groups = {
        group: {name.lower() for option in options for name in (option.key, *option.aliases)}
        for group, options in (("tuning", TUNING), ("refused", REFUSED))
    }
    source = "".join(path.read_text("utf-8") for path in Path(lakebed.formats.iceberg.__path__[0]).rglob("*.py"))
    for kind, key, group in ALL:
        if kind == "property":
            ending = key.partition("compression-")[2]
            assert group != "served" or key in source or f"compression-{ending}" in source, key
        elif group != "path":
            assert known.knows(FAMILY.get(key, key)), key
            found = [name for name, names in groups.items() if key.lower() in names]
            assert found == ([] if group == "served" else [group]), key


@pytest.mark.parametrize("key", keys("read", "refused") + keys("write", "refused"))
def test_options_refused_by_name(location: Path, key: str) -> None:
    with pytest.raises(OptionError, match=rf"option '{key}' is 'x': expected"):
        lakebed.open(location, options={key: "x"})
    with pytest.raises(OptionError):
        lakebed.open(location).write(ROWS, options={key.lower(): "x"})


def test_tuning_changes_nothing_and_is_noted_once(
    location: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_options, "_noted", set())
    tuning = dict.fromkeys(keys("read", "tuning") + keys("write", "tuning"), "x")
    for _ in range(2):
        assert lakebed.open(location, options=tuning).read().read_all() == ROWS
    (note,) = [record.getMessage() for record in caplog.records if record.name == "lakebed.options"]
    assert "tune Iceberg's own engine" in note and sorted(note.partition("engine: ")[2].split(", ")) == sorted(tuning)
    harmless = {"check-nullability": "true"}
    assert lakebed.open(location, options=harmless).read().read_all() == ROWS


def test_properties_that_tune_and_those_that_are_served(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", **dict.fromkeys(keys("property", "tuning"), "1"))
    table.write(ROWS)
    assert table.read().read_all() == ROWS


@pytest.mark.parametrize("key", keys("property", "refused"))
def test_properties_that_metadata_says_itself(tmp_path: Path, key: str) -> None:
    with pytest.raises(OptionError, match=f"option '{key}' is given"):
        table_of(tmp_path / "t", **{key: "1"})


def test_a_write_without_an_id_to_audit_by_is_published(tmp_path: Path) -> None:
    """As the reference engine does: it stages a snapshot only where the session names a `wap.id`."""
    table = table_of(tmp_path / "t", **{"write.wap.enabled": "true"})
    table.write(ROWS)
    assert table.read().read_all() == ROWS
    table.write(ROWS, options={"wap.id": "x"})
    assert table.read().read_all() == ROWS


@pytest.mark.parametrize("key", ["parquet.crypto.factory.class", "orc.encrypt", "parquet.encryption.footer.key"])
def test_files_that_their_format_should_encrypt(tmp_path: Path, key: str) -> None:
    table = table_of(tmp_path / "t", **{key: "x"})
    with pytest.raises(UnsupportedError, match=f"'{key}' asks for encrypted files"):
        table.write(ROWS)
    assert table.history() == []


@pytest.mark.parametrize(
    "options",
    [
        {"snapshot-id": 1, "tag": "x"},
        {"as-of-timestamp": 1, "snapshot-id": 1},
        {"as-of-timestamp": 1, "tag": "x"},
        {"versionAsOf": "x", "tag": "x"},
    ],
    ids=str,
)
def test_one_option_names_the_snapshot(location: Path, options: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="are given"):
        lakebed.open(location, options={key: str(value) for key, value in options.items()}).read()


POSITIONS = [
    "snapshot-id",
    "as-of-timestamp",
    "tag",
    "versionAsOf",
    "timestampAsOf",
    "start-snapshot-id",
    "end-snapshot-id",
]


@pytest.mark.parametrize("key", POSITIONS)
def test_positions_of_a_batch_are_none_of_a_stream_or_of_changes(location: Path, key: str) -> None:
    table = lakebed.open(location, options={key: "2026-01-01T00:00:00Z" if key == "timestampAsOf" else "1"})
    assert isinstance(table, IcebergTable)
    for act in (table.stream, table.changes):
        with pytest.raises(LakebedError, match=f"option '{key}' cannot be used with"):
            act()


def test_the_page_says_what_becomes_of_each() -> None:
    assert PAGE.read_text("utf-8") == rendered(), "run ./run docs"


def test_spark_s_own_names_of_a_version_and_a_time(tmp_path: Path) -> None:
    """As the reference engine's SparkCatalog: a number is a snapshot id, a name that of a branch or tag."""
    table = table_of(tmp_path / "t")
    first = table.write(ROWS).instant
    table.tag("audit")
    table.branch("dev")
    time = lakebed.open(tmp_path / "t").history()[0].completed
    dev = lakebed.open(tmp_path / "t", {"branch": "dev"})
    dev.write(pa.table({"k": pa.array([2], pa.int64()), "v": ["b"]}))
    table.write(pa.table({"k": pa.array([3], pa.int64()), "v": ["c"]}))

    def keys_as_of(**options: str) -> list[int]:
        return sorted(lakebed.open(tmp_path / "t", options).read(columns=["k"]).read_all()["k"].to_pylist())

    assert keys_as_of() == [1, 3]
    assert (
        keys_as_of(versionAsOf=str(first)) == keys_as_of(versionasof="audit") == keys_as_of(timestampAsOf=time) == [1]
    )
    assert keys_as_of(versionAsOf="dev") == [1, 2]
    with pytest.raises(NotInHistoryError, match=r"no branch or tag 'dve'.*audit, dev, main"):
        keys_as_of(versionAsOf="dve")
    for without_offset in ("2026-11-30 10:00:00", "2026-11-30", "1700000000000"):
        with pytest.raises(OptionError, match="a time with its offset"):
            keys_as_of(timestampAsOf=without_offset)
