"""docs/performance.md from the record of one run (bench/performance.json) and the peers' figures
(bench/anchors.json). Computes no figure that is not in them. Standard library only.
"""
import json
from pathlib import Path

import cortex_m
import firmware_sizes
import mixed
import processes_page
from figures import BIG_SHAPE, USEFUL_SHARE
from tables import ratio, table, verdict

COMPILE_GOALS = {
    "mobilenet_v2": ("16 images", 8.0),
    "kws_dscnn": ("100 samples", None),
}  # model: data, times faster than upstream
KWS_SECONDS = 0.3
SIMULATION_GOAL, SIMULATION_GOAL_MODELS = 10.0, ("kws_dscnn", "ic_resnet8", "vww_mobilenetv1")
CALL_GOALS = {"ic_resnet8": 15, "vww_mobilenetv1": 30, "kws_dscnn": 12}
# Bound of the published mapping, input channels padded to the array, 8 × 8 (see docs/npu.md): Σ
# OH·OW·⌈Cout/8⌉·KH·KW·⌈Cin/8⌉.
PUBLISHED_MAPPING = {
    "ad_fcae": 4128,
    "kws_dscnn": 108016,
    "ic_resnet8": 206864,
    "vww_mobilenetv1": 217328,
    "mobilenet_v2": 7250000,
}
BUSY_GOAL = 1.35
SRAM_GOAL = 1.10
GRAPH_SECONDS = 5.0


def accuracy_table(models, anchors):
    rows = []
    for name, figures in models.items():
        if "eval" not in figures:
            continue
        ours, peer = figures["eval"], anchors["accuracy"].get(name, {})
        labelled = [
            f"{part[key]:.4f}" if key in part else "–"
            for part, key in ((ours, "float_accuracy"), (peer, "accuracy"), (ours, "accuracy"))
        ]
        decibel = (
            [
                f"{peer['sqnr_db']:.1f}",
                f"{ours['sqnr_db']:.1f}",
                f"{ours['sqnr_db'] - peer['sqnr_db']:+.1f}",
            ]
            if peer
            else ["–", f"{ours['sqnr_db']:.1f}", "–"]
        )
        rows.append([name, ours["samples"], *labelled, *decibel])
    return table(
        [
            "model",
            "samples",
            "float accuracy",
            "upstream int8",
            "ours int8",
            "upstream, dB",
            "ours, dB",
            "ours − upstream",
        ],
        rows,
    )


def quantized_table(models):
    rows = [
        [
            name,
            f["quantized"]["samples"],
            f"{f['quantized']['accuracy']:.4f}" if "accuracy" in f["quantized"] else "–",
            f"{f['quantized']['sqnr_db']:.1f}",
        ]
        for name, f in models.items()
        if "quantized" in f
    ]
    return table(["model", "samples", "accuracy", "dB"], rows)


def compile_table(times, anchors):
    rows = []
    for name, (data, goal) in COMPILE_GOALS.items():
        if name not in times["compile"] or name not in anchors["compile"]:
            continue
        ours, peer = times["compile"][name], anchors["compile"][name]
        faster = peer["seconds"]["best"] / ours["best"]
        target = f"≥ {goal:g}×" if goal else f"< {KWS_SECONDS} s"
        rows.append(
            [
                f"{name}, {data}",
                f"{ours['best']:.3f}",
                f"{ours['median']:.3f}",
                f"{peer['seconds']['best']:.2f}",
                f"{peer['imports_seconds']:.1f}",
                f"{faster:.1f}×",
                target,
                verdict(faster >= goal if goal else ours["best"] < KWS_SECONDS),
            ]
        )
    return table(
        ["model", "ours, s", "median", "upstream, s", "+ imports, s", "faster", "goal", "met"], rows
    )


def growth_table(times):
    rows = [
        [
            f"{int(count):,}",
            f"{row['best']:.2f}",
            f"{row['median']:.2f}",
            f"{1e6 * row['best'] / int(count):.0f}",
        ]
        for count, row in times["growth"].items()
    ]
    return table(["operators", "s", "median", "µs an operator"], rows, 0)


