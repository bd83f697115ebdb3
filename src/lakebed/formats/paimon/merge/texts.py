"""The aggregate function of texts: listagg.

Rules: Paimon's FieldListaggAgg. Without `distinct`, as in release 1.3.1, all texts that are not null are joined, empty
texts too. `distinct` follows the later releases that added it: each text is split into tokens at the delimiter, and
blank texts, blank tokens and tokens that are there already are left out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.merge.nested import codes
from lakebed.formats.paimon.merge.ordering import Runs
from lakebed.kernel.arrays import Bools, Int64s, from_numpy, to_numpy


def listagg(values: pa.Array, runs: Runs, delimiter: str, distinct: bool) -> pa.Array:
    """Join the texts of each run. Null for a run of nulls."""
    valid = to_numpy(values.is_valid())
    if distinct:
        joined = _distinct_tokens(values, runs, delimiter)
    else:
        kept = np.flatnonzero(valid)
        joined = _joined(values.take(from_numpy(kept)), runs.ids()[kept], len(runs), delimiter)
    none = ~np.logical_or.reduceat(valid, runs.starts) if len(runs) else valid
    return pc.if_else(pa.array(none), pa.scalar(None, values.type), joined)


def _distinct_tokens(values: pa.Array, runs: Runs, delimiter: str) -> pa.Array:
    used = _filled(values)
    places = np.flatnonzero(used)
    owner = runs.ids()[places]
    lists = pc.split_pattern(values.take(from_numpy(places)), delimiter)
    lengths = to_numpy(lists.value_lengths())
    tokens = lists.flatten()
    first_text = np.append(True, owner[1:] != owner[:-1]) if len(owner) else np.zeros(0, np.bool_)
    of_first, owner = np.repeat(first_text, lengths), np.repeat(owner, lengths)
    numbers = codes(tokens)
    token_codes = owner * (int(numbers.max(initial=0)) + 1) + numbers
    is_new = np.zeros(len(token_codes), np.bool_)
    is_new[np.unique(token_codes, return_index=True)[1]] = True
    keep = np.flatnonzero(of_first | (is_new & _filled(tokens)))  # the first text stays as it is, whatever it repeats
    return _joined(tokens.take(from_numpy(keep)), owner[keep], len(runs), delimiter)


def _joined(texts: pa.Array, owner: Int64s, runs: int, delimiter: str) -> pa.Array:
    offsets = pa.array(np.searchsorted(owner, np.arange(runs + 1)), pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), delimiter)


def _filled(texts: pa.Array) -> Bools:
    """Whether each text has more than white space."""
    trimmed = pc.binary_length(pc.utf8_trim_whitespace(texts))
    filled: Bools = to_numpy(pc.fill_null(pc.greater(trimmed, 0), False))
    return filled
