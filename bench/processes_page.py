"""The part of docs/performance.md on whole processes and threads, from bench/processes.json."""
import json
from pathlib import Path

from tables import table, verdict

RECORD = Path(__file__).resolve().parent / "processes.json"
# Name in the record: what the page calls it, most seconds (None: no goal).
GOALS = {
    "start": ("`deuteron --version`", None),
    "kws_tflite": ("kws_dscnn, int8 `.tflite`", 0.012),
    "kws_pt2": ("kws_dscnn, float `.pt2`, 100 samples", 0.02),
    "mobilenet_v2": ("mobilenet_v2, float `.pt2`, 16 images", 0.35),
    "transformer": ("transformer, float `.pt2`, 4 samples", 2.0),
    "chain_1000": ("1,000 operators of quantized IR text", None),
    "chain_10000": ("10,000 operators of quantized IR text", None),
}
MEMORY_GOAL, EFFICIENCY_GOAL = 2.5, 0.9


def section():
    if not RECORD.exists():
        return ""
    record = json.loads(RECORD.read_text())
    rows = []
    for name, (title, goal) in GOALS.items():
        found = record["processes"][name]
        rows.append(
            [
                title,
                *(f"{found[key]:.4f}" for key in ("cpu", "cpu_median", "wall", "wall_median")),
                f"{found['memory'] / 1e6:.0f}",
                f"≤ {goal:g} s" if goal else "–",
                verdict(found["cpu"] <= goal) if goal else "–",
            ]
        )
    large, one, two = record["transformer"], record["threads"]["1"], record["threads"]["2"]
    memory = record["processes"]["transformer"]["memory"] / large["file"]
    efficiency = one["best_ms"] / 2 / two["best_ms"]
    growth = (
        record["processes"]["chain_10000"]["cpu"] / record["processes"]["chain_1000"]["cpu"] / 10
    )
    heads = ["compiles", "CPU, s", "median", "wall, s", "median", "memory, MB", "goal", "met"]
    return f"""
## Whole processes and threads

By `bench/processes.py`: {record['rounds']} rounds in which the commands took turns, at commit `{record['commit']}`, {record['date']}, {record['cpu']}
({record['instruction_set']}), with a load of {record['load']} of other programs. Goals are compared with processor time, all threads together, which others disturb less.

{table(heads, rows, 1)}

The transformer has {large['operators']:,} operators and a file of {large['file'] / 1e6:.0f} MB; its compilation takes {memory:.2f}× of that in memory at most (goal {MEMORY_GOAL}×: {verdict(memory <= MEMORY_GOAL)}).
An operator of 10,000 takes {growth:.2f}× the time of one of 1,000. The lines of `--time-passes` add up to {100 * record['time_passes']:.0f} % of the process's wall time (mobilenet_v2,
`--no-check`); the rest is its start and its end.

One sample of mobilenet_v2 on one thread and on two, in turns: {one['best_ms']:.3f} and {two['best_ms']:.3f} ms at best, {100 * efficiency:.0f} % of what two processors could do (goal
{100 * EFFICIENCY_GOAL:.0f} %: {verdict(efficiency >= EFFICIENCY_GOAL)}; others had a share of both).
"""
