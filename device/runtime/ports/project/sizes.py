#!/usr/bin/env python3
"""What an image is made of, library by library, from the linker's map.

    sizes.py firmware.map

Text is code and constants, RAM what is neither arena nor stack. The program file and the arenas
have lines of their own. Standard library only.
"""
import collections
import re
import sys

# Of the library `deuteron`: what is linked only if it is asked for.
PARTS = {
    "crc32": "checksum",
    "status": "error texts",
    "tensor_file": "tensor files",
    "delegate_deuteron": "NPU delegate",
    "cycles": "NPU delegate",
    "driver": "NPU delegate",
    "deuteron": "C API",
}
NAMES = {
    "deuteron": "loader and executor",
    "c_nano": "C library",
    "c": "C library",
    "m": "C library",
    "gcc": "arithmetic of the compiler",
    "stdc++_nano": "C++ library",
    "": "main",
}
KINDS = {
    ".text": 0,
    ".ARM.exidx": 0,
    ".data": 1,
    ".bss": 1,
    ".program": 2,
    ".program_sram": 2,
    ".arena": 3,
}


def sizes(map_text):
    """{part: [text, RAM, program, arena]} of the sections that were linked."""
    linked = map_text[map_text.index("Linker script and memory map") :]
    linked = re.sub(
        r"^( \.\S+)\n +", r"\1 ", linked, flags=re.MULTILINE
    )  # long names stand on a line of their own
    found, kind = collections.defaultdict(lambda: [0, 0, 0, 0]), None
    for line in linked.splitlines():
        if re.match(r"\.\S", line):
            kind = KINDS.get(line.split()[0])
        section = re.match(r" (?:\.\S+|COMMON)\s+0x[0-9a-f]+\s+(0x[0-9a-f]+) (\S+)$", line)
        if kind is None or not section:
            continue
        archive = re.search(r"lib([\w+]+)\.a\(([\w-]+)\.", section.group(2))
        library, member = archive.groups() if archive else ("", "")
        part = PARTS.get(member) if library == "deuteron" else None
        found[part or NAMES.get(library, library)][kind] += int(section.group(1), 16)
    return {part: columns for part, columns in found.items() if any(columns)}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        found = sizes(file.read())
    rows = sorted(found.items(), key=lambda row: -row[1][0]) + [
        ("in all", [sum(column) for column in zip(*found.values())])
    ]
    print(f"{'':28}{'text':>8}{'RAM':>8}{'program':>9}{'arenas':>8}")
    for name, columns in rows:
        print(f"{name:28}{columns[0]:8}{columns[1]:8}{columns[2]:9}{columns[3]:8}")


if __name__ == "__main__":
    main()
