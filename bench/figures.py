"""The figures of docs/performance.md that are the same in every run: accuracy, cycles, bytes,
kernels. Whole processes of `deuteron` count them:
`compile --report-json`, `run --stats-json`, `eval --json`, and bench_utilization. Standard library
only.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = (
    "digits_cnn",
    "digits_transformer",
    "kws_dscnn",
    "ic_resnet8",
    "vww_mobilenetv1",
    "ad_fcae",
    "mobilenet_v2",
)
COUNTS = (
    "clock_hz",
    "npu_calls",
    "npu_busy_cycles",
    "npu_host_cycles",
    "npu_stall_cycles",
    "npu_total_cycles",
    "cpu_cycles",
    "flash_bytes",
)
ARRAY, BIG_SHAPE, USEFUL_SHARE = 64, 65536, 0.6


# Ranges are those that oneDNN's float model has, whose sums depend on the instruction set. All
# processors with AVX2 give the same figures so.
ENVIRONMENT = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}


def run(*command):
    done = subprocess.run(
        [str(part) for part in command],
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=ENVIRONMENT,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def folder_of(model, shared):
    """Folder of the model's export: DEUTERON_SHARED first, whose test sets are larger; None where
    there is none."""
    return next(
        (
            f
            for f in (shared / "models" / model, ROOT / "models" / model)
            if (f / "float.pt2").exists()
        ),
        None,
    )


def compile_command(deuteron, folder, program, *options):
    return [
        deuteron,
        "compile",
        folder / "float.pt2",
        "--target",
        "imxrt700",
        "--calibrate",
        folder / "calibration.npz",
        "-o",
        program,
        *options,
    ]


def counts(report):
    """What the page shows of a report of `compile`."""
    return {
        **{name: report[name] for name in COUNTS},
        "sram": report["sram"],
        "ideal_cycles": sum(-(-op["macs"] // ARRAY) for op in report["operators"]),
    }


def operators(report):
    return [
        [
            op["name"],
            op["kernel"],
            op["macs"],
            op["cycles"],
            round(100 * op["utilization"]),
            op["limited_by"],
        ]
        for op in report["operators"]
        if op["backend"] == "neutron" and op["kernel"] != "Copy"
    ]


def scores(deuteron, program, data, work):
    run(deuteron, "eval", program, "--data", data, "--json", work / "scores.json")
    found = json.loads((work / "scores.json").read_text())
    labelled = {key: round(found[key], 4) for key in ("accuracy", "float_accuracy") if key in found}
    return {"samples": found["samples"], "sqnr_db": round(found["sqnr_db"], 2), **labelled}


def run_stats(deuteron, program, folder, work, *options):
    """What `deuteron run --stats-json` says of the first calibration sample."""
    stats = work / "stats.json"
    sample = ("--input", folder / "calibration.npz", "--samples", 1)
    run(deuteron, "run", program, *sample, *options, "--stats-json", stats)
    return json.loads(stats.read_text())


def model_figures(deuteron, folder, work):
    """Of one model, compiled as a user would: cycles, memory, kernels, and int8 against float over
    the whole test set."""
    program, report = work / "m.pte", work / "report.json"
    result = {}
    for key, options in (("default", ()), ("row_packing", ("--row-packing",))):
        run(*compile_command(deuteron, folder, program, "--report-json", report, *options))
        made = json.loads(report.read_text())
        result[key] = counts(made)
        if key == "default":
            result["operators"] = operators(made)
            stats = run_stats(deuteron, program, folder, work)
            result["sram_touched_bytes"] = stats["sram_touched_bytes"]
            if (folder / "test.npz").exists():
                result["eval"] = scores(deuteron, program, folder / "test.npz", work)
    if (folder / "quantized.pt2").exists() and (folder / "test.npz").exists():
        run(deuteron, "compile", folder / "quantized.pt2", "-o", program)
        result["quantized"] = scores(deuteron, program, folder / "test.npz", work)
    return result


# ---- utilization of the array


def limited_by(shape, share):
    if shape["kernel"] == "Depthwise":
        return "one channel a unit: its 8 multipliers see one product each"
    padding = (
        f"channels padded to 8 leave {100 * shape['ceiling']:.0f} %"
        if shape["ceiling"] < 0.9
        else ""
    )
    if padding and share > 0.8 * shape["ceiling"]:
        return padding
    words = {
        "weight port": "weight port: each weight serves few positions",
        "start": "start of the call",
        "array": "few positions for the accumulators",
    }
    return "; ".join(filter(None, [padding, words.get(shape["limit"], shape["limit"])]))


def utilization(build):
    """Rows of three tables: kernel kinds by MACs, large shapes that leave the array idle, kinds
    without products; and what was refused."""
    shapes = [json.loads(line) for line in run(build / "bench/bench_utilization").splitlines()]
    kinds = {}
    for shape in shapes:
        if "refused" not in shape:
            kinds.setdefault(shape["kind"], []).append(shape)
    found = {
        "kinds": [],
        "slow": [],
        "moving": [],
        "refused": sorted({f"{s['kind']} ({s['refused']})" for s in shapes if "refused" in s}),
    }
    slow = []
    for kind, group in kinds.items():
        macs, cycles = sum(s["macs"] for s in group), sum(s["cycles"] for s in group)
        if not macs:
            found["moving"].append(
                [
                    kind,
                    len(group),
                    f"{sum(s['bytes'] for s in group) / cycles:.1f}",
                    max(group, key=lambda s: s["bytes"])["limit"],
                ]
            )
            continue
        shares = [s["macs"] / (s["cycles"] * ARRAY) for s in group]
        found["kinds"].append(
            [
                kind,
                len(group),
                f"{macs:,}",
                f"{100 * macs / (cycles * ARRAY):.0f} %",
                f"{100 * min(shares):.0f} %",
                f"{100 * max(shares):.0f} %",
            ]
        )
        slow += [
            (share, s)
            for share, s in zip(shares, group)
            if s["macs"] >= BIG_SHAPE and share < USEFUL_SHARE
        ]
    found["slow"] = [
        [
            s["kind"],
            s["shape"],
            s["kernel"],
            f"{s['macs']:,}",
            f"{100 * share:.0f} %",
            limited_by(s, share),
        ]
        for share, s in sorted(slow, key=lambda entry: entry[0])
    ]
    return found
