#!/usr/bin/env python3
"""Whole models through the command: compile, evaluate, verify, compare with what PyTorch stored.
Standard library only.

    models.py DEUTERON [MODEL …]

Models come from models/ of the repository and, where it exists, from $DEUTERON_SHARED/models; the
last line counts what ran.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import finish

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("DEUTERON_SHARED") or ROOT.parent / "shared")

# Most kernel calls, and the bound of the published mapping in cycles (docs/npu.md; busy cycles may
# be 1.35 times that).
GOALS = {
    "digits_cnn": {},
    "digits_transformer": {"calls": 13},
    "kws_dscnn": {"calls": 12, "bound": 108016},
    "ic_resnet8": {"calls": 15, "bound": 206864},
    "vww_mobilenetv1": {"calls": 30, "bound": 217328},
    "ad_fcae": {},
    "mobilenet_v2": {},
}
# What may be lost against docs/performance.md, which has today's figures.
LOST_SQNR_DB, LOST_ACCURACY = 1.0, 0.005
RECORD = json.loads((ROOT / "bench/performance.json").read_text())["models"]
failures = []
left_out = []  # said behind ctest's summary (scripts/not_run)


def check(model, condition, message):
    if not condition:
        failures.append(f"{model}: {message}")


def run(*command, code=0):
    done = subprocess.run(
        [str(part) for part in command], text=True, stdin=subprocess.DEVNULL, capture_output=True
    )
    if done.returncode != code:
        print(done.stdout, done.stderr)
        sys.exit(f"exit code {done.returncode} instead of {code}: {' '.join(map(str, command))}")
    return done.stdout


def folder_of(model, file):
    return next(
        (
            folder
            for folder in (ROOT / "models" / model, SHARED / "models" / model)
            if (folder / file).exists()
        ),
        None,
    )


def test_data(model):
    folder = folder_of(model, "test.npz")
    return folder / "test.npz" if folder else None


def check_scores(model, scores, recorded):
    """Against the float model; a test set that is not the page's has no figures to compare with."""
    if scores["samples"] != recorded["samples"]:
        check(
            model,
            False,
            (
                f"{scores['samples']} samples, docs/performance.md has figures of"
                f" {recorded['samples']}"
            ),
        )
        return
    least = recorded["sqnr_db"] - LOST_SQNR_DB
    check(
        model, scores["sqnr_db"] >= least, f"SQNR {scores['sqnr_db']:.2f} dB, at least {least:.2f}"
    )
    if "accuracy" in recorded:
        least = recorded["accuracy"] - LOST_ACCURACY
        check(
            model,
            scores["accuracy"] >= least,
            f"accuracy {scores['accuracy']:.4f}, at least {least:.4f}",
        )


