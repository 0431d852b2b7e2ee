"""Measures whole processes and threads: bench/processes.json, which docs/performance.md shows. Runs
in the environment of bench/measure_anchors (build/anchors), whose PyTorch exports the transformer.

    processes.py [--shared DIR] [--build build/release] [--rounds N]

Commands take turns, so that a busy machine disturbs all of them alike. Processor seconds are those
of the process and its threads; wall seconds grow with what others do.
"""
import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import chain
from yardstick import cpu_name, instruction_set

ROOT = Path(__file__).resolve().parent.parent


def transformer(work):
    """Writes a float encoder of about 1,000 operators and 100 MB of weights, four samples, and the
    number of operators."""
    import numpy as np
    import torch
    from torch import nn

    width, heads, blocks, hidden, length = 224, 4, 42, 896, 16

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_0, self.norm_1 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

        def forward(self, x):
            y = self.norm_0(x)
            parts = [self.query(y), self.key(y), self.value(y)]
            query, key, value = (
                part.view(-1, length, heads, width // heads).transpose(1, 2) for part in parts
            )
            scores = torch.softmax(query @ key.transpose(-1, -2) * (width // heads) ** -0.5, -1)
            x = x + self.out((scores @ value).transpose(1, 2).reshape(-1, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.norm_1(x))))

    torch.manual_seed(0)
    torch.set_num_threads(1)
    exported = torch.export.export(
        nn.Sequential(*[Block() for _ in range(blocks)]).eval(), (torch.randn(1, length, width),)
    )
    operators = sum(node.op == "call_function" for node in exported.graph.nodes)
    model, samples = work / "transformer.pt2", work / "transformer.npz"
    torch.export.save(exported, str(model))
    np.savez(samples, input=torch.randn(4, length, width).numpy())
    (work / "operators").write_text(str(operators))


def once(command):
    """Wall seconds, processor seconds and the most memory of one process."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed")
    wall = time.perf_counter() - start
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def turns(commands, rounds):
    found = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(once(command))
    return {
        name: {
            "wall": round(min(wall for wall, _, _ in runs), 4),
            "wall_median": round(statistics.median(wall for wall, _, _ in runs), 4),
            "cpu": round(min(cpu for _, cpu, _ in runs), 4),
            "cpu_median": round(statistics.median(cpu for _, cpu, _ in runs), 4),
            "memory": max(memory for _, _, memory in runs),
        }
        for name, runs in found.items()
    }


def passes_share(command):
    """What the lines of --time-passes add up to, over the wall time of the process."""
    start = time.perf_counter()
    done = subprocess.run(
        [str(word) for word in command] + ["--time-passes"],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    )
    whole = time.perf_counter() - start
    listed = re.findall(r"^ *([\d.]+) ms  ", done.stdout, re.M)
    return round(sum(map(float, listed)) / 1e3 / whole, 3)


def threads(deuteron, work, program, samples, rounds):
    """One large sample on one thread and on two, in turns: milliseconds and processor seconds of
    the whole process."""
    found = {count: [] for count in (1, 2)}
    for _ in range(rounds):
        for count, times in found.items():
            stats = work / "stats.json"
            command = [deuteron, "run", program, "--input", samples, "--samples", "1"]
            command += ["--repeat", "60", "--threads", count, "--stats-json", stats]
            command += ["--output", work / f"out{count}.npz"]
            _, cpu, _ = once(command)
            times.append((json.loads(stats.read_text())["simulation_ms"], cpu))
    same = (work / "out1.npz").read_bytes() == (work / "out2.npz").read_bytes()
    if not same:
        sys.exit("two threads compute something else than one")
    return {
        str(count): {
            "best_ms": min(each["best"] for each, _ in times),
            "median_ms": statistics.median(each["median"] for each, _ in times),
            "cpu": round(statistics.median(cpu for _, cpu in times), 4),
        }
        for count, times in found.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shared = os.environ.get("DEUTERON_SHARED") or ROOT.parent / "shared"
    parser.add_argument("--shared", type=Path, default=Path(shared))
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--export", type=Path, help="only write the transformer to this folder")
    args = parser.parse_args()
    if args.export:
        return transformer(args.export)
    deuteron = (args.build / "deuteron").resolve()
    models = args.shared / "models"

    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        out = work / "out.pte"

        def compiled(model, *options):
            return [deuteron, "compile", model, *options, "-o", out]

        def pt2(name):
            folder = models / name
            return compiled(folder / "float.pt2", "--calibrate", folder / "calibration.npz")

        chains = {}
        for count in (1000, 10000):
            chains[count] = work / f"chain{count}.ir"
            chains[count].write_text(chain(count))
        # In a process of its own: the most memory of a process counts what started it.
        subprocess.run([sys.executable, __file__, "--export", work], check=True)
        model, samples = work / "transformer.pt2", work / "transformer.npz"
        operators = int((work / "operators").read_text())
        commands = {
            "start": [deuteron, "--version"],
            "kws_tflite": compiled(models / "mlperf_tiny/kws_dscnn_int8.tflite"),
            "kws_pt2": pt2("kws_dscnn"),
            "mobilenet_v2": pt2("mobilenet_v2"),
            "transformer": compiled(model, "--calibrate", samples),
            "chain_1000": compiled(chains[1000], "--no-check"),
            "chain_10000": compiled(chains[10000], "--no-check"),
        }
        processes = turns(commands, args.rounds)
        program = work / "mobilenet_v2.pte"
        once([*pt2("mobilenet_v2")[:-1], program])
        data = models / "mobilenet_v2/calibration.npz"
        record = {
            "date": datetime.date.today().isoformat(),
            "commit": subprocess.run(
                ["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"],
                text=True,
                stdout=subprocess.PIPE,
            ).stdout.strip(),
            "cpu": cpu_name(),
            "instruction_set": instruction_set(),
            "rounds": args.rounds,
            "load": round(os.getloadavg()[0], 1),
            "transformer": {"operators": operators, "file": model.stat().st_size},
            "processes": processes,
            "time_passes": passes_share([*commands["mobilenet_v2"], "--no-check"]),
            "threads": threads(deuteron, work, program, data, args.rounds),
        }
    (ROOT / "bench/processes.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    sys.exit(main())
