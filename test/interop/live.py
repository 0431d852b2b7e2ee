#!/usr/bin/env python3
"""Live comparison with ExecuTorch: what its exporter writes runs here, what Deuteron writes runs
there.

    live.py DEUTERON [--all] [CASE …]      (the wheels of requirements.txt)

Without --all, 100 conformance cases are taken, spread evenly over the set. The last line counts.
Exit code 1: something differs.
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import cases
import compare
import operators
import wheel

DEFAULT_CASES = 100
TENSOR_FILE_STEP = 5  # every so many of them with a tensor file too


class Report:
    def __init__(self, title):
        self.title, self.exact, self.failures, self.left_out, self.close = title, 0, [], [], []
        self.worst = (0.0, "")
        self.count = 0

    def add(self, name, difference):
        self.count += 1
        self.exact += difference == 0
        self.worst = max(self.worst, (difference, name))
        if 0 < difference <= compare.LIMIT:
            self.close.append(f"{name} ({difference:.2g})")
        if difference > compare.LIMIT:
            self.fail(name, f"differs by {difference:.3g} of the largest magnitude")

    def fail(self, name, reason):
        self.failures.append(f"{name}: {reason}")

    def print(self):
        for line in self.left_out:
            print(f"  left out {line}")
        if self.close:
            print(f"  sums in another order: {', '.join(self.close)}")
        for line in self.failures:
            print(f"  FAIL {line}")
        print(
            f"{self.title}: {self.count} compared, {self.exact} bit for bit, largest difference"
            f" {self.worst[0]:.3g} {self.worst[1]}, {len(self.left_out)} left out,"
            f" {len(self.failures)} failed"
        )


def run(*command):
    done = subprocess.run(
        [str(part) for part in command], text=True, stdin=subprocess.DEVNULL, capture_output=True
    )
    return done.returncode, (done.stderr.strip() or done.stdout.strip())


def our_outputs(deuteron, program, samples, work, tensors=None):
    """Outputs by sample, as `deuteron run` writes them; a text if it fails."""
    inputs = {f"input_{i}": np.stack(column) for i, column in enumerate(zip(*samples))}
    np.savez(work / "in.npz", **inputs)
    extra = ["--tensors", tensors] if tensors else []
    code, message = run(
        deuteron, "run", program, *extra, "--input", work / "in.npz", "--output", work / "out.npz"
    )
    if code != 0:
        return message
    with np.load(work / "out.npz") as arrays:
        outputs = [arrays[f"output_{i}"] for i in range(len(arrays.files))]
    return [[array[i] for array in outputs] for i in range(len(samples))]


def compare_samples(ours, theirs):
    largest = 0.0
    for mine, other in zip(ours, theirs):
        if len(mine) != len(other):
            return float("inf")
        for got, wanted in zip(mine, other):
            largest = max(
                largest,
                compare.difference(
                    got.reshape(wanted.shape) if got.size == wanted.size else got, wanted
                ),
            )
    return largest


def hold(report, case, deuteron, file, samples, work, tensors=None):
    """One program on both runtimes; `tensors`: the file of its constants."""
    try:
        method = wheel.Method(file.read_bytes(), tensors and tensors.read_bytes())
        theirs = [method.run(sample) for sample in samples]
    except wheel.Refused as error:
        return report.fail(case.name, f"ExecuTorch's runtime: {error}")
    ours = our_outputs(deuteron, file, samples, work, tensors)
    if isinstance(ours, str):
        return report.fail(case.name, ours)
    return report.add(case.name, compare_samples(ours, theirs))


def compile_for_executorch(deuteron, case, work, *options):
    """The program without NPU parts; a text if there is none."""
    program = work / "ours.pte"
    code, message = run(
        deuteron, "compile", case.program, "--target", "executorch", *options, "-o", program
    )
    return message if code != 0 else program


def ours_on_upstream(deuteron, chosen, work):
    report = Report("Deuteron's programs without NPU parts on ExecuTorch's runtime")
    for case in chosen:
        if reason := cases.exception(case, "our programs"):
            report.left_out.append(f"{case.name}: {reason}")
            continue
        program = compile_for_executorch(deuteron, case, work)
        if isinstance(program, str):
            report.fail(case.name, program)
        else:
            hold(report, case, deuteron, program, case.samples(2), work)
    return report


def tensor_files(deuteron, chosen, work):
    """Constants outside of the program, both ways."""
    report = Report(
        "programs with a tensor file, Deuteron's on ExecuTorch's runtime and the other way round"
    )
    for case in chosen:
        if cases.exception(case, "our programs") or cases.exception(case, "their programs"):
            continue
        tensors = work / "ours.ptd"
        program = compile_for_executorch(deuteron, case, work, "--external-constants", tensors)
        if isinstance(program, str):
            report.fail(case.name, program)
            continue
        needed, held = wheel.external_tensors(program.read_bytes()), wheel.tensor_file_entries(
            tensors.read_bytes()
        )
        if needed != held:
            report.fail(
                case.name,
                f"ExecuTorch's tools read {held} of the tensor file, the program needs {needed}",
            )
        hold(report, case, deuteron, program, case.samples(2), work, tensors if held else None)
        file, theirs = work / "upstream.pte", work / "upstream.ptd"
        program, content = wheel.lower_with_tensor_file(case.program, work / "external")
        file.write_bytes(program)
        if content:
            theirs.write_bytes(content)
        hold(report, case, deuteron, file, case.samples(2), work, theirs if content else None)
    return report


def npu_parts_on_upstream(deuteron, chosen, work):
    """Programs with NPU parts: its tool names the delegate, its runtime loads them up to that."""
    report = Report(
        "Deuteron's programs with NPU parts, up to the delegate that ExecuTorch's runtime lacks"
    )
    for case in chosen:
        program = work / "npu.pte"
        calibrate = (
            ["--calibrate", case.folder / "calibration.npz"]
            if case.program.name == "float.pt2"
            else []
        )
        code, message = run(deuteron, "compile", case.program, *calibrate, "-o", program)
        if code != 0:
            report.fail(case.name, message)
            continue
        if (delegates := wheel.delegates(program.read_bytes())) != ["DeuteronBackend"]:
            report.fail(case.name, f"ExecuTorch's tool lists the delegates {delegates}")
            continue
        try:
            wheel.Method(program.read_bytes())
            report.fail(case.name, "ExecuTorch's runtime loads a program without its delegate")
        except wheel.Refused:
            report.add(case.name, 0.0)
    return report


def upstream_on_ours(deuteron, chosen, work):
    report = Report("ExecuTorch's programs on Deuteron's runtime")
    for case in chosen:
        if reason := cases.exception(case, "their programs"):
            report.left_out.append(f"{case.name}: {reason}")
            continue
        file = work / "upstream.pte"
        file.write_bytes(wheel.lower(case.program))
        hold(report, case, deuteron, file, case.samples(2), work)
    return report


def operators_on_ours(deuteron, work):
    """Programs of one operator: ours equal ExecuTorch's outputs and PyTorch's."""
    report = Report("ExecuTorch's programs of one operator on Deuteron's runtime")
    for name, function, *inputs in operators.operators():
        sample = [tensor.numpy() for tensor in inputs]
        try:
            program = wheel.lower_module(operators.Module(function), tuple(inputs))
            theirs = wheel.Method(program).run(sample)
        except Exception as error:  # noqa: BLE001  whatever its exporter and its runtime raise
            report.left_out.append(f"{name}: ExecuTorch: {str(error).splitlines()[0][:90]}")
            continue
        (work / "operator.pte").write_bytes(program)
        ours = our_outputs(deuteron, work / "operator.pte", [sample], work)
        if isinstance(ours, str):
            report.fail(name, ours)
        else:
            report.add(name, compare_samples(ours, [theirs]))
            expected = function(*inputs)
            wanted = [t.numpy() for t in (expected if isinstance(expected, tuple) else [expected])]
            if compare_samples(ours, [wanted]) > compare.LIMIT:
                report.fail(name, "differs from PyTorch")
    return report


def choose(found, options):
    if options.cases:
        return [case for case in found if case.name in options.cases]
    step = 1 if options.all else max(len(found) // DEFAULT_CASES, 1)
    return found[::step]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("deuteron", type=Path)
    parser.add_argument("--all", action="store_true", help="every conformance case that there is")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    found = cases.models() + cases.conformance() + cases.own()
    chosen = choose(cases.models(), argparse.Namespace(all=True, cases=options.cases)) + choose(
        cases.conformance(), options
    )
    print(f"{len(chosen)} of {len(found)} models and conformance cases")
    there, taken = len(cases.conformance()), len(choose(cases.conformance(), options))
    if taken < there and not options.cases:
        cases.not_run(
            f"{there - taken} of {there} conformance cases of the live comparison (--all)"
        )
    with tempfile.TemporaryDirectory() as work:
        reports = [
            upstream_on_ours(options.deuteron, chosen, Path(work)),
            ours_on_upstream(
                options.deuteron,
                chosen + choose(cases.own(), argparse.Namespace(all=True, cases=options.cases)),
                Path(work),
            ),
            tensor_files(
                options.deuteron,
                chosen[:: 1 if options.all or options.cases else TENSOR_FILE_STEP],
                Path(work),
            ),
            npu_parts_on_upstream(
                options.deuteron, [case for case in chosen if case.name in cases.MODELS], Path(work)
            ),
        ]
        if not options.cases:
            reports.append(operators_on_ours(options.deuteron, Path(work)))
    for report in reports:
        report.print()
    return 1 if any(report.failures for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
