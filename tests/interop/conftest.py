"""The outside engines, as `./run interop` names them in the environment."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

HERE = Path(__file__).parent


class Pypaimon:
    """pypaimon in its own interpreter; `path` is "pure" (Python) or "native" (Rust)."""

    def __init__(self, python: str, folder: Path) -> None:
        self._python, self._file = python, folder / "exchange.arrow"

    def read(self, table: Path, path: str) -> pa.Table:
        """All rows, with the bucket of each in `_bucket`."""
        self._run("read", table, path)
        with pa.memory_map(str(self._file)) as source:
            return pa.ipc.open_file(source).read_all()

    def write(self, table: Path, path: str, rows: pa.Table) -> None:
        """One commit of rows."""
        with pa.OSFile(str(self._file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        self._run("write", table, path)

    def _run(self, verb: str, table: Path, path: str) -> None:
        warehouse, name = table.parent.parent, f"{table.parent.name.removesuffix('.db')}.{table.name}"
        run([self._python, str(HERE / "pypaimon_peer.py"), verb, str(warehouse), name, path, str(self._file)])


class PaimonJvm:
    """Paimon's own Java bundle."""

    def __init__(self, classpath: str, folder: Path) -> None:
        self._classpath, self._folder = classpath, folder

    def dump(self, table: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows (each with `row`, `bucket`, `expected`) and files."""
        lines = [json.loads(line) for line in self._java("dump", str(table)).splitlines() if line.startswith("{")]
        return [line for line in lines if "row" in line], [line for line in lines if "file" in line]

    def write(self, table: Path, rows: Sequence[Sequence[Any]], identifier: int, *, compact: bool = False) -> None:
        """One commit of rows: kind, then the columns as text."""
        file = self._folder / "rows.tsv"
        spelled = ["\t".join("\\N" if value is None else str(value) for value in row) for row in rows]
        file.write_text("\n".join(spelled), encoding="utf-8")
        self._java("write", str(table), str(file), str(identifier), *(["compact"] if compact else []))

    def _java(self, *args: str) -> str:
        java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
        options = ["-Xmx1g", "-Duser.timezone=UTC", f"-Djava.io.tmpdir={self._folder}", "-Dfile.encoding=UTF-8"]
        return run([java, *options, "-cp", self._classpath, "PaimonPeer", *args])


def run(command: list[str]) -> str:
    """The standard output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def named(variable: str) -> str:
    """An environment variable of `./run interop`."""
    value = os.environ.get(variable)
    assert value, f"{variable} is not set: run these tests by ./run interop"
    return value


@pytest.fixture
def pypaimon(tmp_path: Path) -> Pypaimon:
    return Pypaimon(named("LAKEBED_INTEROP_PYTHON"), tmp_path)


@pytest.fixture
def paimon_jvm(tmp_path: Path) -> PaimonJvm:
    return PaimonJvm(named("LAKEBED_PAIMON_CLASSPATH"), tmp_path)
