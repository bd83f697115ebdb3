"""Every golden Paimon table, with every snapshot, tag and branch, reads as it does in Paimon's Java engine."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import NotInHistoryError, TableNotFoundError
from tests.golden import expected, names, unpack
from tests.golden.compare import diff, load


@pytest.mark.slow
@pytest.mark.parametrize("name", names("paimon"))
def test_rows(name: str) -> None:
    folder = unpack("paimon", name)
    table = lakebed.open(folder)
    answer = expected(folder)
    rows = load(answer / "snapshot.jsonl")
    assert diff("paimon", table.read(), rows) is None and table.count() == len(rows)
    snapshots = sorted(answer.glob("snapshot_*.jsonl"))
    assert snapshots
    for path in snapshots:
        difference = diff("paimon", table.read(as_of=int(path.stem.removeprefix("snapshot_"))), load(path))
        assert difference is None, f"{path.name}: {difference}"


@pytest.mark.parametrize("name", names("paimon"))
def test_history_names_every_snapshot(name: str) -> None:
    folder = unpack("paimon", name)
    times = [instant.time for instant in lakebed.open(folder).history()]
    files = sorted(int(path.name.removeprefix("snapshot-")) for path in (folder / "snapshot").glob("snapshot-*"))
    assert times == [str(number) for number in files]


@pytest.mark.parametrize(
    "path", sorted(expected(unpack("paimon", "tags_branches")).glob("tag_*.jsonl")), ids=lambda p: p.stem
)
def test_tag(path: Path) -> None:
    table = lakebed.open(unpack("paimon", "tags_branches"))
    tag = path.stem.removeprefix("tag_")
    assert diff("paimon", table.read(as_of=f"tag:{tag}"), load(path)) is None
    by_option = lakebed.open(unpack("paimon", "tags_branches"), {"scan.tag-name": tag})
    assert diff("paimon", by_option.read(), load(path)) is None


def test_branch() -> None:
    folder = unpack("paimon", "tags_branches")
    branch = lakebed.open(folder, {"branch": "b1"})
    assert diff("paimon", branch.read(), load(expected(folder) / "branch_b1.jsonl")) is None
    with pytest.raises(TableNotFoundError, match="b1"):
        lakebed.open(folder, {"branch": "nowhere"})


def test_what_is_not_in_the_history() -> None:
    table = lakebed.open(unpack("paimon", "tags_branches"))
    for position in (99, "tag:nowhere", "1970-01-01", "next week"):
        with pytest.raises(NotInHistoryError):
            table.read(as_of=position)


def test_time_travel_by_time() -> None:
    folder = unpack("paimon", "pk_fixed")
    table = lakebed.open(folder)
    second = table.history()[1]
    assert diff("paimon", table.read(as_of=second.completed), load(expected(folder) / "snapshot_2.jsonl")) is None


@pytest.mark.parametrize(
    "where", ["dt = '2024-01-01' and id < 10", "id in (3, 5, 77)", "name is null", "amt > 900", "dt > '2024'"]
)
def test_where_keeps_what_a_filter_keeps(where: str) -> None:
    table = lakebed.open(unpack("paimon", "pk_fixed"))
    whole = table.read().read_all()
    filters = {
        "dt = '2024-01-01' and id < 10": lambda r: r["dt"] == "2024-01-01" and r["id"] < 10,
        "id in (3, 5, 77)": lambda r: r["id"] in (3, 5, 77),
        "name is null": lambda r: r["name"] is None,
        "amt > 900": lambda r: r["amt"] is not None and r["amt"] > 900,
        "dt > '2024'": lambda r: r["dt"] > "2024",
    }
    wanted = [row for row in whole.to_pylist() if filters[where](row)]
    rows = table.read(where=where).read_all().to_pylist()
    assert sorted(map(repr, rows)) == sorted(map(repr, wanted))


def test_pruning_leaves_files_closed() -> None:
    table = lakebed.open(unpack("paimon", "pk_fixed"))
    every = sum(len(split.files) for split in table.plan_read().splits)
    by_partition = table.plan_read(where="dt = '2024-01-02'").splits
    assert by_partition
    assert all(split.folder.startswith("dt=2024-01-02/") for split in by_partition)
    by_key = sum(len(split.files) for split in table.plan_read(where="id = 1").splits)
    assert 0 < by_key < every
    assert not table.plan_read(where="dt = 'never'").splits


@pytest.mark.parametrize(("name", "column"), [("pk_fixed", "id"), ("append_mod", "id")])
def test_an_equality_on_the_bucket_key_finds_the_rows_in_the_buckets_of_the_jvm(name: str, column: str) -> None:
    table = lakebed.open(unpack("paimon", name))
    whole = table.read().read_all()[column].to_pylist()
    for value in set(whole[::5]):
        where = f"{column} = {value!r}"
        assert len(table.read(where=where).read_all()) == whole.count(value)
        assert len({split.folder.rpartition("/")[2] for split in table.plan_read(where=where).splits}) == 1


def test_projection_gives_columns_in_the_order_asked_for() -> None:
    table = lakebed.open(unpack("paimon", "me_partial_update"))
    assert table.read(columns=["d", "k"]).read_all().schema.names == ["d", "k"]
    whole = table.read().read_all().select(["d", "k"])
    assert table.read(columns=["d", "k"]).read_all().sort_by("k") == whole.sort_by("k")


@pytest.mark.parametrize("nanoseconds", [True, False])
def test_files_carry_the_field_ids_and_types_that_the_jvm_wrote(tmp_path: Path, nanoseconds: bool) -> None:
    """Writes a table like the golden one. With columns of nanoseconds every timestamp is INT96, so only the other
    columns have the JVM's types. Without them all columns have, with ids of their own."""
    folder = unpack("paimon", "types_pk_parquet")
    table = lakebed.open(folder)
    schema = table.schema
    if not nanoseconds:
        schema = pa.schema([field for field in schema if "timestamp[ns" not in str(field.type)])
    data = table.read(schema.names).read_all().slice(0, 1)
    ours = lakebed.create(tmp_path / "t", "paimon", schema, ["k"], options={"bucket": "1"})
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    for name in times if nanoseconds else ():  # the first row may lie beyond what INT96 carries
        data = data.set_column(schema.names.index(name), schema.field(name), pa.nulls(1, schema.field(name).type))
    ours.write(data)
    assert ours.read().read_all() == data
    theirs, mine = (
        [line.strip() for line in str(pq.ParquetFile(next(path.glob("bucket-0/*.parquet"))).schema).splitlines()[2:]]
        for path in (folder, tmp_path / "t")
    )

    def compared(lines: list[str]) -> list[str]:
        kept = [line.replace(" (Map)", "", 1) if "key_value" in line else line for line in lines]
        kept = [line for line in kept if "c_time" not in line and "int96" not in line]
        if nanoseconds:
            return [line for line in kept if not any(f" {name} " in line or f" {name};" in line for name in times)]
        return [re.sub(r"field_id=\d+", "", line) for line in kept]

    assert compared(mine) == compared(theirs)
