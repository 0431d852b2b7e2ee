#!/usr/bin/env python3
"""Samples run beside each other: what `run`, `eval` and `verify` write, print and exit with does
not depend on the number of threads, for programs with and without states and for samples that fail.
Standard library only.

    samples.py DEUTERON
"""
import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import failures, finish, run

ROOT = Path(__file__).resolve().parents[2]
DIGITS, RING = ROOT / "models/digits_cnn", ROOT / "test/data/states"
THREADS = (1, 2, 5, 0)
TIMES = re.compile(rb'"simulation_ms": \{[^}]*\}')  # of this machine


def outcome(command, folder):
    """Exit code, what is printed, and what is in the folder."""
    done = subprocess.run(
        list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, cwd=folder
    )
    files = {}
    for path in sorted(folder.iterdir()):
        content = TIMES.sub(b"", path.read_bytes())
        files[path.name] = hashlib.sha256(content).hexdigest()
        path.unlink()
    return done.returncode, done.stdout, done.stderr, files


def check(folder, code, *command):
    """Every number of threads has the outcome of one thread, which is the exit code `code`."""
    name = " ".join(str(word) for word in command[1:3])
    first = None
    for threads in THREADS:
        seen = outcome([*command, "--threads", threads], folder)
        first = first or seen
        if seen != first:
            failures.append(f"{name}: {threads} threads:\n{seen}\nbut one:\n{first}")
    if first[0] != code:
        failures.append(f"{name}: exit code {first[0]}, not {code}\n{first[2].decode()}")
    return first


def main():
    deuteron = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        programs, folder = Path(temporary) / "programs", Path(temporary) / "work"
        programs.mkdir()
        folder.mkdir()
        cases = []
        for name, model, data in (
            ("digits", DIGITS / "quantized.pt2", DIGITS / "test.npz"),
            ("ring", RING / "ring.pt2", RING / "ring.npz"),
        ):
            program = programs / f"{name}.pte"
            calibration = [] if name == "digits" else ["--calibrate", data]
            run(deuteron, "compile", model, *calibration, "-o", program)
            cases.append((program, model, data))
        for program, model, data in cases:
            check(
                folder,
                0,
                *(deuteron, "run", program, "--input", data),
                *("--output", "out.npz", "--stats-json", "stats.json"),
            )
            check(
                folder,
                0,
                *(deuteron, "verify", program, "--against", model, "--data", data),
                *("--samples", 20, "--json", "layers.json"),
            )
            check(
                folder,
                0,
                *(deuteron, "eval", program, "--data", data, "--against", model),
                *("--json", "eval.json"),
            )
        digits, model, data = cases[0]
        check(folder, 0, deuteron, "eval", digits, "--data", data, "--json", "eval.json")
        seen = check(folder, 1, deuteron, "eval", digits, "--data", data, "--labels", "nothing")
        if b"data-missing-array" not in seen[2]:
            failures.append(f"labels that are not there: {seen[2].decode()}")
        # A layer below the limit: exit code 1 with the table.
        int8, calibration = programs / "int8.pte", DIGITS / "calibration.npz"
        run(deuteron, "compile", DIGITS / "float.pt2", "--calibrate", calibration, "-o", int8)
        seen = check(
            folder,
            1,
            *(deuteron, "verify", int8, "--against", DIGITS / "float.pt2", "--data", data),
            *("--samples", 9, "--min-sqnr", 98),
        )
        if b"first bad operator" not in seen[1]:
            failures.append(f"a bad layer: {seen[1].decode()}")
    finish(failures)


main()
