"""Tables whose newer rows let values of older ones show through: partial updates, defaults, values not available."""

import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from lakebed.errors import UnsupportedError
from lakebed.testing.hudi_log import avro_data_block
from tests.tables.hudi.writing import META, HudiFolder, Row, changed, rows, t

MODEL = "org.apache.hudi.common.model"
GAP = "__debezium_unavailable_value"
UNAVAILABLE = "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value"
MODES: dict[str, tuple[int, dict[str, str], bool, str | None]] = {
    # name: table version, properties, whether by event time, what a gap is
    "default by event time": (
        9,
        {"record__merge__mode": "EVENT_TIME_ORDERING", "table__partial__update__mode": "IGNORE_DEFAULTS"},
        True,
        None,
    ),
    "default by commit time": (
        9,
        {"record__merge__mode": "COMMIT_TIME_ORDERING", "table__partial__update__mode": "IGNORE_DEFAULTS"},
        False,
        None,
    ),
    "unavailable": (
        9,
        {
            "record__merge__mode": "EVENT_TIME_ORDERING",
            "table__partial__update__mode": "FILL_UNAVAILABLE",
            UNAVAILABLE.removeprefix("hoodie.").replace(".", "__"): GAP,
        },
        True,
        GAP,
    ),
    "PartialUpdateAvroPayload": (6, {"compaction__payload__class": f"{MODEL}.PartialUpdateAvroPayload"}, True, None),
    "OverwriteNonDefaultsWithLatestAvroPayload": (
        8,
        {
            "record__merge__mode": "CUSTOM",
            "compaction__payload__class": f"{MODEL}.OverwriteNonDefaultsWithLatestAvroPayload",
        },
        False,
        None,
    ),
}
BASE = [100, "base"]


def _table(folder: Path, mode: str, versions: list[tuple[int, Any]], base: Row | None) -> HudiFolder:
    """One key, `k`: the base row, then a log of one block a version; None for `x` stands for a delete."""
    version, properties, _, _ = MODES[mode]
    table = HudiFolder(folder, version, **properties)
    paths = [table.base("a", 1, [base] if base else [{"id": "other", "ts": 1, "x": "o"}])]
    table.done(1, paths)
    for number, (ts, x) in enumerate(versions, 2):
        block = (
            table.data(number, [{"id": "k", "ts": ts, "x": x}]) if x != "delete" else table.deletes(number, {"k": ts})
        )
        table.done(number, [table.log("a", number if version >= 8 else 1, block, number)])
    return table


def _expected(versions: list[tuple[int, Any]], by_event_time: bool, gap: str | None) -> Any:
    """The value of `x`: all versions in their order, each gap filled by the last value before it that is none."""
    order = sorted(versions, key=lambda version: version[0]) if by_event_time else versions
    actual: Any = "delete"
    for _, x in order:
        actual = actual if x == gap and actual != "delete" else x
    return None if actual == "delete" else (actual,)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_order_of_three_versions_is_that_of_one_row_after_another(mode: str, tmp_path: Path) -> None:
    """Base row, two versions in logs: each late or not, a gap or not, a delete or not."""
    _, _, by_event_time, gap = MODES[mode]
    folders = itertools.count()
    for base_x, first, second in itertools.product(
        ("base", gap),
        [(ts, x) for ts in (50, 200) for x in ("one", gap, "delete")],
        [(ts, x) for ts in (60, 100, 300) for x in ("two", gap, "delete")],
    ):
        versions = [(100, base_x), first, second]
        base = {"id": "k", "ts": 100, "x": base_x}
        table = _table(tmp_path / str(next(folders)), mode, [first, second], base).open()
        wanted = _expected(versions, by_event_time, gap)
        assert rows(table, "x").get("k", "none") == (wanted[0] if wanted else "none"), versions


@pytest.mark.parametrize("mode", MODES)
def test_versions_in_the_log_alone(mode: str, tmp_path: Path) -> None:
    _, _, by_event_time, gap = MODES[mode]
    for number, versions in enumerate(itertools.permutations([(50, "late"), (100, gap), (300, gap)])):
        table = _table(tmp_path / str(number), mode, list(versions), None).open()
        assert rows(table, "x")["k"] == _expected(list(versions), by_event_time, gap)[0], versions


