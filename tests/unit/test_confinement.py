"""A table leads no verb out of its folder, whatever its files name: fields that hold a path by verbs, for Hudi and
Paimon. (Iceberg, whose metadata may name absolute places, has its own: `iceberg/test_places.py`.)

Every path that the process hands to the operating system is recorded, links followed. A verb may refuse, or read on
without the file.
"""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

import lakebed
from lakebed.errors import LakebedError
from lakebed.kernel.avro.container import avro_long, header, take_apart
from tests.golden import unpack

HOSTILE = (
    "../../victim/precious", "../victim", "/{victim}/precious", "file://{victim}/precious", "s3://other/x",
    "..%2f..%2fvictim%2fprecious", "out/precious", "a\0b", "n" * 5000,
)  # fmt: skip
"""`out` is a link in the table's folder that leads out of it."""
VERBS: dict[str, Callable[[Any], object]] = {
    "read": lambda table: table.read().read_all(),
    "changes": lambda table: table.changes().read_all(),
    "history": lambda table: table.history(archived=table.format == "hudi"),
    "inspect": lambda table: table.inspect(),
    "expire": lambda table: table.expire(),
    "rewrite": lambda table: table.rewrite(),
    "repair": lambda table: table.repair(dry_run=True),
    "rollback": lambda table: table.rollback(table.history()[0].time, dry_run=True),
}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder beside the table, with an old file."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "precious").write_text("precious")
    os.utime(folder / "precious", (0, 0))
    return folder


_watched: list[tuple[str, set[str]]] = []
"""The folder that is watched, and the places in it that the process asked the operating system for."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook of the interpreter, which cannot be removed: it sees what goes past the stores, too."""
    if _watched and (event == "open" or event.startswith(("os.", "shutil."))):
        folder, places = _watched[-1]
        for path in arguments:
            text = os.fsdecode(path) if isinstance(path, str | bytes) else ""
            if text.startswith(folder):
                places.add(os.path.realpath(text))


@pytest.fixture
def touched(tmp_path: Path) -> Iterator[set[str]]:
    """The places below the test's folder that this process touches, links followed."""
    places: set[str] = set()
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked.append(True)
    _watched.append((str(tmp_path), places))
    yield places
    _watched.pop()


_hooked: list[bool] = []


def edited_json(path: Path, change: Callable[[Any], object]) -> None:
    """A JSON file with a change."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def edited_avro(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """An Avro file with a change in each of its records."""
    container = take_apart(path.read_bytes())
    parsed, out, count = fastavro.parse_schema(container.schema), io.BytesIO(), 0
    for records, content in container.contents():
        source = io.BytesIO(content)
        for _ in range(records):
            record: Any = fastavro.schemaless_reader(source, parsed, None)
            change(record)
            fastavro.schemaless_writer(out, parsed, record)
            count += 1
    body = out.getvalue()
    head = header({**container.metadata, "avro.codec": b"null"}, container.sync)
    path.write_bytes(b"".join((head, avro_long(count), avro_long(len(body)), body, container.sync)))


def stats(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The write statistics of a commit."""
    for found in document["partitionToWriteStats"].values():
        yield from found


def hudi(field: str, table: Path, value: str) -> None:
    """The newest commits of a Hudi table with a hostile value in a field."""

    def change(document: dict[str, Any]) -> None:
        if field == "partition":
            document["partitionToWriteStats"] = {value: [*stats(document)]}
            return
        for stat in stats(document):
            stat[field] = [value] if field == "logFiles" else value

    for path in sorted(table.glob(".hoodie/*.*commit"))[-3:]:
        edited_json(path, change)


def paimon(field: str, table: Path, value: str) -> None:
    """A Paimon table with a hostile value in a field of its snapshots, lists or manifests."""
    if field[0].islower():
        for path in table.glob("snapshot/snapshot-*"):
            edited_json(path, lambda document: document.update({field: value}))
        return
    kind, name = field.split("/")
    pattern = {"ENTRY": "manifest-????????-*", "LIST": "manifest-list-*", "INDEX": "index-manifest-*"}[kind]

    def change(record: dict[str, Any]) -> None:
        place = record["_FILE"] if kind == "ENTRY" else record
        place[name] = [value] if name == "_EXTRA_FILES" else value

    for path in table.glob(f"manifest/{pattern}"):
        edited_avro(path, change)


HUDI = ("path", "logFiles", "fileId", "partition")
PAIMON = (
    "baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "statistics", "LIST/_FILE_NAME",
    "ENTRY/_FILE_NAME", "ENTRY/_EXTRA_FILES", "ENTRY/_EXTERNAL_PATH", "INDEX/_FILE_NAME", "INDEX/_EXTERNAL_PATH",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::lakebed.errors.ReadWarning")
@pytest.mark.parametrize(
    ("form", "name", "field"),
    [*(("hudi", "mor_v6", field) for field in HUDI), *(("paimon", "pk_dv", field) for field in PAIMON)],
)
def test_no_verb_leaves_the_table(
    form: str, name: str, field: str, victim: Path, touched: set[str], tmp_path: Path
) -> None:
    edit = hudi if form == "hudi" else paimon
    # Each field meets two of the values; all fields together meet all of them.
    start = (HUDI + PAIMON).index(field)
    for number, value in enumerate(HOSTILE[(start + step) % len(HOSTILE)] for step in (0, 4)):
        table = unpack(form, name, into=tmp_path / str(number))
        (table / "out").symlink_to(victim)
        edit(field, table, value.format(victim=str(victim).strip("/") if value[0] == "/" else victim))
        root = os.path.realpath(table)
        touched.clear()
        refused = set()
        for verb, act in VERBS.items():
            try:
                act(lakebed.open(table))
            except LakebedError:
                refused.add(verb)
            assert touched, verb
            outside = {place for place in touched if not f"{place}/".startswith(f"{root}/")}
            assert not outside, (verb, value, outside)
            assert os.listdir(victim) == ["precious"] and (victim / "precious").read_text() == "precious", (verb, value)
            touched.clear()  # of what the test itself looked at
        assert refused != set(VERBS), "every verb refused, so that the field was not reached"
