"""Values of small files are kept by their bytes, and those of large ones are not."""

from __future__ import annotations

import pytest

from lakebed.kernel.remembered import COUNT, EACH_BYTES, remembered


def test_a_value_is_decoded_once_for_the_same_bytes_and_arguments() -> None:
    calls: list[tuple[bytes, int]] = []

    @remembered
    def decode(data: bytes, times: int = 1) -> bytes:
        """Some doc."""
        calls.append((data, times))
        if not data:
            raise ValueError("nothing")
        return data * times

    assert decode.__doc__ == "Some doc."
    for _ in range(2):
        assert decode(b"a") == b"a" and decode(bytearray(b"b"), 2) == b"bb" and decode(b"b", times=3) == b"bbb"
        assert decode(b"x" * (EACH_BYTES + 1)) == b"x" * (EACH_BYTES + 1)
        with pytest.raises(ValueError, match="nothing"):
            decode(b"")
    counts = [calls.count(call) for call in dict.fromkeys(calls)]
    assert counts == [1, 1, 1, 2, 2]
    for number in range(COUNT):
        decode(b"%d" % number)
    decode(b"a")
    assert calls.count((b"a", 1)) == 2
