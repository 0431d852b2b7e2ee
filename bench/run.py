#!/usr/bin/env python3
"""Measures speed, cycles and memory of the built command and writes docs/performance.md beside the peers of bench/anchors.json.

    bench/run.py [--shared DIR] [--build build/release] [--output docs/performance.md] [--repeats N]

Everything of ours is measured in this run, by whole processes of `deuteron` (wall clock) or by what it counts itself:
`compile --report-json`, `run --stats-json` and `eval --json`. Best of N runs: a busy machine can only make a figure worse. Standard library only.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from yardstick import cpu_name, yardstick_ms

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("digits_cnn", "kws_dscnn", "ic_resnet8", "vww_mobilenetv1", "ad_fcae", "mobilenet_v2")
COMPILE_GOALS = {"mobilenet_v2": ("16 images", 8.0), "kws_dscnn": ("100 samples", None)}  # model: data, times faster than upstream
KWS_SECONDS = 0.3
SIMULATION_GOAL, SIMULATION_GOAL_MODELS = 10.0, ("kws_dscnn", "ic_resnet8", "vww_mobilenetv1")
CALL_GOALS = {"ic_resnet8": 15, "vww_mobilenetv1": 30, "kws_dscnn": 12}
# Bound of the published mapping, input channels padded to the array, 8 × 8 (see docs/npu.md): Σ OH·OW·⌈Cout/8⌉·KH·KW·⌈Cin/8⌉.
PUBLISHED_MAPPING = {"ad_fcae": 4128, "kws_dscnn": 108016, "ic_resnet8": 206864, "vww_mobilenetv1": 217328, "mobilenet_v2": 7250000}
BUSY_GOAL = 1.35
ACCURACY_GOALS = {"digits_cnn": {"sqnr_db": 30.4, "accuracy": 0.9907}, "kws_dscnn": {"sqnr_db": 27.7, "accuracy": 0.8825}, "ic_resnet8": {"sqnr_db": 17.6},
                  "vww_mobilenetv1": {"sqnr_db": 30.7}, "ad_fcae": {"sqnr_db": 22.2}, "mobilenet_v2": {"sqnr_db": 37.6}}
SRAM_GOAL = 1.10
ARRAY, BIG_SHAPE, USEFUL_SHARE = 64, 65536, 0.6
UTILIZATION = "## Utilization of the array"
OTHERS = "\n## Firmware\n"  # from here on the page is not written by this script
GRAPH_SIZES, GRAPH_SECONDS = (500, 1000, 2000), 5.0


def wall_seconds(command, repeats):
    """Best and median wall time of whole processes."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        times.append(time.perf_counter() - start)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return min(times), statistics.median(times)


def measure(deuteron, folder, work, repeats):
    """Compiles one model as a user would, then simulates one sample; all figures of the tables."""
    program, report, stats = work / f"{folder.name}.pte", work / f"{folder.name}.json", work / f"{folder.name}_run.json"
    command = [deuteron, "compile", folder / "float.pt2", "--target", "imxrt700", "--calibrate", folder / "calibration.npz", "-o", program]
    best, median = wall_seconds(command + ["--report-json", report], repeats)
    wall_seconds([deuteron, "--threads", "1", "run", program, "--input", folder / "calibration.npz", "--samples", "1", "--repeat", "200",
                  "--stats-json", stats], 1)
    figures = {"compile": best, "compile_median": median, "report": json.loads(report.read_text()), "run": json.loads(stats.read_text())}
    if (folder / "test.npz").exists():
        wall_seconds([deuteron, "eval", program, "--data", folder / "test.npz", "--json", stats], 1)
        figures["eval"] = json.loads(stats.read_text())
    wall_seconds(command + ["--row-packing", "--report-json", report], 1)
    figures["row_packing"] = json.loads(report.read_text())
    return figures


def table(head, rows, words=1):
    """The first `words` columns are text, the others figures."""
    align = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, align, *rows])


def verdict(met):
    return "yes" if met else "**no**"


def compile_table(measured, anchors):
    rows = []
    for name, (data, goal) in COMPILE_GOALS.items():
        if name not in measured or name not in anchors["compile"]:
            continue
        ours, peer = measured[name]["compile"], anchors["compile"][name]
        ratio = peer["seconds"]["best"] / ours
        target = f"≥ {goal:g}×" if goal else f"< {KWS_SECONDS} s"
        rows.append([f"{name}, {data}", f"{ours:.3f}", f"{measured[name]['compile_median']:.3f}", f"{peer['seconds']['best']:.2f}",
                     f"{peer['imports_seconds']:.1f}", f"{ratio:.1f}×", target, verdict(ratio >= goal if goal else ours < KWS_SECONDS)])
    return table(["model", "ours, s", "median", "upstream, s", "+ imports, s", "faster", "goal", "met"], rows)


