"""Options of commits: who else may write the table, by which lock, and what becomes of writes that failed.

Keys, defaults and what follows from what are those of Hudi's `HoodieWriteConfig`, `HoodieLockConfig`,
`HoodieCleanConfig` and `HoodieTimeGeneratorConfig`: optimistic concurrency control makes the policy of failed writes
LAZY whatever was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakebed.errors import OptionError, UnsupportedError
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel.options import Option, Options, OptionSet, at_least, boolean, idle_option, one_of


class FailedWrites(StrEnum):
    """Who rolls back failed writes."""

    EAGER = "EAGER"
    """Each write, before it begins."""
    LAZY = "LAZY"
    """A clean, once their heartbeats have stopped."""
    NEVER = "NEVER"
    """Nobody, unless a caller asks for it."""


class Strategy(StrEnum):
    """Which concurrent changes of one file group are conflicts: classes of Hudi, by their simple names."""

    SIMPLE = "SimpleConcurrentFileWritesConflictResolutionStrategy"
    """A commit since this one began, and a service that was planned since."""
    BUCKETS = "BucketIndexConcurrentFileWritesConflictResolutionStrategy"
    """The same, where file groups are buckets: those of one number are one. It holds for every bucket index."""
    PREFER_WRITER = "PreferWriterConflictResolutionStrategy"
    """A commit since this one began. A service gives way to pending writes."""


_STRATEGIES = {
    **{strategy.lower(): strategy for strategy in Strategy},
    "statetransitiontimebasedconflictresolutionstrategy": Strategy.SIMPLE,
    "ingestionprimarywriterbasedconflictresolutionstrategy": Strategy.PREFER_WRITER,
}
"""Older releases had names of their own for a choice by completion times, which is what lakebed always does, and for
the preference of writers."""

_UPDATES = ("SparkRejectUpdateStrategy", "SparkAllowUpdateStrategy")

NON_BLOCKING = "NON_BLOCKING_CONCURRENCY_CONTROL"
CONCURRENCY: Option[str] = Option(
    "hoodie.write.concurrency.mode",
    one_of("SINGLE_WRITER", "OPTIMISTIC_CONCURRENCY_CONTROL", NON_BLOCKING),
    "SINGLE_WRITER",
    "Who else may write the table. Other modes than SINGLE_WRITER need a lock provider and make failed writes LAZY",
)
FAILED_WRITES: Option[str] = Option(
    "hoodie.cleaner.policy.failed.writes",
    one_of(*FailedWrites),
    "EAGER",
    "Who takes back writes that failed: EAGER the next write, LAZY a clean once their heartbeats stopped, NEVER nobody",
    aliases=("hoodie.clean.failed.writes.policy",),
)
LOCK_PROVIDER: Option[str] = Option(
    "hoodie.write.lock.provider",
    str,
    "",
    "The lock that the table's writers share: FileSystemBasedLockProvider, StorageBasedLockProvider on S3 and GCS, or "
    "InProcessLockProvider",
)
LOCK_FOLDER: Option[str] = Option(
    "hoodie.write.lock.filesystem.path", str, "", "The folder of the file system lock; by default .hoodie"
)
LOCK_EXPIRE: Option[int] = Option(
    "hoodie.write.lock.filesystem.expire",
    at_least(0),
    0,
    "After how many minutes a lock file counts as abandoned; with 0 only where its process is known to be dead",
)
LOCK_WAIT: Option[int] = Option(
    "hoodie.write.lock.wait_time_ms", at_least(0), 60_000, "How long to wait for the lock (milliseconds)"
)
LOCK_RETRIES: Option[int] = Option(
    "hoodie.write.lock.client.num_retries",
    at_least(0),
    50,
    "How often a write asks for the lock again; with the time between, how long it waits at least",
)
LOCK_RETRY_WAIT: Option[int] = Option(
    "hoodie.write.lock.client.wait_time_ms_between_retry", at_least(0), 5000, "The time between two of these tries"
)
STORAGE_VALIDITY: Option[int] = Option(
    "hoodie.write.lock.storage.validity.timeout.secs",
    at_least(10),
    300,
    "For how many seconds the storage lock is valid after it was taken or renewed",
)
STORAGE_RENEWAL: Option[int] = Option(
    "hoodie.write.lock.storage.renew.interval.secs",
    at_least(1),
    30,
    "After how many seconds the holder of the storage lock renews it; at most a tenth of its validity",
    aliases=("hoodie.write.lock.storage.heartbeat.poll.secs",),
)
STRATEGY: Option[str] = Option(
    "hoodie.write.lock.conflict.resolution.strategy", str, "", "Which concurrent changes are conflicts, a class of Hudi"
)
BEAT: Option[int] = Option(
    "hoodie.client.heartbeat.interval_in_ms",
    at_least(1000, most=(1 << 31) - 1),
    60_000,
    "How often a writer says that it is alive (milliseconds)",
)
MISSES: Option[int] = Option(
    "hoodie.client.heartbeat.tolerable.misses",
    at_least(0),
    2,
    "How many heartbeats may be missed before a writer counts as dead",
)
EARLY: Option[bool] = Option(
    "hoodie.write.concurrency.early.conflict.detection.enable",
    boolean,
    False,
    "Whether a write gives up before it makes files, where a pending one is changing the same file groups",
)
EARLY_COMMITS: Option[bool] = Option(
    "hoodie.write.concurrency.early.conflict.check.commit.conflict",
    boolean,
    False,
    "Whether that looks at commits since the write began too",
)
UPDATES: Option[str] = Option(
    "hoodie.clustering.updates.strategy",
    str,
    "SparkRejectUpdateStrategy",
    "What becomes of rows of file groups that a pending clustering is going to replace: SparkRejectUpdateStrategy "
    "refuses them, with SparkAllowUpdateStrategy the clustering loses",
)
SKEW: Option[int | None] = Option(
    "hoodie.time.generator.max_expected_clock_skew_ms",
    at_least(0),
    None,
    "How far the clocks of two writers may differ: 200 ms by default. A lock between engines is held so much longer",
)
_ACCEPTED = (
    "hoodie.auto.adjust.lock.configs",
    "hoodie.time.generator.reuse.enable",
    "hoodie.time.generator.type",
    "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms",
    "hoodie.write.concurrency.async.conflict.detector.period_ms",
    "hoodie.write.concurrency.early.conflict.detection.strategy",
    "hoodie.write.lock.heartbeat_interval_ms",
    "hoodie.write.lock.max_wait_time_ms_between_retry",
    "hoodie.write.lock.num_retries",
    "hoodie.write.lock.wait_time_ms_between_retry",
)
_FAMILIES = tuple(f"hoodie.write.lock.{name}." for name in ("zookeeper", "hivemetastore", "dynamodb"))
"""Options of lock providers that are refused: they are known, so that the refusal names the provider."""
COMMIT = OptionSet(
    (
        CONCURRENCY,
        FAILED_WRITES,
        LOCK_PROVIDER,
        LOCK_FOLDER,
        LOCK_EXPIRE,
        LOCK_WAIT,
        LOCK_RETRIES,
        LOCK_RETRY_WAIT,
        STORAGE_VALIDITY,
        STORAGE_RENEWAL,
        STRATEGY,
        BEAT,
        MISSES,
        EARLY,
        EARLY_COMMITS,
        UPDATES,
        SKEW,
        *(idle_option(key, "Accepted without effect: it tunes Hudi's own engine") for key in _ACCEPTED),
    ),
    "commits to Hudi tables",
    _FAMILIES,
)
"""The options of commits. Writes and table services take them alike."""

FILE_LOCK = "FileSystemBasedLockProvider"
STORAGE_LOCK = "StorageBasedLockProvider"
IN_PROCESS = ("InProcessLockProvider", "LocalProcessLockProvider", "NoopLockProvider")
"""Lock providers that hold within one process, which lakebed's own lock does too."""
_LOCK_STORES = ("s3", "s3a", "gs")
"""The stores for which Hudi's release has a client, so that its writers can share the lock."""
ELSEWHERE = "Put it below the table: lakebed takes a lock file in the table only"
_SKEW_MS = 200
_INDEX = "hoodie.index.type"


