"""Tells what the NXP tests of ExecuTorch say of Deuteron, from the records of recorder.py.

    table.py --known known.toml [--page docs/upstream.md] RECORDS.jsonl…

Prints the counts, and every failure that no class of known.toml explains: exit code 1 if there is
one, or if tests that were wanted have no record. --page writes the table.
"""

import argparse
import json
import re
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

OUTCOMES = ("passed", "failed", "xfailed", "xpassed", "skipped")

HEAD = """# ExecuTorch's NXP tests

The tests that ship in the wheel of ExecuTorch 1.4.1 (`backends/nxp/tests`), unmodified, with Deuteron in the place of NXP's closed tools
([python.md](python.md)). `make test-upstream` writes this page; `make test-upstream SAMPLE=150` runs a sample, the same in every run. Both fail
if a test fails for a reason that is not one of the classes below. The classes that are marked for unittest's own runner are among them.

A numeric test runs a program with the delegate and one without, and compares their results. The column *equal* counts tests whose results are the
same in every element; *different* counts those that passed with differences that the test allows, with the number of such elements.
"""


def records(paths):
    """(records by name, tests that there are, tests that were wanted of these)"""
    rows, collected, wanted = {}, 0, 0
    for path in paths:
        for line in Path(path).read_text().splitlines():
            row = json.loads(line)
            if "test" in row:
                rows[row["test"]] = row
            elif "collected" in row:
                collected, wanted = row["collected"], row["wanted"]
    return [rows[name] for name in sorted(rows)], collected, wanted


def explain(row, classes):
    text = f"{row['test']}: {row['reason']}"
    return next((each for each in classes if re.search(each["match"], text)), None)


def cell(text):
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")[:200]


def page(rows, classes, collected):
    by_file = defaultdict(Counter)
    for row in rows:
        counter = by_file[row["file"]]
        counter[row["outcome"]] += 1
        if row["outcome"] == "passed" and "elements" in row:
            counter["different" if row["different"] else "equal"] += 1
    lines = [HEAD]
    if len(rows) < collected:
        lines += [f"This page is of {len(rows)} of the {collected} tests.", ""]
    lines += ["## By file", ""]
    columns = (*OUTCOMES, "equal", "different")
    lines += [f"| file | {' | '.join(columns)} |", "|---|" + "--:|" * len(columns)]
    total = Counter()
    for file, counter in sorted(by_file.items()):
        lines.append(f"| `{file}` | " + " | ".join(str(counter[each]) for each in columns) + " |")
        total.update(counter)
    lines.append("| all | " + " | ".join(str(total[each]) for each in columns) + " |")

    lines += ["", "## Failures", "", "| class | tests | why |", "|---|--:|---|"]
    failed = [row for row in rows if row["outcome"] == "failed"]
    groups = defaultdict(list)
    for row in failed:
        found = explain(row, classes)
        groups[found["name"] if found else "?"].append(row)
    for each in classes:
        if each["name"] in groups:
            lines.append(f"| {each['name']} | {len(groups[each['name']])} | {each['why']} |")
    lines += ["", "| test | class |", "|---|---|"]
    for name, group in groups.items():
        lines += [f"| `{cell(row['test'])}` | {name} |" for row in group]

    lines += ["", "## Skipped", "", "| reason | tests |", "|---|--:|"]
    skips = Counter(cell(row["reason"]) for row in rows if row["outcome"] == "skipped")
    lines += [f"| {reason} | {count} |" for reason, count in sorted(skips.items())]

    lines += ["", "## Expected failures of upstream that pass here", ""]
    lines += ["pytest counts them as failures, since upstream expects them strictly.", ""]
    lines += ["| test | upstream's reason |", "|---|---|"]
    for row in rows:
        if row["outcome"] == "xpassed":
            lines.append(f"| `{cell(row['test'])}` | {cell(row['reason'])} |")

    lines += ["", "## Elements that differ in numeric tests that passed", ""]
    lines += [
        "A tie is an exact value midway between two codes: PyTorch rounds it to the even one, the NPU",
        "away from zero. `ties.py` evaluates the Neutron IR of such a test in double and counts the",
        "differences that are ties. PyTorch adds the products of convolutions and linear layers in",
        "float32: a sum counts as a tie if it is no farther from one than two roundings of the sum of",
        "their magnitudes. *Not judged* are models with other operators than these and averages.",
        "",
    ]
    lines += ["| test | elements | different | of them ties |", "|---|--:|--:|--:|"]
    for row in rows:
        if row["outcome"] == "passed" and row.get("different"):
            ties = "not judged" if row.get("ties") is None else row["ties"]
            lines.append(
                f"| `{cell(row['test'])}` | {row['elements']} | {row['different']} | {ties} |"
            )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--known", required=True)
    parser.add_argument("--page")
    parser.add_argument("records", nargs="+")
    given = parser.parse_args()
    with open(given.known, "rb") as file:
        classes = tomllib.load(file)["failed"]
    rows, collected, wanted = records(given.records)
    counts = Counter(row["outcome"] for row in rows)
    numeric = [row for row in rows if row["outcome"] == "passed" and "elements" in row]
    print(
        f"{len(rows)} tests: "
        + ", ".join(f"{counts[each]} {each}" for each in OUTCOMES)
        + f"; {len(numeric)} compared numbers, {sum(not row['different'] for row in numeric)} equal"
        f" in every element, {sum(row.get('ties') == row['different'] > 0 for row in numeric)}"
        f" but for ties"
    )
    unexplained = [
        row for row in rows if row["outcome"] == "failed" and explain(row, classes) is None
    ]
    for row in unexplained:
        print(f"FAILED {row['test']}: {row['reason']}")
    if len(rows) < wanted:
        print(f"{wanted - len(rows)} of {wanted} tests have no record: the run was interrupted")
    if given.page:
        Path(given.page).write_text(page(rows, classes, collected))
    return 1 if unexplained or not rows or len(rows) < wanted else 0


if __name__ == "__main__":
    sys.exit(main())
