#!/usr/bin/env python3
"""Checks what the folders promise each other: the order of includes, the length of files, that
CMake lists every source, and that what is printed is encoded for a terminal.

    scripts/check_layers.py [ROOT]

ROOMS says what each room, a folder that is a library, may include; docs/architecture.md has a row
for each, in this order. Each finding is one line `file:line: what is wrong`; exit code 1 if there
is any. Standard library only.
"""
import os
import re
import sys
from pathlib import Path

# What each room may include besides itself; "*" is every room of that wing that stands above it.
# Rooms stand in the order of dependence, the wings too: a row names only rooms above it, so that
# there is no circle, and a wing never looks to the right.
ROOMS = {
    "device/numerics": "",
    "device/npu": "device/numerics",
    "device/simulator": "device/numerics device/npu",
    "device/pte": "device/numerics",
    "device/runtime": "device/numerics device/npu device/pte",
    "device/executorch": "device/numerics device/npu device/pte device/runtime",
    "compiler/support": "",
    "compiler/plugins": "device/runtime compiler/support",
    "compiler/ir": "device/numerics compiler/support",
    "compiler/ops": "device/numerics compiler/support compiler/plugins compiler/ir",
    "compiler/compositions": "compiler/support compiler/ir compiler/ops",
    "compiler/executors": "compiler/support compiler/ir compiler/ops",
    "compiler/frontends/onnx": (
        "device/numerics compiler/support compiler/plugins compiler/ir compiler/ops compiler/compositions"
    ),
    "compiler/frontends/pt2": (
        "device/numerics compiler/support compiler/plugins compiler/ir compiler/ops compiler/compositions"
    ),
    "compiler/frontends/tflite": (
        "device/numerics compiler/support compiler/plugins compiler/ir compiler/ops compiler/compositions"
    ),
    "compiler/transforms": (
        "device/numerics compiler/support compiler/ir compiler/ops compiler/executors"
    ),
    "compiler/targets": "device/numerics device/npu compiler/support compiler/plugins",
    "compiler/quantizer": (
        "device/numerics compiler/support compiler/ir compiler/ops compiler/executors"
    ),
    "compiler/partitioner": "compiler/support compiler/ir compiler/ops",
    "compiler/backends/cortex_m": (
        "device/numerics compiler/support compiler/ir compiler/ops compiler/targets"
        " compiler/partitioner"
    ),
    "compiler/backends/neutron": (
        "device/numerics device/npu compiler/support compiler/ir compiler/ops compiler/partitioner"
    ),
    "compiler/backends/neutron_ir": (
        "compiler/support compiler/ir compiler/ops compiler/frontends/tflite compiler/partitioner"
    ),
    "compiler/backends/portable": (
        "device/numerics device/runtime compiler/support compiler/ir compiler/ops compiler/targets"
        " compiler/partitioner"
    ),
    "compiler/program": (
        "device/numerics device/npu device/pte compiler/support compiler/ir compiler/targets"
        " compiler/partitioner"
    ),
    "compiler/recipes": "compiler/*",
    "compiler/pipeline": "device/pte compiler/*",
    "host/tasks": "device/numerics compiler/support",
    "host/simulator": "device/numerics device/npu device/simulator",
    "host/profiler": (
        "device/npu device/pte compiler/support compiler/ir compiler/frontends/pt2 compiler/targets"
        " compiler/program host/simulator"
    ),
    "host/session": (
        "device/* compiler/support compiler/plugins compiler/ir compiler/targets compiler/program"
        " host/simulator host/profiler"
    ),
    "host/executorch": (
        "device/* compiler/support compiler/ir compiler/targets compiler/program compiler/pipeline"
        " compiler/recipes compiler/partitioner host/simulator host/profiler host/session"
    ),
    "host/firmware": (
        "device/* compiler/support compiler/plugins compiler/ir compiler/targets compiler/program"
        " host/profiler host/session"
    ),
    "host/accuracy": "device/numerics device/pte compiler/* host/tasks host/profiler host/session",
    "host/commands": "device/executorch device/numerics device/pte compiler/* host/*",
}
WINGS = ("device", "compiler", "host")
FREE = ("tools", "test", "bench", "python")  # see everything; no room sees them
# Sources of firmware projects: the build that `deuteron firmware` writes compiles them, beside its
# own model/.
DEVICE, DEVICE_OWN = "test/device", "model"

# Lists of which CMake reads the names of files: the last word of each row.
TABLES = (
    "compiler/transforms/passes.inc",
    "device/runtime/kernels/cortex_m/kernels.inc",
    "device/runtime/kernels/portable/kernels.inc",
    "tools/verbs.inc",
)
SOURCES = (".cpp", ".cc", ".c")
CODE = SOURCES + (".h", ".py", ".sh", ".cmake")
WARN_LINES, MAX_LINES = 600, 800  # tables (.inc) and generated files are exempt
# Names of files reach a terminal encoded, by one function; the others that print have only their
# own words, or run elsewhere.
PRINTS = re.compile(
    r"\bfmt::print\b|\bstd::(cout|cerr|f?puts|f?printf|fwrite)\b|(?<![\w:.>])f?printf\("
)
MAY_PRINT = (
    "tools/print.h",
    "compiler/support/diagnostic.cpp",
    "compiler/support/progress.cpp",
    "device/runtime/ports/",
    "device/runtime/examples/",
)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def within(path, folder):
    return path.startswith(folder + "/")


