"""Tables with each payload class that Hudi ships, written and read by Hudi 1.1.1: lakebed reads the same rows.

Where the two part, the merge of Hudi's reader depends on which file a version lies in: it merges the log's versions
among themselves before it meets the base row, so a delete in between is forgotten, and a late row's value hides a newer
one of the base file. Those keys are told apart below.
"""

from typing import Any

import pytest

import lakebed
from tests.interop.hudi_ask import told

pytestmark = pytest.mark.timeout(900)  # a JVM writes dozens of commits

PLAIN = ("id string", "ts long", "part string", "x string", "n int")
DMS = (*PLAIN, "Op string")
DEBEZIUM = (
    *PLAIN,
    "_change_operation_type string",
    "_event_lsn long",
    "_event_bin_file string",
    "_event_pos long",
    "_event_seq string",
)
UNAVAILABLE = "__debezium_unavailable_value"
POSTGRES, MYSQL = "debezium.PostgresDebeziumAvroPayload", "debezium.MySqlDebeziumAvroPayload"
PARTIAL, NO_DEFAULTS = "PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload"
Row = tuple[Any, ...]
CASES: dict[tuple[str, int], tuple[tuple[str, ...], str, set[str]]] = {
    # (payload, table version): (columns, ordering column, keys that Hudi's reader merges by where they lie)
    (PARTIAL, 9): (PLAIN, "ts", {"k5"}),
    (PARTIAL, 8): (PLAIN, "ts", {"k5"}),
    (NO_DEFAULTS, 9): (PLAIN, "ts", {"k5"}),
    ("EventTimeAvroPayload", 9): (PLAIN, "ts", set()),
    ("AWSDmsAvroPayload", 9): (DMS, "ts", set()),
    ("AWSDmsAvroPayload", 6): (DMS, "ts", set()),
    (POSTGRES, 9): (DEBEZIUM, "_event_lsn", {"k2", "k3", "k5", "k7"}),
    (MYSQL, 9): (DEBEZIUM, "_event_bin_file,_event_pos", set()),
    (MYSQL, 6): (DEBEZIUM, "_event_seq", {"k7"}),
}


def _name(case: tuple[str, int]) -> str:
    return f"{case[0].rpartition('.')[2]}_v{case[1]}"


def _row(columns: tuple[str, ...], key: str, ts: int, x: str | None, n: int | None, operation: str = "u") -> Row:
    row: Row = (key, ts, "a", x, n)
    if columns == DMS:
        return (*row, operation.upper())
    if columns == DEBEZIUM:
        file, place = ts // 200 + 1, ts % 200
        return (*row, operation, ts, f"mysql-bin.{file:06d}", place, f"{file}.{place}")
    return row


def _steps(payload: str, columns: tuple[str, ...]) -> list[tuple[str, list[Row], dict[str, str]]]:
    """Values and gaps, in order, late and tied; deletes as rows, late ones too, and by operation, and what follows."""
    gap = UNAVAILABLE if payload == POSTGRES else None

    def rows(*given: tuple[str, int, str | None, int | None]) -> list[Row]:
        return [_row(columns, *one) for one in given]

    base = [(f"k{number}", 100, gap if number in (4, 8) else f"base-{number}", number) for number in range(9)]
    first = rows(
        ("k0", 200, gap, 10), ("k1", 200, "u1", None), ("k2", 50, "late", None), ("k4", 50, "filler", 99),
        ("k5", 200, gap, None), ("k6", 100, gap, 66),
    )  # fmt: skip
    second = rows(
        ("k1", 300, gap, 111), ("k0", 150, "mid", None), ("k4", 60, gap, 77), ("k9", 300, gap, None),
        ("k7", 300, gap, None),
    )  # fmt: skip
    gone = [_row(columns, "k3", 300, "gone", None, "d"), _row(columns, "k7", 250, "gone late", None, "d")]
    steps = [("bulk_insert", rows(*base)), ("upsert", first), ("upsert", second)]
    if columns != PLAIN:
        steps.append(("upsert", [*gone, *rows(("k2", 250, gap, 3))]))
    steps += [("delete", rows(("k5", 300, "x", 1))), ("upsert", rows(("k5", 400, gap, 5), ("k3", 400, gap, None)))]
    return [(operation, content, {}) for operation, content in steps]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Hudi says of each table."""
    stories = [
        {
            "name": _name(case),
            "schema": ", ".join(columns),
            "options": {
                "hoodie.datasource.write.table.type": "MERGE_ON_READ",
                "hoodie.write.table.version": str(case[1]),
                "hoodie.datasource.write.precombine.field": ordering,
                "hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{case[0]}",
            },
            "steps": _steps(case[0], columns),
        }
        for case, (columns, ordering, _) in CASES.items()
    ]
    return told("1.1.1", tmp_path_factory.mktemp("payloads"), stories)


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_each_payload_merges_as_hudi_merges_it(case: tuple[str, int], answers: dict[str, Any]) -> None:
    columns, _, by_place = CASES[case]
    answer = answers[_name(case)]
    # The payload itself stamps a row with the commit of a late row that fills its gaps; from version 9 on nothing does.
    first = 1 if case == (PARTIAL, 8) else 0
    names = ["_hoodie_commit_time", *(column.split()[0] for column in columns)][first:]
    found = {row["id"]: [row[name] for name in names] for row in _rows(answer["path"], names)}
    hudi = {row[1]: row[first:] for row in answer["snapshot"]}
    assert {key: row for key, row in found.items() if key not in by_place} == {
        key: row for key, row in hudi.items() if key not in by_place
    }
    assert by_place <= found.keys()


def _rows(path: str, names: list[str]) -> list[dict[str, Any]]:
    return lakebed.open(path).read(names).read_all().to_pylist()
