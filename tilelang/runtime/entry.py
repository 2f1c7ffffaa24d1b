"""One compiled program as the bytes of one file that checks itself.

    magic (8 bytes)  schema (4)  length of the header (4)  length of the cubin (8)  SHA-256 (32)  header (JSON, UTF-8)  cubin

Numbers are little-endian.  The SHA-256 is that of everything else in the file, so a flipped bit, a truncation, bytes of another
program or another format are found before anything is used.  Everything that belongs together is in the one file: no reader ever
sees the cubin of one writer with the report of another.
"""
from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import asdict

from tilelang.runtime.nvrtc import Cubin, Remark, Resources

# raised whenever the meaning of an entry or of its key changes; entries of other schemas are never read
SCHEMA = 1
MAGIC = b"TILELANG"

_HEAD = struct.Struct("<8sIIQ")
_DIGEST_BYTES = 32
PREFIX_BYTES = _HEAD.size + _DIGEST_BYTES


class BadEntry(Exception):
    """These bytes are not the entry that was asked for; says why.  Never leaves the cache."""


def encode(digest: str, facts: Mapping[str, object], cubin: Cubin) -> bytes:
    """The entry of a compiled program under the digest of its key; `facts` are for people who look into it."""
    header = json.dumps({
        "digest": digest,
        "facts": facts,
        "resources": {name: asdict(used) for name, used in cubin.resources.items()},
        "remarks": [asdict(remark) for remark in cubin.remarks],
        "log": cubin.log,
    }).encode()  # fmt: skip
    head = _HEAD.pack(MAGIC, SCHEMA, len(header), len(cubin.image))
    return b"".join((head, hashlib.sha256(head + header + cubin.image).digest(), header, cubin.image))


def decode(raw: bytes, digest: str) -> Cubin:
    """The program in the bytes of an entry.  Raises BadEntry unless they are exactly an entry under this digest."""
    if len(raw) < PREFIX_BYTES:
        raise BadEntry(f"it has {len(raw)} bytes")
    head, checksum, body = raw[: _HEAD.size], raw[_HEAD.size : PREFIX_BYTES], raw[PREFIX_BYTES:]
    magic, schema, header_bytes, image_bytes = _HEAD.unpack(head)
    if magic != MAGIC or schema != SCHEMA:
        raise BadEntry("it has another format")
    if len(body) != header_bytes + image_bytes:
        raise BadEntry(f"it has {len(raw)} bytes of {PREFIX_BYTES + header_bytes + image_bytes}")
    if hashlib.sha256(head + body).digest() != checksum:
        raise BadEntry("its checksum does not fit")
    try:
        return _program(json.loads(body[:header_bytes]), body[header_bytes:], digest)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadEntry(f"its header cannot be read: {error!r}") from error


def _program(header: Mapping[str, object], image: bytes, digest: str) -> Cubin:
    if header["digest"] != digest:
        raise BadEntry("it is another program's")
    resources, remarks, log = header["resources"], header["remarks"], header["log"]
    return Cubin(
        image,
        {name: Resources(**used) for name, used in resources.items()},  # type: ignore[attr-defined]
        tuple(Remark(**remark) for remark in remarks),  # type: ignore[attr-defined]
        str(log),
    )
