"""Writes npu_payload.bin: a small NPU program with every command once, the seed of test/fuzz/fuzz_npu_payload.cpp.

Follows abi/npu/microcode.h with nothing but struct; target hash and checksum are left to the fuzzer, which sets both.
"""
import pathlib
import struct

SCRATCH, CONSTANTS, INPUT, OUTPUT = 0, 1, 2, 3
HALF = (1 << 30, 0)
commands = []


def command(opcode, *arguments):
    commands.append(struct.pack("<I", opcode | (len(arguments) + 1) << 16) + struct.pack(f"<{len(arguments)}i", *arguments))


def window(channels, kernel=1, pad=0):
    dense = (channels, 5 * channels, 20 * channels)
    return (1, 4, 5, channels, 4, 5, channels, kernel, kernel, 1, 1, 1, 1, pad, pad, *dense, *dense)


weights = bytes((i * 37) % 251 for i in range(3 * 64 + 9 * 8))
parameters = struct.pack("<24i", *range(-400, 400, 100), *[1 << 30] * 8, *[-8, -7, -6, -9, -5, -8, -7, -10])
table = bytes(i ^ 0x80 for i in range(255, -1, -1))
constants = b"".join(part.ljust((len(part) + 15) // 16 * 16, b"\0") for part in (weights, parameters, table))
TABLE = len(constants) - 256
PARAMETERS = TABLE - 96
STAGED = len(constants)
A, B = STAGED, STAGED + 112  # two tensors of 4 × 5 × 5 bytes
SIZE = 100

add = (1, -2, 3, *HALF, *HALF, 1 << 30, -17, -128, 127)
no_epilogue = (0, -128, 127, 0, 0, 0, 0, 0, *[0] * 14)
command(0x01, SCRATCH, 0, CONSTANTS, 0, PARAMETERS, 1)
command(0x01, SCRATCH, PARAMETERS, CONSTANTS, PARAMETERS, STAGED - PARAMETERS, 2)
command(0x02, 1)
command(0x02, 2)
command(0x10, *window(5), INPUT, 0, SCRATCH, A, SCRATCH, 0, SCRATCH, PARAMETERS, -3, 0, *no_epilogue)
command(0x11, *window(5, 3, 1), SCRATCH, A, SCRATCH, B, SCRATCH, 192, SCRATCH, PARAMETERS, -3,
        2, -100, 100, 3, SCRATCH, TABLE, SCRATCH, A, 5, 25, 100, *add)
command(0x12, *window(5, 2, 1), SCRATCH, B, SCRATCH, A, 2, 7, 7, -7, 1 << 30, -2, -128, 127)
command(0x13, SCRATCH, A, INPUT, 0, SCRATCH, A, SIZE, *add)
command(0x14, SCRATCH, A, SCRATCH, A, SCRATCH, TABLE, SIZE)
command(0x15, SCRATCH, A, SCRATCH, A, 20, 5, 1 << 30, 20, -248)
command(0x17, SCRATCH, B, SIZE, -9)
command(0x18, INPUT, 0, SCRATCH, B, 0, 1, 1, 1, 1, 5, 4, 0, 0, 0, 0, 20, 1, 0, 0, 0, 0, 4, 1, 1, 1, 1, 1, 1, 5, 0, 0, 0, 0, 0, 4,
        3, -3, 1 << 30, -2, -128, 127)
command(0x19, INPUT, 0, SCRATCH, B, 1, 1, 5, 4, 5, 819, -103, 10, 5, 4, 1280, 128, 10)
command(0x16, SCRATCH, A, OUTPUT, 0, 1, 1, 1, 5, 5, 4, 0, 0, 0, 1, 5, 25, 0, 0, 0, 20, 4, 1)
command(0x00)

operands = struct.pack("<4I", 0, SIZE, 1, SIZE)
body = b"".join(commands)
words = (64 + len(operands) + len(body)) // 4
offset = (words * 4 + 15) // 16 * 16
header = struct.pack("<10I", 0x55504E44, 2 << 16, 0, words, len(commands), 2, offset, len(constants), B + 112, 0) + bytes(24)
payload = (header + operands + body).ljust(offset, b"\0") + constants
pathlib.Path(__file__).with_name("npu_payload.bin").write_bytes(payload)
