#!/usr/bin/env python3
"""What docs/quantization.md says of equal bytes ("The same program again"): over threads, folders,
locales and time zones always, over instruction sets of the processor wherever nothing is
calibrated. Standard library only.

    same_bytes.py DEUTERON
"""
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import finish

MODELS = Path(__file__).resolve().parents[2] / "models"
FLOAT = ("digits_cnn", "kws_dscnn")
# oneDNN's kernels and those of the C library by other instruction sets. Sets that the processor
# lacks change nothing.
SETS = [
    {},
    {"ONEDNN_MAX_CPU_ISA": "SSE41", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F"},
    {"ONEDNN_MAX_CPU_ISA": "AVX2"},
]
ELSEWHERE = [{"TZ": "Asia/Kathmandu", "LC_ALL": "de_DE.UTF-8", "OMP_NUM_THREADS": "3"}]
failures = []


def compiled(deuteron, folder, what, environment, *options):
    """Hashes of all that a compilation writes, by the file's ending."""
    folder.mkdir(parents=True)
    names = {
        "pte": "-o",
        "placement.json": "--placement",
        "report.json": "--report-json",
        "ir": "--emit-ir",
        "patterns.json": "--patterns",
    }
    files = {name: folder / f"model.{name}" for name in names}
    given = [word for name, option in names.items() for word in (option, files[name])]
    calibration = folder / "calibration.json"
    if "--calibrate" in options and "--load-calibration" not in options:
        given += ["--save-calibration", calibration]
        files["calibration.json"] = calibration
    done = subprocess.run(
        [str(word) for word in (deuteron, "compile", *options, *given)],
        env={**os.environ, **environment},
        cwd=folder,
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    if done.returncode != 0:
        failures.append(f"{what}: exit code {done.returncode}\n{done.stderr[-1500:]}")
        return {}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def same(what, first, again):
    differing = [name for name in first if first[name] != again.get(name)]
    if differing or not first:
        failures.append(f"{what}: other bytes in {', '.join(differing)}")


def main():
    deuteron = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in FLOAT:
            source, data = MODELS / model / "float.pt2", MODELS / model / "calibration.npz"
            calibrated = compiled(
                deuteron, folder / model / "first", model, {}, source, "--calibrate", data
            )
            for index, environment in enumerate(ELSEWHERE):
                for threads in (1, 2, 7):
                    same(
                        f"{model}, {threads} threads, {environment}",
                        calibrated,
                        compiled(
                            deuteron,
                            folder / f"{model} {index}" / str(threads),
                            model,
                            environment,
                            source,
                            "--calibrate",
                            data,
                            "--threads",
                            threads,
                        ),
                    )
            saved = folder / model / "first/calibration.json"
            for index, environment in enumerate(SETS):
                loaded = compiled(
                    deuteron,
                    folder / model / f"loaded {index}",
                    model,
                    environment,
                    source,
                    "--calibrate",
                    data,
                    "--load-calibration",
                    saved,
                )
                same(
                    f"{model} with saved ranges, {environment}",
                    {key: calibrated.get(key) for key in loaded},
                    loaded,
                )
        for model in MODELS.glob("*/quantized.pt2"):
            results = [
                compiled(
                    deuteron,
                    folder / f"{model.parent.name} quantized" / str(index),
                    str(model),
                    environment,
                    model,
                )
                for index, environment in enumerate(SETS)
            ]
            for environment, result in zip(SETS, results):
                same(f"{model.parent.name} quantized, {environment}", results[0], result)
    finish(failures)


if __name__ == "__main__":
    main()
