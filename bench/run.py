#!/usr/bin/env python3
"""Measures accuracy, speed, cycles, memory and code sizes of the built command:
bench/performance.json, and docs/performance.md from it, beside the peers of bench/anchors.json.

    bench/run.py [--shared DIR] [--build build/release] [--repeats N]      measure all and write
    both files; with the Python of bench/measure_anchors (build/anchors, or --peers PYTHON) also the
    pairs with LiteRT and whole processes (bench/simulation.py, bench/processes.py) in the same run
    bench/run.py --check                                                    exit code 1 where the
    page, or a figure that is the same in
                                                                            every run, is not what
                                                                            the tree computes now

Seconds are those of whole processes of `deuteron` (wall clock), best of N runs: a busy machine can
only make a figure worse. The tree must be committed, so that the commit on the page is what was
measured. The check leaves out seconds, and models whose data are not here; instructions under QEMU
are compared by bench/cortex_m.py, sizes of firmware by test/e2e/firmware.py. Standard library only.
"""
import argparse
import datetime
import difflib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cortex_m
import figures
import firmware_sizes
import mixed
import page
from yardstick import cpu_name, instruction_set, yardstick_ms

ROOT = Path(__file__).resolve().parent.parent
RECORD, PAGE, ANCHORS = (
    ROOT / "bench/performance.json",
    ROOT / "docs/performance.md",
    ROOT / "bench/anchors.json",
)
GRAPH_SIZES = (500, 1000, 2000)


