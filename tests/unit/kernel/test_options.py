"""Option keys: found without case, refused by name, typed."""

import math

import pytest

from lakebed.errors import OptionError
from lakebed.kernel.options import Option, OptionSet, at_least, between, boolean, duration_ms, memory_size, one_of

BUCKET = Option("bucket", at_least(-2), -1, "Buckets.")
SIZE = Option("target-file-size", memory_size, 128 << 20, "Size.", aliases=("file.size",))
AGE = Option("snapshot.time-retained", duration_ms, 3_600_000, "Age.")
ENGINE = Option("merge-engine", one_of("deduplicate", "partial-update", "First-Row"), "deduplicate", "Engine.")
FLAG = Option("hoodie.Flag", boolean, False, "Flag.")
TEXT = Option("delimiter", str, ",", "Text.")
OPTIONS = OptionSet([BUCKET, SIZE, AGE, ENGINE, FLAG, TEXT], "Paimon")


def test_defaults_and_values() -> None:
    nothing = OPTIONS.parse({})
    assert (nothing[BUCKET], nothing[SIZE], nothing[FLAG]) == (-1, 128 << 20, False) and not nothing.given(BUCKET)
    given = OPTIONS.parse({"bucket": 4, "TARGET-FILE-SIZE": " 1 GB ", "hoodie.flag": True, "merge-engine": "FIRST-ROW"})
    assert (given[BUCKET], given[SIZE], given[FLAG], given[ENGINE]) == (4, 1 << 30, True, "First-Row")
    assert given.given(BUCKET) and given.raw["bucket"] == "4"


def test_a_text_keeps_its_spaces() -> None:
    assert OPTIONS.parse({"delimiter": " "})[TEXT] == " "


def test_an_alias_is_the_option() -> None:
    assert OPTIONS.parse({"File.Size": "1kb"})[SIZE] == 1024
    assert OPTIONS.parse({"file.size": "1kb", "target-file-size": "1024"})[SIZE] == 1024
    with pytest.raises(OptionError, match="'target-file-size' is given twice, as '1kb' and '2kb'"):
        OPTIONS.parse({"file.size": "1kb", "target-file-size": "2kb"})


def test_one_key_in_two_cases() -> None:
    assert OPTIONS.parse({"bucket": "1", "Bucket": "1"})[BUCKET] == 1
    with pytest.raises(OptionError, match="given twice"):
        OPTIONS.parse({"bucket": "1", "Bucket": "2"})


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("buckets", "bucket"),
        ("TARGET_FILE_SIZE", "target-file-size"),
        ("hoodie.flags", "hoodie.Flag"),
        ("file.sise", "file.size"),
        ("qqqq", ""),
    ],
)
def test_an_unknown_key_names_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{key}' of Paimon") as raised:
        OPTIONS.parse({key: "1"})
    assert raised.value.nearest == nearest
    assert (f"Did you mean '{nearest}'" if nearest else "Known options: bucket") in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("bucket", "-3", "a whole number of at least -2"),
        ("bucket", "four", "a whole number"),
        ("bucket", "1.5", "a whole number"),
        ("target-file-size", "1 parsec", "a size such as 128 mb"),
        ("target-file-size", "-1", "a size"),
        ("snapshot.time-retained", "soon", "a duration"),
        ("merge-engine", "dedup", "one of deduplicate, partial-update, First-Row"),
        ("hoodie.flag", "1", "true or false"),
    ],
)
def test_an_ill_typed_value_says_what_was_expected(key: str, value: str, expected: str) -> None:
    with pytest.raises(OptionError, match=expected) as raised:
        OPTIONS.parse({key: value})
    assert value in str(raised.value) and raised.value.key.lower() == key


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("1b", 1),
        ("2 bytes", 2),
        ("3k", 3072),
        ("3 KB", 3072),
        ("1 kibibytes", 1024),
        ("128 mb", 128 << 20),
        ("1M", 1 << 20),
        ("1g", 1 << 30),
        ("1 tb", 1 << 40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert memory_size(text) == size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250", 250),
        ("10 ms", 10),
        ("10 s", 10_000),
        ("2 min", 120_000),
        ("2m", 120_000),
        ("1 h", 3_600_000),
        ("1 hour", 3_600_000),
        ("7 days", 604_800_000),
        ("1D", 86_400_000),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


def test_numbers_are_what_javas_parsers_take() -> None:
    whole, least = Option("n", int, 0, "N."), Option("n", at_least(0), 0, "N.")
    real, part = Option("x", float, 0.0, "X."), Option("x", between(0, math.inf), 0.0, "X.")
    for option in (whole, least):
        assert [option.read(text) for text in ("7", "+7", "007", str((1 << 63) - 1))] == [7, 7, 7, (1 << 63) - 1]
        for text in ("1_000", " 7", "7 ", "", "+", "7.0", "0x7", "1e3", "\u00b2"):
            with pytest.raises(OptionError):
                option.read(text)
    assert whole.read("-7") == -7
    for other in (real, part):
        assert [other.read(text) for text in ("1", "1.5", ".5", "5.", "1e3", " 2 ", "1d")] == [
            1,
            1.5,
            0.5,
            5,
            1e3,
            2,
            1,
        ]
        for text in ("1_0", "nan", "inf", "infinity", "", "1.2.3", "e5"):
            with pytest.raises(OptionError):
                other.read(text)


def test_sets_add_up_and_open_families_pass() -> None:
    both = OPTIONS + OptionSet([Option("scan.mode", str, "latest", "Mode.")], "Flink", ("hadoop.",))
    assert both.knows("Scan.Mode") and both.knows("bucket") and both.knows("hadoop.any") and not both.knows("any")
    assert both.parse({"lakebed.storage.provider": "x", "hadoop.fs": "y"}).raw["hadoop.fs"] == "y"