def simulation_table(measured, anchors):
    rows = []
    for name, peer in anchors["reference_ms"].items():
        if name in measured:
            ours = measured[name]["run"]["simulation_ms"]["best"]
            ratio = peer["best"] / ours
            goal = [f"≥ {SIMULATION_GOAL:g}×", verdict(ratio >= SIMULATION_GOAL)] if name in SIMULATION_GOAL_MODELS else ["–", "–"]
            rows.append([name, f"{ours:.3f}", f"{peer['best']:.3f}", f"{ratio:.1f}×", *goal])
    for name, peer in anchors.get("xnnpack_ms", {}).items():
        if name in measured:
            ours = measured[name]["run"]["simulation_ms"]["best"]
            rows.append([f"{name}, peer: XNNPACK int8", f"{ours:.3f}", f"{peer['best']:.3f}", f"{peer['best'] / ours:.2f}×", "later: 1×", "–"])
    return table(["model", "ours, ms", "peer, ms", "faster", "goal", "met"], rows)


def accuracy_table(measured, anchors):
    rows = []
    for name, goal in ACCURACY_GOALS.items():
        if name not in measured or "eval" not in measured[name]:
            continue
        ours, peer = measured[name]["eval"], anchors["accuracy"][name]
        met = [ours["sqnr_db"] >= goal["sqnr_db"]] + ([ours["accuracy"] >= goal["accuracy"]] if "accuracy" in goal else [])
        labelled = [f"{peer['float_accuracy']:.4f}", f"{peer['accuracy']:.4f}", f"{ours['accuracy']:.4f}"] if "accuracy" in goal else ["–"] * 3
        rows.append([name, ours["samples"], *labelled, f"{peer['sqnr_db']:.1f}", f"{ours['sqnr_db']:.1f}", f"≥ {goal['sqnr_db']}", verdict(all(met))])
    return table(["model", "samples", "float accuracy", "upstream int8", "ours int8", "upstream, dB", "ours, dB", "goal", "met"], rows)


