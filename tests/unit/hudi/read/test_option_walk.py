"""Every key of a read: it gives the same rows, other rows, or it is refused by name. None is taken and ignored.

A walk over the declared options: a new key has to say here what it does to each kind of read.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from lakebed.errors import LakebedError, OptionError, UnsupportedError
from lakebed.formats.hudi.options import READ, SPARK
from lakebed.formats.hudi.read.spark_options import plan_spark_read, spark_stream
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel.files import open_store
from lakebed.verbs.read import run
from lakebed.verbs.stream import StreamReader, drain
from tests.tables.hudi.writing import HudiFolder, t

Outcome = Literal["same", "other", "refused"]
S: Outcome = "same"
X: Outcome = "other"
R: Outcome = "refused"
Walked = dict[str, tuple[object, Outcome, Outcome, Outcome]]

TABLE: Walked = {  # a value, then what it does to read, changes and stream
    "hoodie.datasource.merge.type": ("skip_merge", X, R, R),
    "hoodie.datasource.query.type": ("read_optimized", X, R, R),
    "as.of.instant": (t(1), X, R, R),
    "read.tasks": (2, S, S, S),
    "read.streaming.enabled": (True, S, S, S),
    "read.streaming.check-interval": (1, S, S, S),
    "read.start-commit": (t(2), X, X, X),
    "read.end-commit": (t(1), X, X, X),
    "read.commits.limit": (1, S, S, S),
    "read.splits.limit": (1, S, S, S),
    "read.bytes.limit": ("1 kb", S, S, S),
    "read.streaming.skip_compaction": (False, S, S, S),
    "read.streaming.skip_clustering": (False, S, S, S),
    "read.streaming.skip_insertoverwrite": (True, S, X, X),
    "read.streaming.fallback": ("full-scan", S, S, S),
    "lakebed.stream.rolled-back": ("warn", S, S, S),
    "changelog.enabled": (True, X, X, S),
    "cdc.enabled": (True, S, X, X),
    "read.cdc.from.changelog": (True, S, S, S),
    "lakebed.scratch.dir": ("SCRATCH", S, S, S),
}
NATIVE: Walked = {  # a value, then what it does to a snapshot, an incremental read and a stream
    "hoodie.datasource.merge.type": ("REALTIME_SKIP_COMBINE", X, R, R),
    "hoodie.datasource.query.type": ("read_optimized", X, R, R),
    "as.of.instant": (t(1), X, R, R),
    "read.tasks": (2, S, S, S),
    "hoodie.datasource.read.begin.instanttime": (t(2), R, X, R),
    "hoodie.datasource.read.end.instanttime": (t(2), R, X, R),
    "hoodie.datasource.query.incremental.format": ("cdc", R, X, X),
    "hoodie.datasource.streaming.startoffset": ("latest", R, R, X),
    "hoodie.datasource.read.incr.fallback.fulltablescan.enable": (True, S, S, S),
    "hoodie.datasource.read.extract.partition.values.from.path": (True, R, R, R),
    "hoodie.datasource.read.schema.use.end.instanttime": (True, R, R, R),
    "hoodie.datasource.read.table.path": ("/another/place", R, R, R),
    "lakebed.stream.rolled-back": ("warn", S, S, S),
    "lakebed.scratch.dir": ("SCRATCH", S, S, S),
}
INCREMENTAL = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": "000"}


@pytest.fixture(scope="module", params=[6, 8])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two file groups: an update and a delete in the log of one, the other overwritten by the newest commit."""
    folder = tmp_path_factory.mktemp("walk")
    writer = HudiFolder(folder, request.param)
    half = 0 if request.param < 8 else 1
    writer.done(1, [writer.base("g", 1, [{"id": k, "ts": 1, "x": k} for k in "abd"])], completed=1, inserts=2)
    log = writer.data(2, [{"id": "a", "ts": 2, "x": "a2"}]) + writer.deletes(2, {"b": None})
    writer.done(2, [writer.log("g", 2 if half else 1, log)], completed=2, deletes=1)
    writer.done(3, [writer.base("h", 3, [{"id": "c", "ts": 3, "x": "c3"}])], completed=3, inserts=1)
    overwritten = writer.base("i", 4, [{"id": "c", "ts": 4, "x": "c4"}])
    writer.done(4, [overwritten], "replacecommit", 4, "INSERT_OVERWRITE", {"": ["h"]}, inserts=1)
    return folder


