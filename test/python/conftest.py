"""What the tests of the Python package share: models, the command, and both as one comparison.

The package is on PYTHONPATH; DEUTERON_COMMAND names the command that was built from the same tree.
"""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "models/digits_cnn"


def pytest_terminal_summary(terminalreporter):
    """What was left out, in the words that scripts/not_run counts."""
    reasons = {}
    for report in terminalreporter.getreports("skipped"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "?"
        reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in reasons.items():
        terminalreporter.write_line(
            f"NOT RUN: {count} Python {'test' if count == 1 else 'tests'} "
            f"({reason.removeprefix('Skipped: ')})"
        )


def slow(seconds):
    """So many seconds of an idle machine, on the one that runs the tests."""
    return seconds * (10 if os.getloadavg()[0] > os.cpu_count() else 1)


@pytest.fixture(scope="session")
def digits():
    """The folder of a small classifier with calibration and test data."""
    return DIGITS


@pytest.fixture(scope="session")
def program(digits):
    import deuteron

    return deuteron.compile(digits / "float.pt2", calibration=digits / "calibration.npz")


@pytest.fixture(scope="session")
def images(digits):
    import numpy

    return numpy.load(digits / "test.npz")["input"]


@pytest.fixture(scope="session")
def command():
    """Runs the command and returns what it printed."""
    path = os.environ.get("DEUTERON_COMMAND", str(ROOT / "build/release/deuteron"))
    if not os.access(path, os.X_OK):
        pytest.skip(f"there is no {path}")

    def run(*arguments):
        return subprocess.run(
            [path, *map(str, arguments)], check=True, capture_output=True, text=True
        ).stdout

    return run
