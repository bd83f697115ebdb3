"""What the commands print, write and exit with, on real tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.cli import main
from tests.golden import unpack

Result = tuple[int, str, str]
Command = Callable[..., Result]


@pytest.fixture
def lake(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run one command: exit code, standard output, standard error."""

    def run(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


@pytest.fixture(scope="module")
def mor() -> str:
    return str(unpack("hudi", "mor_v8"))


@pytest.fixture(scope="module")
def archived() -> str:
    return str(unpack("hudi", "archived_v6"))


def one_line(err: str) -> str:
    """The single line on standard error, which every failure is."""
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    return lines[0]


def test_read_as_json_is_one_document_with_every_row(lake: Command, mor: str) -> None:
    code, out, err = lake("read", mor, "--json")
    document = json.loads(out)
    rows = lakebed.open(mor).read().read_all()
    assert (code, err) == (0, "")
    assert document["row_count"] == len(document["rows"]) == rows.num_rows == 59
    assert [field["name"] for field in document["schema"]] == rows.schema.names
    assert {row["_hoodie_record_key"] for row in document["rows"]} == set(rows["_hoodie_record_key"].to_pylist())


def test_read_on_a_terminal_shows_few_rows_and_says_so(lake: Command, mor: str) -> None:
    code, out, err = lake("read", mor, "--columns", "id,ts")
    assert code == 0
    assert out.splitlines()[0].split() == ["id", "ts"]
    assert len(out.splitlines()) == 21
    assert "first 20 rows" in err


def test_read_honours_where_columns_and_limit(lake: Command, mor: str) -> None:
    code, out, _ = lake("read", mor, "--where", "ts >= 700", "--columns", "id,ts", "--limit", "2", "--json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert len(rows) == 2
    assert all(list(row) == ["id", "ts"] and row["ts"] >= 700 for row in rows)


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_read_writes_the_whole_table_to_a_file(lake: Command, mor: str, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"rows.{ending}"
    code, out, err = lake("read", mor, "--output", str(target))
    assert (code, out) == (0, "")
    assert one_line(err) == f"59 rows -> {target}"
    if ending == "parquet":
        keys = pq.read_table(target)["id"].to_pylist()
    else:
        keys = [json.loads(line)["id"] for line in target.read_text().splitlines()]
    assert sorted(keys) == sorted(lakebed.open(mor).read(columns=["id"]).read_all()["id"].to_pylist())
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_read_writes_csv_of_flat_columns(lake: Command, mor: str, tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    assert lake("read", mor, "--columns", "id,ts,dec,tm", "--output", str(target))[0] == 0
    with target.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 59
    assert list(rows[0]) == ["id", "ts", "dec", "tm"]


def test_csv_refuses_nested_columns_and_leaves_no_file(lake: Command, mor: str, tmp_path: Path) -> None:
    code, _, err = lake("read", mor, "--output", str(tmp_path / "rows.csv"))
    assert code == 1
    assert "CSV cannot hold the columns" in one_line(err)
    assert list(tmp_path.iterdir()) == []


def test_csv_refuses_bytes_of_any_kind(lake: Command, tmp_path: Path) -> None:
    kinds = {"b": pa.binary(), "f": pa.binary(2), "u": pa.uuid()}
    schema = pa.schema([pa.field("id", pa.int64()), *(pa.field(name, kind) for name, kind in kinds.items())])
    table = lakebed.create(tmp_path / "t", "iceberg", schema)
    rows = {"id": [1], "b": [b"x"], "f": [b"\x00\xff"], "u": pa.array([b"u" * 16], pa.uuid())}
    table.write(pa.table(rows, schema=schema))
    code, out, err = lake("read", table.location, "--format", "csv", "--output", "-")
    assert (code, out) == (1, "") and "CSV cannot hold the columns b, f, u" in one_line(err)
    assert lake("read", table.location, "--format", "csv", "--output", "-", "--columns", "id")[1].split() == [
        '"id"',
        "1",
    ]


def test_read_changes_of_a_range_carries_the_row_kind(lake: Command, mor: str) -> None:
    history = [i for i in lakebed.open(mor).history() if i.action == "deltacommit" and i.state == "completed"]
    code, out, _ = lake("read", mor, "--after", history[-4].time, "--until", history[-1].time, "--json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert {row["_row_kind"] for row in rows} == {"+I", "-D"}
    assert {row["_hoodie_commit_time"] for row in rows if row["_row_kind"] == "+I"} <= {h.time for h in history[-3:]}


def test_history_lists_archived_instants_on_request(lake: Command, archived: str) -> None:
    active = json.loads(lake("history", archived, "--json")[1])["instants"]
    both = json.loads(lake("history", archived, "--archived", "--json")[1])["instants"]
    assert not any(instant["archived"] for instant in active)
    assert sum(instant["archived"] for instant in both) > 0
    assert [i["time"] for i in both] == sorted(i["time"] for i in both)
    code, out, err = lake("history", archived, "--archived")
    assert code == 0
    assert out.splitlines()[0].split() == ["time", "completed", "action", "state", "archived", "summary"]
    assert f"{len(both)} instants" in one_line(err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["read", "{tmp}/nothing"], 1, ["path does not exist", "nothing"]),
        (["read", "{tmp}"], 1, ["not a Hudi, Paimon or Iceberg table", "root folder"]),
        (["history", "{tmp}/file"], 1, ["this is a file"]),
        (["read", "hdfs://nn/x"], 1, ["HDFS", "Mount it"]),
        (["read", "{mor}", "--option", "read.start-comit=earliest"], 2, ["read.start-comit", "'read.start-commit'"]),
        (["read", "{mor}", "--option", "nonsense"], 2, ["KEY=VALUE"]),
        (["read", "{mor}", "--columns", "idd"], 1, ["unknown column 'idd'", "Columns:"]),
        (["read", "{mor}", "--columns", "id,,ts"], 2, ["empty name"]),
        (["read", "{mor}", "--where", "ts >"], 2, ["cannot parse"]),
        (["read", "{mor}", "--where", "tss > 1"], 2, ["unknown column 'tss'"]),
        (["read", "{mor}", "--as-of", "1", "--after", "2"], 2, ["one or the other"]),
        (["read", "{mor}", "--output", "{tmp}/rows.xls"], 2, [".parquet, .csv or .jsonl"]),
        (["read", "{mor}", "--output", "{tmp}/no/rows.csv"], 2, ["does not exist"]),
        (["read", "{mor}", "--limit", "-1"], 2, ["--limit"]),
        (["read"], 2, ["TABLE", "--help"]),
        (["raed", "{mor}"], 2, ["raed", "read"]),
        (["demo", "--output", "{full}"], 2, ["not an empty folder"]),
        (["run", "{tmp}/none.toml"], 2, ["no such pipeline file", "none.toml"]),
    ],
)
def test_wrong_input_gets_one_line_that_says_what_to_do(
    lake: Command, mor: str, tmp_path: Path, arguments: list[str], code: int, words: list[str]
) -> None:
    (tmp_path / "file").write_text("x")
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").write_text("x")
    given = [text.format(tmp=tmp_path, mor=mor, full=full) for text in arguments]
    before = sorted(tmp_path.rglob("*"))
    found, out, err = lake(*given)
    line = one_line(err)
    assert (found, out) == (code, "")
    assert line.startswith("error: ")
    assert all(word in line for word in words), line
    assert sorted(tmp_path.rglob("*")) == before
    assert json.loads(lake(*given, "--json")[1])["error"]["message"]


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    with pytest.raises(lakebed.errors.TableNotFoundError):
        main(["read", str(tmp_path / "nothing"), "--debug"])


def test_version_and_help(lake: Command) -> None:
    assert lake("--version")[1] == f"lakebed {lakebed.__version__}\n"
    code, out, _ = lake("--help")
    assert code == 0
    assert all(command in out for command in ("demo", "run", "read", "history"))


@pytest.mark.parametrize("command", ["read", "history", "inspect", "rewrite", "expire", "archive"])
def test_ctrl_c_is_one_line_and_130(lake: Command, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lakebed, "open", interrupted)
    assert lake(command, "somewhere") == (130, "", "error: interrupted\n")
    code, out, _ = lake(command, "somewhere", "--json")
    assert code == 130 and json.loads(out)["error"]["message"] == "interrupted"


def test_partitions_are_marked_and_expire(lake: Command, tmp_path: Path) -> None:
    schema = pa.schema([("dt", pa.string()), ("id", pa.int64())])
    table = lakebed.create(tmp_path / "table", "paimon", schema, partition_by=["dt"])
    table.write(pa.table({"dt": ["2024-01-01"], "id": [1]}))
    mark = tmp_path / "table" / "dt=2024-01-01" / "_SUCCESS"
    code, out, _ = lake("mark-partition-done", table.location, "dt=2024-01-01", "--dry-run")
    assert code == 0 and "would say so" in out and not mark.exists()
    code, out, _ = lake("mark-partition-done", table.location, "dt=2024-01-01", "--json")
    assert code == 0 and json.loads(out)["marks"] == ["dt=2024-01-01/_SUCCESS"] and mark.exists()
    assert lake("mark-partition-done", table.location, "2024")[0] == 2
    old = ("--option", "lakebed.expire.what=partitions", "--option", "partition.expiration-time=1 d")
    code, _, err = lake("expire", table.location, *old)
    assert code == 0 and "1 partition " in err and "its time is 2024-01-01" in err


def test_repair_shows_what_is_lost_and_drops_it(lake: Command, tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "table", "iceberg", pa.schema([("id", pa.int64())]))
    for number in range(2):
        table.write(pa.table({"id": [number]}))
    assert "all 2 files are whole" in lake("repair", table.location)[2]
    next((tmp_path / "table" / "data").glob("*.parquet")).unlink()
    code, out, err = lake("repair", table.location, "--dry-run")
    assert code == 0 and "the file is missing" in out and "1 of 2 files lost, with 1 row that" in err
    code, out, err = lake("repair", table.location, "--json")
    document = json.loads(out)
    assert (code, err) == (0, "") and len(document["lost"]) == len(document["removed"]) == 1 and document["instants"]
    assert table.read().read_all().num_rows == 1
    code, out, err = lake("repair", "examples/orders_hudi")
    assert code == 1 and "no repair for hudi tables" in one_line(err)


def test_rollback_shows_its_plan_and_does_it(lake: Command, tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "table", "paimon", pa.schema([("id", pa.int64())]))
    for number in range(3):
        table.write(pa.table({"id": [number]}))
    code, out, err = lake("rollback", table.location, "1", "--dry-run")
    assert code == 0 and "snapshots that would go" in out and "would be back at 1" in err and len(table.history()) == 3
    code, out, err = lake("rollback", table.location, "1", "--json")
    document = json.loads(out)
    assert (code, err) == (0, "") and document["removed"] == ["3", "2"] and document["to"] == "1"
    code, out, err = lake("rollback", table.location, "tag:nowhere")
    assert code == 1 and "there is no tag" in one_line(err)
