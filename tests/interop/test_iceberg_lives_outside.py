"""One Iceberg table, several engines: lakebed, Spark 4.0 with Iceberg 1.10, Spark 4.1 with Iceberg 1.12 and pyiceberg
take turns, and after each step all of them and DuckDB read what a model says. A table lies at a path, or in a REST
catalog, a SQL catalog or a metastore of Apache Hive. `tests/interop/iceberg_life.py` runs many more such lives by hand.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import LakebedError, TableNotFoundError, UnsupportedError, UsageError
from tests.interop.iceberg_actors import Lakebed, Place
from tests.interop.iceberg_dying import Moment, deed, die
from tests.interop.iceberg_life import Engines, Life, engines
from tests.interop.iceberg_spark import Spark
from tests.interop.iceberg_state import FIRST, Shape
from tests.tables.iceberg.named import check_names

pytestmark = pytest.mark.timeout(1800)
LIVES = {
    "path": (
        Shape("path", 3, ("part",), "parquet", "merge-on-read", "spark"),
        """lakebed append, spark4.0 upsert, lakebed delete@after-metadata, spark4.1 rename, lakebed add, lakebed
        equality, spark4.1 delete, lakebed rewrite@before-metadata, spark4.0 branch, lakebed replace, spark4.1
        statistics, lakebed expire@after-removal, lakebed add_files@before-manifest_list, lakebed rollback""",
    ),
    "rest": (
        Shape("rest", 1, (), "parquet", "copy-on-write", "lakebed"),
        """pyiceberg append, lakebed upgrade, spark4.0 upsert, lakebed equality, lakebed rewrite, pyiceberg tag, lakebed
        stage, spark4.0 publish, lakebed spec, pyiceberg delete, spark4.1 upgrade, lakebed delete, spark4.1 expire""",
    ),
    "hive": (
        Shape("hive", 2, ("part",), "parquet", "merge-on-read", "lakebed"),
        """lakebed append, spark4.0 upsert, pyiceberg append, lakebed widen@after-catalog, spark4.1 delete, lakebed
        rewrite, lakebed append@before-data_file, lakebed branch, spark4.0 append, lakebed merge, lakebed repair,
        lakebed statistics@before-catalog, lakebed expire, spark4.0 overwrite""",
    ),
    "sql": (
        Shape("sql", 2, ("bucket(3, id)",), "orc", "merge-on-read", "lakebed"),
        """lakebed append, lakebed upsert, pyiceberg rename, pyiceberg tag, lakebed drop, lakebed rewrite, pyiceberg
        delete, lakebed upgrade, lakebed upsert, lakebed expire""",
    ),
}
"""How each table begins, and whose turn it is for what. What an engine cannot do, another does. After an `@` is where
lakebed is killed at it."""


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    with engines(tmp_path_factory.mktemp("lives")) as found:
        yield found


@pytest.mark.parametrize("name", LIVES)
def test_every_engine_reads_what_any_of_them_wrote(name: str, outside: Engines) -> None:
    shape, script = LIVES[name]
    life = Life(shape, name, [*LIVES].index(name), outside)
    life.play(" ".join(script.split()))
    assert life.number == script.count(",") + 1 and life.main.rows and life.deaths == script.count("@")


@pytest.mark.parametrize("catalog", ["rest", "hive"])
def test_the_names_in_a_catalog(catalog: str, outside: Engines) -> None:
    settings = {
        "type": catalog, "uri": outside.addresses[catalog], "warehouse": f"file://{outside.folder}/{catalog}",
    }  # fmt: skip
    check_names({f"lakebed.catalog.{key}": value for key, value in settings.items()})


MOMENTS = {
    "path": ("after-manifest_list", "before-metadata", "after-metadata"), "rest": ("before-manifest", "after-catalog"),
}  # fmt: skip
"""Where a migration is killed, by the catalog that its table is in."""


@pytest.mark.parametrize("catalog", MOMENTS)
def test_a_folder_whose_migration_is_killed(catalog: str, outside: Engines) -> None:
    """There is no table then, or the whole one. Done again where there is none, Spark goes on with it, then lakebed."""
    for number, text in enumerate(MOMENTS[catalog]):
        shape = Shape(catalog, 2, ("part",), "parquet", "merge-on-read", "lakebed")
        place = Place(shape, f"moved{number}", outside.folder, outside.addresses, FIRST[:1], 2)
        folder = outside.folder / ("db" if catalog == "path" else catalog) / f"moved{number}"
        for part in "ab":
            (folder / f"part={part}").mkdir(parents=True)
            pq.write_table(pa.table({"id": [ord(part), number]}), folder / f"part={part}" / "one.parquet")
        migrate = deed(place, lambda actor, folder=folder: actor.migrate(folder))
        assert die(migrate, Moment.named(text)), text
        try:
            place.open()
        except LakebedError as error:
            assert isinstance(error, UnsupportedError | TableNotFoundError | UsageError), error
            assert not die(migrate, Moment("removal", 99, False))
        spark = Spark(place, "4.1", outside.sparks["4.1"])
        spark.say(f"INSERT INTO {spark.table} VALUES (7, 'b')")
        place.open().write(pa.table({"id": [8], "part": ["c"]}))
        wanted = sorted([str(n)] for n in (97, 98, number, number, 7, 8))
        for reader in (spark, Lakebed(place)):
            assert sorted(reader.read(FIRST[:1])) == wanted, (text, reader.name)


def options(kind: str, outside: Engines) -> dict[str, str]:
    place = Place(Shape(kind, 2, (), "parquet", "merge-on-read", "lakebed"), "t", outside.folder, outside.addresses)
    return {f"lakebed.catalog.{key}": value for key, value in place.catalog.items()}


@pytest.mark.parametrize("kind", ["hive", "rest"])
def test_writers_at_once_lose_no_row(kind: str, outside: Engines) -> None:
    """The metastore's lock, and the REST catalog's requirements, put the commits in a row."""
    given = options(kind, outside)
    if kind == "hive":
        given |= {"lakebed.catalog.lock-check-min-wait-time": "0.05", "lakebed.catalog.lock-check-max-wait-time": "1"}
    table = lakebed.create(f"{kind}:db.shared", "iceberg", {"id": "int64"}, options=given)
    wrong: list[BaseException] = []

    def write(first: int) -> None:
        try:
            mine: Any = lakebed.open(f"{kind}:db.shared", {**given, "commit.retry.num-retries": "20"})
            for number in range(first, first + 3):
                mine.write(pa.table({"id": [number]}))
        except BaseException as error:  # the test's own thread raises it
            wrong.append(error)

    writers = [threading.Thread(target=write, args=(first,)) for first in (0, 10, 20)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not wrong, wrong
    wanted = [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert sorted(table.read().read_all()["id"].to_pylist()) == wanted and len(table.history()) == 9


def test_views_of_spark_are_no_tables(outside: Engines, tmp_path: Path) -> None:
    for kind, catalog in (("rest", "rest"), ("hive", "hive"), ("ice", "ice")):
        place = Place(Shape("path", 2, (), "parquet", "merge-on-read", "spark"), "v", outside.folder, {}, FIRST)
        spark = Spark(place, "4.0", outside.sparks["4.0"])
        spark.say(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.db", f"CREATE VIEW {catalog}.db.v AS SELECT 1 AS one")
        given = options(kind, outside) if kind != "ice" else {
            "lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{outside.folder}/catalog.db",
        }  # fmt: skip
        with pytest.raises(UnsupportedError, match=r"no Iceberg table of that name .* view"):
            lakebed.open(f"{catalog}:db.v", given)
