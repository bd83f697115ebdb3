"""Numbers of buckets by partition: the `.hashing_config` files of release 1.1, and the rules that they name.

The rules are one text: `regular expression,number;regular expression,number`. The first expression that is found in a
partition's path says how many buckets the partition has; where none is, it has the default number.

Rules: Hudi's `PartitionBucketIndexHashingConfig`, `RegexRuleEngine`, `PartitionBucketIndexRule`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from lakebed.errors import OptionError, UnsupportedError
from lakebed.kernel.decoding import parsed_json
from lakebed.kernel.options import whole_number

EXPRESSIONS = "hoodie.bucket.index.partition.expressions"
"""The option of the rules, which errors name."""
FIRST = "00000000000000"
"""The instant of the rules with which a table begins."""
_VERSION = 1
_ALIKE = re.compile(
    r"""(?: [^\\()\[\]{}?*+|^$]            # a plain character
          | \\[dDwWsSt] | \\[^A-Za-z0-9]    # a class of ASCII characters, or an escaped sign
          | \[\^?\]?(?:[^\\\[\]&] | \\[dDwWsSt] | \\[^A-Za-z0-9])+\]
          | \((?:\?[:=!] | \?<[=!])?(?!\?) | \) | \||\^|\$
          | [?*+][?+]? | \{\d+\}[?+]?
        )*""",
    re.VERBOSE,
)
"""Regular expressions that mean the same in Java and in Python."""
_REPEATED = re.compile(r"\)(?:[*+]|\{)")
_MANY = re.compile(r"[*+|{?]")
_NO_SIGNS = re.compile(r"\\.|\[\^?\]?(?:[^\\\]]|\\.)*\]|\(\?(?:[:=!]|<[=!])", re.DOTALL)
"""Escaped signs, classes, and the heads of groups: what looks like a repetition and is none."""
_MOST_STEPS = 1 << 32
"""How many ways of matching a partition's path may be tried. A table's rules could else keep a reader busy for ever."""


@dataclass(frozen=True, slots=True)
class BucketRules:
    """How many buckets each partition has. `patterns` are regular expressions with their numbers, in order."""

    default: int
    expressions: str = ""
    rule: str = "regex"
    patterns: tuple[tuple[re.Pattern[str], int], ...] = ()

    @classmethod
    def of(cls, expressions: str, rule: str, default: int, table: str) -> BucketRules:
        """From the texts of options or of a file. OptionError for texts that are no rules, UnsupportedError for
        expressions that Java may take for something else."""
        if not expressions:
            return cls(default)
        if rule.strip().upper() != "REGEX":
            raise OptionError(
                f"the rules of numbers of buckets are of the type {rule!r}",
                key="hoodie.bucket.index.partition.rule.type",
                table=table,
                todo="Give regex, the only type",
            )
        parts = expressions.split(";")
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        return cls(default, expressions, rule, tuple(_pattern(part, table) for part in parts))

    def count(self, partition: str) -> int:
        """How many buckets a partition has, given by its path."""
        for pattern, number in self.patterns:
            if _steps(pattern.pattern, len(partition)) > _MOST_STEPS:
                raise UnsupportedError(
                    f"lakebed does not match {pattern.pattern!r} with a partition of {len(partition)} characters",
                    why="it could take for ever",
                    todo="Write the rule with fewer repetitions",
                )
            if pattern.search(partition):
                return number
        return self.default


def parse_rules(data: bytes, table: str) -> BucketRules:
    """The rules of a `.hashing_config` file."""
    config = parsed_json(data)
    default = config["defaultBucketNumber"]
    if not isinstance(default, int) or default < 1:
        raise ValueError(f"the default number of buckets is {default!r}")
    return BucketRules.of(str(config["expressions"]), str(config["rule"]), default, table)


def encode_rules(rules: BucketRules, instant: str) -> bytes:
    """The `.hashing_config` file of an instant."""
    config = {
        "expressions": rules.expressions,
        "defaultBucketNumber": rules.default,
        "rule": rules.rule,
        "version": _VERSION,
        "instant": instant,
    }
    return json.dumps(config, indent=2).encode()


def _steps(expression: str, length: int) -> int:
    """How many ways there may be to match an expression without repeated choices: each repetition ends anywhere."""
    plain = _NO_SIGNS.sub("x", expression)
    repetitions = sum(plain.count(sign) for sign in "*+{")
    return int((length + 1) ** (1 + repetitions)) << plain.count("?")


def _repeats_a_choice(expression: str) -> bool:
    """Whether a group that is repeated has a repetition or a choice inside: the ways to match it are without number."""
    plain = _NO_SIGNS.sub(lambda sign: "(" if sign[0][0] == "(" else "x", expression)
    starts: list[int] = []
    for place, sign in enumerate(plain):
        if sign == "(":
            starts.append(place)
        elif sign == ")" and starts:
            start = starts.pop()
            if _REPEATED.match(plain, place) and _MANY.search(plain, start, place):
                return True
    return False


def _pattern(text: str, table: str) -> tuple[re.Pattern[str], int]:
    expression, comma, number = text.strip().partition(",")
    expression = expression.strip()
    try:
        count = whole_number(number.strip())
        if not comma or not 0 < count < 1 << 31:
            raise ValueError(number)
    except ValueError as error:
        raise OptionError(
            f"{text!r} is not a rule for numbers of buckets",
            key=EXPRESSIONS,
            table=table,
            why="expected a regular expression without commas, a comma, and a whole number of at least 1",
            todo=f"Write {EXPRESSIONS} as in 2024-.*,16;2023-.*,8",
        ) from error
    try:
        is_served = _ALIKE.fullmatch(expression) and not _repeats_a_choice(expression)
        pattern = re.compile(expression, re.ASCII) if is_served else None
    except re.error as error:
        raise OptionError(
            f"{expression!r} is not a regular expression",
            key=EXPRESSIONS,
            table=table,
            why=str(error),
            todo=f"Write {EXPRESSIONS} as in 2024-.*,16;2023-.*,8",
        ) from error
    if pattern is None:
        raise UnsupportedError(
            f"lakebed does not take the regular expression {expression!r}",
            table=table,
            why="Java, which Hudi's engines use, may read it differently than Python, or matching could take forever",
            todo=r"Use plain characters, classes such as [0-9] and \d, groups, and repetitions that are not nested",
        )
    return pattern, count
