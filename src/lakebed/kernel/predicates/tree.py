"""A predicate as a tree of columns, literals and calls.

Both readers of a `where` build this tree: `sql.py` from SQL text and `arrow.py` from a pyarrow expression. Spark's
pushed filters build it directly. Everything that uses a predicate reads the tree: planners ask which columns it names
and which files can hold a match (`ranges.py`), and tasks filter their rows with its Arrow form.

A call names a function of Arrow's compute registry and means what Arrow computes, three-valued logic included.
`and_kleene` and `or_kleene` take any number of arguments, so a long chain of conditions is a flat node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import from_values

AND, OR = "and_kleene", "or_kleene"
_SHOWN_VALUES = 10
_INFIX = {
    AND: "and",
    OR: "or",
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "add_checked": "+",
    "subtract_checked": "-",
    "multiply_checked": "*",
    "divide_checked": "/",
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
}


class Node:
    """A part of a predicate. Nodes are immutable and picklable."""

    def leaves(self) -> Iterator[Node]:
        """The parts that have no parts themselves, from left to right."""
        yield self

    def columns(self) -> tuple[str, ...]:
        """The top-level columns that the predicate reads, in the order in which it names them."""
        names: dict[str, None] = {}
        for leaf in self.leaves():
            names |= dict.fromkeys(leaf.path[:1] if isinstance(leaf, Column) else ())
            names |= dict.fromkeys(leaf.names if isinstance(leaf, Opaque) else ())
        return tuple(names)

    def opaque_parts(self) -> list[Opaque]:
        """The parts that lakebed cannot read."""
        return [leaf for leaf in self.leaves() if isinstance(leaf, Opaque)]

    def to_arrow(self) -> pc.Expression:
        """The pyarrow expression that computes this node. It is built once per node."""
        return self._arrow

    @cached_property
    def _arrow(self) -> pc.Expression:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Column(Node):
    """A column (a path of one name), or a field inside a struct column (a path of several)."""

    path: tuple[str, ...]

    @cached_property
    def _arrow(self) -> pc.Expression:
        return pc.field(*self.path)

    def __repr__(self) -> str:
        return ".".join(name if name.isidentifier() else "`" + name.replace("`", "``") + "`" for name in self.path)

    def __reduce__(self) -> tuple[Any, ...]:
        return Column, (self.path,)


@dataclass(frozen=True, repr=False)
class Literal(Node):
    """A constant."""

    value: pa.Scalar

    @classmethod
    def of(cls, value: Any, kind: pa.DataType | None = None) -> Literal:
        """A Python value as a literal of the type `kind`, or of the type that pyarrow infers."""
        return cls(pa.scalar(value, kind))

    @cached_property
    def _arrow(self) -> pc.Expression:
        return pc.scalar(self.value)

    def __repr__(self) -> str:
        return _shown(self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        # A scalar pickles as a Python value, which holds no nanoseconds; an array keeps its bytes.
        return _literal, (pa.repeat(self.value, 1),)


@dataclass(frozen=True)
class Pattern:
    """Options of `match_like`, `starts_with` and other searches in texts."""

    text: str | bytes
    ignore_case: bool = False

    def to_arrow(self) -> pc.FunctionOptions:
        """These options in pyarrow's form."""
        return pc.MatchSubstringOptions(self.text, ignore_case=self.ignore_case)


@dataclass(frozen=True)
class ValueSet:
    """Options of `is_in`. A null in `values` matches nulls, unless `skip_nulls` is set: then nulls match nothing."""

    values: pa.Array
    skip_nulls: bool = False

    def to_arrow(self) -> pc.FunctionOptions:
        """These options in pyarrow's form."""
        return pc.SetLookupOptions(self.values, skip_nulls=self.skip_nulls)


@dataclass(frozen=True)
class NullRule:
    """Options of `is_null`: whether NaN counts as null."""

    nan_is_null: bool = False

    def to_arrow(self) -> pc.FunctionOptions:
        """These options in pyarrow's form."""
        return pc.NullOptions(nan_is_null=self.nan_is_null)


@dataclass(frozen=True)
class CastRule:
    """Options of `cast`. `allowed` holds the names of the losses that are not errors, such as `allow_int_overflow`."""

    type: pa.DataType
    allowed: tuple[str, ...] = ()

    def to_arrow(self) -> pc.FunctionOptions:
        """These options in pyarrow's form."""
        return pc.CastOptions(self.type, **dict.fromkeys(self.allowed, True))


CallOptions: TypeAlias = Pattern | ValueSet | NullRule | CastRule


