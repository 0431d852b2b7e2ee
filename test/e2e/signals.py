#!/usr/bin/env python3
"""Signals that end the command while it works: it ends by them, and nothing of it is left, no
program that it started, no temporary folder and no part of an output. Standard library only.

    signals.py DEUTERON
"""
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import finish

DIGITS = Path(__file__).resolve().parents[2] / "models/digits_cnn"
# Programs in place of a converter: one with a child, one that does not listen.
CONVERTERS = {
    "willing": "sleep 1000 & wait",
    "deaf": "trap '' HUP INT TERM; sleep 1000 & wait; sleep 1000",
}
failures = []


def alive(group):
    try:
        os.killpg(group, 0)
        return True
    except ProcessLookupError:
        return False


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def end(deuteron, kind, number, folder):
    """Ends a compilation while the converter runs."""
    name = f"{kind} converter, {signal.Signals(number).name}"
    temporary, outputs, started = folder / "tmp", folder / "out", folder / "started"
    for made in (temporary, outputs):
        made.mkdir()
    converter = folder / "converter"
    converter.write_text(
        f"#!/bin/sh\necho $$ > {started}.part && mv {started}.part {started}\n{CONVERTERS[kind]}\n"
    )
    converter.chmod(0o755)
    process = subprocess.Popen(
        [
            deuteron,
            "compile",
            DIGITS / "quantized.pt2",
            "--converter",
            str(converter),
            "-o",
            outputs / "digits.pte",
            "--external-constants",
            outputs / "digits.ptd",
        ],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if not wait_until(started.exists):
        failures.append(f"{name}: the converter was not started: {process.communicate()[0]}")
        return
    if not list(temporary.iterdir()) or not list(outputs.iterdir()):
        failures.append(f"{name}: nothing there that could be left behind")
    process.send_signal(number)
    said = process.communicate(timeout=60)[0]
    group = int(started.read_text())
    if process.returncode != -number:
        failures.append(f"{name}: ended with {process.returncode}: {said}")
    if not wait_until(lambda: not alive(group), 5):
        failures.append(f"{name}: the converter still runs")
        os.killpg(group, signal.SIGKILL)
    for place in (temporary, outputs):
        failures.extend(f"{name}: left {path.relative_to(folder)}" for path in place.iterdir())


def ignored(deuteron, folder):
    """A shell starts what runs in the background with SIGINT ignored: that stays so."""
    (folder / "tmp").mkdir()
    process = subprocess.Popen(
        [
            deuteron,
            "compile",
            DIGITS / "float.pt2",
            "--calibrate",
            DIGITS / "calibration.npz",
            "-o",
            folder / "digits.pte",
        ],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        stdout=subprocess.DEVNULL,
    )
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    if process.returncode != 0 or not (folder / "digits.pte").exists():
        failures.append(f"SIGINT that is ignored ended the command with {process.returncode}")


def main():
    deuteron = Path(sys.argv[1]).resolve()
    for kind, number in (
        ("willing", signal.SIGINT),
        ("willing", signal.SIGTERM),
        ("willing", signal.SIGHUP),
        ("deaf", signal.SIGTERM),
    ):
        with tempfile.TemporaryDirectory() as folder:
            end(deuteron, kind, number, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        ignored(deuteron, Path(folder))
    finish(failures)


if __name__ == "__main__":
    main()
