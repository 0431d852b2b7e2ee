"""Tells what ExecuTorch's suite for backends says of Deuteron, from the records of backend_suite.py.

    suite_table.py RECORDS.jsonl --page docs/backend_suite.md

Prints the counts, and every program that is refused for another reason than the target's memory or
whose results are wrong: exit code 1 if there is one. --page writes the table.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from statistics import median

LOW = 20  # dB: programs below are listed
HEAD = f"""# ExecuTorch's suite for backends

<!-- Written by test/upstream/suite_table.py (make test-suite). -->

The tests of operators that ship in the wheel of ExecuTorch 1.4.1 for any backend (`backends/test/suite`), unmodified, with Deuteron as the backend.
A test has one or several *programs*: a module and its inputs. Each is exported and compiled twice for `imxrt700`: in float for the CPU alone with memory for
any network, and quantized with 32 samples. Samples are the test's inputs, and these with the elements of each floating-point tensor in another
order. PyTorch's results of the float module, on the inputs and on eight samples that calibration did not see, judge both programs.

* *float*: the largest difference of an output of the float program, as a share of the output's largest element. More than 10⁻⁵ is a failure.
* *int8*: SQNR of the quantized program in dB, the worst output, at least and in the median. Programs below {LOW} dB are listed. A result
  beyond the range that the 32 samples showed is cut off, which costs outputs of few elements most. A selected element keeps the step of
  those it is selected from: a median nearer to zero than half a step is zero.
* *not exported*: PyTorch itself refuses the module, its inputs, or to export it.

"""


def decibels(rows):
    values = [row["sqnr"] for row in rows if row["sqnr"] is not None]
    return f"{min(values):.0f}, {median(values):.0f}" if values else "no difference"


def line(name, rows):
    states = Counter(row["state"] for row in rows)
    compiled = [row for row in rows if row["state"] == "compiled"]
    largest = max((row["difference"] for row in compiled), default=0)
    return (
        f"| {name} | {len(rows)} | {states['not exported']} | {states['refused']} |"
        f" {states['failed']} | {len(compiled)} |"
        f" {f'{largest:.0e}' if largest else 0} | {decibels(compiled)} |"
    )


def cell(text):
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def page(rows):
    lines = ["| file | programs | not exported | refused | failed | right | float | int8 |"]
    lines.append("|---" + "|--:" * 7 + "|")
    by_file = {}
    for row in rows:
        by_file.setdefault(row["file"], []).append(row)
    lines += [line(f"`{name}`", group) for name, group in sorted(by_file.items())]
    lines.append(line("all", rows))
    others = [row for row in rows if row["state"] != "compiled"]
    lines += ["", "## Not compiled", "", "| program | state | reason |", "|---|---|---|"]
    for row in others:
        lines.append(
            f"| `{row['test']}` {row['program']} | {row['state']} | {cell(row['reason'])} |"
        )
    lines += ["", f"## Below {LOW} dB in int8", "", "| program | dB |", "|---|--:|"]
    for row in rows:
        if low(row):
            lines.append(f"| `{row['test']}` {row['program']} | {row['sqnr']:.1f} |")
    return HEAD + "\n".join(lines) + "\n"


def low(row):
    return row.get("sqnr") is not None and row["sqnr"] < LOW


def is_wrong(row):
    too_large = row["state"] == "refused" and "[memory-exceeded]" in row["reason"]
    return row["state"] not in ("compiled", "not exported") and not too_large


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("records")
    parser.add_argument("--page")
    given = parser.parse_args()
    rows = [json.loads(line) for line in Path(given.records).read_text().splitlines()]
    rows.sort(key=lambda row: (row["file"], row["test"], row["program"]))
    states = Counter(row["state"] for row in rows)
    print(
        f"{len(rows)} programs: {states['compiled']} right, {sum(map(low, rows))} of them below"
        f" {LOW} dB in int8, {states['refused']} refused, {states['failed']} failed,"
        f" {states['not exported']} not exported"
    )
    wrong = [row for row in rows if is_wrong(row)]
    for row in wrong:
        print(f"{row['state'].upper()} {row['test']} {row['program']}: {row['reason']}")
    if given.page:
        Path(given.page).write_text(page(rows))
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
