#!/usr/bin/env python3
"""Programs that were made to do harm (test/data/hostile): each is refused with a diagnostic, in
little time and little memory. Standard library only.

    hostile.py DEUTERON [--seconds S]
"""
import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import finish

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "test/data/hostile"
DIGITS = ROOT / "models/digits_cnn/test.npz"
MOST_MEMORY = 4_000_000_000  # of addresses; the sanitizers take terabytes of them
failures = []

# File, id of the diagnostic (empty: it may run), part of the reason, command behind the file.
CASES = (
    # Instructions, arguments and lists that are shared: 10^12 steps of a check that walks through
    # them.
    ("quartic.pte", "pte-malformed", "", ["inspect"]),
    ("cubic_small.pte", "pte-malformed", "", ["inspect"]),
    # A tensor of no bytes whose other dimensions are 2^31 − 1.
    ("zerohuge.pte", "pte-malformed", "", ["inspect"]),
    ("zerohuge.pte", "pte-malformed", "", ["profile"]),
    ("zerohuge.pte", "pte-malformed", "", ["run", "--input", DIGITS]),
    # One Reduce that adds up 2^23 elements for each byte of its scratch.
    (
        "hang_npu.pte",
        "run-failed",
        "longer than the NPU",
        ["run", "--input", DIGITS, "--samples", "1"],
    ),
    # A convolution that reads little of an image of 2^32 rows, all of them the same bytes.
    ("hang_watch.pte", "", "", ["run", "--input", DIGITS, "--samples", "1"]),
    # 40 memories of 2 GB.
    ("bigmem.pte", "run-memory", "plans 85899345880 bytes", ["run", "--input", DIGITS]),
    ("bigmem.pte", "run-memory", "plans 85899345880 bytes", ["profile"]),
    (
        "bigmem.pte",
        "firmware-board",
        "its memory: 85899345880 bytes of arenas",
        ["firmware", "-o", "project"],
    ),
    # An arena of 5 MB for a board of 4.
    ("mem5m.pte", "firmware-board", "qemu-an505 has 4194304", ["firmware", "-o", "project"]),
    (
        "mem5m.pte",
        "firmware-board",
        "qemu-an505 has 4194304",
        ["run", "--on", "qemu", "--input", DIGITS],
    ),
    (
        "mem5m.pte",
        "firmware-board",
        "qemu-an547 has 4194304",
        ["firmware", "--board", "qemu-an547", "-o", "project"],
    ),
)


def used():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def check(deuteron, file, diagnostic, reason, words, seconds, limited, folder):
    verb, *options = map(str, words)
    command = [deuteron, "--diagnostics", "json", verb, FILES / file, *options]
    limit = (
        (lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY)))
        if limited
        else None
    )
    begin = used()
    try:
        done = subprocess.run(
            command,
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=folder,
            timeout=120,
            preexec_fn=limit,
        )
    except subprocess.TimeoutExpired:
        failures.append(f"{file} {verb}: it does not end")
        return
    taken = used() - begin
    lines = done.stderr.strip().splitlines()
    try:
        message = json.loads(lines[-1]) if lines else {}
    except ValueError:
        message = {}
    print(f"{file} {verb}: exit code {done.returncode}, {message.get('id', 'runs')}, {taken:.2f} s")
    if diagnostic == "" and done.returncode in (0, 1):
        pass  # what matters is that it ends
    elif (
        done.returncode != 1
        or message.get("id") != diagnostic
        or reason not in message.get("reason", "")
    ):
        failures.append(
            f"{file} {verb}: exit code {done.returncode}, not {diagnostic} with"
            f" `{reason}`\n{done.stderr[-800:]}"
        )
    if taken > seconds:
        failures.append(f"{file} {verb}: {taken:.2f} s, more than {seconds}")
    if (Path(folder) / "project").exists():
        failures.append(f"{file} {verb}: a project was written")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("deuteron", type=Path)
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of processor time that one may take"
    )
    parser.add_argument("--sanitized", action="store_true", help="addresses are not limited")
    options = parser.parse_args()
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="deuteron_hostile_") as folder:
            check(options.deuteron.resolve(), *case, options.seconds, not options.sanitized, folder)
    print(f"{len(CASES) - len(failures)} of {len(CASES)} hostile programs are refused")
    finish(failures)


if __name__ == "__main__":
    main()
