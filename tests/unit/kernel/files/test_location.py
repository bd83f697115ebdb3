"""Where a table lies, however it is spelled."""

import os
from pathlib import Path

import pytest

from lakebed.errors import LakebedError, UnsupportedError, UsageError
from lakebed.kernel.files import Location, parse_location


@pytest.mark.parametrize(
    ("given", "scheme", "text"),
    [
        ("/a/b/", "file", "/a/b"),
        ("/a/../b", "file", "/b"),
        (Path("/a/b"), "file", "/a/b"),
        ("file:/a/b", "file", "/a/b"),
        ("file:///a/b/", "file", "/a/b"),
        ("FILE:///a/b", "file", "/a/b"),
        ("file://localhost/a/b", "file", "/a/b"),
        ("file:///a%20b/c#d?e", "file", "/a b/c#d?e"),
        ("file:/a%20b", "file", "/a%20b"),
        ("/a#b?c%20", "file", "/a#b?c%20"),
        ("s3://bucket/a/b/", "s3", "s3://bucket/a/b"),
        ("s3a://bucket/a", "s3", "s3://bucket/a"),
        ("s3n://bucket", "s3", "s3://bucket"),
        ("S3A://bucket/A b", "s3", "s3://bucket/A b"),
        ("gs://bucket/a", "gs", "gs://bucket/a"),
        ("abfss://c@account.dfs.core.windows.net/a", "abfss", "abfss://c@account.dfs.core.windows.net/a"),
        ("abfs://c@account.dfs.core.windows.net/a", "abfss", "abfss://c@account.dfs.core.windows.net/a"),
    ],
)
def test_one_spelling(given: str | Path, scheme: str, text: str) -> None:
    place = parse_location(given)
    assert place == Location(scheme, text) and place.is_local == (scheme == "file")
    assert parse_location(place.text) == place


@pytest.mark.parametrize("given", ["a/b", "./a/b", "a:b/c", r"C:\tables\orders", "C:/tables/orders", "dt=1:2/x"])
def test_a_relative_path_is_below_the_working_folder(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_location(given) == Location("file", os.path.join(tmp_path, os.path.normpath(given)))


def test_the_home_folder() -> None:
    assert parse_location("~/a").text == os.path.expanduser("~/a")


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ("", UsageError, "empty"),
        ("  ", UsageError, "empty"),
        ("hdfs://name:8020/a", UnsupportedError, "HDFS.*Mount it.*local path.*object store"),
        ("hdfs:///a", UnsupportedError, "HDFS"),
        ("hdfs:/a", UnsupportedError, "HDFS"),
        ("viewfs://x/a", UnsupportedError, "HDFS"),
        ("ftp://x/a", UnsupportedError, "unknown scheme 'ftp'.*s3://"),
        ("s3://", UsageError, "names no bucket.*s3://BUCKET/PATH"),
        ("s3:/bucket/a", UsageError, "names no bucket"),
        ("file://server/share", UsageError, "host 'server'"),
        ("file://relative", UsageError, "host 'relative'"),
    ],
)
def test_what_is_refused_says_what_to_do(given: str, kind: type[LakebedError], says: str) -> None:
    with pytest.raises(kind, match=f"(?s){says}"):
        parse_location(given)