def speed(faster):
    return f"{faster:.1f}×" if faster >= 1 else f"{1 / faster:.1f}× slower"


def simulation_table(times, anchors):
    rows, ours = [], times["simulation_ms"]
    for name, peer in anchors["reference_ms"].items():
        if name in ours:
            faster = peer["best"] / ours[name]
            goal = (
                [f"≥ {SIMULATION_GOAL:g}×", verdict(faster >= SIMULATION_GOAL)]
                if name in SIMULATION_GOAL_MODELS
                else ["–", "–"]
            )
            rows.append([name, f"{ours[name]:.3f}", f"{peer['best']:.3f}", speed(faster), *goal])
    for name, peer in anchors.get("xnnpack_ms", {}).items():
        if name in ours:
            rows.append(
                [
                    f"{name}, peer: XNNPACK int8",
                    f"{ours[name]:.3f}",
                    f"{peer['best']:.3f}",
                    speed(peer["best"] / ours[name]),
                    "later: 1×",
                    "–",
                ]
            )
    return table(["model", "ours, ms", "peer, ms", "faster", "goal", "met"], rows)


SIMULATION = Path(__file__).resolve().parent / "simulation.json"
# A peer of bench/simulation.json: how the page calls it, how many times faster the goal is.
PAIRED_PEERS = {
    "litert": ("LiteRT, default (XNNPACK)", 1.0),
    "reference": ("LiteRT, `BUILTIN_REF`", 30.0),
}


def paired_simulation(record):
    """Pairs measured in one run, and where the time goes, from bench/simulation.json."""
    pairs, kernels = [], []
    for name, found in record["models"].items():
        for peer, (title, goal) in PAIRED_PEERS.items():
            if peer not in found:
                continue
            faster = found[peer]["best"] / found["ours"]["best"]
            has_goal = peer != "reference" or name in SIMULATION_GOAL_MODELS
            figures = [f"{found[who][which]:.4f}" for who in ("ours", peer) for which in found[who]]
            goals = [f"≥ {goal:g}×", verdict(faster >= goal)] if has_goal else ["–", "–"]
            pairs.append([name, title, *figures, f"{faster:.2f}×", *goals])
    for row in record["kernels"]:
        kernels.append(
            [
                row["program"],
                row["kernel"],
                str(row["calls"]),
                f"{row['us']:.1f}",
                f"{100 * row['time']:.0f} %",
                f"{100 * row['peak']:.0f} %" if row["macs"] else "–",
                "–" if row["kernel"] == "copy" else f"{100 * row['cache']:.0f} %",
            ]
        )
    core = record["core"]
    heads = ["ours, best ms", "median", "peer, best ms", "median", "faster", "goal", "met"]
    return f"""In pairs, by `bench/simulation.py`: one run at commit `{record['commit']}`, {record['date']}, {record['cpu']} ({record['instruction_set']}), yardstick {record['yardstick_ms']} ms,
on a computer that others used too; the programs took turns. Both run the same int8 `.tflite` file, mobilenet_v2's being the one that a converter would get;
only ours and `BUILTIN_REF` are bit-exact, and only ours counts cycles. In the table above the peers' times are those of `bench/anchors.json`; of XNNPACK there only the
first thread was held to one CPU, and its pool has a thread for each.

{table(["model", "peer", *heads], pairs, 2)}

Requantizing and storing 16 outputs takes 5 to 6 cycles besides their products, of which a cycle does 64: that limits convolutions with few input channels.
Convolutions of one position read each weight once, at most 32 bytes a cycle from the second-level cache: of ad_fcae, which has no others, that is more than half of
the time, and most of the rest is the beginning and end of its 12 calls and of their blocks of channels.

Where our time goes, the least of many runs of each call on the NPU (what the CPU does is not in it). Peak: products ÷ the {core['peak_products'] / 1e9:.0f}·10⁹ a second that `vpdpbusd` reaches
in registers in the same run. Cache: bytes of operands, each once, ÷ the {core['cache_bytes'] / 1e9:.0f} GB/s of a copy in the second-level cache.

{table(["model", "kernel", "calls", "µs", "of the time", "of the peak", "of the cache"], kernels, 2)}"""


