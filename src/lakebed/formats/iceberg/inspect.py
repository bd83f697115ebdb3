"""The health report of an Iceberg table: snapshots, files, deletes, manifests and metadata, and what to do.

The thresholds are those of the maintenance verbs. A file is small below 0.75 of the table's target size, a partition is
worth a rewrite with 5 small files, and deletes of 0.3 of a table's rows make every read slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakebed.errors import DataCleanedError, LakebedError, UnsupportedError, counted
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations, refuse_reading_manifests
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.expire.options import OPTIONS as EXPIRE
from lakebed.formats.iceberg.expire.plan import plan_expiry
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.live_files import COLUMNS, LiveFiles
from lakebed.formats.iceberg.manifests import iter_entries, loaded_with_list, manifests_ahead, manifests_of
from lakebed.formats.iceberg.pictures import pictures_of_files, pictures_of_snapshots
from lakebed.formats.iceberg.snapshot import ancestors, iso_time
from lakebed.formats.iceberg.statistics.report import statistics_report
from lakebed.kernel import clock
from lakebed.kernel.again import is_gone
from lakebed.kernel.options import Option, Options, OptionSet, at_least
from lakebed.model.fixes import Fix
from lakebed.model.pictures import Picture
from lakebed.model.report import Figure, Finding, Health, TableReport
from lakebed.model.units import size_text
from lakebed.model.upkeep import Blocker

_TARGET = Option("write.target-file-size-bytes", at_least(1), 512 << 20, "Target size of data files, bytes.")
_OPTIONS = EXPIRE + OptionSet((_TARGET,), "inspect", ())
_SMALL, _WORTH, _DELETED = 0.75, 5, 0.3
_MANY_MANIFESTS = 50
_LARGE_METADATA = 16 << 20


def inspect(operations: TableOperations, branch: str, options: Mapping[str, str] = {}) -> TableReport:
    """The report of one branch. A metadata file that is missing or damaged is a finding, not an error.

    `options` are those of `expire`, and table properties that take precedence over the table's own. OptionError for
    others, DataCleanedError when the snapshot expires meanwhile, UnsupportedError where the catalog plans scans.
    """
    given = _OPTIONS.parse(options)
    loaded, files = loaded_with_list(operations, branch)
    refuse_reading_manifests(operations)
    report = _Report(operations, files, loaded, branch, given, opt.properties(loaded.metadata.properties, given.raw))
    report.table()
    report.snapshots()
    try:
        report.files()
    except (LakebedError, FileNotFoundError) as error:
        if is_gone(error) and operations.load().location != loaded.location:
            raise DataCleanedError(
                "the snapshot expired while it was inspected", table=operations.name, why=str(error), todo="Try again"
            ) from error
        report.findings.append(Finding(
            Health.BROKEN, "the newest snapshot cannot be read completely", str(error),
            "Restore the file, or roll back to a snapshot that is complete",
        ))  # fmt: skip
    report.statistics()
    report.metadata_files()
    return TableReport(
        operations.name,
        "iceberg",
        report.figures,
        tuple(report.findings),
        tuple(report.blockers),
        (*report.pictures, *pictures_of_snapshots(loaded.metadata, branch, report.blockers)),
        report.now,
    )


@dataclass(slots=True)
class _Report:
    operations: TableOperations
    at_hand: Files
    loaded: Loaded
    branch: str
    given: Options
    properties: Options
    figures: dict[str, Mapping[str, Figure]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    blockers: list[Blocker] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    now: int = field(default_factory=clock.now_ms)

    def followable(self, remedy: str) -> str:
        """A remedy that works: a table that cannot be changed as it was opened must be opened elsewhere first."""
        try:
            self.operations.refuse_changes(self.loaded)
        except UnsupportedError as error:
            return f"{error.todo}, then: {remedy}"
        return remedy

    @property
    def _metadata(self) -> TableMetadata:
        return self.loaded.metadata

    def table(self) -> None:
        """The table's version, location, columns and partitioning."""
        metadata = self._metadata
        spec = ", ".join(f"{f.transform}({f.name})" for f in metadata.spec.fields)
        self.figures["table"] = {
            "format-version": metadata.format_version, "location": metadata.location, "uuid": metadata.uuid,
            "columns": len(metadata.schema.fields), "schemas": len(metadata.schemas), "partition-spec": spec or "none",
            "partition-specs": len(metadata.specs), "branch": self.branch, "next-row-id": metadata.next_row_id,
        }  # fmt: skip
        if self.operations.moved_from:
            self.findings.append(
                Finding(
                    Health.ATTENTION,
                    f"the metadata says that the table lies at {self.operations.moved_from}",
                    "it is a copy or was moved: its files are read from where it was opened, and it cannot be changed",
                    "Open it at that place, or make this its place with table.relocate()",
                )
            )
        if not self.properties[opt.GC_ENABLED]:
            self._attention(
                "maintenance may not delete files",
                "gc.enabled is false",
                "Set gc.enabled=true if no other table uses the files",
            )

    def snapshots(self) -> None:
        """Snapshots, branches and tags; what is ready to expire, and what holds snapshots."""
        metadata = self._metadata
        snapshots = sorted(metadata.snapshots.values(), key=lambda s: s.timestamp_ms)
        in_history = {s.snapshot_id for ref in metadata.refs.values() for s in _history(metadata, ref.snapshot_id)}
        staged = [s for s in snapshots if s.snapshot_id not in in_history]
        now = self.now
        plan = plan_expiry(metadata, self.given, now, self.operations.name)
        self.figures["snapshots"] = {
            "snapshots": len(snapshots),
            "oldest": iso_time(snapshots[0].timestamp_ms) if snapshots else None,
            "newest": iso_time(snapshots[-1].timestamp_ms) if snapshots else None,
            "in no branch": len(staged),
            "ready to expire": len(plan.snapshots),
            "branches": sum(ref.is_branch for ref in metadata.refs.values()),
            "tags": sum(not ref.is_branch for ref in metadata.refs.values()),
        }
        if plan.snapshots:
            limit = self.properties[opt.MAX_SNAPSHOT_AGE] / 86_400_000
            self._attention(
                f"{counted(len(plan.snapshots), 'snapshot is', 'snapshots are')} ready to expire",
                f"they are older than {counted(limit, 'day')}",
                "Run table.expire()",
                "expire",
            )
        age = self.properties[opt.MAX_SNAPSHOT_AGE]
        for ref in metadata.refs.values():
            head = metadata.snapshots.get(ref.snapshot_id)
            if head is None:
                self.findings.append(
                    Finding(
                        Health.BROKEN,
                        f"{ref.name} is at snapshot {ref.snapshot_id}, which the table does not have",
                        remedy=self.followable(f"Delete {ref.name}"),
                    )
                )
            elif ref.name != MAIN and now - head.timestamp_ms > age:
                word = "branch" if ref.is_branch else "tag"
                self.blockers.append(
                    Blocker(
                        str(ref.snapshot_id),
                        f"{word} {ref.name} is at it, so it cannot expire",
                        self.followable(f"Delete the {word} {ref.name} if it is not needed"),
                    )
                )

    def files(self) -> None:
        """The data files, delete files and manifests of the branch's head."""
        metadata = self._metadata
        head = metadata.head(self.branch)
        files = self.at_hand
        manifests = manifests_of(files, metadata, head) if head is not None else []
        files = manifests_ahead(files, (m for m in manifests if m.has_live))
        data, deletes = LiveFiles(), LiveFiles()
        stored = metadata.properties.get(_TARGET.key, str(_TARGET.default))
        target = self.given[_TARGET] if self.given.given(_TARGET) else _TARGET.read(stored)
        for entries in self._entries(files, [m for m in manifests if m.content == 0]):
            data.add(entries, int(target * _SMALL))
        for entries in self._entries(files, [m for m in manifests if m.content == 1]):
            deletes.add(entries, 0)
        worth = {place: n for place, n in data.small_by_partition.items() if n >= _WORTH}
        self.figures["files"] = {
            "data files": data.count, "bytes": data.size, "records": data.records, "target bytes": target,
            "small files": sum(data.small_by_partition.values()), "partitions with files": len(data.partitions),
            "partitions worth a rewrite": len(worth), "delete files": deletes.count, "delete bytes": deletes.size,
            "position deletes": deletes.kinds["position"], "deletion vectors": deletes.kinds["vector"],
            "equality deletes": deletes.kinds["equality"], "deleted positions": deletes.positions,
        }  # fmt: skip
        if worth:
            lie = counted(sum(worth.values()), "small file lies", "small files lie")
            self._attention(
                f"{lie} in {counted(len(worth), 'partition')}",
                f"each has {_WORTH} or more files below {size_text(target * _SMALL)}, and each costs reads a request",
                "Run table.rewrite()",
                "rewrite",
            )
        if data.records and deletes.positions / data.records >= _DELETED:
            rows = counted(data.records, "row")
            self._attention(
                counted(deletes.positions, f"of {rows} is", f"of {rows} are") + " deleted, but reads still decode them",
                "",
                "Run table.rewrite()",
                "rewrite",
            )
        if deletes.kinds["equality"]:
            compared = counted(deletes.kinds["equality"], "equality delete file is", "equality delete files are")
            self._attention(
                f"{compared} compared with every older row",
                "",
                "Run table.rewrite(options={'lakebed.rewrite.what': 'equality-deletes'})",
                "rewrite",
                "equality-deletes",
            )
        self.pictures += pictures_of_files(data, deletes, metadata, target, int(target * _SMALL), self.now)
        self._manifests(manifests)

    def _manifests(self, manifests: list[ManifestFile]) -> None:
        size = sum(m.length for m in manifests)
        target = self.properties[opt.MANIFEST_SIZE]
        self.figures["manifests"] = {
            "manifests": len(manifests),
            "bytes": size,
            "of delete files": sum(m.content == 1 for m in manifests),
            "target bytes": target,
        }
        if len(manifests) >= _MANY_MANIFESTS and size / len(manifests) < target / 8:
            self._attention(
                f"each plan of a read opens {counted(len(manifests), 'small manifest')}",
                "",
                "Run table.rewrite(options={'lakebed.rewrite.what': 'manifests'})",
                "rewrite",
                "manifests",
            )

    def statistics(self) -> None:
        """The distinct values that statistics files count, and how old they are. Without such files nothing is said."""
        report = statistics_report(self._metadata, self._metadata.head(self.branch))
        if report.commits is None and report.partition_commits is None:
            return
        self.figures["statistics"] = {
            "commits since columns were counted": report.commits,
            "commits since partitions were summed up": report.partition_commits,
        }
        if report.distinct:
            self.figures["distinct values"] = dict(report.distinct)
        if report.stale or report.unreadable:
            self._attention(
                "the statistics of columns are old" if report.stale else "the statistics of columns are damaged",
                report.stale or report.unreadable,
                "Run table.compute_table_stats()",
                "compute_table_stats",
            )
        if report.partition_commits:
            self._attention(
                f"the statistics of partitions are {counted(report.partition_commits, 'commit')} old",
                "planners of other engines read manifests instead",
                "Run table.compute_partition_stats(), which reads what changed since",
                "compute_partition_stats",
            )

    def metadata_files(self) -> None:
        """The metadata file itself, which every commit rewrites."""
        metadata = self._metadata
        size = self.loaded.size if self.loaded.size >= 0 else self.operations.files.size(self.loaded.location)
        properties = metadata.properties
        self.figures["metadata"] = {
            "file": self.loaded.location.rpartition("/")[2],
            "bytes": size,
            "earlier files named": len(metadata.metadata_log),
            "statistics files": len(metadata.statistics_files),
            "delete-after-commit": properties.get("write.metadata.delete-after-commit.enabled", "false"),
        }
        if size > _LARGE_METADATA:
            self._attention(
                f"the metadata file has {size_text(size)}", "every commit rewrites it", "Run table.expire()", "expire"
            )

    def _entries(self, files: Files, manifests: list[ManifestFile]) -> Iterator[pa.Table]:
        for spec_id in {m.spec_id for m in manifests}:
            of_spec = [m for m in manifests if m.spec_id == spec_id and m.has_live]
            yield from iter_entries(files, self._metadata, of_spec, COLUMNS)

    def _attention(self, what: str, why: str, remedy: str, verb: str = "", rewritten: str = "") -> None:
        """Add a finding. With a verb, the call of it is the fix; `rewritten` is what a rewrite takes on."""
        followable = self.followable(remedy)
        fix = None
        if verb and followable == remedy:
            opening = (("branch", self.branch),) if self.branch != MAIN else ()
            fix = Fix(verb, (("lakebed.rewrite.what", rewritten),) if rewritten else (), opening)
        self.findings.append(Finding(Health.ATTENTION, what, why, followable, fix))


def _history(metadata: TableMetadata, snapshot_id: int) -> Iterator[Snapshot]:
    head = metadata.snapshots.get(snapshot_id)
    return ancestors(metadata, head) if head is not None else iter(())
