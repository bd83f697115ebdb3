"""Orphan files: files in the table's folder that no snapshot, tag or changelog of any branch names.

They are what dead writers left, rows that their tasks had staged too, and what only a branch held that is gone. Only
their age tells them from the files of a writer at work, whose commit has not come yet.

Rules: Paimon's OrphanFilesClean. The folders are listed before the metadata is read, so files that are committed
meanwhile are known. Names are unique in a table, so a name that anything has keeps a file wherever it lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from lakebed.errors import DataCleanedError, LakebedError, OptionError, counted
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.expire.options import ORPHANS_AGE
from lakebed.formats.paimon.expire.unused import UnusedFiles
from lakebed.formats.paimon.journal import expiring
from lakebed.formats.paimon.layout import MAIN_BRANCH, OWN_FOLDER, STAGING_FOLDER, branch_prefix, snapshot_path
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel import clock
from lakebed.kernel.again import looks_again
from lakebed.kernel.files.age import certain_now, older_than
from lakebed.kernel.options import Options
from lakebed.model.upkeep import ExpireResult, Skipped

_LEAST_AGE_MS = 3_600_000
_METADATA = ("manifest", "index", "statistics")
_POINTERS = ("EARLIEST", "LATEST")


def remove_orphans(
    history: History, schema: TableSchema, options: Options, own: Options, dry_run: bool
) -> ExpireResult:
    """Remove orphan files that are older than the option says; younger ones are named in `kept`.

    OptionError for an age below an hour, UnsupportedError for tables that lakebed does not write, DataCleanedError for
    a tag whose files are gone: what it names cannot be told from orphans then.
    """
    store, age = history.store, own[ORPHANS_AGE]
    if age < _LEAST_AGE_MS:
        raise OptionError(
            f"option {ORPHANS_AGE.key!r} leaves less than an hour",
            key=ORPHANS_AGE.key,
            table=store.location,
            why="files of writers at work would count as orphans",
            todo="Give at least 1 h, and more than the time from the first file of any write to its commit",
        )
    refuse_unserved(schema, options, Use.UPKEEP, store.location)
    late = _late_snapshots(history)
    now = clock.now() if dry_run or not late else certain_now(store, OWN_FOLDER)
    gone = older_than(store, late, now - age / 1000)
    if not dry_run:
        store.delete_many(gone)
    try:
        result = _remove(history, schema, options, own, dry_run)
        return replace(result, deleted_files=(*gone, *result.deleted_files))
    except DataCleanedError as error:
        if gone and dry_run:
            others = Skipped("other files", "which of them are orphans can be told once these are gone")
            return ExpireResult((), tuple(gone), (others,), dry_run)
        for name, tagged in history.tagged().items():
            with suppress(LakebedError):
                UnusedFiles(history, schema, options).of_tag(tagged)
                continue
            raise DataCleanedError(
                f"tag {name!r} has lost files",
                table=store.location,
                instant=str(tagged.id),
                file=error.file,
                why="its snapshot had expired when it was made, and who made it died before it saw that",
                todo=f"Nothing can read it any more: run table.delete_tag({name!r}), then this again",
            ) from error
        raise


def _late_snapshots(history: History) -> list[str]:
    """The snapshot files that came when their numbers had expired, from a writer that died before it saw that: they are
    before the oldest snapshot, with which readers begin. What an expiry is removing is not late."""
    oldest = history.earliest()
    if oldest is None:
        return []
    late = sorted(number for number in history.snapshot_ids() if number < oldest.id)
    going = expiring(history) if late else ()
    return [path for number in late if (path := snapshot_path(history.branch, number)) not in going]


@looks_again
def _remove(history: History, schema: TableSchema, options: Options, own: Options, dry_run: bool) -> ExpireResult:
    store, age = history.store, own[ORPHANS_AGE]
    candidates = [*_candidates(history, len(schema.partition_keys))]
    if history.latest() is None:
        return ExpireResult((), (), (Skipped("all files", "the branch has no snapshot that would name any"),), dry_run)
    named = {path.rpartition("/")[2] for path in UnusedFiles(history, schema, options).all_named()}
    unnamed = sorted(path for path in candidates if path.rpartition("/")[2] not in named)
    now = clock.now() if dry_run or not unnamed else certain_now(store, OWN_FOLDER)
    old = {*older_than(store, unnamed, now - age / 1000)}
    why = f"it is younger than {counted(age / 3_600_000, 'hour')} ({ORPHANS_AGE.key})"
    kept = tuple(Skipped(path, why) for path in unnamed if path not in old)
    going = tuple(path for path in unnamed if path in old)
    if not dry_run:
        store.delete_many(going)
    return ExpireResult((), going, kept, dry_run)


def _candidates(history: History, levels: int) -> Iterator[str]:
    """The files that something should name: those of buckets, below so many levels of partitions, metadata, what lies
    beside snapshots and changelogs, and staged rows."""
    prefixes = [branch_prefix(branch) for branch in (MAIN_BRANCH, *history.branches())]
    beside = {f"{prefix}{kind}": f"{kind}-" for prefix in prefixes for kind in ("snapshot", "changelog")}
    for info in history.store.walk():
        folder, _, name = info.path.rpartition("/")
        parts = folder.split("/")
        if folder in beside:
            if name not in _POINTERS and not name.startswith(beside[folder]):
                yield info.path
        elif folder in (*_METADATA, STAGING_FOLDER) or (len(parts) == levels + 1 and parts[-1].startswith("bucket-")):
            yield info.path
