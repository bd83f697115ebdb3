"""Options of tables whose rows have ids, with the keys and defaults of Paimon's CoreOptions."""

from __future__ import annotations

from lakebed.kernel.options import Option, boolean

ROW_TRACKING = Option(
    "row-tracking.enabled",
    boolean,
    False,
    "Give each row an id. A read may name the columns `_ROW_ID` and `_SEQUENCE_NUMBER`.",
)
DATA_EVOLUTION = Option(
    "data-evolution.enabled",
    boolean,
    False,
    "Files may hold some columns of rows, and a read puts them together. lakebed reads such tables and appends whole "
    "rows.",
)

ROW_ID_OPTIONS = (ROW_TRACKING, DATA_EVOLUTION)
"""Options that hold from a table's first commit on, so that a call cannot change them."""