def wall_seconds(command, repeats):
    """Best and median wall time of whole processes."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        done = subprocess.run(
            command,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        times.append(time.perf_counter() - start)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return {"best": round(min(times), 4), "median": round(statistics.median(times), 4)}


def simulation_ms(deuteron, program, folder, work):
    """Best time of one inference on one thread, without load."""
    stats = figures.run_stats(deuteron, program, folder, work, "--repeat", 200)
    return round(stats["simulation_ms"]["best"], 4)


def chain(count):
    """IR text of a network of residual blocks: convolution, relu, convolution, add."""
    lines = ["graph @forward(%v0: i8[1,8,8,8] quant<0.05>) {"]
    convolution = (
        "{{dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [1,"
        " 1], transposed = false}}"
    )
    for i in range(1, count + 1):
        if i % 4 in (1, 3):
            lines.append(f"  %w{i}: i8[8,8,3,3] quant<0.01> = constant seeded<{i}>")
            operation = f"aten.convolution(%v{i - 1}, %w{i}) " + convolution.format()
        elif i % 4 == 2:
            operation = f"aten.hardswish(%v{i - 1})"
        else:
            operation = f"aten.add.Tensor(%v{i - 1}, %v{i - 4})"
        lines.append(f"  %v{i}: i8[1,8,8,8] quant<0.05> = {operation}")
    return "\n".join(lines + [f"  return %v{count}", "}", ""])


def measured_times(deuteron, folders, work, repeats):
    times = {"compile": {}, "simulation_ms": {}, "growth": {}}
    for name, folder in folders.items():
        print(f"timing {name}", flush=True)
        program = work / f"{name}.pte"
        times["compile"][name] = wall_seconds(
            figures.compile_command(deuteron, folder, program), repeats
        )
        times["simulation_ms"][name] = simulation_ms(deuteron, program, folder, work)
    for count in GRAPH_SIZES:
        path = work / f"chain{count}.ir"
        path.write_text(chain(count))
        times["growth"][str(count)] = wall_seconds(
            [deuteron, "compile", path, "--no-check", "-o", work / "chain.pte"], 3
        )
    return times


def git(*words):
    return subprocess.run(
        ["git", "-C", ROOT, *words], check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()


def write(args, deuteron):
    changed = [
        line
        for line in git("status", "--porcelain").splitlines()
        if not line.endswith((RECORD.name, PAGE.name, "simulation.json", "processes.json"))
    ]
    if changed:
        sys.exit(
            "bench/run.py: the tree differs from its commit, which the page would name:"
            f" {changed[0].strip()}"
        )
    pace = yardstick_ms()
    folders = {
        name: folder for name in figures.MODELS if (folder := figures.folder_of(name, args.shared))
    }
    cortex_m.use_ccache()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        times = measured_times(
            deuteron, folders, work, args.repeats
        )  # first: what follows needs no quiet machine
        pace = min(pace, yardstick_ms())
        record = {
            "run": {
                "commit": git("rev-parse", "--short=12", "HEAD"),
                "date": datetime.date.today().isoformat(),
                "cpu": cpu_name(),
                "instruction_set": instruction_set(),
                "cpus": len(os.sched_getaffinity(0)),
                "yardstick_ms": pace,
                "missing": [name for name in figures.MODELS if name not in folders],
            },
            "times": times,
            "models": {
                name: figures.model_figures(deuteron, folder, work)
                for name, folder in folders.items()
            },
            "utilization": figures.utilization(args.build),
            "firmware": firmware_sizes.measure(deuteron, work),
            "mixed": mixed.figures(deuteron),
            "cortex_m": cortex_m.measure(cortex_m.Bench(deuteron, work)),
        }
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    if args.peers.exists():
        for name in ("simulation", "processes"):
            print(f"running bench/{name}.py", flush=True)
            command = [args.peers, ROOT / f"bench/{name}.py", "--shared", args.shared]
            subprocess.run([*command, "--build", args.build], check=True)
    else:
        print(f"{args.peers} is not there: pairs and processes stay as they were measured")
    PAGE.write_text(page.document(json.loads(RECORD.read_text()), json.loads(ANCHORS.read_text())))
    print(f"wrote {RECORD} and {PAGE}")


def differences(name, now, recorded):
    """Lines that tell where two records of one kind differ."""
    if isinstance(now, dict) and isinstance(recorded, dict):
        return [
            line
            for key in sorted(now.keys() | recorded.keys())
            for line in differences(f"{name}.{key}", now.get(key), recorded.get(key))
        ]
    if isinstance(now, list) and isinstance(recorded, list) and len(now) == len(recorded):
        return [
            line
            for i, pair in enumerate(zip(now, recorded))
            for line in differences(f"{name}[{i}]", *pair)
        ]
    return [] if now == recorded else [f"{name}: {now}, on the page {recorded}"]


def mixed_differences(now, recorded):
    """Instructions under QEMU, in thousands, may round to the next one."""
    wrong = []
    for row, then in zip(now, recorded, strict=True):
        if row[0] != then[0] or any(
            abs(a - b) > (1000 if "under QEMU" in row[0] else 0) for a, b in zip(row[1:], then[1:])
        ):
            wrong.append(f"mixed: {row}, on the page {then}")
    return wrong


def check(args, deuteron):
    record, compared = json.loads(RECORD.read_text()), []
    wrong = [
        line.rstrip()
        for line in difflib.unified_diff(
            PAGE.read_text().splitlines(),
            page.document(record, json.loads(ANCHORS.read_text())).splitlines(),
            "docs/performance.md",
            "what bench/performance.json says",
            n=0,
        )
    ]
    cortex_m.use_ccache()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        for name, recorded in record["models"].items():
            folder = figures.folder_of(name, args.shared)
            if folder is None:
                continue
            compared.append(name)
            now = figures.model_figures(deuteron, folder, work)
            for key in ("eval", "quantized"):  # the repository has not every file of every model
                if key not in now:
                    recorded.pop(key, None)
            wrong += differences(name, json.loads(json.dumps(now)), recorded)
        wrong += differences("utilization", figures.utilization(args.build), record["utilization"])
        wrong += mixed_differences(mixed.figures(deuteron), record["mixed"])
        wrong += differences(
            "code_bytes",
            cortex_m.code_bytes(cortex_m.Bench(deuteron, work)),
            record["cortex_m"]["code_bytes"],
        )
    left = [name for name in record["models"] if name not in compared]
    print("\n".join(wrong))
    for name in left:
        print(f"NOT RUN: e2e_performance: {name} (no DEUTERON_SHARED)")
    print(
        f"docs/performance.md: {len(compared)} of {len(record['models'])} models compared; "
        f"{len(wrong)} differences{'. If the change is meant: make bench, and say why in the commit.' if wrong else ''}"
    )
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--shared",
        type=Path,
        default=Path(os.environ.get("DEUTERON_SHARED") or ROOT.parent / "shared"),
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers", type=Path, default=ROOT / "build/anchors/bin/python")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    deuteron = (args.build / "deuteron").resolve()
    return check(args, deuteron) if args.check else write(args, deuteron)


if __name__ == "__main__":
    sys.exit(main())