def _outcome(rows: Callable[[dict[str, object]], list[Any]], base: dict[str, object], key: str, value: object) -> str:
    try:
        actual = rows({**base, key: value})
    except (OptionError, UnsupportedError) as error:
        assert key in str(error), "a refusal names the key"
        return R
    return S if actual == rows(base) else X


def _rows(table: pa.Table) -> list[Any]:
    """The rows in any order; JSON texts and kinds count too."""
    return sorted(table.to_pylist(), key=str)


def _drained(stream: StreamReader) -> list[Any]:
    return sorted((row for _, plan in drain(stream) for row in run(plan, 1).read_all().to_pylist()), key=str)


def _valued(value: object, folder: Path) -> object:
    return str(folder) if value == "SCRATCH" else value


@pytest.mark.slow
@pytest.mark.parametrize("key", [option.key for option in READ.options])
def test_keys_of_a_table(place: Path, tmp_path: Path, key: str) -> None:
    value, *wanted = TABLE[key]

    def opened(options: dict[str, object]) -> HudiTable:
        return HudiTable(open_store(place), {k: str(v).lower() for k, v in options.items()})

    value = _valued(value, tmp_path)
    after = None if key == "read.start-commit" else t(0.5)  # the whole history but not "the table as it stands"
    actual = [
        _outcome(lambda options: _rows(opened(options).read().read_all()), {}, key, value),
        _outcome(lambda options: _rows(opened(options).changes(after=after).read_all()), {}, key, value),
        _outcome(lambda options: _drained(opened(options).stream()), {}, key, value),
    ]
    assert actual == wanted


@pytest.mark.slow
@pytest.mark.parametrize("key", [option.key for option in SPARK.options])
def test_keys_of_hudis_own_source(place: Path, tmp_path: Path, key: str) -> None:
    option = next(option for option in SPARK.options if option.key == key)
    refused = option.doc.startswith("Refused unless it asks for nothing")
    value, *wanted = NATIVE.get(key, ("x", R, R, R) if refused else ("x", S, S, S))
    assert key in NATIVE or refused or option.doc.startswith("Accepted without effect: it changes no rows")
    value = _valued(value, tmp_path)
    table = HudiTable(open_store(place), {})

    def batch(options: dict[str, object]) -> list[Any]:
        return _rows(run(plan_spark_read(table.state(), options), 1).read_all())

    def stream(options: dict[str, object]) -> list[Any]:
        return _drained(spark_stream(table.state, options))

    bases = ({}, dict(INCREMENTAL), {})
    kinds = (batch, batch, stream)
    assert [_outcome(rows, base, key, value) for rows, base in zip(kinds, bases, strict=True)] == wanted


