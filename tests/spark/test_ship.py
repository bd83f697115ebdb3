"""What `ship` packs, where workers find it, and what the errors of workers say. These tests need no session."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from pyspark import SparkFiles
from pyspark.errors import AnalysisException, PythonException

import lakebed
from lakebed.errors import DataCleanedError, LakebedError, RuntimeMissingError, TableNotFoundError, UsageError
from lakebed.spark import failures, worker
from lakebed.spark.ship import pack_environment

ROOT = Path(__file__).parents[2]


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert lakebed.__version__ == project["version"]


def test_no_module_asks_how_lakebed_was_installed() -> None:
    """A shipped lakebed is not an installed package. Only `ship` itself asks, on the driver."""
    for file in Path(lakebed.__file__).parent.rglob("*.py"):
        assert "importlib.metadata" not in file.read_text() or file.name == "ship.py", file


@pytest.fixture
def names_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives have their files by name and nothing in them, which takes long. `tests/programs` ships all."""
    monkeypatch.setattr(zipfile.ZipFile, "write", lambda archive, file, name: archive.writestr(name, b""))


@pytest.mark.usefixtures("names_only")
def test_the_archive_has_what_catalogs_need_and_the_metadata_of_each_wheel(tmp_path: Path) -> None:
    names = zipfile.ZipFile(pack_environment(tmp_path)).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {"lakebed", "pyiceberg", "sqlalchemy", "obstore", "datafusion"} <= tops
    assert not {"boto3", "thrift", "pyspark", "pyarrow", "pandas", "numpy"} & tops
    for wheel in ("lakebed", "pyiceberg", "sqlalchemy"):
        assert any(name.startswith(f"{wheel}-") and name.endswith(".dist-info/METADATA") for name in names), wheel
    assert not any(name.endswith("direct_url.json") and name.startswith("lakebed-") for name in names)


@pytest.mark.usefixtures("names_only")
def test_extras_go_along_when_they_are_asked_for(tmp_path: Path) -> None:
    names = zipfile.ZipFile(pack_environment(tmp_path, extras=["hive"])).namelist()
    assert any(name.startswith("thrift/") for name in names)
    with pytest.raises(UsageError, match="no extra 'nonsense'"):
        pack_environment(tmp_path, extras=["nonsense"])


PACKED = """
import atexit, sys, tempfile, zipfile
from pathlib import Path
from lakebed.spark.ship import ship

class Session:
    def addArtifacts(self, place, archive):
        assert Path(place.partition("#")[0]).stat().st_size
        if sys.argv[2] == "refuses":
            raise OSError("the server is gone")

zipfile.ZipFile.write = lambda archive, file, name: archive.writestr(name, b"")
tempfile.tempdir = sys.argv[1]
atexit.register(lambda: print(len(list(Path(sys.argv[1]).rglob("*.zip")))))
ship(Session())
atexit.register(lambda: print(len(list(Path(sys.argv[1]).rglob("*.zip")))))
"""


@pytest.mark.parametrize(("server", "said"), [("takes", "1 0"), ("refuses", "0")])
def test_the_archive_goes_with_the_process(tmp_path: Path, server: str, said: str) -> None:
    """An executor that starts later fetches it, so it stays until then; where it was not taken, it goes at once."""
    done = subprocess.run(
        [sys.executable, "-c", PACKED, str(tmp_path), server], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == said.split() and ("the server is gone" in done.stderr) == (server == "refuses")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("where", ["executor", "session", "driver", "planner"])
def test_the_shipped_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Spark names the folder of files "." on an executor and by its absolute path on the driver. Where a stream is
    planned, it names a folder below it."""
    (tmp_path / worker.SHIPPED_FOLDER).mkdir()
    roots = {"executor": ".", "session": "./5f0c", "driver": str(tmp_path), "planner": str(tmp_path / "streaming_job")}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", roots[where])
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert worker.shipped_folder() == str(tmp_path / worker.SHIPPED_FOLDER)
    assert worker.unpack(worker.pack(1)) == 1
    assert sys.path[-1] == str(tmp_path / worker.SHIPPED_FOLDER)


def test_a_folder_that_another_process_found_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path / "nothing"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert worker.unpack(worker.pack(1), str(tmp_path)) == 1
    assert sys.path[-1] == str(tmp_path)
    assert worker.unpack(worker.pack(1), str(tmp_path / "gone")) == 1
    assert os.path.join(tmp_path, "gone") not in sys.path


TRACE = "From the Python worker:\nTraceback (most recent call last):\n  File x, line 1\n{}\n SQLSTATE"


@pytest.mark.parametrize(
    ("buried", "kind", "text"),
    [
        (f"RuntimeError: {worker.MISSING}: no module 'lakebed'", RuntimeMissingError, f"{worker.MISSING}: no module"),
        ("lakebed.errors.TableNotFoundError: no table here. Check", TableNotFoundError, "no table here. Check"),
    ],
)
def test_what_a_worker_said_is_the_error(buried: str, kind: type[LakebedError], text: str) -> None:
    """The error is still one of Spark's too, for callers that expect one."""
    convert = failures._translating(lambda error: error)
    for spark_kind in (PythonException, AnalysisException):
        error = convert(spark_kind(TRACE.format(buried)))
        assert isinstance(error, kind) and isinstance(error, spark_kind)
        assert str(error).startswith(text) and "Traceback" not in str(error)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind and str(again) == str(error)


UPDATED = "It is possible the underlying files have been updated. You can explicitly invalidate"


@pytest.mark.parametrize(
    ("said", "file"),
    [
        (f"File file:/a b%20:c/t/1 does not exist.parquet does not exist\n\n{UPDATED}", "1 does not exist.parquet"),
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file"
         " file:///a%20b%2520:c/t/1.parquet.  File does not exist. It is possible", "1.parquet"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/a%20b%2520:c/t/1.parquet. SQLSTATE: 42K03", "1.parquet"),
    ],
    ids=["3.5", "4.0", "when it is planned"],
)  # fmt: skip
def test_a_file_that_spark_missed_is_an_error_of_its_table(
    said: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark 3.5 names the path as it is, later releases name its URL."""
    monkeypatch.setattr(failures, "_tables", {"/a b%20:c/t": "/a b%20:c"})
    error = failures.lakebed_error(PythonException(f"Job aborted due to stage failure: {said}"))
    assert isinstance(error, DataCleanedError)
    assert (error.table, error.file) == ("/a b%20:c", f"/a b%20:c/t/{file}")
    monkeypatch.setattr(failures, "_tables", {})
    assert failures.lakebed_error(PythonException(said)) is None, "a file of no table of ours"


def test_other_errors_are_as_spark_has_them() -> None:
    error = AnalysisException("no such column")
    assert failures._translating(lambda error: error)(error) is error
