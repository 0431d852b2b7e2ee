#!/usr/bin/env python3
"""A run's events, one by one, in all that is told of it: `deuteron profile --json`, --csv, its
table, the data of --html, --perfetto, and what ExecuTorch's Inspector says of the same files
(test/data/inspector, made by test/interop/inspector.py: make inspector-tables).

    profile_agreement.py DEUTERON      standard library only

Models come from models/ of the repository and, where it exists, from $DEUTERON_SHARED/models; the
last line counts what ran.
"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("DEUTERON_SHARED") or ROOT.parent / "shared")
NETS = ("ic_resnet8", "kws_dscnn", "vww_mobilenetv1", "ad_fcae", "digits_transformer", "branches")
KINDS = ("npu", "host", "stall", "cpu")


def model_of(net):
    if net == "branches":
        return ROOT / "test/data/etdump/branches.pt2"
    return next(
        (
            path
            for path in (
                folder / net / "float.pt2" for folder in (ROOT / "models", SHARED / "models")
            )
            if path.exists()
        ),
        None,
    )


class Agreement:
    def __init__(self, deuteron, net, model, work):
        self.deuteron, self.net, self.work, self.differences = deuteron, net, work, []
        calibration = model.parent / "calibration.npz"
        ranges = ["--calibrate", calibration] if calibration.exists() else ["--calibrate-random", 2]
        self.run("compile", model, "-o", work / "m.pte", "--etrecord", work / "m.etrecord", *ranges)
        samples = calibration
        if not calibration.exists():
            samples = work / "zeros.bin"
            samples.write_bytes(bytes(4 * 4 * 8 * 8))
        self.run(
            "run",
            work / "m.pte",
            "--input",
            samples,
            "--samples",
            1,
            "--profile",
            work / "m.etdump",
        )
        self.text = self.run(
            "profile",
            work / "m.etdump",
            "--program",
            work / "m.pte",
            "--json",
            work / "m.json",
            "--csv",
            work / "m.csv",
            "--html",
            work / "m.html",
            "--perfetto",
            work / "m.perfetto.json",
        )
        self.profile = json.loads((work / "m.json").read_text())

    def run(self, *command):
        done = subprocess.run(
            [self.deuteron, *map(str, command)],
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        if done.returncode != 0:
            sys.exit(f"profile_agreement: {self.net}: deuteron {command[0]}: {done.stderr.strip()}")
        return done.stdout

    def expect(self, what, theirs, ours):
        if theirs != ours:
            self.differences.append(f"{what}: {theirs}, --json says {ours}")

    def sums(self):
        rows, total = self.profile["rows"], self.profile["total_cycles"]
        self.expect("cycles of all rows", sum(row["cycles"] for row in rows), total)
        self.expect(
            "cycles by kind",
            {kind: sum(row[kind] for row in rows) for kind in KINDS},
            self.profile["spent"],
        )
        self.expect(
            "cycles on operators",
            sum(row["cycles"] for row in rows if row["sources"]),
            self.profile["on_operators"],
        )

    def record(self):
        """The record tells the same as the program, but for what it does not know."""
        self.run(
            "profile",
            self.work / "m.etdump",
            "--etrecord",
            self.work / "m.etrecord",
            "--json",
            self.work / "r.json",
        )
        record = json.loads((self.work / "r.json").read_text())
        without_step = [
            {key: value for key, value in span.items() if key != "step"}
            for span in self.profile["spans"]
        ]
        self.expect("events by the record", record["spans"], without_step)
        for key in ("rows", "sources", "total_cycles", "spent", "runs"):
            self.expect(f"{key} by the record", record[key], self.profile[key])

    def table(self):
        """CSV, and the lines of the terminal: names are shortened there, cycles are not."""
        with open(self.work / "m.csv", newline="") as file:
            lines = list(csv.DictReader(file))
        fields = ("op", "module", "source_line", "backend", "kernels", "limited_by")
        numbers = (
            "cycles",
            "npu",
            "host",
            "stall",
            "cpu",
            "copying",
            "added",
            "calls",
            "macs",
            "flash_bytes",
            "sram_bytes",
        )
        rows = sorted(self.profile["rows"], key=lambda row: -row["cycles"])  # stable, as the table
        self.expect(
            "lines of --csv",
            [
                [
                    line["operator"],
                    *(line[key] for key in fields),
                    *(int(line[key]) for key in numbers),
                ]
                for line in lines
            ],
            [[row["name"], *(row[key] for key in (*fields, *numbers))] for row in rows],
        )
        body = self.text.split("\n\n", 1)[1].splitlines()[1:]
        shown = [re.search(r"  ([\d,]+) +(?:\d+\.\d %)", line) for line in body]
        self.expect(
            "lines of the table",
            [int(found[1].replace(",", "")) if found else None for found in shown],
            [row["cycles"] for row in rows],
        )

    def html(self):
        page = (self.work / "m.html").read_text()
        data = re.search(
            r'<script type="application/json" id="profile-data">(.*?)</script>', page, re.DOTALL
        )[1]
        self.expect("data of --html", json.loads(data), self.profile)

    def perfetto(self):
        tracks = {"host": 1, "npu": 2, "copy": 3}
        events = json.loads((self.work / "m.perfetto.json").read_text())["traceEvents"]
        microseconds = 1e6 / self.profile["clock_hz"]
        names = [
            f"{span['kernel']}: {self.profile['rows'][span['row']]['name']}"
            for span in self.profile["spans"]
        ]
        shown = [
            event
            for event in events
            if event["ph"] == "X" and not event["name"].startswith("call ")
        ]
        self.expect(
            "events of --perfetto",
            [
                (event["tid"], event["name"], event["args"]["cycles"], event["args"]["operator"])
                for event in shown
            ],
            [
                (
                    tracks[span["track"]],
                    name,
                    span["end"] - span["start"],
                    self.profile["rows"][span["row"]]["name"],
                )
                for span, name in zip(self.profile["spans"], names)
            ],
        )
        for event, span in zip(shown, self.profile["spans"]):
            if (
                abs(event["ts"] / microseconds - span["start"]) > 0.01
                or abs(event["dur"] / microseconds - (span["end"] - span["start"])) > 0.01
            ):
                self.differences.append(
                    f"--perfetto shows {event['name']} at {event['ts']} for {event['dur']} µs"
                )
        calls = sum(span["track"] == "npu" for span in self.profile["spans"])
        for kind in ("s", "f"):
            self.expect(
                f"arrows ({kind}) of --perfetto",
                sum(event["ph"] == kind for event in events),
                calls,
            )

    def inspector(self):
        table = json.loads((ROOT / "test/data/inspector" / f"{self.net}.json").read_text())
        whole = next(row for row in table if row["kernel"] == "Method::execute")
        self.expect(
            "cycles of the run by the Inspector", whole["cycles"], self.profile["total_cycles"]
        )
        spans = {
            (span["instruction"], span.get("command", -1)): span for span in self.profile["spans"]
        }
        rows = {
            (row["at"][0], row["at"][1] if len(row["at"]) > 1 else -1): row
            for row in table
            if row["at"]
        }
        self.expect("places of the Inspector's events", sorted(rows), sorted(spans))
        for place in sorted(set(rows) & set(spans)):
            row, span = rows[place], spans[place]
            sources = [
                self.profile["sources"][source]
                for source in self.profile["rows"][span["row"]]["sources"]
            ]
            label = f"event {place} by the Inspector"
            self.expect(
                f"{label}, kernel", row["kernel"].removeprefix("native_call_"), span["kernel"]
            )
            self.expect(f"{label}, cycles", row["cycles"], span["end"] - span["start"])
            self.expect(
                f"{label}, operators", row["op_types"], sorted(source["op"] for source in sources)
            )
            self.expect(
                f"{label}, modules", row["modules"], sorted(source["module"] for source in sources)
            )
            for line in (source["source_line"] for source in sources):
                if line and line not in row["lines"]:
                    self.differences.append(f"{label}: its stack traces have no {line}")

    def check(self):
        for part in (self.sums, self.record, self.table, self.html, self.perfetto, self.inspector):
            part()
        for difference in self.differences[:10]:
            print(f"  FAIL {self.net}: {difference}")
        return not self.differences


def main():
    deuteron = Path(sys.argv[1]).resolve()
    ran = failed = 0
    for net in NETS:
        model = model_of(net)
        if model is None:
            print(f"NOT RUN: e2e_profile_agreement: {net} (no DEUTERON_SHARED)")
            continue
        with tempfile.TemporaryDirectory() as folder:
            failed += not Agreement(deuteron, net, model, Path(folder)).check()
        ran += 1
    print(f"profile_agreement: {ran} of {len(NETS)} nets, {failed} with differences")
    if failed:
        print("If map or cycles changed on purpose: make inspector-tables")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
