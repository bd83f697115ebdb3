"""XXH32 against its published values, and many lengths at once against each alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakebed.kernel.keys.xxhash import hash_bytes


@pytest.mark.parametrize(
    ("text", "seed", "wanted"),
    [
        (b"", 0, 0x02CC5D05),
        (b"a", 0, 0x550D7456),
        (b"abc", 0, 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0, 0xE2293B2F),
        (b"", 0x9E3779B1, 0x36B78AE7),
    ],
)
def test_known_values(text: bytes, seed: int, wanted: int) -> None:
    assert hash_bytes(pa.array([text]), seed).tolist() == [wanted]


def test_many_lengths_at_once() -> None:
    rng = np.random.default_rng(7)
    texts = [rng.bytes(length) for length in [*range(40), *range(40)]]
    values = pa.array([b"cut", *texts, None])[1:]
    hashes = hash_bytes(values, 3).tolist()
    assert hashes[:-1] == [hash_bytes(pa.array([text]), 3)[0] for text in texts]
    assert hashes[-1] == 0
    assert len(set(hashes)) > 75