@dataclass(frozen=True, repr=False)
class Call(Node):
    """A function of Arrow's compute registry with its arguments and options."""

    function: str
    arguments: tuple[Node, ...]
    options: CallOptions | None = None

    def leaves(self) -> Iterator[Node]:
        """The leaves of all arguments."""
        for argument in self.arguments:
            yield from argument.leaves()

    @cached_property
    def _arrow(self) -> pc.Expression:
        arguments = [argument.to_arrow() for argument in self.arguments]
        if self.function in (AND, OR):
            return _joined(self.function, arguments)
        if isinstance(self.options, CastRule):
            return arguments[0].cast(options=self.options.to_arrow())
        kernel = getattr(pc, self.function)
        return kernel(*arguments) if self.options is None else kernel(*arguments, options=self.options.to_arrow())

    def __repr__(self) -> str:
        shown = [repr(argument) for argument in self.arguments]
        if self.function in _INFIX and len(shown) > 1:
            return f"({f' {_INFIX[self.function]} '.join(shown)})"
        match self.function, self.options:
            case "invert", _:
                return f"(not {shown[0]})"
            case "is_null", NullRule(nan_is_null=False):
                return f"({shown[0]} is null)"
            case "is_valid", _:
                return f"({shown[0]} is not null)"
            case "is_in", ValueSet(values=values):
                return f"({shown[0]} in ({', '.join(map(_shown, values[:_SHOWN_VALUES]))}{_more(len(values))}))"
            case "match_like", Pattern(text=text, ignore_case=ignored):
                return f"({shown[0]} {'ilike' if ignored else 'like'} {_shown(pa.scalar(text))})"
            case _, CastRule(type=kind):
                return f"cast({shown[0]} as {kind})"
            case _, Pattern(text=text):
                return f"{self.function}({shown[0]}, {_shown(pa.scalar(text))})"
        return f"{self.function}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Call, (self.function, self.arguments, self.options)


@dataclass(frozen=True, repr=False, eq=False)
class Opaque(Node):
    """A part of a user's pyarrow expression that lakebed cannot read: Arrow computes it for each row. `names` are the
    columns that it may read."""

    expression: pc.Expression
    names: tuple[str, ...]

    @cached_property
    def _arrow(self) -> pc.Expression:
        return self.expression

    def __repr__(self) -> str:
        return " ".join(str(self.expression).split())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.names == other.names and self.expression.equals(other.expression)

    def __hash__(self) -> int:
        return hash(self.names)

    def __reduce__(self) -> tuple[Any, ...]:
        return Opaque, (self.expression, self.names)


_TRUTH = from_values([None, True, False], pa.bool_())
UNKNOWN = Literal(_TRUTH[0])
"""The truth value that is neither true nor false."""
TRUE, FALSE = Literal(_TRUTH[1]), Literal(_TRUTH[2])


def all_of(*nodes: Node) -> Node:
    """True where all nodes are true (SQL's AND)."""
    return _chain(AND, nodes)


def any_of(*nodes: Node) -> Node:
    """True where a node is true (SQL's OR)."""
    return _chain(OR, nodes)


def negated(node: Node) -> Node:
    """True where a node is false (SQL's NOT)."""
    return Call("invert", (node,))


def is_null(node: Node) -> Node:
    """True where a node is null, false elsewhere. NaN is not null."""
    return Call("is_null", (node,), NullRule())


def is_valid(node: Node) -> Node:
    """True where a node is not null, false elsewhere."""
    return Call("is_valid", (node,))


def _chain(function: str, nodes: tuple[Node, ...]) -> Node:
    if len(nodes) == 1:
        return nodes[0]
    parts: list[Node] = []
    for node in nodes:
        parts += node.arguments if isinstance(node, Call) and node.function == function else (node,)
    return Call(function, tuple(parts))


def _joined(function: str, parts: list[pc.Expression]) -> pc.Expression:
    """A balanced tree of binary calls: Arrow walks an expression by recursion."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        joined = [one & other if function == AND else one | other for one, other in pairs]
        parts = [*joined, *parts[2 * len(joined) :]]
    return parts[0]


def _literal(column: pa.Array) -> Literal:
    return Literal(column[0])


def _shown(value: pa.Scalar) -> str:
    """A constant, nearly as SQL writes it."""
    if not value.is_valid:
        return "null"
    if pa.types.is_timestamp(value.type) or pa.types.is_time(value.type):
        return f"'{value.cast(pa.string())}'"  # Python's types hold no nanoseconds
    plain = value.as_py()
    if isinstance(plain, bytes):
        return f"X'{plain.hex()}'"
    if isinstance(plain, bool):
        return str(plain).lower()
    return str(plain) if isinstance(plain, int | float | Decimal) else f"'{plain}'"


def _more(count: int) -> str:
    return f", ... {count - _SHOWN_VALUES} more" if count > _SHOWN_VALUES else ""
