"""Arrays in NumPy's file format, for scripts that do without NumPy. Standard library only."""
import struct


def npy(descr, shape, data=b""):
    """An array of the dtype `descr` ("<f4") with these bytes, in C order; without bytes its header,
    behind which they may be written."""
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data