@dataclass(frozen=True, slots=True)
class Concurrency:
    """What the options of a commit ask for.

    `beat` and `patience` are seconds: between heartbeats, and after which a silent writer counts as dead. `skew` is for
    how long a lock is held after an instant was chosen under it. `by_bucket` says that file groups of one bucket are
    one. `alone` says that the caller knows of no other writer: writes that meet one nevertheless are as if they came
    one after the other. `beside_clusterings` says that writes change file groups that a pending clustering is going to
    replace, `non_blocking` that writes of log files alone are no conflict with each other. `notes` say which options
    were not taken as given.
    """

    failed_writes: FailedWrites
    strategy: Strategy
    by_bucket: bool
    shared_lock: bool
    beat: float
    patience: float
    skew: float
    alone: bool
    early: bool
    early_commits: bool
    beside_clusterings: bool
    non_blocking: bool
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Options) -> Concurrency:
        """From options that `check_concurrency` let pass."""
        shared = options[CONCURRENCY] != "SINGLE_WRITER"
        asked = FailedWrites(options[FAILED_WRITES])
        policy = FailedWrites.LAZY if shared else asked
        notes: tuple[str, ...] = ()
        if shared and options.given(FAILED_WRITES) and asked is not policy:
            notes = (f"{FAILED_WRITES.key} is LAZY and not {asked}: {CONCURRENCY.key} needs it",)
        shared_lock = provider_of(options) in (FILE_LOCK, STORAGE_LOCK)
        skew = options[SKEW]
        beat = options[BEAT] / 1000
        non_blocking = options[CONCURRENCY] == NON_BLOCKING
        early = shared and options[EARLY] and not non_blocking
        strategy = _STRATEGIES.get(_simple(options[STRATEGY]).lower(), Strategy.SIMPLE)
        return cls(
            policy,
            strategy,
            strategy is Strategy.BUCKETS or options.raw.get(_INDEX, "").upper() == "BUCKET",
            shared_lock,
            beat,
            beat * (options[MISSES] + 1),
            (_SKEW_MS if skew is None else skew) / 1000 if shared_lock else 0.0,
            not shared,
            early,
            early and options[EARLY_COMMITS],
            _simple(options[UPDATES]) == _UPDATES[1],
            non_blocking,
            notes,
        )