def cycle_table(measured):
    rows = []
    variants = [(name + suffix, name, figures[key]) for name, figures in measured.items() for suffix, key in (("", "report"), (", row packing", "row_packing"))]
    for label, name, r in variants:
        ideal = sum(-(-op["macs"] // 64) for op in r["operators"])
        published = PUBLISHED_MAPPING.get(name)
        busy, calls, most = r["npu_busy_cycles"], r["npu_calls"], CALL_GOALS.get(name)
        met = [] if most is None or label != name else [busy <= BUSY_GOAL * published, calls <= most]
        rows.append([label, f"{busy:,}", f"{busy / ideal:.2f}×", f"{busy / published:.2f}×" if published else "–", f"{r['npu_host_cycles']:,}",
                     f"{r['npu_stall_cycles']:,}", f"{r['npu_total_cycles'] / r['clock_hz'] * 1e6:,.0f}", f"{calls}{f' ≤ {most}' if most else ''}",
                     verdict(all(met)) if met else "–"])
    return table(["model", "busy cycles", "÷ Σ⌈MAC/64⌉", "÷ published mapping", "host cycles", "stall cycles", "total, µs", "calls", "met"], rows)


def memory_table(measured):
    rows = []
    for name, figures in measured.items():
        m = figures["report"]["sram"]
        ratio, touched = m["planned_bytes"] / m["live_bound_bytes"], figures["run"]["sram_touched_bytes"]
        met = 1 <= ratio <= SRAM_GOAL and m["total_bytes"] <= m["target_bytes"] and m["total_bytes"] == touched
        rows.append([name, f"{m['planned_bytes']:,}", f"{m['live_bound_bytes']:,}", f"{ratio:.3f}×", f"{m['staging_bytes']:,}",
                     f"{m['total_bytes']:,}", f"{touched:,}", f"{figures['report']['flash_bytes']:,}", verdict(met)])
    return table(["model", "activations, B", "live bytes, B", "ratio", "staging, B", "SRAM total, B", "touched, B", "flash, B", "met"], rows)


def limited_by(shape, share):
    if shape["kernel"] == "Depthwise":
        return "one channel a unit: its 8 multipliers see one product each"
    padding = f"channels padded to 8 leave {100 * shape['ceiling']:.0f} %" if shape["ceiling"] < 0.9 else ""
    if padding and share > 0.8 * shape["ceiling"]:
        return padding
    words = {"weight port": "weight port: each weight serves few positions", "start": "start of the call", "array": "few positions for the accumulators"}
    return "; ".join(filter(None, [padding, words.get(shape["limit"], shape["limit"])]))


def utilization(shapes):
    """MAC-weighted utilization of the array per kernel kind, and the shapes that leave it idle."""
    kinds, slow, refused = {}, [], []
    for shape in shapes:
        if "refused" in shape:
            refused.append(shape)
            continue
        kinds.setdefault(shape["kind"], []).append(shape)
    rows, moving = [], []
    for kind, group in kinds.items():
        macs, cycles = sum(s["macs"] for s in group), sum(s["cycles"] for s in group)
        if not macs:
            moving.append([kind, len(group), f"{sum(s['bytes'] for s in group) / cycles:.1f}", max(group, key=lambda s: s["bytes"])["limit"]])
            continue
        shares = [s["macs"] / (s["cycles"] * ARRAY) for s in group]
        rows.append([kind, len(group), f"{macs:,}", f"{100 * macs / (cycles * ARRAY):.0f} %", f"{100 * min(shares):.0f} %", f"{100 * max(shares):.0f} %"])
        slow += [(share, s) for share, s in zip(shares, group) if s["macs"] >= BIG_SHAPE and share < USEFUL_SHARE]
    slow.sort(key=lambda entry: entry[0])
    text = table(["kernel kind", "shapes", "MACs", "MAC-weighted", "worst", "best"], rows)
    text += f"\n\nShapes of at least {BIG_SHAPE:,} MACs that fill less than {100 * USEFUL_SHARE:.0f} % of the array, and what limits them:\n\n"
    text += table(["kernel kind", "shape", "kernel", "MACs", "utilization", "limited by"],
                  [[s["kind"], s["shape"], s["kernel"], f"{s['macs']:,}", f"{100 * share:.0f} %", limited_by(s, share)]
                   for share, s in slow], 3)
    text += "\n\nKernels without products, in bytes read and written a cycle (the ports together move 24):\n\n"
    text += table(["kernel kind", "shapes", "bytes a cycle", "limited by"], moving)
    if refused:
        text += "\n\nNot on the NPU: " + "; ".join(sorted({f"{s['kind']} ({s['refused']})" for s in refused})) + "."
    return text


def utilization_section(shapes):
    return f"""{UTILIZATION}

Each shape alone, products ÷ (64 × busy cycles of its calls); no host cost, no copies (`bench/utilization.cpp`).

{utilization(shapes)}
"""


def measured_shapes(build):
    lines = subprocess.run([build / "bench/bench_utilization"], check=True, text=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout
    return [json.loads(line) for line in lines.splitlines()]


def with_utilization(page, shapes):
    """The page with this section written anew: its figures are cycles of the machine model and need no quiet machine."""
    start = page.find(UTILIZATION)
    end = page.index("## Operators on the NPU", max(start, 0))
    return page[: end if start < 0 else start] + utilization_section(shapes) + page[end:]


def compile_growth(deuteron, work):
    """Wall time of `compile` for chains of quantized operators of 500, 1,000 and 2,000."""
    rows = []
    for count in GRAPH_SIZES:
        path = work / f"chain{count}.ir"
        path.write_text(chain(count))
        best, median = wall_seconds([deuteron, "compile", path, "--no-check", "-o", work / "chain.pte"], 3)
        rows.append([f"{count:,}", f"{best:.2f}", f"{median:.2f}", f"{1e6 * best / count:.0f}"])
    return table(["operators", "s", "median", "µs an operator"], rows, 0)


def chain(count):
    """IR text of a network of residual blocks: convolution, relu, convolution, add."""
    lines = ["graph @forward(%v0: i8[1,8,8,8] quant<0.05>) {"]
    convolution = "{{dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false}}"
    for i in range(1, count + 1):
        if i % 4 in (1, 3):
            lines.append(f"  %w{i}: i8[8,8,3,3] quant<0.01> = constant seeded<{i}>")
            operation = f"aten.convolution(%v{i - 1}, %w{i}) " + convolution.format()
        elif i % 4 == 2:
            operation = f"aten.hardswish(%v{i - 1})"
        else:
            operation = f"aten.add.Tensor(%v{i - 1}, %v{i - 4})"
        lines.append(f"  %v{i}: i8[1,8,8,8] quant<0.05> = {operation}")
    return "\n".join(lines + [f"  return %v{count}", "}", ""])


def operator_tables(measured):
    parts = []
    for name, figures in measured.items():
        rows = [[op["name"], op["kernel"], f"{op['macs']:,}", f"{op['cycles']:,}", f"{op['utilization'] * 100:.0f} %", op["limited_by"]]
                for op in figures["report"]["operators"] if op["backend"] == "neutron" and op["kernel"] != "Copy"]
        parts.append(f"### {name}\n\n" + table(["operator", "kernel", "MACs", "cycles", "utilization", "limited by"], rows, words=2))
    return "\n\n".join(parts)


def document(measured, missing, anchors, pace, shapes, growth):
    versions = ", ".join(f"{name} {version}" for name, version in anchors["versions"].items())
    skipped = f"\n\nNot measured, no data here: {', '.join(missing)}." if missing else ""
    return f"""# Performance

<!-- Written by bench/run.py (make bench). -->

Ours: {datetime.date.today().isoformat()}, {cpu_name()}, {len(os.sched_getaffinity(0))} CPUs, yardstick {pace} ms.
Peers: `bench/anchors.json` of {anchors['date']}, {anchors['cpu']}, one thread, yardstick {anchors['yardstick_ms']} ms ({versions}); `make anchors` measures them again.
The yardstick is the best time of a fixed piece of work in the same run: where the two differ, the machine did, and the ratios with it.{skipped}

## Accuracy

int8 against float over the whole test set, same calibration data. SQNR = 10·log10(Σ float² / Σ (float − int8)²). Upstream: PyTorch's evaluation of
the program that ExecuTorch's NXP quantizer makes.

{accuracy_table(measured, anchors)}

## Compile time

Whole process, default options, the comparison on one sample included. Upstream: load, quantize and lower with ExecuTorch's NXP flow, PyTorch with
one thread, closed converter replaced by one that costs nothing; imports are not in the ratio.

{compile_table(measured, anchors)}

Operators and time: chains of residual blocks in quantized IR text, whole process without the comparison on one sample. Goal: 2,000 operators in less than
{GRAPH_SECONDS:g} s, and the time of an operator does not grow with their number.

{growth}

## Functional simulation

One inference, one thread, against LiteRT's bit-exact reference kernels (`BUILTIN_REF`) on the int8 model.

{simulation_table(measured, anchors)}

## NPU cycles

Σ⌈MAC/64⌉ is what 64 multipliers could do at best; the published mapping pads input channels to the array (`npu.md`). Goals: busy ≤ {BUSY_GOAL}× of the
published mapping, and the number of calls. Host cost of calls and waits for flash copies stand beside. Row packing (`compile --row-packing`) fills the
array from neighbouring bytes of a kernel row where channels are few; it assumes unaligned reads at full speed, which no public fact proves.

{cycle_table(measured)}

## Memory

Live bytes: the maximum, over calls in the program's order, of the bytes of all values live across the call at full size. Goal: activations
≤ {SRAM_GOAL:.2f}× of that, and the total reported is the highest byte that the simulator saw touched.

{memory_table(measured)}

{utilization_section(shapes)}
## Operators on the NPU

{operator_tables(measured)}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("DEUTERON_SHARED") or ROOT.parent / "shared"))
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/performance.md")
    parser.add_argument("--utilization", action="store_true", help="write only the section on the utilization of the array anew")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    if args.utilization:
        args.output.write_text(with_utilization(args.output.read_text(), measured_shapes(args.build)))
        return
    anchors = json.loads((ROOT / "bench/anchors.json").read_text())
    pace, measured, missing = yardstick_ms(), {}, []
    with tempfile.TemporaryDirectory() as work:
        for name in MODELS:
            folder = next((f for f in (args.shared / "models" / name, ROOT / "models" / name) if (f / "float.pt2").exists()), None)
            if folder is None:
                missing.append(name)
                continue
            print(f"measuring {name}", flush=True)
            measured[name] = measure(args.build / "deuteron", folder, Path(work), args.repeats)
        growth = compile_growth(args.build / "deuteron", Path(work))
    kept = args.output.read_text().partition(OTHERS)[1:] if args.output.exists() else ()
    page = document(measured, missing, anchors, min(pace, yardstick_ms()), measured_shapes(args.build), growth)
    args.output.write_text(page + "".join(kept))
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
