"""The matrix: a hostile text in one field of one kind of file, and what a verb touches then."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakebed
from lakebed.errors import LakebedError
from tests.confinement import documents, tables, verbs
from tests.confinement.tables import Content, Kind
from tests.confinement.watched import Watched

LOCAL = {
    "one up": "../victim/{tail}", "two up": "../../victim/{tail}", "three up": "../../../victim/{tail}",
    "four up": "x/../../../../../victim/{tail}", "below itself": "{old}/../../victim/{tail}",
    "absolute": "{victim}/{tail}", "file URL": "file://{victim}/{tail}", "file": "file:{victim}/{tail}",
    "out of the table": "{table}/../victim/{tail}", "beside it": "{table}x/{tail}", "a link": "{link}/{tail}",
    "a link by its whole path": "{table}/{link}/{tail}", "another store": "s3://other/{tail}",
    "percents": "..%2f..%2fvictim%2f{tail}", "a NUL": "a\0b{tail}", "very long": "n" * 5000,
}  # fmt: skip
"""Hostile texts by name. `tail` is the last name of the old text, `link` a link in the table that leads to a victim."""
REMOTE = {
    "one up": "../victim/{tail}", "two up": "../../victim/{tail}", "below itself": "{old}/../../victim/{tail}",
    "another bucket": "s3://other/{tail}", "the same bucket": "{victim}/{tail}", "out of the table":
    "{table}/../victim/{tail}", "beside it": "{table}x/{tail}", "another spelling": "s3a://other/{tail}",
    "another host": "http://127.0.0.1:1/{tail}", "absolute": "/victim/{tail}", "percents":
    "{table}/%2e%2e/victim/{tail}", "percents alone": "%2e%2e/%2e%2e/victim/{tail}", "a query": "{table}?x=/../{tail}",
    "a NUL": "a\0b{tail}", "two slashes": "{table}//../victim/{tail}", "a dot": "./../victim/{tail}",
}  # fmt: skip
SETTINGS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("hudi", "properties"): (
        "hoodie.table.metadata.partitions", "hoodie.archivelog.folder", "hoodie.timeline.path",
        "hoodie.timeline.history.path", "hoodie.table.index.defs.path", "hoodie.bootstrap.base.path",
        "hoodie.table.base.file.format", "hoodie.table.log.file.format", "hoodie.memory.spillable.map.path",
        "hoodie.write.lock.filesystem.path", "hoodie.write.lock.provider", "hoodie.write.markers.type",
        "hoodie.database.name", "hoodie.base.path", "hoodie.table.partition.fields", "hoodie.table.name",
        "hoodie.table.secondary.indexes.metadata", "hoodie.table.metadata.partitions.inflight",
    ),
    ("paimon", "schema"): (
        "path", "branch", "data-file.prefix", "changelog-file.prefix", "partition.default-name",
        "data-file.path-directory", "data-file.external-paths", "file.format", "changelog-file.format",
        "file.compression", "manifest.format", "manifest.compression", "global-index.external-path",
        "scan.fallback-branch", "lakebed.scratch.dir", "file-index.in-manifest-threshold", "tag.automatic-creation",
        "metadata.iceberg.storage-location", "consumer-id", "auto-create-table.path",
    ),
    ("iceberg", "metadata"): (
        "write.data.path", "write.metadata.path", "write.folder-storage.path", "write.object-storage.path",
        "write.format.default", "write.metadata.compression-codec", "schema.name-mapping.default",
        "write.parquet.compression-codec", "write.delete.format.default", "write.location-provider.impl",
    ),
}  # fmt: skip
"""Options of a format that are tried too, by the kind of file that has them."""
WITH_SETTINGS = ("hudi mor_v6", "paimon pk_null_part", "iceberg v2")
"""The tables in which they are tried."""


@dataclass(frozen=True)
class Field:
    """A text of a kind of file: at a place there, or the option of this name."""

    kind: Kind
    place: str
    option: str = ""

    def __str__(self) -> str:
        return f"{self.kind.table}, {self.kind.name}: {self.option or self.place}"

    def edited(self, content: Content, value: Callable[[str], str]) -> Content:
        """A table with the text in each file of the kind."""
        files = {path: self._file(content[path], value) for path in self.kind.files(content)}
        assert any(content[path] != data for path, data in files.items()), f"{self} is nowhere"
        return {**content, **files}

    def _file(self, data: bytes, value: Callable[[str], str]) -> bytes:
        if not self.option:
            return documents.edited(data, self.place, value)
        return documents.with_option(data, self.option, value(self.option))


def fields(content: Content, table: str) -> Iterator[Field]:
    """All fields of a table."""
    for kind in tables.KINDS:
        if kind.table == table:
            yield from (Field(kind, place) for place in kind.fields(content))
            options = SETTINGS.get((table.split()[0], kind.name), ()) if table in WITH_SETTINGS else ()
            yield from (Field(kind, "", option) for option in options)


class Ground:
    """A table in a folder, with links out of it and folders beside it that nothing may touch.

    Three rows of the whole table are `rows`, to write again.
    """

    def __init__(self, folder: Path, table: str) -> None:
        self.name, self.form = table, table.split()[0]
        self._link = ".hoodie/out" if self.form == "hudi" else "out"  # a link among partitions would be refused at once
        self.place = folder / "l1" / "l2" / "l3" / "table"
        above = [*self.place.parents][:4]
        self.victims = [parent / "victim" for parent in above] + [self.place.with_name("tablex")]
        for victim in self.victims:
            victim.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.place, ignore_errors=True)
        self.content = tables.MADE[table](str(self.place), {}) or tables.read(self.place)
        self.watched = Watched(folder, self.victims)
        self.lay(self.content)
        self.rows = tables.some_rows(self.place)

    def lay(self, content: Content) -> None:
        """The table's files, in place of what was there."""
        tables.lay(content, self.place)
        (self.place / self._link).symlink_to(self.victims[0])

    def hostile(self, field: Field, template: str) -> Content:
        """The table with a hostile text in a field, and the victims with the files that it names."""
        tails: dict[str, str] = {}

        def value(old: str) -> str:
            tail = old.rpartition("/")[2] or "precious"
            tails[tail] = old
            return template.format(old=old, tail=tail, table=self.place, victim=self.victims[0], link=self._link)

        content = field.edited(self.content, value)
        by_name = {path.rpartition("/")[2]: data for path, data in self.content.items()}
        for victim in self.victims:
            shutil.rmtree(victim)
            victim.mkdir()
            for tail in ["precious", *tails][:6]:
                if 0 < len(tail) < 200 and "\0" not in tail:
                    (victim / tail).write_bytes(by_name.get(tail, b"precious"))
                    os.utime(victim / tail, (0, 0))
        self.watched.watch(self.victims)
        self._before = self._victims()
        return content

    def victims_changed(self) -> bool:
        """Whether a file beside the table is not what it was."""
        return self._victims() != self._before

    def _victims(self) -> list[Content]:
        return [tables.read(victim) for victim in self.victims]

    def act(self, verb: Callable[[Any, pa.Table], object]) -> tuple[str, set[str]]:
        """How a verb ends ("" or the name of its error), and the places outside the table that it touched."""
        ended = ""
        self.watched.touched()
        with self.watched.watching(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                verb(lakebed.open(self.place), self.rows)
            except LakebedError as error:
                ended = type(error).__name__
        root = os.path.realpath(self.place)
        return ended, {place for place in self.watched.touched() if not f"{place}/".startswith(f"{root}/")}

    def close(self) -> None:
        """End the watch."""
        self.watched.close()


def run(
    ground: Any, field: Field, template: str, changes: Iterable[str], reads: Iterable[str] = verbs.READS
) -> tuple[dict[str, str], list[str]]:
    """How each verb ended ("" where it did what was asked), and what is wrong: each place outside the table that a verb
    touched, and each error that is none of lakebed's."""
    content = ground.hostile(field, template)
    endings, wrong = {}, []
    acts = {name: verbs.READS[name] for name in reads} | {name: verbs.CHANGES[ground.form][name] for name in changes}
    fresh = False
    for name, act in acts.items():
        if name not in verbs.READS or not fresh:
            ground.lay(content)
            fresh = True
        try:
            endings[name], outside = ground.act(act)
        except Exception as error:  # whatever it is
            wrong.append(f"{field}, {name}, {template}: {type(error).__name__}: {str(error)[:200]}")
            continue
        wrong += [f"{field}, {name}, {template}: touches {place}" for place in sorted(outside)]
    if ground.victims_changed():
        wrong.append(f"{field}, {template}: a file outside the table was changed")
    return endings, wrong
