"""Names and paths of an Iceberg table: metadata files, manifests, data files, partitions.

Rules: HadoopTableOperations (`vN.metadata.json`), BaseMetastoreTableOperations (`NNNNN-uuid.metadata.json`),
SnapshotProducer (manifests), LocationProviders and PartitionSpec.partitionToPath of the reference engine.
"""

from __future__ import annotations

import base64
import datetime
import re
import uuid
from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import quote_plus

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.utils.properties import property_as_bool

from lakebed.errors import UnsupportedError

VERSION_HINT = "version-hint.text"
STAGING_PREFIX = "lakebed-staging-"
"""Prefix of the folder in which a write stages rows."""
_HADOOP = re.compile(r"^v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?$")
_OF_CATALOG = re.compile(r"^(\d+)-.*\.metadata\.json(?:\.gz)?$")
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MANIFEST = re.compile(rf"(?:snap-\d+-\d+-{_UUID}|{_UUID}-m\d+)\.avro")
_PLACES = ("write.data.path", "write.folder-storage.path", "write.object-storage.path", "write.metadata.path")
_EPOCH = datetime.datetime(1970, 1, 1)


def hadoop_version(name: str) -> int | None:
    """N of `vN.metadata.json`, the metadata of a hadoop table; None for another name."""
    match = _HADOOP.match(name)
    return int(match[1]) if match else None


def catalog_version(name: str) -> int | None:
    """N of `N-uuid.metadata.json`, the metadata of a catalog's table; None for another name."""
    match = _OF_CATALOG.match(name)
    return int(match[1]) if match else None


def is_metadata(path: str) -> bool:
    """Whether a path has the name of a metadata file, of a hadoop table or of a catalog's table."""
    name = path.rpartition("/")[2]
    return hadoop_version(name) is not None or catalog_version(name) is not None


def is_manifest(path: str) -> bool:
    """Whether a path has the name of a manifest or a manifest list."""
    return _MANIFEST.fullmatch(path.rpartition("/")[2]) is not None


def hadoop_metadata(version: int, compressed: bool = False) -> str:
    """The name of the metadata file of a version of a hadoop table."""
    return f"v{version}{'.gz' if compressed else ''}.metadata.json"


def catalog_metadata(version: int, compressed: bool = False) -> str:
    """A new name for the metadata file of a version of a catalog's table."""
    return f"{version:05d}-{uuid.uuid4()}{'.gz' if compressed else ''}.metadata.json"


def metadata_folder(location: str, properties: Mapping[str, str]) -> str:
    """The folder of new metadata files."""
    return properties.get("write.metadata.path", "").rstrip("/") or f"{location}/metadata"


def data_folder(location: str, properties: Mapping[str, str]) -> str:
    """The folder of new data files."""
    for key in ("write.data.path", "write.folder-storage.path"):
        if properties.get(key):
            return properties[key].rstrip("/")
    return f"{location}/data"


def staging_folder(location: str, properties: Mapping[str, str]) -> str:
    """A new folder, beside the data, for the staged rows of one write."""
    return f"{data_folder(location, properties)}/{STAGING_PREFIX}{uuid.uuid4()}"


def places_of(properties: Mapping[str, str]) -> list[str]:
    """The places besides its own folder where table properties say that files lie."""
    return [properties[key].rstrip("/") for key in _PLACES if properties.get(key)]


def data_location(location: str, properties: Mapping[str, str], partition: str, name: str) -> str:
    """The location of a new data file. `partition` is the path of its partition, "" without partitions.

    UnsupportedError for a table with its own location provider class, in Java or Python.
    """
    refuse_location_provider(location, properties)
    folder, path = data_folder(location, properties), f"{partition}/{name}" if partition else name
    if not property_as_bool({**properties}, "write.object-storage.enabled", default=False):
        return f"{folder}/{path}"
    locations = import_module("pyiceberg.table.locations")  # which loads all of pyiceberg.table
    merged = {**properties, "write.data.path": folder}
    return str(locations.ObjectStoreLocationProvider(location.rstrip("/"), merged).new_data_location(path))


def refuse_location_provider(location: str, properties: Mapping[str, str]) -> None:
    """UnsupportedError for a table whose files are named by its own code: lakebed does not run what a table names."""
    for key in ("write.location-provider.impl", "write.py-location-provider.impl"):
        if key in properties:
            raise UnsupportedError(
                f"the table's files are named by the class {properties[key]}",
                table=location,
                why=f"its property {key} says so, and lakebed runs nothing that a table names",
                todo="Remove the property, or write with the engine that has this class",
            )


def manifest_list_name(snapshot_id: int, attempt: int, commit: str) -> str:
    """The name of a snapshot's manifest list. `commit` is the UUID of the commit."""
    return f"snap-{snapshot_id}-{attempt}-{commit}.avro"


def manifest_name(commit: str, number: int) -> str:
    """The name of a commit's manifest, by its number."""
    return f"{commit}-m{number}.avro"


def partition_path(spec: PartitionSpec, partition: tuple[Any, ...]) -> str:
    """The path `name=value/...` of a partition, in the spec's order, escaped; "" for an unpartitioned spec.

    Values are as Arrow gives them to Python. The path is for people: readers take the values from manifests.
    """
    return "/".join(
        f"{quote_plus(field.name)}={quote_plus(_human(str(field.transform), value))}"
        for field, value in zip(spec.fields, partition, strict=True)
    )


def _human(transform: str, value: Any) -> str:
    """A value as the reference engine's TransformUtil prints it."""
    if value is None:
        return "null"
    if transform == "year":
        return f"{1970 + value:04d}"
    if transform == "month":
        return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
    if transform == "hour":
        return (_EPOCH + datetime.timedelta(hours=value)).strftime("%Y-%m-%d-%H")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, int) and transform == "day":
        return (_EPOCH + datetime.timedelta(days=value)).strftime("%Y-%m-%d")
    return str(value)
