"""Names and paths of a Paimon table's files.

Rules: Paimon's FileStorePathFactory and PartitionPathUtils. A branch has its own schemas, snapshots and tags under
`branch/branch-NAME`. Data files, manifests and index files are in the folders of the main table.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from lakebed.kernel.options import is_number

MAIN_BRANCH = "main"
POSTPONE_BUCKET = -2
INDEX_SUFFIX = ".index"
"""The ending of an index file beside a data file."""
OWN_FOLDER = ".lakebed"
"""The folder of lakebed's own files in a table. Paimon's engines ignore it."""
STAGING_FOLDER = f"{OWN_FOLDER}/staging"
"""The folder where running writes stage their rows. Paimon's engines ignore it."""
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")


def numbered(names: Iterable[str], kind: str) -> list[int]:
    """The numbers N of the names `KIND-N`, ascending. Other names are left out."""
    return sorted(int(number) for number in named(names, kind) if is_number(number))


def named(names: Iterable[str], kind: str) -> list[str]:
    """The rest of each name that begins with `KIND-`."""
    return [name.removeprefix(f"{kind}-") for name in names if name.startswith(f"{kind}-")]


def branch_prefix(branch: str) -> str:
    """The folder of a branch's metadata, with a slash at the end. "" for the main branch."""
    return "" if branch in ("", MAIN_BRANCH) else f"branch/branch-{branch}/"


def schema_path(branch: str, schema_id: int) -> str:
    """The path of a schema file."""
    return f"{branch_prefix(branch)}schema/schema-{schema_id}"


def snapshot_path(branch: str, snapshot_id: int) -> str:
    """The path of a snapshot file."""
    return f"{branch_prefix(branch)}snapshot/snapshot-{snapshot_id}"


def changelog_path(branch: str, snapshot_id: int) -> str:
    """The path of the changelog of a snapshot that has expired."""
    return f"{branch_prefix(branch)}changelog/changelog-{snapshot_id}"


def consumer_path(branch: str, consumer: str) -> str:
    """The path of a consumer's progress."""
    return f"{branch_prefix(branch)}consumer/consumer-{consumer}"


def tag_path(branch: str, name: str) -> str:
    """The path of a tag."""
    return f"{branch_prefix(branch)}tag/tag-{name}"


def manifest_path(name: str) -> str:
    """The path of a manifest, manifest list or index manifest."""
    return f"manifest/{name}"


def index_path(name: str) -> str:
    """The path of an index file."""
    return f"index/{name}"


def statistics_path(name: str) -> str:
    """The path of a statistics file."""
    return f"statistics/{name}"


def bucket_folder(partition_folder: str, bucket: int) -> str:
    """The folder of a bucket. `partition_folder` is "" or ends with a slash."""
    return f"{partition_folder}bucket-{'postpone' if bucket == POSTPONE_BUCKET else bucket}"


def partition_level(name: str, text: str) -> str:
    """The folder of one partition column's value: `k=v/`."""
    return f"{_escape(name)}={_escape(text)}/"


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


@dataclass(frozen=True, slots=True)
class TableName:
    """`database.table`, as a catalog knows a table. A table that was opened by its path has it by its folders."""

    database: str
    table: str

    @classmethod
    def of_folder(cls, location: str) -> TableName:
        """The name of the table at WAREHOUSE/DATABASE.db/TABLE."""
        *_, database, table = ["", "", *location.rstrip("/").split("/")]
        return cls(database.removesuffix(".db"), table)

    def on_branch(self, branch: str) -> TableName:
        """The name of a branch of the table."""
        return self if branch in ("", MAIN_BRANCH) else TableName(self.database, f"{self.table}$branch_{branch}")

    @property
    def text(self) -> str:
        """The two names with a dot."""
        return f"{self.database}.{self.table}"


class NameFactory:
    """New file names of one writer or committer: one random part and a running number."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._random, self._numbers = prefix, str(uuid.uuid4()), itertools.count()

    def __call__(self, suffix: str = "") -> str:
        """The next name."""
        # next() on a count is safe in several threads
        return f"{self._prefix}{self._random}-{next(self._numbers)}{suffix}"

    def under(self, prefix: str) -> NameFactory:
        """Names with another prefix that share the random part and the numbers."""
        names = NameFactory(prefix)
        names._random, names._numbers = self._random, self._numbers
        return names