def check_concurrency(options: Options, table: str) -> None:
    """Raise UnsupportedError for a lock, a mode or a strategy that lakebed does not serve."""
    provider, mode = provider_of(options), options[CONCURRENCY]
    known = f"Give {LOCK_PROVIDER.key} {FILE_LOCK}, which needs no service"
    if provider and provider not in (FILE_LOCK, STORAGE_LOCK, *IN_PROCESS):
        raise UnsupportedError(
            f"lakebed cannot take the lock {provider}",
            table=table,
            why="it has no client for it",
            todo=f"{known}, in all writers of the table",
        )
    if provider == FILE_LOCK:
        lock_folder(table, options, ELSEWHERE)
    if provider == STORAGE_LOCK:
        check_storage_lock(options, table)
    if mode != "SINGLE_WRITER" and not provider:
        raise UnsupportedError(
            f"{CONCURRENCY.key}={mode} needs a lock that all writers share",
            table=table,
            why="Hudi's default is ZookeeperBasedLockProvider, for which lakebed has no client",
            todo=f"{known}, or InProcessLockProvider where only lakebed writes",
        )
    if _simple(options[UPDATES]) not in _UPDATES:
        raise UnsupportedError(
            f"lakebed does not know the strategy {_simple(options[UPDATES])} of updates beside a clustering",
            table=table,
            todo=f"Leave {UPDATES.key} out, or give one of {', '.join(_UPDATES)}",
        )
    strategy = _simple(options[STRATEGY])
    if strategy and strategy.lower() not in _STRATEGIES:
        raise UnsupportedError(
            f"lakebed does not know the conflict resolution strategy {strategy}",
            table=table,
            todo=f"Leave {STRATEGY.key} out, or give one of {', '.join(Strategy)}",
        )


