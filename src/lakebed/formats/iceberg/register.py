"""A table that exists as files, made known to a catalog: the reference engine's procedure `register_table`.

The catalog takes in the name with the location of a metadata file, and nothing is copied. From then on only commits
through the catalog count. The file must be whole and lie where its table says that it lies: otherwise the table would
read and remove the files of another one.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.errors import CommitUnknownError, CorruptError, TableNotFoundError, UnsupportedError
from lakebed.formats.iceberg.catalog.creation import enter, options_of, refuse_taken
from lakebed.formats.iceberg.catalog.operations import OutcomeUnknownError
from lakebed.formats.iceberg.catalog.table import CatalogTable, parse_identifier
from lakebed.formats.iceberg.codec.metadata import TableMetadata, metadata_from_json
from lakebed.formats.iceberg.files import Files, spelled, spelling_of
from lakebed.formats.iceberg.layout import hadoop_version, metadata_folder, places_of
from lakebed.kernel.files import open_store, parse_location
from lakebed.kernel.files.credentials import credentials_from
from lakebed.kernel.files.places import is_below, named_places
from lakebed.kernel.options import is_number
from lakebed.model.upkeep import RegisterResult


def register(name: str, metadata_file: str, dry_run: bool, options: Mapping[str, str]) -> RegisterResult:
    """Make the table of a metadata file known to a catalog as `catalog:namespace.table`.

    Raises TableExistsError for a name that is taken, TableNotFoundError for a missing file, CorruptError for one that
    is not whole, UnsupportedError for the metadata of a table that was moved or copied, CommitUnknownError.
    """
    table = CatalogTable(parse_identifier(name), options)
    refuse_taken(table)
    url = parse_location(metadata_file).text
    metadata, files = _checked(url, options_of(table))
    head = metadata.head()
    summary = head.summary if head is not None else {}
    notes: tuple[str, ...] = ()
    if hadoop_version(url.rpartition("/")[2]) is not None:
        notes = ("the table also opens by its path: from now on write it by its name in the catalog only",)
    result = RegisterResult(
        table.name, url, "" if head is None else str(head.snapshot_id), _count(summary, "total-data-files"),
        _count(summary, "total-records"), dry_run, notes,
    )  # fmt: skip
    if head is not None and head.manifest_list and not files.exists(head.manifest_list):
        raise CorruptError(
            "the manifest list of the table's snapshot is missing", table=metadata.location, file=head.manifest_list,
            todo="Register an older metadata file, or restore the file",
        )  # fmt: skip
    if dry_run:
        return result
    try:
        enter(table, url)
    except OutcomeUnknownError as error:
        raise CommitUnknownError(
            "the catalog does not say whether the table was registered", table=table.name, why=str(error),
            todo="Try to open it with lakebed.open before you register it again",
        ) from error  # fmt: skip
    return result


def _checked(url: str, options: Mapping[str, str]) -> tuple[TableMetadata, Files]:
    """The metadata in a file, and the files of its table."""
    folder, _, name = url.rpartition("/")
    try:
        data = open_store(folder, options).read(name)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise TableNotFoundError(
            "the metadata file is missing", file=url, todo="Give the location of a *.metadata.json file"
        ) from error
    metadata = metadata_from_json(data, url)
    location = spelling_of(metadata.location)
    own_folder = spelling_of(metadata_folder(metadata.location, metadata.properties))
    if folder != own_folder and not is_below(folder, location):
        raise UnsupportedError(
            "this metadata is of a table that was moved or copied", file=url,
            why=f"it says that the table lies at {metadata.location}, whose files it names",
            todo="Write metadata for this place with table.rewrite_table_path, and register that",
        )  # fmt: skip
    named = named_places(options, map(spelled, places_of(metadata.properties)))
    return metadata, Files(open_store(location, options), credentials_from(options), (*named, folder))


def _count(summary: Mapping[str, str], key: str) -> int:
    """A count of a snapshot's summary; -1 where it has none."""
    text = summary.get(key, "0" if not summary else "")
    return int(text) if is_number(text) else -1
