"""The kind of each row that is written: `lakebed.verbs.kinds`, with the column named by `rowkind.field`."""

from lakebed.verbs.kinds import KindRule, Kinds

__all__ = ["KindRule", "Kinds"]
