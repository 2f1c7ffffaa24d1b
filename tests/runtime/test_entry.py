"""Entries check themselves: whatever happens to their bytes, the program comes back whole or not at all."""
from __future__ import annotations

import random
import struct

import pytest

from tilelang.runtime import entry
from tilelang.runtime.entry import PREFIX_BYTES, BadEntry, decode, encode
from tilelang.runtime.nvrtc import Cubin, Remark, Resources

DIGEST = "ab" * 32
CUBIN = Cubin(
    b"\x7fELF" + random.Random(1).randbytes(3500),
    {"gemm": Resources(168, 16, 8, 4, 1024)},
    (Remark("C7510", 'words in "quotes" and é'),),
    "ptxas info\nsecond line",
)
RAW = encode(DIGEST, {"arguments": ["--std=c++17"]}, CUBIN)


def test_what_goes_in_comes_out():
    assert decode(RAW, DIGEST) == CUBIN
    empty = Cubin(b"", {}, (), "")
    assert decode(encode(DIGEST, {}, empty), DIGEST) == empty


def test_the_same_program_gives_the_same_bytes():
    assert encode(DIGEST, {"arguments": ["--std=c++17"]}, CUBIN) == RAW


def test_every_truncation_is_found():
    assert len(RAW) > 4000 - 400
    for length in range(len(RAW)):
        with pytest.raises(BadEntry):
            decode(RAW[:length], DIGEST)


def test_bytes_after_the_end_are_found():
    for more in (b"\0", b"\n", RAW):
        with pytest.raises(BadEntry, match="bytes of"):
            decode(RAW + more, DIGEST)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_change_of_any_byte_before_the_cubin_is_found(flip):
    for at in range(PREFIX_BYTES + 400):
        changed = bytearray(RAW)
        changed[at] ^= flip
        with pytest.raises(BadEntry):
            decode(bytes(changed), DIGEST)


def test_random_flips_are_found():
    source = random.Random(2)
    for _ in range(1000):
        changed = bytearray(RAW)
        for _ in range(source.choice((1, 1, 1, 2, 7))):
            changed[source.randrange(len(RAW))] ^= 1 << source.randrange(8)
        if changed != RAW:
            with pytest.raises(BadEntry):
                decode(bytes(changed), DIGEST)


def test_foreign_files_are_told_apart():
    with pytest.raises(BadEntry, match="another program's"):
        decode(RAW, "cd" * 32)
    for foreign in (b"\x7fELF" * 100, b"PK\x03\x04" * 100, bytes(200)):
        with pytest.raises(BadEntry, match="another format"):
            decode(foreign, DIGEST)


def test_another_schema_is_another_format(monkeypatch):
    monkeypatch.setattr(entry, "SCHEMA", entry.SCHEMA + 1)
    other = encode(DIGEST, {}, CUBIN)
    monkeypatch.undo()
    with pytest.raises(BadEntry, match="another format"):
        decode(other, DIGEST)


@pytest.mark.parametrize("header", ["[]", "1", "not json", "{}", f'{{"digest": "{DIGEST}"}}', '{"digest": [1]}'])
def test_a_header_that_is_whole_and_means_nothing(header):
    import hashlib

    head = struct.pack("<8sIIQ", entry.MAGIC, entry.SCHEMA, len(header), 0)
    raw = head + hashlib.sha256(head + header.encode()).digest() + header.encode()
    with pytest.raises(BadEntry):
        decode(raw, DIGEST)