def test_defaults_of_the_schema_are_gaps_too(tmp_path: Path) -> None:
    """0 and "none" are the columns' defaults: such values keep the older ones, and null is a value."""
    fields = [
        *({"name": name, "type": ["null", "string"], "default": None} for name in META),
        {"name": "id", "type": "string"},
        {"name": "ts", "type": "long"},
        {"name": "x", "type": ["string", "null"], "default": "none"},
        {"name": "n", "type": ["int", "null"], "default": 0},
    ]
    schema = json.dumps({"type": "record", "name": "row", "fields": fields})
    table = HudiFolder(tmp_path, 9, table__partial__update__mode="IGNORE_DEFAULTS")
    user = json.dumps({"type": "record", "name": "row", "fields": fields[len(META) :]})
    table.schema = lambda *_, **__: user  # type: ignore[method-assign]
    base = table.base("a", 1, [{"id": key, "ts": 100, "x": "old", "n": 7} for key in "abc"])
    table.done(1, [base])

    def row(key: str, x: str | None, n: int | None) -> Row:
        return table._with_meta({"id": key, "ts": 200, "x": x, "n": n}, t(2), "", "log")

    block = avro_data_block(schema, [row("a", "none", 0), row("b", None, 5), row("c", "new", None)], t(2))
    table.done(2, [table.log("a", 2, block)])
    assert rows(table.open(), "x", "n") == {"a": ("old", 7), "b": (None, 5), "c": ("new", None)}


def test_gaps_hold_without_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    table = _table(tmp_path, "unavailable", [(200, GAP)], {"id": "k", "ts": 100, "x": "base"}).open()
    assert table.read(["x"], where="x = 'base'").read_all().to_pylist() == [{"x": "base"}]
    assert table.read(["n"], where="x = 'base'").read_all().to_pylist() == [{"n": None}]
    assert changed(table, "x", after=t(1)) == {"k": "base"}


DEBEZIUM = {"_change_operation_type": "string", "_event_lsn": "long", "_event_seq": "string"}


@pytest.mark.parametrize("payload", ["PostgresDebeziumAvroPayload", "MySqlDebeziumAvroPayload"])
def test_debezium_orders_by_its_own_columns(payload: str, tmp_path: Path) -> None:
    """Versions 2.9 and 2.10 of MySQL's sequences: the numbers count, not the texts."""
    columns = {"id": "string", "ts": "long", "x": "string", **DEBEZIUM}
    table = HudiFolder(
        tmp_path,
        6,
        columns,
        compaction__payload__class=f"{MODEL}.debezium.{payload}",
        table__precombine__field="_event_seq",
    )

    def row(key: str, lsn: int, x: str, operation: str = "u") -> Row:
        return {"id": key, "x": x, "_change_operation_type": operation, "_event_lsn": lsn, "_event_seq": f"2.{lsn}"}

    table.done(1, [table.base("a", 1, [row(key, 10, "base") for key in "abcd"])])
    block = table.data(
        2, [row("a", 9, "late"), row("b", 11, "new"), row("c", 11, "gone", "d"), row("d", 9, "late", "d")]
    )
    table.done(2, [table.log("a", 1, block)])
    assert rows(table.open(), "x") == {"a": "base", "b": "new", "d": "base"}


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"compaction__payload__class": "com.example.Own"}, "com.example.Own"),
        ({"record__merge__mode": "CUSTOM", "record__merge__strategy__id": "abc-def"}, "abc-def"),
        ({"table__partial__update__mode": "FILL_DEFAULTS"}, "FILL_DEFAULTS"),
    ],
)
def test_what_is_not_known_is_refused_by_name(properties: dict[str, str], named: str, tmp_path: Path) -> None:
    mode = (
        properties if "table__partial__update__mode" in properties else {"record__merge__mode": "CUSTOM", **properties}
    )
    table = HudiFolder(tmp_path, 9, **mode)
    table.done(1, [table.base("a", 1, [{"id": "k", "ts": 1, "x": "old"}])])
    table.done(2, [table.log("a", 2, table.data(2, [{"id": "k", "ts": 2, "x": "new"}]))])
    with pytest.raises(UnsupportedError, match=named) as refused:
        rows(table.open(), "x")
    assert "skip_combine" in str(refused.value)
    unmerged = table.open(hoodie__datasource__merge__type="skip_combine").read(["x"]).read_all()
    assert sorted(unmerged["x"].to_pylist()) == ["new", "old"]


@pytest.mark.parametrize("mode", MODES)
def test_tasks_travel_with_their_rules(mode: str, tmp_path: Path) -> None:
    plan = _table(tmp_path, mode, [(200, "one")], {"id": "k", "ts": 100, "x": "base"}).open().plan_read(["x"])
    read = pickle.loads(pickle.dumps(plan.read))
    assert [row for split in plan.splits for batch in read(split) for row in batch.to_pylist()] == [{"x": "one"}]