def cycle_table(models):
    rows = []
    variants = [
        (name + suffix, name, figures[key])
        for name, figures in models.items()
        for suffix, key in (("", "default"), (", row packing", "row_packing"))
    ]
    for label, name, r in variants:
        published, busy, calls, most = (
            PUBLISHED_MAPPING.get(name),
            r["npu_busy_cycles"],
            r["npu_calls"],
            CALL_GOALS.get(name),
        )
        met = (
            [] if most is None or label != name else [busy <= BUSY_GOAL * published, calls <= most]
        )
        rows.append(
            [
                label,
                f"{calls}{f' ≤ {most}' if most else ''}",
                f"{busy:,}",
                ratio(busy, r["ideal_cycles"]),
                ratio(busy, published) if published else "–",
                f"{r['npu_host_cycles']:,}",
                f"{r['npu_stall_cycles']:,}",
                f"{r['cpu_cycles']:,}",
                f"{(r['npu_total_cycles'] + r['cpu_cycles']) / r['clock_hz'] * 1e6:,.0f}",
                verdict(all(met)) if met else "–",
            ]
        )
    return table(
        [
            "model",
            "calls",
            "busy cycles",
            "÷ Σ⌈MAC/64⌉",
            "÷ published mapping",
            "host cycles",
            "stall cycles",
            "CPU cycles, estimated",
            "total, µs",
            "met",
        ],
        rows,
    )


def memory_table(models):
    rows = []
    for name, figures in models.items():
        m, touched = figures["default"]["sram"], figures["sram_touched_bytes"]
        share = m["planned_bytes"] / m["live_bound_bytes"]
        met = (
            1 <= share <= SRAM_GOAL
            and m["total_bytes"] <= m["target_bytes"]
            and m["total_bytes"] == touched
        )
        rows.append(
            [
                name,
                f"{m['planned_bytes']:,}",
                f"{m['live_bound_bytes']:,}",
                f"{share:.3f}×",
                f"{m['staging_bytes']:,}",
                f"{m['total_bytes']:,}",
                f"{touched:,}",
                f"{figures['default']['flash_bytes']:,}",
                verdict(met),
            ]
        )
    return table(
        [
            "model",
            "activations, B",
            "live bytes, B",
            "ratio",
            "staging, B",
            "SRAM total, B",
            "touched, B",
            "flash, B",
            "met",
        ],
        rows,
    )


def utilization_section(found):
    text = f"""## Utilization of the array

Each shape alone, products ÷ (64 × busy cycles of its calls); no host cost, no copies (`bench/utilization.cpp`).

{table(["kernel kind", "shapes", "MACs", "MAC-weighted", "worst", "best"], found["kinds"])}

Shapes of at least {BIG_SHAPE:,} MACs that fill less than {100 * USEFUL_SHARE:.0f} % of the array, and what limits them:

{table(["kernel kind", "shape", "kernel", "MACs", "utilization", "limited by"], found["slow"], 3)}

Kernels without products, in bytes read and written a cycle (the ports together move 24):

{table(["kernel kind", "shapes", "bytes a cycle", "limited by"], found["moving"])}
"""
    return text + (
        "\nNot on the NPU: " + "; ".join(found["refused"]) + ".\n" if found["refused"] else ""
    )


def operator_tables(models):
    parts = []
    for name, figures in models.items():
        rows = [
            [op, kernel, f"{macs:,}", f"{cycles:,}", f"{share} %" if macs else "–", limit]
            for op, kernel, macs, cycles, share, limit in figures["operators"]
        ]
        parts.append(
            f"### {name}\n\n"
            + table(
                ["operator", "kernel", "MACs", "cycles", "utilization", "limited by"], rows, words=2
            )
        )
    return "\n\n".join(parts)


