#!/usr/bin/env python3
"""Checks the table of diagnostics: ids well formed, unique and sorted, every row used by the code
and by a test; so too every id of a reason why an operator is not on the NPU (`npu-…`,
`quantizer-…`).

    scripts/check_diagnostics.py [ROOT]

Each finding is one line; exit code 1 if there is any. Standard library only.
"""
import re
import sys
from pathlib import Path

TABLE = "compiler/support/diagnostics.inc"
ROW = re.compile(
    r'^DTR_DIAGNOSTIC\(\s*(\w+),\s*"([^"]*)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)', re.MULTILINE
)
CODE_SUFFIXES = (".cpp", ".h", ".inc")
TEST_SUFFIXES = (".cpp", ".h", ".py", ".ir", ".test", ".inc")


def rows(root):
    """[(enumerator, id, sentence)] of the table, in its order."""
    text = (root / TABLE).read_text()
    found = [
        (name, key, "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', sentence)).replace('\\"', '"'))
        for name, key, sentence in ROW.findall(text)
    ]
    assert len(found) == len(
        re.findall(r"^DTR_DIAGNOSTIC\(", text, re.MULTILINE)
    ), f"{TABLE}: a row has another form than the others"
    return found


def words(root, folders, suffixes):
    """Every identifier and every kebab-case word in the files of these folders."""
    found = set()
    for folder in folders:
        for path in (root / folder).rglob("*"):
            if path.suffix in suffixes and path.is_file() and path != root / TABLE:
                found.update(
                    re.findall(
                        r"[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*", path.read_text(errors="replace")
                    )
                )
    return found


def findings(root):
    table, errors = rows(root), []
    keys = [key for _, key, _ in table]
    if keys != sorted(keys):
        first = next(b for a, b in zip(keys, keys[1:]) if a > b)
        errors.append(f"{TABLE}: not sorted by id at {first}")
    errors += [
        f"{TABLE}: {key} occurs twice"
        for key in sorted({key for key in keys if keys.count(key) > 1})
    ]
    code_folders = [
        p.name
        for p in root.iterdir()
        if p.is_dir() and p.name not in ("build", "test", "docs") and not p.name.startswith(".")
    ]
    code, tests = words(root, code_folders, CODE_SUFFIXES), words(root, ["test"], TEST_SUFFIXES)
    for name, key, sentence in table:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key):
            errors.append(f"{TABLE}: {key} is not kebab-case")
        if name.lower() != "k" + key.replace("-", ""):
            errors.append(f"{TABLE}: {key} and its enumerator {name} differ")
        if not sentence.endswith("."):
            errors.append(f"{TABLE}: {key}: the text is no sentence")
        if name not in code:
            errors.append(f"{TABLE}: {key} is not used anywhere")
        elif name not in tests and key not in tests:
            errors.append(f"{TABLE}: {key} occurs in no test")
    reasons = set()
    for path in [
        *(root / "compiler/backends").rglob("*.cpp"),
        *(root / "compiler/backends").rglob("*.h"),
        *(root / "compiler/quantizer").rglob("*.cpp"),
    ]:
        reasons.update(
            re.findall(r'"((?:npu|quantizer)(?:-[a-z0-9]+)+)"', path.read_text(errors="replace"))
        )
    errors += [f"the reason {reason} occurs in no test" for reason in sorted(reasons - tests)]
    return errors


def main():
    errors = findings(
        Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    )
    print(*errors, sep="\n", end="\n" if errors else "")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
