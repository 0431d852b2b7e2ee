#!/usr/bin/env python3
"""Small files that unfold to much, through the command, in an address space of 400 MB: refused with
an id and exit code 1, or read without what nobody wants of them. Standard library only.

    memory.py DEUTERON
"""
import resource
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/digits_cnn/float.pt2"
LIMIT = 400 << 20
DEEP = 200_000
failures = 0


def npy(shape):
    """The header of zeros in float32; their bytes come behind it."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head


def write_zeros(archive, name, samples):
    """An array of samples of the model's input, 1 kB each before it is deflated."""
    with archive.open(f"{name}.npy", "w") as member:
        member.write(npy((samples, 1, 16, 16)))
        for _ in range(samples // 1024):
            member.write(bytes(1 << 20))
        member.write(bytes(samples % 1024 << 10))


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))


def check(what, expected_code, expected_text, *arguments):
    global failures
    threads = ["--threads", "2"] if "compile" in arguments else []  # as many stacks on every machine
    run = subprocess.run([DEUTERON, *map(str, arguments), *threads], capture_output=True, text=True, preexec_fn=limit_memory)
    output = run.stdout + run.stderr
    good = run.returncode == expected_code and expected_text in output
    failures += not good
    print(f"{'good' if good else 'BAD '}  {what}" + ("" if good else f": exit code {run.returncode}, {output.strip()[-300:]}"))


DEUTERON = sys.argv[1]
with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    program = folder / "p.pte"

    with zipfile.ZipFile(folder / "large.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        write_zeros(archive, "x", 300 << 10)
    check("an array that does not fit", 1, "error[out-of-memory]", "compile", MODEL, "--calibrate", folder / "large.npz", "-o", program)
    check("the same as JSON", 1, '"id":"out-of-memory"', "--diagnostics", "json", "compile", MODEL, "--calibrate",
          folder / "large.npz", "-o", program)

    with zipfile.ZipFile(MODEL.parent / "calibration.npz") as good, zipfile.ZipFile(folder / "many.npz", "w", zipfile.ZIP_DEFLATED,
                                                                                   compresslevel=1) as archive:
        for i in range(12):
            write_zeros(archive, f"other_{i}", 50 << 10)
        for member in good.namelist():
            archive.writestr(member, good.read(member))
    check("arrays that no input takes", 0, "program", "compile", MODEL, "--calibrate", folder / "many.npz", "-o", program)

    with zipfile.ZipFile(MODEL) as old, zipfile.ZipFile(folder / "bomb.pt2", "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            data = old.read(member)
            new.writestr(member, data + b" " * (100 << 20) if member.endswith("model.json") else data)
    check("JSON that unfolds", 1, "error[zip-too-large]", "compile", folder / "bomb.pt2", "--calibrate-random", 1, "-o", program)

    deep = "[" * DEEP + "]" * DEEP
    for text in (f'{{"backends": [{deep}]}}', f'{{"backends": ["neutron", "portable"], "constraints": [{{"name": {deep}, "keep_off": "neutron"}}]}}'):
        (folder / "recipe.json").write_text(text)
        check("a recipe that is nested deep", 1, "error[recipe-invalid]", "compile", MODEL, "--recipe", folder / "recipe.json", "--calibrate-random",
              1, "-o", program)
    check("a program to profile", 0, "program", "compile", MODEL, "--calibrate-random", 1, "-o", program)
    (folder / "report.json").write_text(f'{{"checksum": {deep}, "target": "a"}}')
    for option in ("--compile-report", "--verify"):
        check(f"{option} that is nested deep", 1, "error[trace-damaged]", "profile", program, "--html", folder / "x.html", option,
              folder / "report.json")

sys.exit(1 if failures else 0)
