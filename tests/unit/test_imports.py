"""What a process loads: only what its work needs, since each command, worker and task of Spark pays for it again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from tests.tables.iceberg.lake import Lake

HEAVY = {
    "altair", "boto3", "botocore", "cryptography", "datafusion", "pandas", "pyarrow.dataset", "pydantic", "pyiceberg",
    "pyspark", "rich", "sqlglot", "typer",
}  # fmt: skip
"""Packages that none of the jobs below needs."""
OF_ICEBERG = HEAVY - {"pyiceberg", "pydantic"} | {"pyiceberg.table", "pyparsing", "strictyaml"}
"""Packages that no small job on an Iceberg table needs. `pyiceberg.table` loads most of pyiceberg with it."""
ICEBERG_JOBS = {
    "rollback": (
        "lakebed.open(sys.argv[1]).rollback(lakebed.open(sys.argv[1]).history()[-2].time)",
        {"read.plan", "write.sink"},
        150,
    ),
    "alter": ("lakebed.open(sys.argv[1]).alter(lakebed.set_option('comment', 'x'))", {"read", "write.sink"}, 170),
    "read": ("lakebed.open(sys.argv[1]).read().read_all()", {"write.sink", "rewrite", "expire"}, 190),
    "write": (
        "lakebed.open(sys.argv[1]).write(lakebed.open(sys.argv[1]).read(), 'upsert')",
        {"rewrite.run", "expire"},
        250,
    ),
    "vectors": (
        "lakebed.open(sys.argv[2]).rewrite(options={'lakebed.rewrite.what': 'equality-deletes'})",
        {"expire"},
        290,
    ),
}
"""The same for Iceberg: modules of the format that must not be loaded. `argv[2]` has equality deletes."""
JOBS = {
    "import": ("", {"lakebed.formats", "pyarrow.compute", "obstore"}, 10),
    "read Paimon": (
        "lakebed.open(sys.argv[1]).read().read_all()",
        {f"lakebed.formats.paimon.{name}" for name in ("write", "rewrite", "commit", "inspect", "alter", "tags")},
        205,
    ),
    "changes of Paimon": ("lakebed.open(sys.argv[1]).changes().read_all()", {"lakebed.formats.paimon.write"}, 205),
    "read Hudi": (
        "lakebed.open(sys.argv[2]).read().read_all()",
        {"lakebed.formats.hudi.archive.run", "lakebed.formats.hudi.rewrite.run", "lakebed.formats.hudi.write.run"},
        320,
    ),
    "write Paimon": ("lakebed.open(sys.argv[1]).write(lakebed.open(sys.argv[1]).read(), 'upsert')", set(), 425),
    "compact Paimon": ("lakebed.open(sys.argv[1]).rewrite()", {"lakebed.formats.paimon.alter"}, 435),
}
"""Jobs that one process does in this order: each with its code, modules that must not be loaded after it, besides those
of `HEAVY`, and how many of lakebed's own are loaded then at most."""
CODE = """
import json, sys
import lakebed
loaded = []
for code in json.loads(sys.argv[3]):
    exec(code)
    loaded.append(sorted(sys.modules))
print(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules of a process after each job."""
    folder = tmp_path_factory.mktemp("tables")
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"], "amount": [1.5, None], "dt": ["x", "y"]})
    locations = [str(folder / "shop.db" / "paimon"), str(folder / "hudi")]
    options = {"bucket": "1"}
    lakebed.create(locations[0], "paimon", rows.schema, ["id", "dt"], ["dt"], options=options)
    lakebed.create(locations[1], "hudi", rows.schema, ["id"], ["dt"])
    for location in locations:
        for _ in range(3):
            lakebed.open(location).write(rows, "upsert")
    codes = json.dumps([code for code, _, _ in JOBS.values()])
    words = [sys.executable, "-c", CODE, *locations, codes]
    answer = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(zip(JOBS, map(set, json.loads(answer)), strict=True))


_PARTITIONED = (("keyed", ["dt"]), ("deletes", []))


@pytest.fixture(scope="module")
def loaded_of_iceberg(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules of a process after each job on Iceberg tables."""
    folder = tmp_path_factory.mktemp("iceberg")
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"], "amount": [1.5, None], "dt": ["x", "y"]})
    options = {"format-version": "3"}
    tables = [lakebed.create(folder / name, "iceberg", rows.schema, ["id"], by, options) for name, by in _PARTITIONED]
    for table in tables:
        for _ in range(2):
            table.write(rows, "upsert")
    Lake.at(tables[1].location).delete_equal([{"id": 1}])
    codes = json.dumps([code for code, _, _ in ICEBERG_JOBS.values()])
    words = [sys.executable, "-c", CODE, *(table.location for table in tables), codes]
    answer = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(zip(ICEBERG_JOBS, map(set, json.loads(answer)), strict=True))


@pytest.mark.parametrize("job", ICEBERG_JOBS)
def test_a_job_on_iceberg_loads_only_what_it_needs(loaded_of_iceberg: dict[str, set[str]], job: str) -> None:
    _, unneeded, most = ICEBERG_JOBS[job]
    names = OF_ICEBERG | {f"lakebed.formats.iceberg.{name}" for name in unneeded}
    assert sorted(loaded_of_iceberg[job] & names) == []
    own = [name for name in loaded_of_iceberg[job] if name.partition(".")[0] == "lakebed"]
    assert len(own) <= most, f"{len(own)} modules of lakebed"


@pytest.mark.parametrize("job", JOBS)
def test_a_job_loads_only_what_it_needs(loaded: dict[str, set[str]], job: str) -> None:
    _, unneeded, most = JOBS[job]
    assert sorted(loaded[job] & (HEAVY | unneeded)) == []
    own = [name for name in loaded[job] if name.partition(".")[0] == "lakebed"]
    assert len(own) <= most, f"{len(own)} modules of lakebed"


def test_the_package_runs_as_a_program() -> None:
    words = [sys.executable, "-m", "lakebed", "history", "--json", lakebed.example("orders")]
    answer = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert json.loads(answer)["format"] == "hudi"
    assert Path(lakebed.__file__).with_name("__main__.py").exists()


WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None  # as where it is not installed
import lakebed, pyarrow
for format in ("hudi", "paimon", "iceberg"):
    table = lakebed.create(f"{sys.argv[1]}/{format}", format, {"id": "int64", "text": "string"}, primary_key=["id"])
    table.write(pyarrow.table({"id": [1], "text": ["a"]}))
    table.write(pyarrow.table({"id": [1], "text": ["b"]}), "upsert")
    table.rewrite()
    table.inspect()
    assert table.to_arrow(["id", "text"]).to_pylist() == [{"id": 1, "text": "b"}]
try:
    lakebed.spark.register
except lakebed.errors.RuntimeMissingError as error:
    print(error)
"""


def test_everything_but_spark_works_where_there_is_no_pyspark(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_SPARK, tmp_path], capture_output=True, text=True, check=True)
    assert "pip install 'lakebed[spark]'" in done.stdout


def test_an_old_pyspark_is_refused_by_name(tmp_path: Path) -> None:
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '3.4.1'")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from lakebed.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "needs PySpark 3.5 or newer, and this is 3.4.1" in done.stderr
    assert "Traceback" not in done.stderr