def room_of(path):
    """The room that a file belongs to, or None."""
    return next((room for room in ROOMS if within(path, room)), None)


def may_see(room, other):
    """Whether a file of `room` may include one of `other`."""
    rooms = list(ROOMS)
    if room == other:
        return True
    stands_above = rooms.index(other) < rooms.index(room)
    return stands_above and any(
        name == other or name.endswith("/*") and within(other, name[:-2])
        for name in ROOMS[room].split()
    )


def table_errors():
    """What is wrong with ROOMS itself: rows that name what does not stand above them."""
    errors, seen = [], []
    for room, names in ROOMS.items():
        unknown = [name for name in names.split() if name not in seen and not name.endswith("/*")]
        errors += [
            f"scripts/check_layers.py:1: {room} names {name}, which is no room above it"
            for name in unknown
        ]
        seen.append(room)
    if sorted(ROOMS, key=lambda room: WINGS.index(room.split("/")[0])) != list(ROOMS):
        errors.append(
            "scripts/check_layers.py:1: rooms of a wing do not stand together, in the order of"
            " WINGS"
        )
    return errors


def include_error(file, header):
    """Why `file` may not include "header" (both relative to the root), or None."""
    if within(file, DEVICE) and within(header, DEVICE_OWN):
        return None
    folder, other = room_of(file), room_of(header)
    if other is None and not header.startswith(tuple(f"{free}/" for free in FREE)):
        return (
            f'"{header}" does not start at the repository root, in a room; other projects\' headers'
            ' go in <>'
        )
    if folder is None:
        return None
    if other is None:
        return f"{folder}/ does not see {header.split('/')[0]}/"
    return (
        None
        if may_see(folder, other)
        else f"{folder}/ may not include {other}/: ROOMS in scripts/check_layers.py"
    )


def print_error(file, line):
    """Why `file` may not have this line, which prints, or None."""
    if (
        file.split("/")[0] not in WINGS + ("tools",)
        or file.startswith(MAY_PRINT)
        or not PRINTS.search(line.split("//")[0])
    ):
        return None
    return (
        "prints past tools/print.h, which encodes names for a terminal"
        if within(file, "tools")
        else "libraries do not print"
    )


def project_files(root):
    """Files of the project below `root`, relative, sorted; builds and hidden folders left out."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [
            f for f in folders if not f.startswith(".") and f not in ("build", "__pycache__")
        ]
        found += [str((Path(folder) / name).relative_to(root)) for name in names]
    return sorted(found)


def page_errors(root):
    """Whether the table of docs/architecture.md has a row for each room, in the order of ROOMS."""
    page = root / "docs/architecture.md"
    if not page.exists():
        return []
    rows = re.findall(r"^\| `([a-z_0-9/]+)/` \|", page.read_text(), re.MULTILINE)
    return (
        []
        if rows == [*ROOMS, "tools"]
        else [
            f"docs/architecture.md:1: its rows are {', '.join(rows)}; the rooms are"
            f" {', '.join(ROOMS)}"
        ]
    )


def listed_sources(root, files):
    """Every source named in a CMakeLists.txt or cmake/*.cmake, or in one of TABLES, relative to the
    root."""
    listed = set()
    for file in files:
        if file in TABLES:
            rows = re.findall(
                r"^DTR_\w+\((?:.*, )?(\w+)\)", (root / file).read_text(), re.MULTILINE
            )
            listed.update(f"{os.path.dirname(file)}/{stem}.cpp" for stem in rows)
        if Path(file).name == "CMakeLists.txt" or file.endswith(".cmake"):
            base = "" if file.endswith(".cmake") else os.path.dirname(file)
            text = re.sub(r"#.*", "", (root / file).read_text())
            text = re.sub(r"\$\{CMAKE_CURRENT_(SOURCE|LIST)_DIR\}/", "", text)
            if re.search(r"file\(GLOB \w+ CONFIGURE_DEPENDS [^)]*\*\.cpp\)", text):
                listed.update(name for name in files if os.path.dirname(name) == base)
            for name in re.findall(r"(?:\$\{\w+\}/)?[\w./+-]+\.(?:cpp|cc|c)\b", text):
                inner = re.sub(r"^\$\{(CMAKE|PROJECT)_SOURCE_DIR\}/", "", name)
                listed.add(os.path.normpath(inner if inner != name else os.path.join(base, name)))
    return listed


def findings(root):
    """(errors, warnings) of the tree at `root`."""
    errors, warnings = table_errors() + page_errors(root), []
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
        if file.split("/")[0] not in WINGS + FREE or not file.endswith(SOURCES + (".h",)):
            continue
        if file.split("/")[0] in WINGS and not room_of(file):
            errors.append(f"{file}:1: no room of ROOMS has it")
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
