"""`where` in every format: which files are opened and how many rows are decoded, that no row is lost, and what is said
of a part that lakebed cannot read."""

import random
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import ReadWarning
from lakebed.formats.iceberg.read import task as iceberg_task
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import keep, parse_where
from lakebed.verbs import read as verb
from lakebed.verbs.table import Table
from tests.tables.hudi.writing import HudiFolder

FILES, ROWS = 6, 20
SCHEMA = pa.schema(
    [("part", pa.string()), ("n", pa.int64()), ("text", pa.string()), ("real", pa.float64()), ("flag", pa.bool_())]
)
PRICED = SCHEMA.append(pa.field("price", pa.decimal128(10, 2)))
UNREADABLE = pc.round(pc.field("real"), 0) == 3


def rows_of(number: int, schema: pa.Schema = PRICED) -> pa.Table:
    """The rows of one file. Two files share a partition; nulls and NaN are in some files, and some columns of
    the last have only nulls."""
    chance = random.Random(number)

    def maybe(value: Any) -> Any:
        return None if number % 2 and chance.random() < 0.2 else value

    columns: dict[str, list[Any]] = {
        "part": [f"P{number // 2}"] * ROWS,
        "n": [maybe(number * 100 + row) for row in range(ROWS)],
        "text": [maybe(f"{'abcdef'[number]}{row:02d}") for row in range(ROWS)],
        "real": [maybe(float("nan") if number == 2 and row == 3 else number + row / 4) for row in range(ROWS)],
        "flag": [maybe(number == 3) for _ in range(ROWS)],
        "price": [maybe(Decimal(number * 100 + row) / 4) for row in range(ROWS)],
    }
    if number == FILES - 1:
        columns |= {name: [None] * ROWS for name in ("real", "flag", "price")}
    return pa.table(columns, PRICED).select(schema.names)


