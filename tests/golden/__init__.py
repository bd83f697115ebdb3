"""Golden tables: real tables written by the formats' own engines, one archive each, with what those engines read.

`FORMAT/NAME.tar.xz` holds the table's folder `NAME/` (Paimon: `golden.db/NAME/`, since its catalogs name tables by
database) and beside it `NAME.expected/`, what the reference engine answered. `FORMAT/README.md` says what is in each.

Iceberg's metadata holds absolute locations, which are rewritten to where the table is laid (`iceberg_place.py`); beside
it lies `catalog.db`, a SQLite catalog `ice` that names it `db.NAME`.

    table = unpack("hudi", "mor_v6")                   # one copy a process, for tests that only read
    table = unpack("hudi", "mor_v6", into=tmp_path)    # a copy of one's own, for tests that write
    expected(table) / "snapshot.jsonl"
"""

import atexit
import functools
import shutil
import tarfile
import tempfile
import threading
from pathlib import Path

from tests.tables.iceberg import place as iceberg_place

HERE = Path(__file__).parent
DATABASE = "golden.db"
DAILY = frozenset({
    "mor_v6", "mor_v9", "cow_v9", "evo_v9", "merge_event_v9", "cdc_mor_v9", "archived_v6", "archived_v9",
    "pk_fixed", "append_unaware", "me_partial_update", "evolve", "types_parquet",
    "hadoop_v2", "schema_evolution", "pos_deletes", "eq_deletes", "dv_v3", "transforms",
})  # fmt: skip
"""Tables that `./run test --fast` reads: one of each kind."""

_unpacking = threading.RLock()


def unpack(table_format: str, name: str, into: Path | None = None) -> Path:
    """The folder of golden table `name`, unpacked.

    Without `into` the copy is shared by this process (a pytest-xdist worker has its own) and goes away at its end:
    do not write to it. With `into` a fresh copy is made in that folder. Raises KeyError for an unknown name.
    """
    if into is not None:
        return _extract(table_format, name, into)
    with _unpacking:
        return _shared(table_format, name)


def opening(table: Path) -> dict[str, str]:
    """Options to open a golden table with: they name the folder of the files that an Iceberg table had added from
    beside it."""
    added = table.with_name("raw")
    return {"lakebed.storage.places": str(added)} if added.exists() else {}


def expected(table: Path) -> Path:
    """The folder with what the reference engine read from the table that `unpack` gave."""
    return table.with_name(f"{table.name}.expected")


def names(table_format: str) -> list[str]:
    """Every golden table of a format, sorted: made for `pytest.mark.parametrize`."""
    return sorted(path.name.removesuffix(".tar.xz") for path in (HERE / table_format).glob("*.tar.xz"))


@functools.cache
def _shared(table_format: str, name: str) -> Path:
    return _extract(table_format, name, _process_folder() / table_format / name)


@functools.cache
def _process_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="lakebed-golden-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _extract(table_format: str, name: str, into: Path) -> Path:
    archive = HERE / table_format / f"{name}.tar.xz"
    if not archive.exists():
        raise KeyError(f"no golden {table_format} table {name!r}; there are {', '.join(names(table_format))}")
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "r:xz") as tar:
        # Python before 3.11.4 knows no filters; 3.14 filters by itself.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(into)
    in_database = into / DATABASE / name
    table = in_database if in_database.exists() else into / name
    if table_format == "iceberg":
        iceberg_place.place(table)
    return table
