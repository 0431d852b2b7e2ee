"""Writes five samples of a 3-class model to the named .npz: x, label, float_output."""
import struct
import sys
import zipfile


def npy(code, size, shape, values):
    head = repr({"descr": f"<{code}{size}", "fortran_order": False, "shape": shape})
    head += " " * (-(len(head) + 11) % 64) + "\n"
    form = "<" + {"f4": "f", "i8": "q"}[f"{code}{size}"] * len(values)
    begin = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head))
    return begin + head.encode() + struct.pack(form, *values)


def one_hot(classes):
    return [1.0 if i == each else 0.0 for each in classes for i in range(3)]


with zipfile.ZipFile(sys.argv[1], "w") as archive:
    archive.writestr("x.npy", npy("f", 4, (5, 3), one_hot([0, 1, 2, 0, 1])))
    archive.writestr("label.npy", npy("i", 8, (5,), [0, 1, 2, 0, 0]))
    archive.writestr("float_output.npy", npy("f", 4, (5, 3), one_hot([0, 1, 0, 2, 0])))
