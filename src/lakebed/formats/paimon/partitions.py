"""The folders of a table's partitions.

Rules: Paimon's FileStorePathFactory. Manifests do not name folders: a folder follows from the partition's values. Where
Java's releases write a value in two ways, the folder that has files is the one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField
from lakebed.formats.paimon.layout import partition_level
from lakebed.formats.paimon.partition_text import is_blank, spellings
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options


@dataclass(slots=True)
class PartitionFolders:
    """Finds the folder of each partition, `k1=v1/k2=v2/`. It is "" for a table without partitions.

    Null, empty and blank texts all have the default name, so two partitions can share a folder.
    """

    store: Store
    fields: tuple[DataField, ...]
    default: str
    legacy: bool
    _folders: dict[bytes, str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store, schema: TableSchema, options: Options) -> PartitionFolders:
        """The folders of a table."""
        fields = schema.project(schema.partition_keys)
        return cls(store, fields, options[opt.PARTITION_DEFAULT_NAME], options[opt.PARTITION_LEGACY_NAME])

    def look(self, partitions: Iterable[bytes]) -> None:
        """Look for the folders of several partitions together, where the store has to be asked for them."""
        doubtful: list[bytes] = []
        for partition in dict.fromkeys(partitions):
            if partition not in self._folders:
                spelled = self._spelled(self._values(partition))
                if len(spelled) == 1:
                    self._folders[partition] = spelled[0]
                else:
                    doubtful.append(partition)
        self.store.together(self.of_row, doubtful)

    def of_row(self, partition: bytes) -> str:
        """The folder of a partition, given as its bytes in manifests. Raises UnsupportedError as `of_values` does."""
        if partition not in self._folders:
            self._folders[partition] = self.of_values(self._values(partition))
        return self._folders[partition]

    def of_values(self, values: Sequence[Any]) -> str:
        """The folder of a partition's plain values.

        Of two spellings the one that holds files, the first for a new partition. UnsupportedError when both hold some,
        for then no engine sees all rows, and for types whose folders nobody can name.
        """
        folders = self._spelled(values)
        if len(folders) == 1:
            return folders[0]
        held = [folder for folder in folders if self._holds_files(folder)]
        if len(held) > 1:
            raise UnsupportedError(
                f"the files of one partition are in {' and in '.join(held)}",
                table=self.store.location,
                why="engines on Java before and since release 19 wrote to it, and each sees only its own folder",
                todo="Move the files of one folder into the other",
            )
        return (held or folders)[0]

    def _values(self, partition: bytes) -> Sequence[Any]:
        return decode_row(without_arity(partition), [item.type for item in self.fields])

    def _spelled(self, values: Sequence[Any]) -> list[str]:
        """The folders that a partition may have, by how its values can be written."""
        texts = [
            (None,) if value is None else spellings(value, item.type, self.legacy)
            for item, value in zip(self.fields, values, strict=True)
        ]
        return ["".join(map(self._level, self.fields, choice)) for choice in itertools.product(*texts)]

    def _level(self, item: DataField, text: str | None) -> str:
        return partition_level(item.name, self.default if text is None or is_blank(text) else text)

    def _holds_files(self, folder: str) -> bool:
        return next(iter(self.store.walk(folder.rstrip("/"))), None) is not None
