#!/usr/bin/env python3
"""Checks what the folders promise each other: the order of includes, the length of files, that CMake lists every source, and that what is
printed is encoded for a terminal.

    scripts/check_layers.py [ROOT]

A folder may include itself and the folders above it in ORDER, except where ALLOWED or FORBIDDEN says otherwise. Each finding is one line
`file:line: what is wrong`; exit code 1 if there is any. Standard library only.
"""
import os
import re
import sys
from pathlib import Path

# Each folder is a library that may use only what stands above it.
ORDER = ("abi", "numerics", "support", "ir", "ops", "frontends", "transforms", "targets", "quantizer", "partitioner", "backends", "program",
         "runtime", "simulator", "profiler", "compiler")
FREE = ("tools", "test", "bench", "python")  # see everything; nothing above sees them
# These see only what is named here (and themselves): they also run on the device.
ALLOWED = {"runtime": ("abi", "numerics"), "simulator/core": ("abi", "numerics")}
# Exceptions to the order: the simulator reads the microcode without the compiler's help.
FORBIDDEN = {"simulator": ("frontends", "transforms", "quantizer", "partitioner", "backends")}
# Sources of firmware projects: the build that `deuteron firmware` writes compiles them, beside its own model/.
DEVICE, DEVICE_OWN = "test/device", "model"
SIBLINGS = ("backends", "frontends")  # their sub-folders do not include each other

SOURCES = (".cpp", ".cc", ".c")
CODE = SOURCES + (".h", ".py", ".sh", ".cmake")
WARN_LINES, MAX_LINES = 600, 800  # tables (.inc) and generated files are exempt
# Names of files reach a terminal encoded, by one function; the others that print have only their own words, or run elsewhere.
PRINTS = re.compile(r"\bfmt::print\b|\bstd::(cout|cerr|f?puts|f?printf|fwrite)\b|(?<![\w:.>])f?printf\(")
MAY_PRINT = ("tools/print.h", "support/diagnostic.cpp", "support/progress.cpp", "runtime/ports/", "runtime/examples/")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def within(path, folder):
    return path.startswith(folder + "/")


def include_error(file, header):
    """Why `file` may not include "header" (both relative to the root), or None."""
    folder, other = file.split("/")[0], header.split("/")[0]
    if within(file, DEVICE) and within(header, DEVICE_OWN):
        return None
    if "/" not in header or other not in ORDER + FREE:
        return f'"{header}" does not start at the repository root; other projects\' headers go in <>'
    if folder in FREE:
        return None
    for place, visible in ALLOWED.items():
        if within(file, place):
            return None if within(header, place) or other in visible else f"{place}/ sees only {' and '.join(visible)}, not {other}/"
    if other in FREE or ORDER.index(other) > ORDER.index(folder):
        return f"{folder}/ may not include {other}/, which stands below it"
    if other in FORBIDDEN.get(folder, ()):
        return f"{folder}/ does not use {other}/"
    if folder == other and folder in SIBLINGS:
        mine, theirs = file.split("/")[1:-1], header.split("/")[1:-1]
        if mine and theirs and mine[0] != theirs[0]:
            return f"{folder}/{mine[0]} does not know {folder}/{theirs[0]}"
    return None


def print_error(file, line):
    """Why `file` may not have this line, which prints, or None."""
    if file.split("/")[0] not in ORDER + ("tools",) or file.startswith(MAY_PRINT) or not PRINTS.search(line.split("//")[0]):
        return None
    return "prints past tools/print.h, which encodes names for a terminal" if within(file, "tools") else "libraries do not print"


def project_files(root):
    """Files of the project below `root`, relative, sorted; builds and hidden folders left out."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in ("build", "__pycache__")]
        found += [str((Path(folder) / name).relative_to(root)) for name in names]
    return sorted(found)


def listed_sources(root, files):
    """Every source named in a CMakeLists.txt or cmake/*.cmake, or in a table of operators or passes that CMake reads, relative to the root."""
    listed = set()
    for file in files:
        if file in ("ops/ops.inc", "transforms/passes.inc"):
            rows = re.findall(r"^DTR_\w+\(\w+, (\w+)\)", (root / file).read_text(), re.MULTILINE)
            listed.update(f"{file.split('/')[0]}/{stem}.cpp" for stem in rows)
        if Path(file).name == "CMakeLists.txt" or file.endswith(".cmake"):
            base = "" if file.endswith(".cmake") else os.path.dirname(file)
            text = re.sub(r"#.*", "", (root / file).read_text())
            text = re.sub(r"\$\{CMAKE_CURRENT_(SOURCE|LIST)_DIR\}/", "", text)
            for name in re.findall(r"(?:\$\{\w+\}/)?[\w./+-]+\.(?:cpp|cc|c)\b", text):
                inner = re.sub(r"^\$\{(CMAKE|PROJECT)_SOURCE_DIR\}/", "", name)
                listed.add(os.path.normpath(inner if inner != name else os.path.join(base, name)))
    return listed


def findings(root):
    """(errors, warnings) of the tree at `root`."""
    errors, warnings = [], []
    files = project_files(root)
    listed = listed_sources(root, files)
    for file in files:
        if not file.endswith(CODE) or "generated" in Path(file).name:
            continue
        lines = (root / file).read_text(errors="replace").splitlines()
        if len(lines) > MAX_LINES:
            errors.append(f"{file}:{len(lines)}: more than {MAX_LINES} lines; split it")
        elif len(lines) > WARN_LINES:
            warnings.append(f"{file}:{len(lines)}: more than {WARN_LINES} lines need a reason")
        if file.split("/")[0] not in ORDER + FREE or not file.endswith(SOURCES + (".h",)):
            continue
        if file.endswith(SOURCES) and file not in listed and not within(file, DEVICE):
            errors.append(f"{file}:1: no CMakeLists.txt lists it")
        for number, line in enumerate(lines, 1):
            if (match := INCLUDE.match(line)) and (error := include_error(file, match.group(1))):
                errors.append(f"{file}:{number}: {error}")
            if error := print_error(file, line):
                errors.append(f"{file}:{number}: {error}")
    return errors, warnings


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    errors, warnings = findings(root)
    for line in warnings:
        print(f"warning: {line}")
    for line in errors:
        print(line)
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
