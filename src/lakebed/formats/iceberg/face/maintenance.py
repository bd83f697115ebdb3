"""Maintenance of an Iceberg table: rewrites, expiry, repair, and its metadata for another place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakebed.errors import OptionError, UnsupportedError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.face.opened import OpenedTable
from lakebed.kernel.options import option_texts
from lakebed.kernel.predicates.where import Where
from lakebed.verbs.arguments import checked_name

if TYPE_CHECKING:
    from lakebed.kernel.engine import Engine
    from lakebed.model.upkeep import ExpireResult, RelocateResult, RepairResult, RewriteResult, TablePathResult


class Maintenance(OpenedTable):
    """The verbs that maintain a table and change none of its rows."""

    def rewrite(
        self,
        where: Where = None,
        dry_run: bool = False,
        engine: Engine | None = None,
        options: Mapping[str, object] = {},
    ) -> RewriteResult:
        """Bin-pack, sort or z-order data files into files of the target size, in one REPLACE snapshot. Deletes are
        applied.

        `where` chooses files that may hold a matching row. A dry run says what would be rewritten and why, and what
        would not, and predicts files and bytes. Options are those of Iceberg's `rewrite_data_files`, and
        `lakebed.rewrite.*`. With `lakebed.rewrite.what` = position-deletes or manifests these are rewritten instead.
        Raises CommitConflictError when others changed the same files meanwhile; no new file stays then.
        """
        from lakebed.formats.iceberg.commit.callbacks import excluding_callbacks, named_callbacks, report_rewrite
        from lakebed.formats.iceberg.rewrite.choose import rewrite
        from lakebed.formats.iceberg.write.options import WAP_ID

        given = option_texts(options)
        callbacks = named_callbacks({**self.options, **given}).made
        commit = {k: v for k, v in self._properties.items() if k.startswith("commit.")}
        memory = self._parsed[opt.DELETE_MEMORY]
        chosen = excluding_callbacks(given)
        if WAP_ID.key in {key.lower() for key in (*self.options, *given)}:
            raise OptionError(
                f"a rewrite cannot be staged by {WAP_ID.key}", key=WAP_ID.key, table=self.operations.name,
                todo="Rewrite a branch, with the option branch",
            )  # fmt: skip
        done = rewrite(self.operations, self._target, where, chosen, commit, memory, dry_run, engine)
        return report_rewrite(done, self.operations.name, () if dry_run else callbacks)

    def expire(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> ExpireResult:
        """Expire old snapshots of all branches, and remove the files that only they have.

        With `remove-orphan-files`, files that no snapshot knows go as well, once they are old enough. Options are the
        arguments of Iceberg's procedures (docs/iceberg-upkeep.md). Raises UnsupportedError where `gc.enabled` is false.
        """
        from lakebed.formats.iceberg.expire.options import parsed
        from lakebed.formats.iceberg.expire.steps import expire_by_steps

        given = parsed(self._given(options))
        return expire_by_steps(self.operations, given, dry_run)

    def repair(
        self, dry_run: bool = False, engine: Engine | None = None, options: Mapping[str, object] = {}
    ) -> RepairResult:
        """Check the files of the branch's head, and commit a snapshot without those that are gone or damaged.

        Options are `lakebed.repair.*` (docs/iceberg-repair.md). Raises CorruptError where the caller must decide: lost
        deletes, whose rows would come back, a lost manifest list, more than half of the files lost. StorageError when
        the store does not answer: a file is lost only if the store says so. CommitConflictError, CommitUnknownError.
        """
        from lakebed.formats.iceberg.repair.run import repair

        given = self._given(options)
        return repair(self.operations, self._target, given, dry_run, engine)

    def relocate(self, dry_run: bool = False) -> RelocateResult:
        """After the table was moved or copied: make its metadata name the folder where it was opened.

        Manifests, manifest lists and position delete files of all snapshots are rewritten with the paths of this
        folder, and the next metadata version names them. UnsupportedError for a catalog's table, and where files are
        missing here; CommitConflictError when another change was faster.
        """
        from lakebed.formats.iceberg.relocate.run import relocate

        if not isinstance(self.operations, HadoopTable):
            raise UnsupportedError(
                "the catalog decides where this table lies",
                table=self.operations.name,
                todo="Register the metadata file of the new location with the catalog",
            )
        return relocate(self.operations, dry_run)

    def rewrite_table_path(self, target: str, staging: str, since: str = "", dry_run: bool = False) -> TablePathResult:
        """Write the metadata of a copy of the table at `target` to the folder `staging`, and list the files to copy.

        The table is only read: it may be a backup that no catalog knows, or a table that was moved. With `since`, the
        name of an older metadata file, data files that an earlier copy has are left out. Copy each pair of `copies`
        (also in `staging`/file-list.csv), then register `metadata`, or open the target by its path. Raises
        UnsupportedError for a table with files outside its folder, UsageError for folders inside one another.
        """
        from lakebed.formats.iceberg.relocate.copy import rewrite_table_path

        return rewrite_table_path(
            self.operations, checked_name(target, "target"), checked_name(staging, "staging folder"), since, dry_run
        )
