"""Options of commits: how many writers may be at work on a table. lakebed writes Hudi tables as the only writer."""

from __future__ import annotations

from lakebed.errors import UnsupportedError
from lakebed.kernel.options import Option, Options, one_of

CONCURRENCY: Option[str] = Option(
    "hoodie.write.concurrency.mode",
    one_of("SINGLE_WRITER", "OPTIMISTIC_CONCURRENCY_CONTROL", "NON_BLOCKING_CONCURRENCY_CONTROL"),
    "SINGLE_WRITER",
    "Refused unless SINGLE_WRITER: lakebed writes a Hudi table while no other writer does",
)
FAILED_WRITES: Option[str] = Option(
    "hoodie.clean.failed.writes.policy",
    one_of("EAGER", "LAZY", "NEVER"),
    "EAGER",
    "Refused unless EAGER: each write first takes back those that failed",
    aliases=("hoodie.cleaner.policy.failed.writes",),
)
LOCK_PROVIDER: Option[str] = Option(
    "hoodie.write.lock.provider", str, "", "Refused when given: writes of lakebed take no lock"
)
COMMIT_OPTIONS = (CONCURRENCY, FAILED_WRITES, LOCK_PROVIDER)


def check_single_writer(options: Options, table: str) -> None:
    """Raise UnsupportedError where the options ask for a write beside other writers."""
    for option in COMMIT_OPTIONS:
        if options[option] != option.default:
            raise UnsupportedError(
                f"lakebed does not serve {option.key}={options[option]}",
                table=table,
                why="it writes a Hudi table as its only writer, without a lock",
                todo="Leave the option out, and write while no other writer is at work on the table",
            )
