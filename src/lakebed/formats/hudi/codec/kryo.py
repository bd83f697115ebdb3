"""Plain values as Kryo 4 writes them: numbers of variable length, fixed values, bytes and texts.

Rules: Kryo's `Output` (`writeVarInt`, `writeVarLong`, `writeString`).
"""

from __future__ import annotations

import struct
from typing import Any


class KryoInput:
    """The values in some bytes, read one after another: `at` is the place of the next one.

    Raises ValueError or IndexError for bytes that are no such value: work inside `decoding`.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if not 0 <= count <= len(self.data) - self.at:
            raise ValueError("a value reaches past the end")
        self.at += count
        return self.data[self.at - count : self.at]

    def fixed(self, layout: str) -> Any:
        """The next value, given as a format character of `struct`, big-endian."""
        return struct.unpack(f">{layout}", self.take(struct.calcsize(layout)))[0]

    def number(self, bits: int = 32) -> int:
        """An unsigned number with 7 bits per byte, the lowest first; the ninth byte of a long has eight."""
        number = 0
        for shift in range(0, bits, 7):
            byte = self.data[self.at]
            self.at += 1
            if shift == 56:
                return number | byte << shift
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError("a number has no end")

    def signed(self, bits: int) -> int:
        """A signed number in zig-zag order."""
        number = self.number(bits)
        return self.in_range((number >> 1) ^ -(number & 1), bits)

    def complement(self, bits: int) -> int:
        """A signed number in two's complement."""
        number = self.number(bits)
        return self.in_range(number - (1 << bits) if number >> (bits - 1) else number, bits)

    def in_range(self, value: int, bits: int) -> int:
        """The value, if a signed number of so many bits can be it."""
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise ValueError(f"a number has more than {bits} bits")
        return value

    def counted(self) -> bytes:
        """Bytes, after their count plus one."""
        return self.take(self.number() - 1)

    def characters(self) -> str:
        """A text: two to 63 ASCII characters, the last one with its high bit set, or a count and that many characters
        of UTF-16, each in one to three bytes."""
        start, first = self.at, self.data[self.at]
        if first < 0x80:
            while self.data[self.at] < 0x80:
                self.at += 1
            self.at += 1
            return (self.data[start : self.at - 1] + bytes([self.data[self.at - 1] & 0x7F])).decode("ascii")
        self.at += 1
        count = first & 0x3F | (self.number() << 6 if first & 0x40 else 0)
        if count == 0:
            raise ValueError("a text is null")
        start = self.at
        for _ in range(count - 1):
            self.at += 1 if self.data[self.at] < 0x80 else 2 if self.data[self.at] < 0xE0 else 3
        if self.at > len(self.data):
            raise ValueError("a text reaches past the end")
        halves = self.data[start : self.at].decode("utf-8", "surrogatepass")
        return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
