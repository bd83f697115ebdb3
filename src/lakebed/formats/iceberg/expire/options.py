"""The options of `table.expire` for Iceberg tables: the arguments of the reference engine's procedures, hyphenated."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from lakebed.formats.iceberg import options as opt
from lakebed.kernel.options import Option, Options, OptionSet, at_least, boolean, one_of, whole_number


def _moment(text: str) -> int:
    """Milliseconds since 1970, from an ISO time (UTC unless it says otherwise) or from the number itself."""
    if text.isdigit():
        return int(text)
    moment = datetime.datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


def _ids(text: str) -> tuple[int, ...]:
    return tuple(whole_number(part.strip()) for part in text.split(",") if part.strip())


def _pairs(text: str) -> dict[str, str]:
    return {a.strip(): b.strip() for a, b in (part.split("=") for part in text.split(",") if part.strip())}


def _aliased(key: str) -> tuple[str, ...]:
    return (key.replace("-", "_"),)


EXPIRE_SNAPSHOTS = Option("expire-snapshots", boolean, True, "Expire snapshots.")
OLDER_THAN: Option[int | None] = Option(
    "older-than", _moment, None, "Snapshots before this time go; by default those older than the table's "
    "history.expire.max-snapshot-age-ms (5 days).", "an ISO time or milliseconds since 1970", _aliased("older-than"),
)  # fmt: skip
RETAIN_LAST: Option[int | None] = Option(
    "retain-last",
    at_least(1),
    None,
    "How many snapshots of each branch stay, however old; by default history.expire.min-snapshots-to-keep (1).",
    aliases=_aliased("retain-last"),
)
SNAPSHOT_IDS: Option[tuple[int, ...]] = Option(
    "snapshot-ids", _ids, (), "Snapshots that expire whatever their age, separated by commas.",
    "snapshot ids separated by commas", _aliased("snapshot-ids"),
)  # fmt: skip
CLEAN_METADATA = Option(
    "clean-expired-metadata",
    boolean,
    False,
    "Remove schemas and partition specs that no kept snapshot uses.",
    aliases=_aliased("clean-expired-metadata"),
)
REMOVE_ORPHANS = Option(
    "remove-orphan-files",
    boolean,
    False,
    "Also remove files that no snapshot knows.",
    aliases=_aliased("remove-orphan-files"),
)
ORPHANS_OLDER_THAN: Option[int | None] = Option(
    "orphan-files-older-than",
    _moment,
    None,
    "Remove only orphan files last written before this time (3 days ago; at least 24 hours, for running writers).",
    "an ISO time or milliseconds since 1970",
    _aliased("orphan-files-older-than"),
)
LOCATION = Option("location", str, "", "The folder to look for orphan files in; the table's own by default.")
EQUAL_SCHEMES: Option[dict[str, str]] = Option(
    "equal-schemes", _pairs, {}, "Schemes that mean the same, as `a=b,c=b`; s3a and s3n are s3 anyway.",
    "pairs a=b separated by commas", _aliased("equal-schemes"),
)  # fmt: skip
EQUAL_AUTHORITIES: Option[dict[str, str]] = Option(
    "equal-authorities", _pairs, {}, "Hosts or buckets that mean the same, as `a=b,c=b`.",
    "pairs a=b separated by commas", _aliased("equal-authorities"),
)  # fmt: skip
MISMATCH = Option(
    "prefix-mismatch-mode",
    one_of("ERROR", "IGNORE", "DELETE"),
    "ERROR",
    "What to do with a file whose path is known under another scheme or host.",
    aliases=_aliased("prefix-mismatch-mode"),
)

OPTIONS = OptionSet(
    (
        EXPIRE_SNAPSHOTS, OLDER_THAN, RETAIN_LAST, SNAPSHOT_IDS, CLEAN_METADATA, REMOVE_ORPHANS, ORPHANS_OLDER_THAN,
        LOCATION, EQUAL_SCHEMES, EQUAL_AUTHORITIES, MISMATCH, *opt.PROPERTIES,
    ),
    "expire",
    ("lakebed.storage.", "lakebed.catalog."),
)  # fmt: skip


def parsed(options: Mapping[str, object]) -> Options:
    """The options of one call. OptionError for an unknown key or an ill-typed value."""
    return OPTIONS.parse(options)
