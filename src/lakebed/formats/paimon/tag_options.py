"""The options of tags: which are made automatically, what they are called, and how long they live.

Keys, types and defaults are those of Paimon's CoreOptions. `end-input.watermark` is one of Paimon's Flink sink.
"""

from __future__ import annotations

import re
from typing import Any

from lakebed.kernel.joda.zones import is_zone
from lakebed.kernel.options import Option, at_least, boolean, duration_ms, one_of, whole_number


def _zone(text: str) -> str:
    """The name of a time zone: one of the database, or `UTC+8`, `GMT-08:00` or `+08:00`."""
    ahead = re.fullmatch(r"(?:GMT|UTC|UT|)([+-]\d{1,2}(?::\d\d)?)", text)
    name = f"GMT{ahead[1]}" if ahead else text
    if not ahead and not is_zone(name):
        raise ValueError(text)
    return name


_ZONES = "a time zone such as Europe/Berlin or GMT+08:00"

TAG_CREATION = Option(
    "tag.automatic-creation",
    one_of("none", "process-time", "watermark", "batch"),
    "none",
    "Commits tag the first snapshot after each period, by the time of the commit (`process-time`) or by the watermark "
    "that writers give (`watermark`). `batch`: each batch write renews the tag of its day.",
)
TAG_PERIOD = Option(
    "tag.creation-period", one_of("daily", "hourly", "two-hours"), "daily", "How long the period of a tag is."
)
TAG_PERIOD_DURATION: Option[int | None] = Option(
    "tag.creation-period-duration", duration_ms, None, "A period of any length, in place of `tag.creation-period`."
)
TAG_DELAY = Option(
    "tag.creation-delay",
    duration_ms,
    0,
    "How long after its end a period is open for late rows. Below its length.",
)
TAG_FORMATTER = Option(
    "tag.period-formatter",
    one_of("with_dashes", "without_dashes", "without_dashes_and_spaces"),
    "with_dashes",
    "How a tag is named by the start of its period: `2024-01-02 03`, `20240102 03` or `2024010203`.",
)
TAG_COMPLETION = Option(
    "tag.automatic-completion",
    boolean,
    False,
    "Where no commit came for whole periods, the next commits make up for their tags, one each.",
)
TAG_MAX: Option[int | None] = Option(
    "tag.num-retained-max", at_least(0, (1 << 31) - 1), None, "Automatic tags beyond this number go, the oldest first."
)
TAG_TIME: Option[int | None] = Option(
    "tag.default-time-retained",
    duration_ms,
    None,
    "How long new tags live, automatic ones and those of `table.tag`, unless the call says otherwise.",
)
TAG_TIME_EXPIRE = Option(
    "tag.time-expire-enabled", boolean, True, "Commits remove the tags whose time to live is over."
)
TAG_SUCCESS_FILE = Option(
    "tag.create-success-file", boolean, False, "Each new tag gets a file `tag/tag-success-file/NAME_SUCCESS`."
)
TAG_BATCH_NAME = Option(
    "tag.batch.customized-name", str, "", "The tag that batch writes renew, in place of `batch-write-` and the day."
)
WATERMARK_IDLE: Option[int | None] = Option(
    "snapshot.watermark-idle-timeout",
    duration_ms,
    None,
    "With watermark tags, a commit without files makes a snapshot where the watermark is older than this, also where "
    "it makes none otherwise. Commits of batches are left out.",
)
WATERMARK_ZONE = Option(
    "sink.watermark-time-zone", _zone, "UTC", "The time zone of watermarks, for the names of tags.", _ZONES
)
PROCESS_ZONE = Option(
    "sink.process-time-zone", _zone, "", "The time zone of commits, for the names of tags: this machine's.", _ZONES
)
END_WATERMARK: Option[int | None] = Option(
    "end-input.watermark", whole_number, None, "The watermark of a batch write, in milliseconds since 1970."
)

TAG_OPTIONS: tuple[Option[Any], ...] = (
    TAG_CREATION, TAG_PERIOD, TAG_PERIOD_DURATION, TAG_DELAY, TAG_FORMATTER, TAG_COMPLETION, TAG_MAX, TAG_TIME,
    TAG_TIME_EXPIRE, TAG_SUCCESS_FILE, TAG_BATCH_NAME, WATERMARK_IDLE, WATERMARK_ZONE, PROCESS_ZONE, END_WATERMARK,
)  # fmt: skip
"""All options of this module, in the order of the reference page."""
