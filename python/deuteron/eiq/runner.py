"""``nxp_executor_runner`` of ExecuTorch's NXP flow, and ``nsys``, which it would start."""

from __future__ import annotations

import argparse
import sys

from .. import _deuteron
from .._errors import Error


def main() -> int:
    """Runs a program on files of raw tensors, as ``deuteron-executor-runner`` does."""
    parser = argparse.ArgumentParser(
        prog="nxp_executor_runner",
        description="Runs a program, with the NPU simulated by Deuteron.",
    )
    parser.add_argument("--model", required=True, help="program (.pte)")
    parser.add_argument("--dataset", default="", help="folder with a file for each sample")
    parser.add_argument("--inputs", default="", help="files or folders, separated by commas")
    parser.add_argument("--output", default="results", help="folder for the outputs")
    for name in ("--firmware", "--nsys", "--nsys_config"):
        parser.add_argument(name, help="of NXP's simulator; not used")
    given = parser.parse_args()
    if bool(given.dataset) == bool(given.inputs):
        parser.error("give --dataset or --inputs")
    inputs = [each for each in given.inputs.split(",") if each]
    try:
        _deuteron.run_dataset(given.model, given.dataset, inputs, given.output, print)
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    print("Finished...")
    return 0


def simulator() -> int:
    """Prints that it is not NXP's simulator."""
    print(
        "nsys: this is not NXP's simulator; Deuteron's needs no program of its own", file=sys.stderr
    )
    return 1
