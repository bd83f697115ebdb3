"""A part of the matrix that meets each kind of file, each hostile text and each verb, on a disk and in a bucket.

`python -m tests.confinement` runs the whole.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError, UnsupportedError
from lakebed.kernel.files import open_store
from tests.confinement import matrix, tables, verbs
from tests.confinement.remote import RemoteGround
from tests.objectstore.server import StoreServer

_PATHS = re.compile(r"(?i).*(path|file|location|folder|dir|partition|prefix|list|log|text|statistics|key|plan)")
"""The places whose names say that they hold a path: the others are left to the whole matrix."""
_FIELDS, _VERBS = 12, 12
"""The most fields of one table, and the fewest cells with verbs that change it."""
UNREAD = ("hudi mor_mdt_v9",)
"""Its index definitions and names of files are compared, and lead nowhere."""
REMOTE = ("iceberg v3", "hudi mor_v6", "paimon pk_dv")


def _cells(
    ground: matrix.Ground | RemoteGround, hostile: Mapping[str, str]
) -> Iterator[tuple[matrix.Field, str, list[str], list[str]]]:
    """Fields, each with one hostile text, a verb that changes nothing, and one or more that change the table."""
    start = [*tables.MADE].index(ground.name) * 3
    texts, changes, reads = [*hostile.values()], [*verbs.CHANGES[ground.form]], [*verbs.READS]
    every = [*matrix.fields(ground.content, ground.name)]
    fields = [field for field in every if field.option or _PATHS.match(field.place)] or every
    fields = fields[:: -(-len(fields) // _FIELDS)]
    each = -(-_VERBS // len(fields))
    for at, field in enumerate(fields, start):
        chosen = [changes[(at * each + step) % len(changes)] for step in range(each)]
        yield field, texts[at % len(texts)], chosen, [reads[at % len(reads)]]


@pytest.mark.slow
@pytest.mark.parametrize("table", tables.MADE)
def test_no_verb_leaves_the_table(table: str, tmp_path: Path) -> None:
    ground = matrix.Ground(tmp_path, table)
    wrong, refused, cells = [], 0, [*_cells(ground, matrix.LOCAL)]
    for field, template, changes, reads in cells:
        endings, found = matrix.run(ground, field, template, changes, reads)
        wrong += found
        refused += any(endings.values())
    ground.close()
    assert cells and not wrong
    assert refused or ground.name in UNREAD, "few verbs read what was changed"


@pytest.mark.slow
@pytest.mark.parametrize("table", REMOTE)
def test_no_verb_asks_a_bucket_for_more_than_the_table(table: str, store_server: StoreServer) -> None:
    ground = RemoteGround(store_server, table)
    wrong = []
    for field, template, changes, reads in itertools.islice(_cells(ground, matrix.REMOTE), 0, None, 2):
        wrong += matrix.run(ground, field, template, changes, reads)[1]
    assert not wrong


@pytest.mark.parametrize("form", ["hudi", "hudi, plain paths", "paimon", "iceberg"])
def test_values_of_partitions_name_no_place(form: str, tmp_path: Path) -> None:
    """A partition is a folder named by its value, which may be any text."""
    (tmp_path / "victim").mkdir()
    location, schema = tmp_path / "l1" / "table", pa.schema([("id", pa.int64()), ("part", pa.string())])
    options = {"hoodie.datasource.write.partitionpath.urlencode": "false"} if "plain" in form else {}
    lakebed.create(location, form.partition(",")[0], schema, ["id", "part"], ["part"], options)
    for at, hostile in enumerate(["../../victim/x", "..", f"{tmp_path}/victim/x", "a/../../../victim", "n" * 200, ""]):
        rows = pa.table({"id": [at], "part": [hostile]}, schema)
        with contextlib.suppress(LakebedError):
            lakebed.open(location).write(rows)
            kept = lakebed.open(location).read(where=f"id = {at}").read_all()
            assert kept.select(["id", "part"]).to_pylist() == rows.to_pylist()
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.iterdir()} == {"l1", "victim"}
    assert not [*(tmp_path / "victim").iterdir()] and [*(tmp_path / "l1").iterdir()] == [location]


def test_the_ground_sees_who_leaves_the_table(tmp_path: Path) -> None:
    """By Python, by Arrow's own files, and through a link; and what was changed there."""
    ground = matrix.Ground(tmp_path, "paimon append_dv")
    ground.hostile(next(matrix.fields(ground.content, ground.name)), "../victim/precious")
    precious = ground.victims[0] / "precious"
    for look in (
        lambda table, rows: precious.read_bytes(),
        lambda table, rows: pa.memory_map(str(precious)).close(),
        lambda table, rows: (ground.place / "out" / "precious").read_bytes(),
    ):
        ended, outside = ground.act(look)
        assert not ended and outside >= {str(precious)}
    assert not ground.victims_changed() and ground.act(lambda table, rows: precious.write_text("x"))[1]
    assert ground.victims_changed()
    assert ground.act(lambda table, rows: table.read().read_all()) == ("", set())
    ground.close()


def test_the_remote_ground_sees_who_leaves_the_table(store_server: StoreServer) -> None:
    ground = RemoteGround(store_server, "paimon append_dv")
    ground.hostile(next(matrix.fields(ground.content, ground.name)), "../victim/precious")
    other = open_store(ground.above, store_server.options)
    assert ground.act(lambda table, rows: other.read("victim/precious"))[1]
    assert ground.act(lambda table, rows: [*other.walk("victim")])[1]
    assert not ground.victims_changed()
    ground.act(lambda table, rows: other.delete("victim/precious"))
    assert ground.victims_changed()
    assert ground.act(lambda table, rows: table.read().read_all()) == ("", set())


@pytest.mark.parametrize("path", ["a//b", "a/./b", ".", "a\nb", "../a", "a\0b"])
def test_names_that_no_object_can_have_are_refused(path: str, store_server: StoreServer) -> None:
    store = open_store(store_server.url(), store_server.options)
    store_server.clear()
    for act in (store.read, store.size, store.list, store.delete, lambda path: store.write(path, b"")):
        with pytest.raises(UnsupportedError, match="path"):
            act(path)
    assert not store_server.requests()
