#!/usr/bin/env python3
"""How the command is used: options that would do nothing, empty values, inputs that are no files or
change meanwhile, outputs that are links, archives as numpy.savez writes large arrays, labels and
outputs that cannot be evaluated. Each has its message and its exit code. Standard library only.

    operation.py DEUTERON
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from checks import finish, npy

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/digits_cnn"
TEST, CALIBRATION = MODEL / "test.npz", MODEL / "calibration.npz"
CLASSES = 10
failures = []


def run(deuteron, what, words, code, *texts, **options):
    done = subprocess.run(
        [str(word) for word in (deuteron, *words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )
    text = done.stdout + done.stderr
    if done.returncode != code:
        failures.append(f"{what}: exit code {done.returncode} instead of {code}\n{text[-800:]}")
    for expected in texts:
        if expected not in text:
            failures.append(f"{what}: no `{expected}` in\n{text[-800:]}")
    return text


def check_options(deuteron, folder, program, trace):
    """Options without effect; what the command line alone shows is usage (2), what the files show
    is the input's fault (1)."""
    quantized, model = MODEL / "quantized.pt2", MODEL / "float.pt2"
    ranges = folder / "ranges.json"
    out = folder / "out.pte"
    run(
        deuteron,
        "ranges",
        ["compile", model, "--calibrate", CALIBRATION, "--save-calibration", ranges, "-o", out],
        0,
    )
    compiled = ["compile", model, "-o", out]
    loaded = [*compiled, "--load-calibration", ranges]
    for code, text, words in (
        (
            2,
            "--calibrate excludes --calibrate-random",
            [*compiled, "--calibrate", CALIBRATION, "--calibrate-random", 2],
        ),
        (
            2,
            "--load-calibration excludes --save-calibration",
            [*loaded, "--save-calibration", folder / "again.json"],
        ),
        (2, "--load-calibration excludes --observer", [*loaded, "--observer", "min-max"]),
        (1, "--calibrate-random has no effect", [*loaded, "--calibrate-random", 2]),
        (2, "--elide-constants requires --emit-ir", [*loaded, "--elide-constants"]),
        (2, "--converter-seconds requires --converter", [*loaded, "--converter-seconds", 3]),
        (2, "there is no pass fold_everything", [*loaded, "--print-after", "fold_everything"]),
        *(
            (
                1,
                f"error[option-needs-npu]: {option[0]} has no effect: `cortex-m33` has no NPU",
                ["compile", quantized, "-o", out, "--target", "cortex-m33", *option],
            )
            for option in (
                ["--row-packing"],
                ["--schedule", "nxp-like"],
                ["--keep-off", "linear"],
                ["--force-on", "all"],
            )
        ),
        (
            2,
            "--converter excludes --row-packing",
            ["compile", quantized, "-o", out, "--row-packing", "--converter", "true"],
        ),
        (
            2,
            "--compare-program requires --compare",
            ["profile", program, "--compare-program", program],
        ),
        (
            2,
            "--compare-etrecord requires --compare",
            ["profile", program, "--compare-etrecord", program],
        ),
        (1, "a record has no effect", ["profile", program, "--etrecord", folder / "none"]),
        (
            1,
            "a record has no effect",
            [
                "profile",
                trace,
                "--program",
                program,
                "--compare",
                program,
                "--compare-etrecord",
                folder / "none",
            ],
        ),
        (
            1,
            "--tensors has no effect",
            ["profile", trace, "--program", program, "--tensors", folder / "none"],
        ),
        (2, "--depth has no effect without --by module", ["profile", program, "--depth", 1]),
        (
            2,
            "--sort has no effect with --by module",
            ["profile", program, "--by", "module", "--sort", "cycles"],
        ),
        (
            2,
            "--sort has no effect with --compare",
            ["profile", program, "--compare", program, "--sort", "program"],
        ),
        # As many as a machine can start would stop all its other programs.
        *(
            (2, "--threads: Value 1025 not in range 0 to 1024", [*verb, "--threads=1025"])
            for verb in (
                ["run", program, "--input", TEST],
                ["eval", program, "--data", TEST],
                ["compile", MODEL / "float.pt2", "--calibrate", CALIBRATION],
            )
        ),
        *(
            (2, "--threads", [*verb, "--threads=2"])
            for verb in (
                ["compare", TEST, TEST],
                ["firmware", program, "-o", folder / "project"],
                ["profile", program],
                ["explain", program],
                ["inspect", program],
                ["targets"],
            )
        ),
        (
            1,
            "neither side is a program: --tensors has no effect",
            ["compare", TEST, TEST, "--tensors", folder / "none"],
        ),
    ):
        run(deuteron, " ".join(map(str, words)), words, code, text)
    # Told where it is harmless: scripts give the tensor file to all programs of a model.
    tensors = folder / "outside.ptd"
    run(
        deuteron,
        "tensor file",
        [
            "compile",
            quantized,
            "--target",
            "cortex-m33",
            "--external-constants",
            tensors,
            "-o",
            folder / "outside.pte",
        ],
        0,
    )
    note = "note: --tensors has no effect: all constants are in the program"
    for verb in (
        ["run", program, "--input", TEST, "--samples", 1],
        ["eval", program, "--data", TEST],
        ["explain", program],
        ["verify", program, "--against", quantized, "--data", TEST],
        ["firmware", program, "-o", folder / "project"],
    ):
        run(deuteron, f"{verb[0]} --tensors", [*verb, "--tensors", tensors], 0, note)
    for verb in (
        ["compile", model, "--calibrate", CALIBRATION, "-o", ""],
        ["run", "", "--input", TEST],
        ["run", program, "--input", ""],
        ["eval", program, "--data", TEST, "--json="],
        ["profile", program, "--filter", ""],
    ):
        text = run(deuteron, f"{verb}", verb, 2)
        if "is empty" not in text and "1 required TEXT missing" not in text:
            failures.append(f"{verb}: {text}")


