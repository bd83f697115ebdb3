"""What taking a completed instant back does, or a table service that is pending: the files that it made go.

All files go that have the instant in their names. In table version 6 and older the log files of a slice are named by
the slice's base instant: where that stays, a command block takes the instant's blocks back.

Rules: Hudi's `ListingBasedRollbackStrategy` for restores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lakebed.errors import CorruptError
from lakebed.formats.hudi.codec.metadata import CommitMetadata
from lakebed.formats.hudi.codec.plans import InstantInfo, RollbackPlan, RollbackRequest
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.rollback import is_failed_write, plan_rollback
from lakebed.formats.hudi.layout import file_path, parse_base_name, parse_log_name
from lakebed.formats.hudi.timeline.active import Entry, Timeline
from lakebed.formats.hudi.timeline.pending_services import pending_services


def plan_undo(context: WriteContext, timeline: Timeline, entry: Entry, going: Collection[str]) -> RollbackPlan:
    """The plan that takes an instant back, while all instants of `going` are taken back."""
    if not entry.done and is_failed_write(context, entry):
        return plan_rollback(context, entry)
    if not entry.done:
        requests = _deletions(context, entry.time, _named(context, entry.time, _planned(context, timeline, entry)))
    else:
        commit = context.files.commits([entry])[entry.time]
        paths = _written(entry.time, commit)
        if context.config.merge_on_read and not context.config.completion_times:
            paths |= _named(context, entry.time, {stat.partition for stat in commit.stats})
        requests = _deletions(context, entry.time, paths)
        requests += _blocks(context, entry.time, commit, going)
    return RollbackPlan(
        instant_to_rollback=InstantInfo(commit_time=entry.time, action=entry.action), requests=tuple(requests)
    )


def _written(instant: str, commit: CommitMetadata) -> set[str]:
    """The paths of the files that a commit made."""
    paths = set()
    for stat in commit.stats:
        names = {stat.name, *stat.logs, *(path.rpartition("/")[2] for path in stat.cdc)}
        paths |= {file_path(stat.partition, name) for name in names if _instant_of(name) == instant}
    return paths


def _named(context: WriteContext, instant: str, partitions: Iterable[str]) -> set[str]:
    """The paths of the files in some partitions that have an instant in their names."""
    listings = context.store.list_many(sorted(partitions))
    return {info.path for listing in listings for info in listing.files if _instant_of(info.name) == instant}


def _instant_of(name: str) -> str:
    """The instant in the name of a base file or log file, "" for other names."""
    parsed = parse_log_name(name) or parse_base_name(name)
    return parsed[1].instant if parsed is not None else ""


def _planned(context: WriteContext, timeline: Timeline, entry: Entry) -> set[str]:
    """The partitions of a pending table service."""
    services = pending_services(context.store, timeline)
    taken = (services.compacting, services.log_compacting, services.clustering)
    return {group[0] for groups in taken for group, instant in groups.items() if instant == entry.time}


def _deletions(context: WriteContext, instant: str, paths: Iterable[str]) -> list[RollbackRequest]:
    requests = []
    for path in sorted(paths):
        partition, _, name = path.rpartition("/")
        parsed = parse_log_name(name) or parse_base_name(name)
        if parsed is None:
            raise CorruptError(
                "an instant that is to be rolled back names a file that is not a data file",
                table=context.store.location,
                instant=instant,
                file=path,
                todo="Restore the instant's files from a copy",
            )
        requests.append(
            RollbackRequest(
                partition_path=partition,
                file_id=parsed[0],
                latest_base_instant=instant,
                files_to_be_deleted=(context.location_of(path),),
            )
        )
    return requests


def _blocks(
    context: WriteContext, instant: str, commit: CommitMetadata, going: Collection[str]
) -> list[RollbackRequest]:
    """Command blocks for the log files of slices that stay. From table version 8 on a log file is of one instant."""
    slices: dict[tuple[str, str, str], str] = {}
    for stat in commit.stats:
        if context.config.completion_times or not stat.is_log:
            continue
        parsed = parse_log_name(stat.name)
        if parsed is not None and parsed[1].instant != instant and parsed[1].instant not in going:
            slices[stat.partition, parsed[0], parsed[1].instant] = stat.path
    return [
        RollbackRequest(
            partition_path=partition,
            file_id=file_id,
            latest_base_instant=base,
            log_blocks_to_be_deleted={context.location_of(path): 1},
        )
        for (partition, file_id, base), path in sorted(slices.items())
    ]
