"""The changes of an Iceberg table's definition in its life, and what they make of the model's columns and spec."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.interop.iceberg_state import WIDER, Column
from tests.interop.iceberg_steps import Steps

TRANSFORMS = ("part", "bucket(2, id)", "bucket(5, part)", "month(day)", "day(day)", "truncate(1, part)")
PROPERTIES = (
    ("write.delete.mode", "merge-on-read"), ("write.delete.mode", "copy-on-write"),
    ("write.merge.mode", "merge-on-read"), ("write.merge.mode", "copy-on-write"),
    ("write.target-file-size-bytes", "2000"), ("write.target-file-size-bytes", "100000000"),
    ("commit.manifest.min-count-to-merge", "2"), ("commit.manifest-merge.enabled", "false"),
    ("write.metadata.metrics.default", "none"), ("write.metadata.metrics.default", "full"),
    ("write.delete.granularity", "partition"), ("write.delete.granularity", "file"),
    ("write.parquet.compression-codec", "gzip"), ("write.object-storage.enabled", "true"),
    ("write.metadata.delete-after-commit.enabled", "true"), ("write.metadata.previous-versions-max", "3"),
)  # fmt: skip
"""Properties that may change in a table's life, and no row with them."""


class Changes(Steps):
    """What is changed of a table's columns, partition fields, sort order, properties and version."""

    def _alter(self) -> None:
        changes = [self._add, self._add, self._drop, self._rename, self._widen, self._move, self._spec, self._sort,
                   self._property, self._property, self._upgrade]  # fmt: skip
        self.chance.choice(changes)()

    def _add(self) -> None:
        kind = self.chance.choice(("int", "string", "date", "float", "decimal(9, 2)"))
        column = Column(f"c{self.number}", f"c{self.number}", kind)
        # Iceberg 1.10 cannot read a decimal with a default where a file has the column as whole numbers, as all do.
        if self.version > 2 and "decimal" not in kind and self.chance.random() < 0.5:
            column = replace(column, default=column.value(random.Random(self.number + 1)))
        if self.by(f"add {column.name} {kind} default {column.default}", lambda actor: actor.alter("add", column)):
            self.place.columns = (*self.columns, column)
            if column.default is not None:
                self.traits.add("default")

    def _drop(self) -> None:
        used = " ".join((*self.spec, *self.sort))
        names = [c.name for c in self.columns if c.held not in ("id", "part", "day") and c.name not in used]
        if len(names) < 2:
            return self._add()
        name = self.chance.choice(names)
        if self.by(f"drop {name}", lambda actor: actor.alter("drop", name)):
            self.place.columns = tuple(column for column in self.columns if column.name != name)
            self.traits.add("dropped")
        return None

    def _rename(self) -> None:
        used = " ".join((*self.spec, *self.sort))
        names = [c.name for c in self.columns if c.held not in ("id", "part", "day") and c.name not in used]
        if not names:
            return self._add()
        name, to = self.chance.choice(names), f"r{self.number}"
        if self.by(f"rename {name} to {to}", lambda actor: actor.alter("rename", name, to)):
            self.place.columns = tuple(replace(c, name=to) if c.name == name else c for c in self.columns)
        return None

    def _move(self) -> None:
        name, after = self.chance.sample([column.name for column in self.columns], 2)
        to = self.chance.choice((after, ""))
        if self.by(f"move {name} after {to}", lambda actor: actor.alter("move", name, to)):
            (moved,) = (column for column in self.columns if column.name == name)
            rest = [column for column in self.columns if column is not moved]
            place = [column.name for column in rest].index(to) + 1 if to else 0
            self.place.columns = (*rest[:place], moved, *rest[place:])

    def _widen(self) -> None:
        narrow = [column for column in self.columns if column.type in WIDER]
        if not narrow:
            return self._add()
        column = self.chance.choice(narrow)
        to = WIDER[column.type]
        if self.by(f"widen {column.name} to {to}", lambda actor: actor.alter("widen", column, to)):
            self.place.columns = tuple(replace(c, type=to) if c is column else c for c in self.columns)
        return None

    def _spec(self) -> None:
        if self.spec and self.chance.random() < 0.6:
            gone = self.chance.choice(self.spec)
            if self.by(f"unpartition {gone}", lambda actor: actor.alter("unpartition", gone)):
                self.spec = tuple(one for one in self.spec if one != gone)
            return
        # A field's source may have one field of a kind alone: day(day) beside month(day) is refused as redundant.
        sources = {_source(one) for one in self.spec}
        free = [one for one in TRANSFORMS if _source(one) not in sources]
        if len(self.spec) > 1 or not free:
            return
        new = self.chance.choice(free)
        if self.by(f"partition {new}", lambda actor: actor.alter("partition", new)):
            self.spec = (*self.spec, new)

    def _sort(self) -> None:
        order = self.chance.choice((("id",), ("part", "id"), ()))
        if self.by(f"sort by {order}", lambda actor: actor.alter("sort", *order)):
            self.sort = order

    def _property(self) -> None:
        key, value = self.chance.choice(PROPERTIES)
        if self.version == 1 and value == "merge-on-read":
            return
        self.by(f"property {key}={value}", lambda actor: actor.alter("property", key, value))

    def _upgrade(self) -> None:
        if self.version > 2:
            return self._property()
        if self.by(f"upgrade to {self.version + 1}", lambda actor: actor.alter("upgrade", self.version + 1)):
            if self.version == 1:
                self.traits.add("upgraded")
            self.version += 1
            self.place.version = self.version
        return None


def _source(transform: str) -> str:
    return transform.rstrip(")").split("(")[-1].split(", ")[-1]