def hudi(folder: Path) -> Table:
    """A copy-on-write table of base files in two row groups each."""
    kinds = {"id": "string", "part": "string", "n": "long", "text": "string", "real": "double", "flag": "boolean"}
    properties = {"table__type": "COPY_ON_WRITE", "table__partition__fields": "part"}
    table = HudiFolder(folder, columns=kinds, table__keygenerator__type="SIMPLE", **properties)
    (folder / ".hoodie_partition_metadata").unlink()
    paths = []
    for number in range(FILES):
        rows = [{"id": f"{number}-{place}", **row} for place, row in enumerate(rows_of(number, SCHEMA).to_pylist())]
        paths.append(table.base("abcdef"[number], 1, rows, partition=f"P{number // 2}"))
        written = pq.read_table(folder / paths[-1], partitioning=None)
        pq.write_table(written, folder / paths[-1], row_group_size=ROWS // 2)
    table.done(1, paths)
    return table.open()


def created(format: str) -> Callable[[Path], Table]:
    def make(folder: Path) -> Table:
        table = lakebed.create(folder, format, PRICED, (), ["part"])
        for number in range(FILES):
            table.write(rows_of(number))
        return lakebed.open(folder)

    return make


MAKERS: dict[str, Callable[[Path], Table]] = {"hudi": hudi, "paimon": created("paimon"), "iceberg": created("iceberg")}


@pytest.fixture(params=sorted(MAKERS), scope="module")
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return MAKERS[request.param](tmp_path_factory.mktemp(request.param) / "t")


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The rows of each batch that the predicate is asked of."""
    counts: list[int] = []

    def counting(batch: pa.RecordBatch, predicate: Node) -> pa.RecordBatch:
        counts.append(batch.num_rows)
        return keep(batch, predicate)

    monkeypatch.setattr(verb, "keep", counting)
    monkeypatch.setattr(iceberg_task, "keep", counting)
    yield counts


def files_of(table: Table, where: Any) -> int:
    """The data files that a plan leaves."""
    splits = table.plan_read(None, where).splits
    match table.format:
        case "hudi":
            return sum(len(split.slices) for split in splits)
        case "paimon":
            return sum(len(split.files) for split in splits)
    return len({split.task.data.path for split in splits})


BY_PARTITION: list[tuple[Any, int]] = [
    ("part = 'P1'", 2),
    ("part in ('P0', 'P2')", 4),
    ("part > 'P1'", 2),
    ("lower(part) = 'p1'", 2),
    ("part like '%2'", 2),
    ("not part like 'P0%'", 4),
    ("false", 0),
    ("part > 'P0' and null", 0),
    (pc.match_substring(pc.field("part"), "1"), 2),
    (pc.utf8_length(pc.field("part")) > 2, 0),
    (pc.utf8_replace_slice(pc.field("part"), 0, 1, "Q") == "Q1", 2),
]
BY_STATISTICS = [
    ("n < 10", 1, 10),
    ("n between 305 and 309", 1, 10),
    ("text >= 'b' and n < 200", 1, 20),
    ("text = 'a01'", 1, 10),
    ("text like 'e%'", 1, 20),
    ("n is null and part = 'P2'", 1, 20),
]


@pytest.mark.parametrize(("where", "files"), BY_PARTITION, ids=str)
def test_partitions_are_ruled_out(table: Table, decoded: list[int], where: Any, files: int) -> None:
    assert files_of(table, where) == files
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        kept = table.read(where=where).read_all().num_rows
    assert kept == sum(decoded) == files * ROWS


@pytest.mark.parametrize(("where", "files", "rows"), BY_STATISTICS)
def test_statistics_rule_out_files_and_row_groups(
    table: Table, decoded: list[int], where: str, files: int, rows: int
) -> None:
    kept = table.read(where=where).read_all().num_rows
    if table.format == "hudi":  # its plan has no statistics, and the files have two row groups
        assert kept <= sum(decoded) == rows
    else:
        assert files_of(table, where) == files
        assert kept <= sum(decoded) == files * ROWS


@pytest.mark.parametrize("seed", range(6))
def test_no_row_is_lost(table: Table, seed: int) -> None:
    chance = random.Random(seed)
    whole = table.read().read_all()
    for _ in range(15):
        where = random_where(chance, 2)
        predicate = parse_where(where, whole.schema)
        assert predicate is not None
        wanted = whole.filter(predicate.to_arrow())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReadWarning)
            rows = table.read(where=where).read_all()
        assert sorted(map(str, rows.to_pylist())) == sorted(map(str, wanted.to_pylist())), str(where)


def test_a_part_that_cannot_be_read_is_reported_by_each_plan(table: Table) -> None:
    with pytest.warns(ReadWarning, match=r"cannot read round\(real.* statistics of columns rule out no file by it"):
        rows = table.read(where=UNREADABLE & (pc.field("part") == "P1"))
    kept = rows.read_all().to_pylist()
    assert len(kept) > 2 and {(row["part"], round(row["real"])) for row in kept} == {("P1", 3)}
    assert files_of(table, UNREADABLE & (pc.field("part") == "P1")) == 2
    plans = [
        table.plan_read(None, UNREADABLE),
        *([] if table.format == "paimon" else [table.plan_changes(None, UNREADABLE)]),
    ]
    for plan in plans:
        assert any("cannot read round" in sentence for sentence in plan.warnings)
    assert not table.plan_read(None, "real > 3").warnings


@pytest.mark.parametrize("what", ["data-files", "position-deletes"])
def test_a_rewrite_reports_a_part_that_cannot_be_read(tmp_path: Path, what: str) -> None:
    table = MAKERS["iceberg"](tmp_path / "t")
    options = {"lakebed.rewrite.what": what}
    (note,) = table.rewrite(where=UNREADABLE, dry_run=True, options=options).notes
    assert note.startswith("lakebed cannot read round(real") and note.endswith("rule out no file by it")
    assert not table.rewrite(where="real = 3", dry_run=True, options=options).notes


def test_parts_that_can_be_read_are_not_reported(table: Table) -> None:
    for where in ("real > 3 and lower(text) like 'a%'", pc.field("n") + 1 > 3):
        assert not table.plan_read(None, where).warnings


def random_where(chance: random.Random, depth: int) -> pc.Expression:
    if depth and chance.random() < 0.6:
        one, other = random_where(chance, depth - 1), random_where(chance, depth - 1)
        return chance.choice([one & other, one | other, ~one, pc.if_else(one, other, ~other), pc.coalesce(one, other)])
    part, n, text, real, flag = (pc.field(name) for name in SCHEMA.names)
    number, word = chance.randrange(-1, 620), chance.choice(["a", "b05", "c1", "f", ""])
    bound = number / 80
    return chance.choice(
        [
            part == f"P{number % 4}", part < "P1", pc.utf8_lower(part) == "p2", pc.match_like(part, "%1"),
            part.is_null(), n == number, n < number, n >= number, n + 1 > number, n.is_null(), n.is_valid(),
            n.isin([number, 5, None]), text == word, text >= word, pc.starts_with(text, word), pc.match_like(text,
            f"{word}%5"), real < bound, real != bound, pc.is_nan(real), real.is_null(nan_is_null=True), ~(real > bound),
            flag, ~flag, flag == True, pc.round(real, 0) == 3, pc.utf8_length(part) == 2,  # noqa: E712
        ]
    )  # fmt: skip
