"""Damaged models, always the same: bytes changed, cut off, repeated, or zeroed."""
import random


def damaged(files, count):
    """(name, bytes) of `count` files made from `files`, paths of models."""
    for i in range(count):
        draw = random.Random(i)
        source = files[i % len(files)]
        data = bytearray(source.read_bytes())
        kind = draw.randrange(5)
        if kind == 0:
            data = data[: draw.randrange(len(data))]
        elif kind == 1:
            for _ in range(draw.randrange(1, 20)):
                data[draw.randrange(len(data))] = draw.randrange(256)
        elif kind == 2:
            at, length = draw.randrange(len(data)), draw.randrange(1, 2000)
            data[at : at + length] = bytes(len(data[at : at + length]))
        elif kind == 3:
            at, length = draw.randrange(len(data)), draw.randrange(1, 2000)
            data[at:at] = data[at : at + length]
        else:
            at = draw.randrange(max(1, len(data) - 4))
            data[at : at + 4] = draw.choice(
                [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x80"]
            )
        yield f"damaged_{i}{source.suffix}", bytes(data)