RANGES: list[tuple[dict[str, object], dict[str, str]]] = [
    ({"read.start-commit": "earliest"}, {"a": "a2", "c": "c4", "d": "d"}),
    ({"read.start-commit": "earliest", "read.end-commit": t(3)}, {"a": "a2", "c": "c3", "d": "d"}),
    ({"read.start-commit": t(2)}, {"a": "a2", "c": "c4"}),
    ({"read.start-commit": t(2), "read.end-commit": t(2)}, {"a": "a2"}),
    ({"read.start-commit": "2026-01-01T00:00:03", "read.end-commit": "2026-01-01T00:00:03"}, {"c": "c3"}),
    ({"read.end-commit": t(3)}, {"c": "c3"}),
    ({"read.end-commit": t(1)}, {"a": "a", "b": "b", "d": "d"}),
    ({"read.end-commit": t(0.5)}, {}),
    ({"read.start-commit": t(9)}, {}),
    ({"hoodie.datasource.query.type": "incremental"}, {"c": "c4"}),
    ({"hoodie.datasource.query.type": "incremental", "read.streaming.skip_insertoverwrite": "true"}, {"c": "c3"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("options", "wanted"), RANGES)
def test_a_batch_with_start_or_end_is_a_range(place: Path, options: dict[str, object], wanted: dict[str, str]) -> None:
    table = HudiTable(open_store(place), {key: str(value) for key, value in options.items()})
    if "read.streaming.skip_insertoverwrite" in options:
        # The overwrite took the file group away all the same: the state at the range's end has no row of commit 3.
        wanted = {}
    actual = table.read(["id", "x"]).read_all()
    assert actual.column_names == ["id", "x"]
    assert {row["id"]: row["x"] for row in actual.to_pylist()} == wanted
    as_of = {key: value for key, value in wanted.items() if value in ("a", "b", "d", "a2")}
    early = {row["id"]: row["x"] for row in table.read(["id", "x"], as_of=t(2)).read_all().to_pylist()}
    if "read.start-commit" in options:
        assert early == as_of, "a range that is read as of a moment ends there"


def test_full_changes_of_a_range_have_their_kinds(place: Path) -> None:
    options = {"read.start-commit": t(2), "read.end-commit": t(2), "cdc.enabled": "true"}
    actual = HudiTable(open_store(place), options).read(["id", "x"]).read_all().to_pylist()
    kinds = [(row["_row_kind"], row["id"], row["x"]) for row in actual]
    assert sorted(kinds) == [("+U", "a", "a2"), ("-D", "b", "b"), ("-U", "a", "a")]


def test_changes_take_the_ends_that_they_are_not_given(place: Path) -> None:
    table = HudiTable(open_store(place), {"read.start-commit": t(2), "read.end-commit": t(2)})

    def keys(**ends: str) -> list[str]:
        return sorted(table.changes(["id"], **ends).read_all()["id"].to_pylist())

    assert keys() == ["a", "b"]
    assert keys(until=t(3)) == ["a", "b", "c"]
    assert keys(after=t(0)) == ["a", "b", "d"]


@pytest.mark.parametrize("text", ["nonsense", "latest", "7", "12345678901", "20261301000000", "2026-02-30", "-1"])
@pytest.mark.parametrize("key", ["read.start-commit", "read.end-commit"])
def test_nonsense_is_an_error_that_names_the_key(place: Path, key: str, text: str) -> None:
    table = HudiTable(open_store(place), {key: text})
    for read in (table.read, table.changes, lambda: table.stream().initial() and list(drain(table.stream()))):
        with pytest.raises(OptionError, match=key):
            read()  # type: ignore[operator]  # a read, changes or a drained stream


def test_ends_the_wrong_way_round_are_an_error(place: Path) -> None:
    table = HudiTable(open_store(place), {"read.start-commit": t(3), "read.end-commit": t(2)})
    for read in (table.read, table.changes, lambda: table.stream().initial()):
        with pytest.raises(OptionError, match=r"after 'read\.end-commit'"):
            read()  # type: ignore[operator]


@pytest.mark.parametrize("text", ["0", "000", "00000000000001", "99999999999999"])
def test_ends_beyond_all_instants_are_none(place: Path, text: str) -> None:
    table = HudiTable(open_store(place), {})
    after = {} if text[0] == "9" else {"after": text}
    assert table.changes(["id"], until=None if after else text, **after).read_all().num_rows == 4
    with pytest.raises(LakebedError):
        table.read(as_of=text)


def test_the_place_may_be_named_again(place: Path) -> None:
    table = HudiTable(open_store(place), {})
    for text in (str(place), f"{place}/", f"file://{place}"):
        options = {"hoodie.base.path": text, "hoodie.datasource.read.extract.partition.values.from.path": "false"}
        assert run(plan_spark_read(table.state(), options), 1).read_all().num_rows == 3
