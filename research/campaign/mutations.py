"""Bytes, lines, JSON values and arguments made wrong, each from a seed."""

from __future__ import annotations

import json
import re
import struct
from typing import Any

import numpy as np

Rng = np.random.Generator

NUMBERS = [b"\0" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7, struct.pack("<q", 2**31), struct.pack("<d", np.nan)]
NUMBERS += [
    struct.pack("<d", np.inf),
    struct.pack("<f", np.nan),
    struct.pack("<I", 2**32 - 1),
    struct.pack(">I", 2**31),
]
WORDS = ["nan", "-inf", "inf", "-1", "0", "1e308", "-0.0", "99999999999999999999", "1e-320", "", "x", "é", "\0", "1 2"]
WORDS += ["../../etc/passwd", "/dev/null", "a" * 5000, "[]", "null", "\udcff".encode(errors="replace").decode()]
VALUES: list[Any] = [None, True, -1, 0, 2**70, float("nan"), float("inf"), 1e308, -12, "", "x", [], {}, [[]], "\0"]
VALUES += [[1, 2, 3], {"a": 1}, "é" * 100, "<script>"]


def binary(content: bytes, rng: Rng) -> bytes:
    """One to four wrong places, or a piece too few, too many or elsewhere."""
    spoilt = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        if not spoilt:
            break
        at = int(rng.integers(len(spoilt))) if rng.random() < 0.7 else int(rng.integers(min(len(spoilt), 128)))
        length = int(rng.integers(1, max(2, len(spoilt) // 4)))
        match int(rng.integers(8)):
            case 0:
                spoilt[at] ^= 1 << int(rng.integers(8))
            case 1:
                spoilt[at] = int(rng.integers(256))
            case 2:
                number = NUMBERS[int(rng.integers(len(NUMBERS)))]
                spoilt[at : at + len(number)] = number
            case 3:
                del spoilt[at:]
            case 4:
                del spoilt[at : at + length]
            case 5:
                spoilt[at:at] = spoilt[at : at + min(length, 4096)]
            case 6:
                spoilt[at : at + 16] = rng.bytes(16)
            case 7:
                spoilt += rng.bytes(int(rng.integers(1, 64)))
    return bytes(spoilt)


def text(content: bytes, rng: Rng) -> bytes:
    """Words replaced, lines missing, doubled or swapped; at times bytes."""
    if rng.random() < 0.25:
        return binary(content, rng)
    lines = content.decode(errors="replace").split("\n")
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(lines)))
        match int(rng.integers(5)):
            case 0 | 1:
                words = re.split(r"(\s+|,)", lines[at])
                words[int(rng.integers(len(words)))] = WORDS[int(rng.integers(len(WORDS)))]
                lines[at] = "".join(words)
            case 2:
                lines[at : at + 1] = []
                lines = lines or [""]
            case 3:
                lines.insert(at, lines[int(rng.integers(len(lines)))])
            case 4:
                lines[at] += WORDS[int(rng.integers(len(WORDS)))]
    return "\n".join(lines).encode(errors="replace")


def json_text(content: bytes, rng: Rng) -> bytes:
    """Values of another kind, keys that are missing; at times text."""
    if rng.random() < 0.25:
        return text(content, rng)
    value = json.loads(content)
    for _ in range(int(rng.integers(1, 4))):
        value = _spoilt(value, rng)
    return json.dumps(value).encode()


def _spoilt(value: Any, rng: Rng) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = list(value)[int(rng.integers(len(value)))]
        rest = {name: each for name, each in value.items() if name != key}
        return rest if rng.random() < 0.15 else {**value, key: _spoilt(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = int(rng.integers(len(value)))
        return [*value[:at], *([] if rng.random() < 0.15 else [_spoilt(value[at], rng)]), *value[at + 1 :]]
    return VALUES[int(rng.integers(len(VALUES)))]
