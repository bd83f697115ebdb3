"""The outside engines, as `./run interop` names them in the environment: one process each for all tests."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.kept import end_all

HERE = Path(__file__).parent
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:MetaspaceSize=128m")
"""Options of a JVM that starts soon."""
ROOM = ("-Xms512m", "-Xmn320m")
"""A heap that begins small and grows is collected all the time."""


class Peer:
    """A process that takes commands line by line; what it says on its standard error is kept for failures."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._errors = (folder / "errors.txt").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, encoding="utf-8",
            start_new_session=True,
        )  # fmt: skip

    @property
    def runs(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    @property
    def process_group(self) -> int:
        """The group of the process and those that it began."""
        return self._process.pid

    def ask(self, *words: object, end: str) -> list[str]:
        """The lines of the answer; the last is the first one that begins with `end`, without it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._errors.seek(0)
        self._errors.truncate()
        print(*words, sep="\t", file=self._process.stdin, flush=True)
        lines: list[str] = []
        for line in self._process.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1].startswith(end):
                return [*lines[:-1], lines[-1].removeprefix(end)]
        raise AssertionError(f"the engine ended: {self.errors()}")

    def errors(self) -> str:
        """What the last command said on the standard error."""
        self._errors.seek(0)
        return self._errors.read()[-3000:]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._errors.close()


class Pypaimon:
    """pypaimon in its own interpreter; `path` is "pure" (Python) or "native" (Rust)."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        self._peer, self._file = peer, folder / "exchange.arrow"

    def read(self, table: Path, path: str) -> pa.Table:
        """All rows, with the bucket of each in `_bucket`."""
        self._run("read", table, path)
        with pa.OSFile(str(self._file)) as source:
            return pa.ipc.open_file(source).read_all()

    def stream(self, table: Path, consumer: str) -> pa.Table:
        """The rows of a stream's next plan, with their kinds in `_row_kind`. Its consumer's progress is kept."""
        self._run("stream", table, consumer)
        with pa.OSFile(str(self._file)) as source:
            return pa.ipc.open_file(source).read_all()

    def tracked(self, table: Path, *columns: str) -> pa.Table:
        """Columns of all rows, those of row tracking too."""
        self._run("tracked", table, ",".join(columns))
        with pa.OSFile(str(self._file)) as source:
            return pa.ipc.open_file(source).read_all()

    def write(self, table: Path, path: str, rows: pa.Table, verb: str = "write") -> None:
        """One commit of rows. With another verb, `update` (`path` names the columns) or `remove`, `_ROW_ID` names the
        rows that it changes."""
        with pa.OSFile(str(self._file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        self._run(verb, table, path)

    def _run(self, verb: str, table: Path, path: str) -> None:
        name = f"{table.parent.name.removesuffix('.db')}.{table.name}"
        answer = self._peer.ask(verb, table.parent.parent, name, path, self._file, end="")
        assert answer == ["ok"], f"{answer} {self._peer.errors()}"


class PaimonJvm:
    """Paimon's own Java bundle. A table is a path, or `PATH@branch=NAME`."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        self._peer, self._folder = peer, folder

    def dump(self, table: Path | str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows (each with `row`, `bucket`, `expected`) and files."""
        lines = self._run("dump", table)
        return [line for line in lines if "row" in line], [line for line in lines if "file" in line]

    def delta(self, table: Path, snapshot: int) -> list[dict[str, Any]]:
        """The rows (`kind`, `row`) that a streaming read takes from one snapshot, postponed ones too."""
        return self._run("delta", table, snapshot)

    def changes(self, table: Path, after: int, until: int, mode: str) -> list[dict[str, Any]]:
        """The changes of a range (`kind`, `row`), as the audit log gives them."""
        return self._run("changes", table, f"{after},{until}", mode)

    def follow(self, table: Path, consumer: str, start: int) -> list[dict[str, Any]]:
        """The rows (`kind`, `row`) of a stream's next plan. Its consumer's progress is kept."""
        return self._run("follow", table, consumer, start)

    def write(
        self, table: Path | str, rows: Sequence[Sequence[Any]], identifier: int, *, compact: bool = False
    ) -> None:
        """One commit of rows: kind, then the columns as text."""
        self._run("write", table, self._spelled(rows), identifier, *(["compact"] if compact else []))

    def overwrite(self, table: Path, rows: Sequence[Sequence[Any]]) -> None:
        """Replace the partitions of rows, which are spelled as for `write`."""
        self._run("overwrite", table, self._spelled(rows))

    def postpone_compact(self, table: Path, buckets: int, identifier: int) -> None:
        """Give postponed rows that many real buckets."""
        self._run("postpone", table, buckets, identifier)

    def tell(self, verb: str, table: Path, *words: object) -> list[dict[str, Any]]:
        """A command of `PaimonUpkeep.java`."""
        return self._run(verb, table, *words)

    def _spelled(self, rows: Sequence[Sequence[Any]]) -> Path:
        file = self._folder / "rows.tsv"
        spelled = ["\t".join("\\N" if value is None else str(value) for value in row) for row in rows]
        file.write_text("\n".join(spelled), encoding="utf-8")
        return file

    def _run(self, *words: object) -> list[dict[str, Any]]:
        *lines, failure = self._peer.ask(*words, end="\x04")
        assert not failure, f"{failure} {self._peer.errors()}"
        return [json.loads(line) for line in lines if line.startswith("{")]


def named(variable: str) -> str:
    """An environment variable of `./run interop`."""
    value = os.environ.get(variable)
    assert value, f"{variable} is not set: run these tests by ./run interop"
    return value


def java(*arguments: str, quick: bool = True) -> list[str]:
    """A command of Java. A `quick` one has the simple compiler and collector: it starts sooner, and small tables need
    no more; what is measured needs the ones that users have."""
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else "java"
    return [program, *(QUICK if quick else []), *arguments]


def pypaimon_peer(folder: Path) -> Peer:
    """A process of pypaimon, with a folder of its own."""
    return Peer([named("LAKEBED_INTEROP_PYTHON"), str(HERE / "pypaimon_peer.py")], folder)


def paimon_jvm_peer(folder: Path, quick: bool = True) -> Peer:
    """A process of Paimon's Java bundle, with a folder of its own; `quick` as in `java`."""
    room = ["-Xmx1g", *(ROOM if quick else [])]
    options = [*room, "-Duser.timezone=UTC", f"-Djava.io.tmpdir={folder}", "-Dfile.encoding=UTF-8"]
    return Peer(java(*options, "-cp", named("LAKEBED_PAIMON_CLASSPATH"), "PaimonPeer", quick=quick), folder)


@pytest.fixture(scope="session", autouse=True)
def _engines_that_stay() -> Iterator[None]:
    """They end with the tests."""
    yield
    end_all()


@pytest.fixture(scope="session")
def pypaimon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pypaimon]:
    folder = tmp_path_factory.mktemp("pypaimon")
    peer = pypaimon_peer(folder)
    yield Pypaimon(peer, folder)
    peer.close()


@pytest.fixture(scope="session")
def paimon_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaimonJvm]:
    folder = tmp_path_factory.mktemp("jvm")
    peer = paimon_jvm_peer(folder)
    yield PaimonJvm(peer, folder)
    peer.close()