def float_model(deuteron, model, goals, work):
    folder = folder_of(model, "float.pt2")
    program, report_file, stats_file, scores_file = (
        work / f"{model}{suffix}" for suffix in (".pte", ".report", ".stats", ".scores")
    )
    run(
        deuteron,
        "compile",
        folder / "float.pt2",
        "--calibrate",
        folder / "calibration.npz",
        "-o",
        program,
        "--report-json",
        report_file,
    )
    report = json.loads(report_file.read_text())
    check(model, report["partitions"] == 1, f"{report['partitions']} partitions instead of 1")
    inside = [op["kernel"] for op in report["operators"] if op["backend"] != "neutron"]
    check(model, all("quantize" in kernel for kernel in inside), f"not on the NPU: {inside}")
    check(
        model,
        report["npu_calls"] <= goals.get("calls", 1 << 30),
        f"{report['npu_calls']} kernel calls",
    )
    check(
        model,
        report["npu_busy_cycles"] <= 1.35 * goals.get("bound", 1 << 60),
        f"{report['npu_busy_cycles']} busy cycles",
    )
    sram = report["sram"]
    check(
        model,
        sram["planned_bytes"] <= 1.10 * sram["live_bound_bytes"],
        f"activations take {sram['planned_bytes']} of {sram['live_bound_bytes']} bytes",
    )
    check(model, sram["total_bytes"] <= sram["target_bytes"], "more SRAM than the target has")
    total = report["npu_busy_cycles"] + report["npu_host_cycles"] + report["npu_stall_cycles"]
    check(
        model,
        total == report["npu_total_cycles"],
        f"cycles do not add up: {total} and {report['npu_total_cycles']}",
    )

    # The same program from one thread and from two.
    for threads in (1, 2):
        again = work / f"{model}_{threads}.pte"
        run(
            deuteron,
            "compile",
            folder / "float.pt2",
            "--calibrate",
            folder / "calibration.npz",
            "-o",
            again,
            "--threads",
            threads,
            "--no-check",
        )
        check(
            model,
            again.read_bytes() == program.read_bytes(),
            f"the program of {threads} thread(s) differs",
        )

    data = test_data(model) or folder / "calibration.npz"
    run(
        deuteron,
        "run",
        program,
        "--input",
        data,
        "--samples",
        1,
        "--output",
        work / "out.npz",
        "--stats-json",
        stats_file,
    )
    stats = json.loads(stats_file.read_text())
    check(
        model,
        stats["sram_touched_bytes"] == sram["total_bytes"],
        f"{stats['sram_touched_bytes']} bytes touched, {sram['total_bytes']} reported",
    )
    run(deuteron, "verify", program, "--against", folder / "float.pt2", "--data", data)
    if test_data(model) is None:
        left_out.append(f"e2e_models: the test set of {model} (no DEUTERON_SHARED)")
        return
    run(deuteron, "eval", program, "--data", data, "--json", scores_file)
    scores = json.loads(scores_file.read_text())
    check_scores(model, scores, RECORD[model]["eval"])
    print(
        f"{model}: SQNR {scores['sqnr_db']:.2f} dB, accuracy {scores.get('accuracy', '-')},"
        f" {report['npu_calls']} calls, {report['npu_busy_cycles']} busy cycles"
    )


def quantized_model(deuteron, model, work):
    """An export that PyTorch quantized is taken as it is: same class, and close to PyTorch's own
    evaluation of it."""
    folder = folder_of(model, "quantized.pt2")
    program, scores_file = work / f"{model}_q.pte", work / f"{model}_q.scores"
    run(deuteron, "compile", folder / "quantized.pt2", "-o", program)
    if test_data(model) is None:
        left_out.append(f"e2e_models: the test set of {model} (no DEUTERON_SHARED)")
        return
    run(deuteron, "eval", program, "--data", test_data(model), "--json", scores_file)
    scores = json.loads(scores_file.read_text())
    check_scores(model + " quantized", scores, RECORD[model]["quantized"])
    print(
        f"{model} quantized.pt2: SQNR {scores['sqnr_db']:.2f} dB, accuracy"
        f" {scores.get('accuracy', '-')}"
    )


def tflite_models(deuteron, work):
    """Quantized .tflite models compile as they are; the comparison at the end of a compilation is
    exact for integers."""
    folder = next(
        (
            folder
            for folder in (SHARED / "models/mlperf_tiny", ROOT / "models/mlperf_tiny")
            if folder.exists()
        ),
        None,
    )
    for model in sorted(folder.glob("*_int8.tflite")) if folder else []:
        run(deuteron, "compile", model, "-o", work / "tflite.pte")
        print(f"{model.name}: compiles")


def main():
    deuteron, wanted = Path(sys.argv[1]), sys.argv[2:] or list(GOALS)
    ran = 0
    with tempfile.TemporaryDirectory() as work:
        for model in wanted:
            if folder_of(model, "float.pt2") is None:
                left_out.append(f"e2e_models: {model} (no DEUTERON_SHARED)")
                continue
            ran += 1
            float_model(deuteron, model, GOALS[model], Path(work))
            if folder_of(model, "quantized.pt2") is not None:
                quantized_model(deuteron, model, Path(work))
        if not sys.argv[2:]:
            tflite_models(deuteron, Path(work))
    print(f"{ran} of {len(wanted)} models")
    for what in left_out:
        print(f"NOT RUN: {what}")
    finish(failures)


if __name__ == "__main__":
    main()
