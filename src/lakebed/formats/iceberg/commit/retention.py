"""How long branches and tags keep snapshots, and live themselves.

Rules: the specification's "Snapshot Retention Policy" and the reference engine's `setMinSnapshotsToKeep`,
`setMaxSnapshotAgeMs` and `setMaxRefAgeMs` of ManageSnapshots. `expire/plan.py` honours them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakebed.errors import OptionError
from lakebed.formats.iceberg.codec.snapshots import Ref
from lakebed.kernel.options import Option, OptionSet, at_least

MIN_SNAPSHOTS = Option(
    "min-snapshots-to-keep",
    at_least(1, (1 << 31) - 1),
    None,
    "How many snapshots of the branch stay, whatever their age.",
)
MAX_SNAPSHOT_AGE = Option(
    "max-snapshot-age-ms", at_least(1), None, "Age at which snapshots of the branch expire, milliseconds."
)
MAX_REF_AGE = Option(
    "max-ref-age-ms", at_least(1), None, "Age of its snapshot at which the branch or tag itself goes, milliseconds."
)
OPTIONS = OptionSet((MIN_SNAPSHOTS, MAX_SNAPSHOT_AGE, MAX_REF_AGE), "the retention of a branch or tag", ())


def retaining(ref: Ref, given: Mapping[str, object]) -> Ref:
    """The branch or tag with the retention that options give it. What they do not name stays.

    OptionError for an unknown key, a value below 1, and for what only a branch has.
    """
    options = OPTIONS.parse(given)
    for option in (MIN_SNAPSHOTS, MAX_SNAPSHOT_AGE):
        if options.given(option) and not ref.is_branch:
            raise OptionError(
                f"{ref.name!r} is a tag, which has no {option.key}",
                key=option.key,
                why="a tag keeps its one snapshot for as long as the tag is there",
                todo=f"Give {MAX_REF_AGE.key}",
            )
    return replace(
        ref,
        min_snapshots_to_keep=options[MIN_SNAPSHOTS] or ref.min_snapshots_to_keep,
        max_snapshot_age_ms=options[MAX_SNAPSHOT_AGE] or ref.max_snapshot_age_ms,
        max_ref_age_ms=options[MAX_REF_AGE] or ref.max_ref_age_ms,
    )
