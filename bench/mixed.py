"""What int8 kernels beside the NPU are worth: test/data/mixed for imxrt700 and imxrt700cm, a
section of docs/performance.md. Standard library only.
"""
import json
import os
import subprocess
import tempfile
from pathlib import Path

from cortex_m import noise
from tables import table

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "test/data/mixed/squash_net.ir"
TARGETS = ("imxrt700", "imxrt700cm")


def measure(deuteron, target, folder):
    """The compiler's report, with the instructions of the CPU's own steps under QEMU as
    `counted`."""
    program, report, stats = (
        folder / "m.pte",
        folder / "report.json",
        folder / "stats.json",
    )

    # Calibration adds up in another order on another instruction set (docs/quantization.md).
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}

    def run(*command):
        subprocess.run([deuteron, *command], check=True, stdout=subprocess.DEVNULL, env=environment)

    run(
        "compile",
        MODEL,
        "--calibrate-random",
        "2",
        "--target",
        target,
        "--no-debug-map",
        "-o",
        program,
        "--report-json",
        report,
    )
    run(
        "run",
        program,
        "--input",
        noise(MODEL, folder / "x.npz"),
        "--samples",
        "1",
        "--on",
        "qemu",
        "--stats-json",
        stats,
    )
    made = json.loads(report.read_text())
    counted = sum(
        step["instructions"]
        for step in json.loads(stats.read_text())["steps"]
        if step["kernel"] != "DeuteronBackend"
    )
    made["counted"] = round(
        counted, -3
    )  # a run differs from the next by some fifty, of the board's timer
    return made


def figures(deuteron):
    """[name, on the first target, on the second] of each row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        reports = [measure(deuteron, target, Path(folder)) for target in TARGETS]
    cpu = [
        [row for row in report["operators"] if row["backend"] != "neutron"] for report in reports
    ]
    is_float = [[row for row in rows if row["kernel"].startswith("aten::")] for rows in cpu]
    rows = [
        (
            "program without debug map, bytes",
            [report["program_bytes"] for report in reports],
        ),
        ("SRAM, bytes", [report["sram"]["total_bytes"] for report in reports]),
        ("float kernels", [len(rows) for rows in is_float]),
        (
            "kernel calls of the CPU, conversions included",
            [report["cpu_calls"] for report in reports],
        ),
        ("partitions of the NPU", [report["partitions"] for report in reports]),
        ("cycles of the NPU", [report["npu_total_cycles"] for report in reports]),
        (
            "cycles of the Cortex-M33, estimated",
            [report["cpu_cycles"] for report in reports],
        ),
        (
            "instructions of the Cortex-M33 under QEMU, thousands rounded",
            [report["counted"] for report in reports],
        ),
        (
            "cycles together, as estimated",
            [report["npu_total_cycles"] + report["cpu_cycles"] for report in reports],
        ),
    ]
    return [[name, *pair] for name, pair in rows]


def section(rows):
    return f"""## A net that is partly NPU material

`test/data/mixed/squash_net.ir` has the activation x / (400 + x²) in the middle, twice: the NPU divides by no tensor. With the recipe `neutron, portable` it
runs in float between dequantize and quantize, with `neutron, cortex_m, portable` in int8. NPU cycles are simulated, those of the Cortex-M33 the
estimates of its backends ([targets.md](targets.md)); one after the other, at the same clock. In int8 nothing passes through float and the tensors take a
quarter.

{table(["", *(f"`{target}`" for target in TARGETS)], [[name, f"{a:,}", f"{b:,}"] for name, a, b in rows])}
"""
