"""The manifests of what a commit changes, which are the same in each of its attempts.

They name only the commit's own files. So they can be made before the writer has its turn, and an attempt that loses its
race leaves them to the next one, which then writes no more than what depends on the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from lakebed.errors import StorageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.commit.kinds import Changes
from lakebed.formats.paimon.commit.manifest_merge import MergeSettings
from lakebed.formats.paimon.commit.manifests import ManifestWriter
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options


class Delta:
    """The manifests and manifest lists of some changes. `files` and `changelog` are the lists' names and sizes in
    bytes, (None, None) for no changelog.

    `is_named` is whether a snapshot names them or may do so: then they stay.
    """

    def __init__(self, store: Store, schema: TableSchema, options: Options, changes: Changes) -> None:
        types = [item.type for item in schema.project(schema.partition_keys)]
        self._store, self._writer = store, ManifestWriter(store, types, schema.id, MergeSettings.of(options))
        writer, changelog = self._writer, changes.changelog
        self.files = writer.manifest_list(writer.manifests(changes.entries))
        self.changelog: tuple[str | None, int | None] = (None, None)
        if changelog:
            self.changelog = writer.manifest_list(writer.manifests(changelog))
        self.is_named = False

    def write(self) -> None:
        """Write the files now."""
        self._writer.flush()

    def unwritten(self) -> Mapping[str, bytes]:
        """The files that are not in the store yet. They are about to be written, so they are given once."""
        return self._writer.take()

    def remove(self) -> None:
        """Remove the files, unless they are named; orphan-file removal cleans up any leftovers."""
        if not self.is_named and self._writer.written:
            paths, self._writer.written = self._writer.written, []
            with suppress(StorageError):
                self._store.delete_many(paths)


def is_fixed(options: Options, replaces: bool) -> bool:
    """Whether a commit's entries do not depend on the newest snapshot: it replaces nothing of it, and its rows are not
    numbered."""
    return not replaces and not options[opt.ROW_TRACKING]
