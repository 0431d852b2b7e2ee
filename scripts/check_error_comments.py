#!/usr/bin/env python3
"""Finds functions in headers that return a Result or a pte::Status without saying their errors.

A comment counts if it stands above the declaration, above the block of declarations that it begins
(up to the next blank line), or behind it; or if the file's first comment speaks of errors, or an
earlier comment says "errors of all functions", "errors, also of" or "errors of this and". It must
contain the word error(s), "fails" or "Unsupported:". Private members and overriding functions are
not checked.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("device", "compiler", "host", "tools")
RETURNS = re.compile(
    r"^\s*(?:\[\[nodiscard\]\] |static |virtual |inline )*"
    r"(?:Result<.*>|(?:pte::)?Status) \*?(\w+)\("
)
SAYS = re.compile(r"\b[Ee]rrors?\b|\b[Ff]ails?\b|\b[Uu]nsupported:")
OF_ALL = re.compile(r"[Ee]rrors? of all functions|[Ee]rrors?, also of|Errors of this and")


def undocumented(text):
    """Yields line number and name of each such declaration."""
    comment, private, after_blank = "", 0, True
    covered = bool(SAYS.search(text[: text.find("#pragma once")]))
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if re.match(r"(private|protected):", stripped):
            private = len(line) - len(line.lstrip())
        elif stripped == "public:" or (stripped == "};" and line.index("}") < private):
            private = 0
        if not stripped:
            comment, after_blank = "", True
            continue
        if stripped.startswith("//"):
            comment = stripped if after_blank else comment + " " + stripped
            after_blank = False
            covered = covered or bool(OF_ALL.search(comment))
            continue
        after_blank = False
        found = RETURNS.match(line)
        if not found or private or covered:
            continue
        declaration = re.match(r"[^;]*", "\n".join(lines[number - 1 : number + 5]))[0]
        behind = line[line.index("//") :] if "//" in line else ""
        if not SAYS.search(comment + behind) and " override" not in declaration:
            yield number, found[1]


def main():
    names = [f"{folder}/*.h" for folder in FOLDERS]
    files = subprocess.run(
        ["git", "ls-files", *names], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    missing = [
        f"{file}:{line}: {name} does not say its errors"
        for file in files
        for line, name in undocumented((ROOT / file).read_text(encoding="utf-8"))
    ]
    print(*missing, sep="\n", end="\n" if missing else "")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
