"""Writes one sample of x, zeros, and of an index to an .npz: its file, the shapes of both as 5,4 and
the elements of the index."""
import math
import struct
import sys
import zipfile


def npy(code, shape, values):
    head = repr({"descr": code, "fortran_order": False, "shape": (1, *shape)})
    head += " " * (-(len(head) + 11) % 64) + "\n"
    form = "<" + {"<f4": "f", "<i8": "q"}[code] * len(values)
    return (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(head))
        + head.encode()
        + struct.pack(form, *values)
    )


def shape(text):
    return tuple(int(size) for size in text.split(","))


x, index = shape(sys.argv[2]), shape(sys.argv[3])
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    archive.writestr("x.npy", npy("<f4", x, [0.0] * math.prod(x)))
    archive.writestr("index.npy", npy("<i8", index, [int(i) for i in sys.argv[4:]]))