def document(record, anchors):
    run, times, models = record["run"], record["times"], record["models"]
    versions = ", ".join(f"{name} {version}" for name, version in anchors["versions"].items())
    missing = (
        f"\nNot measured, no data here: {', '.join(run['missing'])}.\n" if run["missing"] else ""
    )
    return f"""# Performance

<!-- Written by bench/run.py (make bench). -->

Seconds: one run at commit `{run['commit']}`, {run['date']}, {run['cpu']} ({run['instruction_set']}), {run['cpus']} CPUs, yardstick {run['yardstick_ms']} ms.
Peers: `bench/anchors.json` of {anchors['date']}, {anchors['cpu']}, one thread, yardstick {anchors['yardstick_ms']} ms
({versions});
`make anchors` measures them again. The yardstick is the best time of a fixed piece of work in the same run: where the two differ,
the machine did, and the ratios with it.

All that is not a time is of this tree: accuracy, cycles, bytes, kernels and sizes are the same in every run, and `make test` compares
them with what the tree computes (`bench/run.py --check`), with oneDNN held to AVX2 (`ONEDNN_MAX_CPU_ISA`), because ranges that it observes depend on the
instruction set; instructions counted under QEMU may differ by 0.1 %. Seconds are those of the run above and are not compared:
a processor with wider instructions simulates several times faster.
{missing}
## Accuracy

int8 against float over the whole test set, same calibration data. SQNR = 10·log10(Σ float² / Σ (float − int8)²). Upstream:
PyTorch's evaluation of the program that ExecuTorch's NXP quantizer makes. `make test` also fails where a model falls 1 dB or
0.5 points below this table (`test/e2e/models.py`).

{accuracy_table(models, anchors)}

Models that come quantized by ExecuTorch's quantizer (`quantized.pt2`), against the same float outputs:

{quantized_table(models)}

## Compile time

Whole process, default options, the comparison on up to four samples included. Upstream: load, quantize and lower with ExecuTorch's NXP flow, PyTorch with
one thread, closed converter replaced by one that costs nothing; imports are not in the ratio.

{compile_table(times, anchors)}

Operators and time: chains of residual blocks in quantized IR text, whole process without that comparison. Goal: 2,000 operators in less than
{GRAPH_SECONDS:g} s, and the time of an operator does not grow with their number.

{growth_table(times)}
{processes_page.section()}
## Functional simulation

One inference, one thread, against LiteRT's bit-exact reference kernels (`BUILTIN_REF`) on the int8 model.

{simulation_table(times, anchors)}

{paired_simulation(json.loads(SIMULATION.read_text()))}

## Cycles

Of the default schedule, which was never compared with silicon ([npu.md](npu.md) says what was). Σ⌈MAC/64⌉ is what 64 multipliers could do at best; the
published mapping pads input channels to the array. Goals: busy ≤ {BUSY_GOAL}× of the published mapping, and the number of calls. The total adds the NPU's
busy cycles, the host's part of calls and copies, waits for flash, and what the CPU computes, as estimated ([targets.md](targets.md)). Row packing (`compile
--row-packing`) fills the array from neighbouring bytes of a kernel row where channels are few; it assumes unaligned reads at full speed, which no public
fact proves.

{cycle_table(models)}

## Memory

Live bytes: the maximum, over calls in the program's order, of the bytes of all values live across the call at full size. Goal: activations
≤ {SRAM_GOAL:.2f}× of that, and the total reported is the highest byte that the simulator saw touched.

{memory_table(models)}

{utilization_section(record['utilization'])}
## Operators on the NPU

{operator_tables(models)}

{firmware_sizes.section(record['firmware'])}
{mixed.section(record['mixed'])}
{cortex_m.section(record['cortex_m'])}"""
