"""An Iceberg table that was opened, by its path or from a catalog: its options, its branch and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from lakebed.errors import OptionError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.write.options import OPTIONS as WRITE_OPTIONS
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options, option_texts
from lakebed.verbs.table import Table

OPTIONS = opt.OPTIONS + WRITE_OPTIONS
"""The options of opening a table. They include those of reads and of writes."""


class OpenedTable(Table):
    """The opened table that every part of the face shares. The option `branch` chooses a branch."""

    format: ClassVar[str] = "iceberg"
    unknown_to_format: ClassVar[Mapping[str, str]] = {"archive": "Bound its history by expiring snapshots"}

    def __init__(
        self, store: Store, options: Mapping[str, str] = {}, operations: TableOperations | None = None
    ) -> None:
        super().__init__(store, options)
        parsed = OPTIONS.parse(options)
        OPTIONS.note_idle(options, "Iceberg")
        self.operations = operations or HadoopTable(store, options)
        self._wap_branch, self._target = parsed[opt.WAP_BRANCH], parsed[opt.WAP_BRANCH] or parsed[opt.BRANCH]
        metadata = self.table_metadata
        if not self._wap_branch:
            metadata.head(self._target)
            return
        opt.refuse_without_audit(metadata.properties, options, opt.WAP_BRANCH.key, self.operations.name)
        if parsed.given(opt.BRANCH):
            raise OptionError(
                f"{opt.BRANCH.key} and {opt.WAP_BRANCH.key} are given", key=opt.WAP_BRANCH.key,
                table=self.operations.name, todo="Give one of them",
            )  # fmt: skip
        metadata.parent_on(self._target)

    @property
    def branch_name(self) -> str:
        """The branch to read: that of the option `branch`, or of `wap.branch` once it exists, else `main`."""
        return self._target if not self._wap_branch or self._wap_branch in self.table_metadata.refs else MAIN

    @property
    def table_metadata(self) -> TableMetadata:
        """The current metadata, read at each call."""
        return self.operations.load().metadata

    @property
    def schema(self) -> pa.Schema:
        """The table's columns as Arrow has them."""
        return arrow_schema(self.table_metadata.schema)

    @property
    def _parsed(self) -> Options:
        """The options of `open`, with their defaults."""
        return OPTIONS.parse(self.options)

    @property
    def _properties(self) -> dict[str, str]:
        """The options of `open` that take precedence over table properties."""
        return {key: value for key, value in self.options.items() if opt.known_property(key)}

    def _given(self, options: Mapping[str, object]) -> dict[str, str]:
        """The options of one call, over those of `open` that take precedence over table properties."""
        return {**self._properties, **option_texts(options)}
