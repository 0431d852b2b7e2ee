#!/usr/bin/env python3
"""Small files that unfold to much, through the command, in an address space of 400 MB: refused with
an id and exit code 1, or read without what nobody wants of them. And models in whatever memory:
they run, or the message is out-of-memory. Standard library only.

    memory.py DEUTERON DEUTERON_OPT
"""
import resource
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from checks import finish, npy

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/digits_cnn/float.pt2"
LIMIT = 400 << 20
DEEP = 200_000
failures = []


def write_zeros(archive, name, samples):
    """An array of samples of the model's input, 1 kB each before it is deflated."""
    with archive.open(f"{name}.npy", "w") as member:
        member.write(npy("<f4", (samples, 1, 16, 16)))
        for _ in range(samples // 1024):
            member.write(bytes(1 << 20))
        member.write(bytes(samples % 1024 << 10))


def limit_memory(limit=LIMIT):
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


# 19 MB of weights, which oneDNN brings into an order of its own.
CONVOLUTION = """graph @forward(%x: f32[1,512,3,3]) {
  %w: f32[1024,512,3,3] = constant seeded<1>
  %y: f32[1,1024,3,3] = aten.convolution(%x, %w, _) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false}
  return %y
}
"""


def sweep(what, first, *command):
    """With every limit the command runs, or says that memory ends; what the loader of the system
    says of too little for it does not count."""
    ended, said = {}, set()
    for megabytes in range(
        first, first + 176, 4
    ):  # less than the command needs to begin, more than the model needs to run
        run = subprocess.run(
            [*map(str, command)],
            capture_output=True,
            text=True,
            preexec_fn=lambda limit=megabytes << 20: limit_memory(limit),
        )
        good = run.returncode == 0 or (run.returncode == 1 and "error[out-of-memory]" in run.stderr)
        ended[megabytes] = run.returncode
        said.add(
            run.stderr.strip().split("memory left for ")[-1].splitlines()[0]
            if run.returncode == 1
            else ""
        )
        if not good and run.returncode != 127:
            failures.append(
                f"{what} in {megabytes} MB: exit code {run.returncode}, {run.stderr.strip()[-300:]}"
            )
    codes = list(ended.values())
    if 0 not in codes or 1 not in codes:
        failures.append(f"{what}: no limit lets it run, or none is too small: {ended}")
    print(
        f"{what}: exit codes 1 and 0 {codes.count(1)} and {codes.count(0)} times; no memory for"
        f" {', '.join(sorted(said - {''}))}"
    )


def check(what, expected_code, expected_text, *arguments):
    threads = (
        ["--threads", "2"] if "compile" in arguments else []
    )  # as many stacks on every machine
    run = subprocess.run(
        [DEUTERON, *map(str, arguments), *threads],
        capture_output=True,
        text=True,
        preexec_fn=limit_memory,
    )
    output = run.stdout + run.stderr
    good = run.returncode == expected_code and expected_text in output
    if not good:
        failures.append(f"{what}: exit code {run.returncode}, {output.strip()[-300:]}")


DEUTERON, DEUTERON_OPT = sys.argv[1:3]
with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    program = folder / "p.pte"

    with zipfile.ZipFile(
        folder / "large.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1
    ) as archive:
        write_zeros(archive, "x", 300 << 10)
    check(
        "an array that does not fit",
        1,
        "error[out-of-memory]",
        "compile",
        MODEL,
        "--calibrate",
        folder / "large.npz",
        "-o",
        program,
    )
    check(
        "the same as JSON",
        1,
        '"id":"out-of-memory"',
        "--diagnostics",
        "json",
        "compile",
        MODEL,
        "--calibrate",
        folder / "large.npz",
        "-o",
        program,
    )

    with zipfile.ZipFile(MODEL.parent / "calibration.npz") as good, zipfile.ZipFile(
        folder / "many.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1
    ) as archive:
        for i in range(12):
            write_zeros(archive, f"other_{i}", 50 << 10)
        for member in good.namelist():
            archive.writestr(member, good.read(member))
    check(
        "arrays that no input takes",
        0,
        "program",
        "compile",
        MODEL,
        "--calibrate",
        folder / "many.npz",
        "-o",
        program,
    )

    with zipfile.ZipFile(MODEL) as old, zipfile.ZipFile(
        folder / "bomb.pt2", "w", zipfile.ZIP_DEFLATED
    ) as new:
        for member in old.namelist():
            data = old.read(member)
            new.writestr(
                member, data + b" " * (100 << 20) if member.endswith("model.json") else data
            )
    check(
        "JSON that unfolds",
        1,
        "error[zip-too-large]",
        "compile",
        folder / "bomb.pt2",
        "--calibrate-random",
        1,
        "-o",
        program,
    )

    deep = "[" * DEEP + "]" * DEEP
    for text in (
        f'{{"backends": [{deep}]}}',
        (
            f'{{"backends": ["neutron", "portable"], "constraints": [{{"name": {deep}, "keep_off":'
            ' "neutron"}]}'
        ),
    ):
        (folder / "recipe.json").write_text(text)
        check(
            "a recipe that is nested deep",
            1,
            "error[recipe-invalid]",
            "compile",
            MODEL,
            "--recipe",
            folder / "recipe.json",
            "--calibrate-random",
            1,
            "-o",
            program,
        )
    check(
        "a program to profile",
        0,
        "program",
        "compile",
        MODEL,
        "--calibrate-random",
        1,
        "-o",
        program,
    )
    (folder / "report.json").write_text(f'{{"checksum": {deep}, "target": "a"}}')
    for option in ("--compile-report", "--verify"):
        check(
            f"{option} that is nested deep",
            1,
            "error[trace-damaged]",
            "profile",
            program,
            "--html",
            folder / "x.html",
            option,
            folder / "report.json",
        )

    model, data = folder / "m.ir", folder / "m.npz"
    model.write_text(CONVOLUTION)
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("x.npy", npy("<f4", (1, 512, 3, 3)) + bytes(4 * 512 * 9))
    sweep("a float model", 64, DEUTERON, "compare", model, model, "--data", data)
    sweep("deuteron-opt", 16, DEUTERON_OPT, "--no-print", "--prove", "--pipeline", "float", model)

finish(failures)