def check_inputs(deuteron, folder, program):
    """Pipes and devices are refused before they are opened: nobody writes to this pipe."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    out = folder / "never.pte"
    refused = "cannot read the file: not a regular file"
    for words in (
        ["inspect", pipe],
        ["inspect", "/dev/zero"],
        ["compile", pipe, "-o", out],
        ["compile", MODEL / "float.pt2", "--calibrate", pipe, "-o", out],
        ["compile", MODEL / "float.pt2", "--load-calibration", pipe, "-o", out],
        ["compile", MODEL / "quantized.pt2", "--recipe", pipe, "-o", out],
        ["run", pipe, "--input", TEST],
        ["run", program, "--input", pipe],
        ["run", program, "--input", TEST, "--tensors", pipe],
        ["eval", program, "--data", pipe],
        ["eval", program, "--data", TEST, "--against", pipe],
        ["verify", program, "--against", pipe, "--data", TEST],
        ["compare", pipe, program, "--data", TEST],
        ["compare", program, TEST, "--data", pipe],
        ["profile", pipe],
        ["explain", pipe],
        ["profile", program, "--compare", pipe],
        ["firmware", pipe, "-o", folder / "p"],
        ["qat-prepare", pipe, "-o", out],
        ["profile", program, "--html", folder / "page.html", "--compile-report", pipe],
    ):
        run(deuteron, " ".join(map(str, words)), words, 1, refused)


def check_changing_input(deuteron, folder):
    """A model that is cut while it is read is compiled as it was, or an error; never a signal."""
    whole = (MODEL / "float.pt2").read_bytes()
    model = folder / "changing.pt2"
    for moment in range(12):
        model.write_bytes(whole)
        process = subprocess.Popen(
            [deuteron, "compile", model, "--calibrate", CALIBRATION, "-o", folder / "changing.pte"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        time.sleep(0.004 * moment)
        os.truncate(model, 4096)
        text = process.communicate()[0]
        if process.returncode not in (0, 1):
            failures.append(
                "a model that is cut while it is read: exit code"
                f" {process.returncode}\n{text[-500:]}"
            )


def check_outputs(deuteron, folder, program):
    link, target = folder / "link.npz", folder / "target.npz"
    link.symlink_to(target)
    run(
        deuteron,
        "a link to what is not there",
        ["run", program, "--input", TEST, "--samples", 1, "--output", link],
        0,
    )
    if not link.is_symlink() or not target.exists():
        failures.append("a link to a file that was not there was replaced")
    (folder / "loop.npz").symlink_to(folder / "loop.npz")
    run(
        deuteron,
        "a link to itself",
        ["run", program, "--input", TEST, "--samples", 1, "--output", folder / "loop.npz"],
        1,
        "Too many levels of symbolic links",
    )
    run(
        deuteron,
        "a temporary folder that is none",
        ["run", program, "--input", TEST, "--samples", 1, "--on", "qemu"],
        1,
        "/dev/null: cannot make a temporary folder: Not a directory",
        env={**os.environ, "TMPDIR": "/dev/null"},
    )


def check_zip64(deuteron, folder):
    """What Python writes for large members, with the limit from which it does so lowered."""
    path, limit = folder / "zip64.npz", zipfile.ZIP64_LIMIT
    try:
        zipfile.ZIP64_LIMIT = 16
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("first.npy", npy("<f4", (3,), struct.pack("<3f", 1, 2, 3)))
            with archive.open("second.npy", "w", force_zip64=True) as member:
                member.write(npy("<i8", (2,), struct.pack("<2q", -1, 1 << 40)))
    finally:
        zipfile.ZIP64_LIMIT = limit
    run(deuteron, "zip64", ["inspect", path], 0, "first ", "1 … 3", "second ")


def check_labels(deuteron, folder, program):
    images = zipfile.ZipFile(TEST).read("input.npy")
    count = 540

    def data(name, labels, outputs=None):
        path = folder / f"{name}.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("input.npy", images)
            archive.writestr("label.npy", npy("<i8", (count,), struct.pack(f"<{count}q", *labels)))
            if outputs is not None:
                archive.writestr(
                    "float_output.npy",
                    npy(
                        "<f4",
                        (count, CLASSES),
                        struct.pack(f"<{count * CLASSES}f", *outputs),
                    ),
                )
        return path

    good = [i % CLASSES for i in range(count)]
    run(
        deuteron,
        "labels",
        ["eval", program, "--data", data("good", good)],
        0,
        "accuracy of the int8 program",
    )
    from_one = [label + 1 for label in good]
    run(
        deuteron,
        "labels from 1",
        ["eval", program, "--data", data("from_one", from_one)],
        1,
        (
            f"`label`: 54 of {count} labels are no class: the program has the classes 0 to 9, the"
            " labels go from 1 to 10 (sample 9 has 10)"
        ),
        "fix: subtract 1: classes are counted from 0",
    )
    run(
        deuteron,
        "no label",
        ["eval", program, "--data", data("minus", [*good[:-1], -1])],
        1,
        f"1 of {count} labels are no class",
        "(sample 539 has -1)",
        "fix: leave samples without a class out",
    )
    run(
        deuteron,
        "large label",
        ["eval", program, "--data", data("large", [1 << 40, *good[1:]])],
        1,
        f"go from 0 to {1 << 40} (sample 0 has {1 << 40})",
    )
    outputs = [float(i % 7) for i in range(count * CLASSES)]
    outputs[5 * CLASSES + 3] = outputs[8 * CLASSES] = float("nan")
    run(
        deuteron,
        "NaN in float_output",
        ["eval", program, "--data", data("nan", good, outputs), "--json", folder / "nan.json"],
        1,
        "error[data-not-finite]: ",
        f"the float model's outputs hold NaN in 2 of {count} samples, the first is 5",
    )


def main():
    deuteron = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, trace = folder / "digits.pte", folder / "digits.etdump"
        run(deuteron, "compile", ["compile", MODEL / "quantized.pt2", "-o", program], 0)
        run(
            deuteron,
            "run",
            [
                "run",
                program,
                "--input",
                TEST,
                "--samples",
                1,
                "--profile",
                trace,
                "--stats-json",
                folder / "stats.json",
            ],
            0,
        )
        json.loads((folder / "stats.json").read_text())
        check_options(deuteron, folder, program, trace)
        check_inputs(deuteron, folder, program)
        check_changing_input(deuteron, folder)
        check_outputs(deuteron, folder, program)
        check_zip64(deuteron, folder)
        check_labels(deuteron, folder, program)
    finish(failures)


if __name__ == "__main__":
    main()
