"""The aggregate function of texts: listagg.

Rules: Paimon's FieldListaggAgg. Without `distinct` as release 1.3.1 has it: texts that are not null are joined, empty
ones too. `distinct` came with later releases, and is theirs: a text is cut into tokens at the delimiter, a token that
is there already or blank is left out, and so is a blank text.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.merge.nested import codes
from lakebed.formats.paimon.merge.ordering import Runs
from lakebed.kernel.arrays import Bools, Int64s


def listagg(values: pa.Array, runs: Runs, delimiter: str, distinct: bool) -> pa.Array:
    """The texts of each run joined, null when all are null."""
    some = values.is_valid().to_numpy(zero_copy_only=False)
    if distinct:
        joined = _distinct_tokens(values, runs, delimiter)
    else:
        kept = np.flatnonzero(some)
        joined = _joined(values.take(pa.array(kept)), runs.ids()[kept], len(runs), delimiter)
    none = ~np.logical_or.reduceat(some, runs.starts) if len(runs) else some
    return pc.if_else(pa.array(none), pa.scalar(None, values.type), joined)


def _distinct_tokens(values: pa.Array, runs: Runs, delimiter: str) -> pa.Array:
    used = _filled(values)
    places = np.flatnonzero(used)
    owner = runs.ids()[places]
    lists = pc.split_pattern(values.take(pa.array(places)), delimiter)
    lengths = lists.value_lengths().to_numpy()
    tokens = lists.flatten()
    first_text = np.append(True, owner[1:] != owner[:-1]) if len(owner) else np.zeros(0, np.bool_)
    of_first, owner = np.repeat(first_text, lengths), np.repeat(owner, lengths)
    numbers = codes(tokens)
    both = owner * (int(numbers.max(initial=0)) + 1) + numbers
    fresh = np.zeros(len(both), np.bool_)
    fresh[np.unique(both, return_index=True)[1]] = True
    keep = np.flatnonzero(of_first | (fresh & _filled(tokens)))  # the first text stays as it is, whatever it repeats
    return _joined(tokens.take(pa.array(keep)), owner[keep], len(runs), delimiter)


def _joined(texts: pa.Array, owner: Int64s, runs: int, delimiter: str) -> pa.Array:
    offsets = pa.array(np.searchsorted(owner, np.arange(runs + 1)), pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), delimiter)


def _filled(texts: pa.Array) -> Bools:
    """Whether texts hold more than white space."""
    trimmed = pc.binary_length(pc.utf8_trim_whitespace(texts))
    filled: Bools = pc.fill_null(pc.greater(trimmed, 0), False).to_numpy(zero_copy_only=False)
    return filled
