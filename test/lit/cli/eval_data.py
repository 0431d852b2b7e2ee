"""Writes five samples of a 3-class model to the first .npz: x, label, float_output, and names, an
array of strings, which no verb can read. The second .npz has results: output_0 and names. With a number
that element of x is NaN."""
import struct
import sys
import zipfile


def npy(code, size, shape, values):
    head = repr({"descr": f"<{code}{size}", "fortran_order": False, "shape": shape})
    head += " " * (-(len(head) + 11) % 64) + "\n"
    begin = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
    if code == "U":
        return begin + b"".join(value.ljust(size).encode("utf-32-le") for value in values)
    form = "<" + {"f4": "f", "i8": "q"}[f"{code}{size}"] * len(values)
    return begin + struct.pack(form, *values)


def one_hot(classes):
    return [1.0 if i == each else 0.0 for each in classes for i in range(3)]


names = npy("U", 3, (5,), ["one", "two", "six", "one", "ten"])
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    archive.writestr("names.npy", names)
    x = one_hot([0, 1, 2, 0, 1])
    for at in sys.argv[3:]:
        x[int(at)] = float("nan")
    archive.writestr("x.npy", npy("f", 4, (5, 3), x))
    archive.writestr("label.npy", npy("i", 8, (5,), [0, 1, 2, 0, 0]))
    archive.writestr("float_output.npy", npy("f", 4, (5, 3), one_hot([0, 1, 0, 2, 0])))
with zipfile.ZipFile(sys.argv[2], "w") as archive:
    archive.writestr("names.npy", names)
    archive.writestr("output_0.npy", npy("f", 4, (5, 3), one_hot([0, 1, 2, 0, 1])))
