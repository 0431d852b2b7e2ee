#!/usr/bin/env python3
"""Kernels on hostile arguments under QEMU: a file of calls with the host's results, on a Cortex-M33
(all kernels) and a Cortex-M55 (those of the Cortex-M, with MVE). No fault, nothing written outside
of tensors, results byte for byte those of the host. Standard library only.

    device_calls.py KERNEL_CALLS [CALLS]
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import device_project  # noqa: E402

# Core, its build, board, options of the host's file, the fewest calls that must run and be
# accepted.
CORES = (
    ("cortex-m33", "device", "mps2-an505", (), 0.99, 0.6),
    ("cortex-m55", "device_m55", "mps3-an547", ("--mve", "--prefix", "cortex_m::"), 0.99, 0.5),
)


def run(*command, cwd=None, good=(0,)):
    done = subprocess.run(
        list(map(str, command)), text=True, stdin=subprocess.DEVNULL, capture_output=True, cwd=cwd
    )
    if done.returncode not in good:
        sys.exit(
            f"FAILED {' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return done.stdout + done.stderr


def build(core, name):
    folder = ROOT / "build" / name
    options = [
        "-DCMAKE_BUILD_TYPE=MinSizeRel",
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/{core.replace('-', '_')}.cmake",
    ]
    if core == "cortex-m55":
        options.append("-DDTR_CORTEX_M_KERNELS_ALONE=ON")
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, *options)
    run("cmake", "--build", folder, "-j", 1, "--target", "device_kernel_calls")
    return folder / "test/device/device_kernel_calls"


def main():
    kernel_calls, calls = (
        Path(sys.argv[1]).resolve(),
        int(sys.argv[2]) if len(sys.argv) > 2 else 6000,
    )
    failed = False
    for core, name, machine, options, least_run, least_accepted in CORES:
        image = build(core, name)
        with tempfile.TemporaryDirectory() as folder:
            run(kernel_calls, "--calls", calls, "--write", Path(folder) / "calls.bin", *options)
            text = run(*device_project.qemu(image, machine=machine), cwd=folder, good=(0, 1, 2, 3))
        counts = re.search(r"(\d+) calls, (\d+) accepted, 0 failures\n$", text)
        print(f"{core} on {machine}: {text[-2000:].rstrip()}")
        failed |= (
            counts is None
            or int(counts.group(1)) < least_run * calls
            or int(counts.group(2)) < least_accepted * calls
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