def check_storage_lock(options: Options, location: str) -> None:
    """UnsupportedError where the table is not on a store with conditional writes, OptionError for times that Hudi's
    `StorageBasedLockConfig` refuses."""
    scheme = location.partition("://")[0] if "://" in location else "file"
    if scheme not in _LOCK_STORES:
        raise UnsupportedError(
            f"lakebed cannot take the lock {STORAGE_LOCK} of a table at {scheme}:",
            table=location,
            why=f"Hudi has it for {', '.join(_LOCK_STORES)} only",
            todo="Give hoodie.write.lock.provider FileSystemBasedLockProvider, in all writers of the table",
        )
    valid, renewal = options[STORAGE_VALIDITY], options[STORAGE_RENEWAL]
    if valid < 10 * renewal:
        raise OptionError(
            f"option {STORAGE_VALIDITY.key!r} is {valid}, less than ten times {STORAGE_RENEWAL.key} ({renewal})",
            key=STORAGE_VALIDITY.key,
            todo=f"Give at least {10 * renewal}, or a shorter {STORAGE_RENEWAL.key}",
        )


def check_non_blocking(options: Options, config: TableConfig, buckets: bool, replaces: bool, table: str) -> None:
    """Raise UnsupportedError for a write that cannot go on beside others on its file groups. `buckets` says that keys
    have a fixed number of buckets, `replaces` that the write takes file groups out of use.

    Rules: Hudi's `HoodieWriteConfig.Builder`, `CommonClientUtils.validateTableVersion`, `SparkBucketIndexPartitioner`.
    """
    reasons = {
        "it is for tables of version 8 and later": not config.completion_times,
        "it is for merge-on-read tables": not config.merge_on_read,
        "it is for tables with a bucket index (hoodie.index.type BUCKET, engine SIMPLE)": not buckets,
        "an overwrite takes file groups out of use that others may be writing to": replaces,
    }
    why = next((reason for reason, holds in reasons.items() if holds), "")
    if why and options[CONCURRENCY] == NON_BLOCKING:
        raise UnsupportedError(
            f"this write cannot have {CONCURRENCY.key}={NON_BLOCKING}",
            table=table,
            why=why,
            todo="Use OPTIMISTIC_CONCURRENCY_CONTROL",
        )


def lock_folder(location: str, options: Options, todo: str) -> str:
    """The folder of the file system lock as a path inside the table; UnsupportedError for one elsewhere."""
    folder, root = options[LOCK_FOLDER], location.rstrip("/")
    if not folder:
        return HOODIE
    plain = folder.removeprefix("file:").rstrip("/")
    plain = "/" + plain.lstrip("/") if folder.startswith("file:") else plain
    if plain == root or plain.startswith(f"{root}/"):
        return plain[len(root) + 1 :] or HOODIE
    raise UnsupportedError(f"the lock's folder {folder} is not in the table", table=location, todo=todo)


def commit_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options of commits among the given ones."""
    return {key: text for key, text in given.items() if COMMIT.knows(key)}


def provider_of(options: Options) -> str:
    """The simple name of the lock provider's class, "" for none."""
    return _simple(options[LOCK_PROVIDER])


def _simple(name: str) -> str:
    return name.strip().rpartition(".")[2]
