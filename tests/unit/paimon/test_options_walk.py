"""Every option of Paimon, one line each in paimon_options.txt: served, tuning (kept, and changes no row), or refused by
name before a row is read or written, whether the caller gives it or the table's schema holds it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakebed
import lakebed.kernel.options as kernel_options
from lakebed import Table
from lakebed.errors import LakebedError, OptionError, UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.tuning import TUNING
from lakebed.formats.paimon.unserved import OF_COLUMNS, UNSERVED, Unserved, Use
from tests.conformance.paimon_migration import PAGE, rendered
from tests.tables.paimon.small import SCHEMA, contents, rows

LINES = (Path(__file__).parent / "paimon_options.txt").read_text("utf-8").splitlines()
ALL = dict(line.split() for line in LINES if not line.startswith("#"))
REFUSED = {name: one for one in UNSERVED for name in (one.key, *one.aliases)}
VALUES = {"type": "format-table", "manifest.format": "orc", "write.sequence-number-init-mode": "snapshot"}
FAMILIES = ("fields.", "file-index.", "parquet.", "orc.", "avro.")


def wrong_value(one: Unserved) -> str:
    """A value that asks for what is not served."""
    return VALUES.get(one.key, "true" if "false" in one.harmless else "x")


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options") / "t"
    table = lakebed.create(folder, "paimon", SCHEMA, ["id"], options={"bucket": "1"})
    table.write(rows(("a", 1, "v", 1)))
    return folder


@pytest.fixture
def stored(location: Path) -> Iterator[object]:
    """Opens the table with options put into its newest schema."""
    path = location / "schema" / "schema-0"
    before = path.read_text()

    def opened(**options: str) -> Table:
        value = json.loads(before)
        value["options"].update(options)
        path.write_text(json.dumps(value))
        return lakebed.open(location)

    yield opened
    path.write_text(before)


def test_every_option_has_its_line() -> None:
    served = opt.SERVED
    groups = {
        "served": {name for option in served for name in (option.key, *option.aliases)},
        "refused": set(REFUSED),
        "tuning": set(TUNING),
    }
    for key, group in ALL.items():
        assert opt.OPTIONS.knows(key), key
        assert [name for name, keys in groups.items() if key in keys] == [group] or (
            group == "tuning" and key.startswith(FAMILIES)
        ), key


def test_the_page_says_what_becomes_of_each() -> None:
    assert PAGE.read_text("utf-8") == rendered(), "run ./run docs"


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key, group in ALL.items() if group == "refused"])
def test_refused_by_name(location: Path, stored, key: str) -> None:  # type: ignore[no-untyped-def]
    one = REFUSED[key]
    value = wrong_value(one)
    for table in (lakebed.open(location, options={key.upper(): value}), stored(**{key: value})):
        acts = (
            (Use.READ, table.read),
            (Use.READ, lambda table=table: table.changes(after=1)),
            (Use.READ, lambda table=table: table.stream().schema),
            (Use.WRITE, lambda table=table: table.write(rows(("a", 2, "v", 1)))),
            (Use.WRITE, table.rewrite),
            (Use.UPKEEP, lambda table=table: table.expire(dry_run=True)),
            (Use.UPKEEP, lambda table=table: table.expire(True, options={"lakebed.expire.what": "orphan-files"})),
            (Use.UPKEEP, lambda table=table: table.rollback(1, dry_run=True)),
        )
        for use, act in acts:
            if use in one.uses:
                with pytest.raises(UnsupportedError, match=f"'{one.key}' is '{value}'"):
                    act()
            elif use is Use.UPKEEP:
                act()
    for harmless in one.harmless:
        assert contents(stored(**{key: harmless})) == [("a", 1, "v", 1)]
    with pytest.raises(LakebedError, match=one.key):
        lakebed.create(location.parent / "new", "paimon", SCHEMA, options={key: value})
    assert len(lakebed.open(location).history()) == 1


def test_a_given_option_lies_over_a_stored_one_of_an_older_name(location: Path, stored) -> None:  # type: ignore[no-untyped-def]
    stored(**{"log.scan": "latest", "write.compaction-skip": "true"})
    table = lakebed.open(location, options={"scan.mode": "full", "WRITE-ONLY": "false"})
    assert contents(table) == [("a", 1, "v", 1)]


def test_tuning_changes_nothing_and_is_noted_once(
    location: Path,
    stored,  # type: ignore[no-untyped-def]
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_options, "_noted", set())
    tuning = {key: "x" for key, group in ALL.items() if group == "tuning"}
    assert contents(lakebed.open(location, options=tuning)) == [("a", 1, "v", 1)]
    assert contents(stored(**tuning)) == [("a", 1, "v", 1)]
    (note,) = [record.getMessage() for record in caplog.records if record.name == "lakebed.options"]
    noted = note.partition("own engine: ")[2].split(", ")
    assert {*tuning} - {*noted} == {key for key in tuning if key.startswith(FAMILIES)} and {*noted} <= {*tuning}


@pytest.mark.parametrize(("key", "value"), [("parquet.crypto.factory.class", "x"), ("orc.encrypt", "pii:v")])
def test_encryption_of_file_formats_is_refused(location: Path, stored, key: str, value: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnsupportedError, match="encrypted files"):
        stored(**{key: value}).write(rows(("a", 2, "v", 1)))
    with pytest.raises(UnsupportedError, match=key):
        lakebed.open(location, options={key: value}).read()


@pytest.mark.parametrize("ending", OF_COLUMNS)
def test_options_of_columns_that_change_rows_are_refused(location: Path, stored, ending: str) -> None:  # type: ignore[no-untyped-def]
    key = f"fields.v.{ending}"
    for act in (lambda: stored(**{key: "other"}).read(), lambda: stored(**{key: "other"}).write(rows())):
        with pytest.raises(UnsupportedError, match=f"'{key}' is 'other'"):
            act()
    for harmless in OF_COLUMNS[ending][1]:
        assert contents(stored(**{key: harmless})) == [("a", 1, "v", 1)]


@pytest.mark.parametrize("key", ["primary-key", "partition"])
def test_keys_are_arguments_of_create(tmp_path: Path, key: str) -> None:
    with pytest.raises(OptionError, match=f"option '{key}'"):
        lakebed.create(tmp_path / "t", "paimon", SCHEMA, options={key: "id"})
