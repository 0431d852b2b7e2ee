"""Measures simulated inferences in pairs with their peers, in one run on one CPU, and where the
simulator spends its time: bench/simulation.json, which docs/performance.md shows. Runs in the
environment of bench/measure_anchors (build/anchors), after `cmake --build build/release --target
deuteron bench_simulator_kernels`.

    simulation.py [--shared DIR] [--build build/release] [--rounds N]

The same int8 .tflite file is compiled by Deuteron and run by LiteRT, with its default kernels
(XNNPACK) and its reference kernels (BUILTIN_REF): those of MLPerf Tiny, and mobilenet_v2 as
Deuteron quantizes it for a converter. All have one thread, take turns, and run on random samples,
which decide nothing about their time. Best and median of all calls of all rounds: a busy machine can
only make a figure worse.
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

from yardstick import cpu_name, instruction_set, yardstick_ms

ROOT = Path(__file__).resolve().parent.parent
TINY = ("kws_dscnn", "ic_resnet8", "vww_mobilenetv1", "ad_fcae")
QUANTIZED = "mobilenet_v2"
SECONDS = 0.4  # of each program in each round


def timed(call, seconds=SECONDS):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return {"best": min(times), "median": statistics.median(times)}


def tflite(path, reference):
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    interpreter = Interpreter(str(path), num_threads=1, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    entry = interpreter.get_input_details()[0]
    values = np.random.default_rng(1).integers(-128, 128, entry["shape"]).astype(entry["dtype"])
    interpreter.set_tensor(entry["index"], values)
    interpreter.invoke()
    return values, lambda: timed(interpreter.invoke)


def quantized(deuteron, folder, work):
    """The int8 .tflite file that a converter would get; /bin/false is one that makes nothing of
    it."""
    subprocess.run(
        [deuteron, "compile", folder / "float.pt2", "--calibrate", folder / "calibration.npz"]
        + ["--no-check", "--converter", "false", "--keep-neutron-ir", work / "neutron_ir"]
        + ["-o", work / "none.pte"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    [path] = (work / "neutron_ir").glob("*.tflite")
    return path


def ours(deuteron, program, inputs, work):
    repeat = [50]

    def turn():
        stats = work / "stats.json"
        subprocess.run(
            [deuteron, "run", program, "--input", inputs, "--samples", "1"]
            + ["--repeat", str(repeat[0]), "--stats-json", stats, "--output", work / "out.npz"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        found = json.loads(stats.read_text())["simulation_ms"]
        repeat[0] = max(20, int(1e3 * SECONDS / found["median"]))
        return found

    return turn


def measure(turns, rounds):
    """Best of all rounds, median of the rounds' medians, of programs that take turns."""
    found = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            found[name].append(turn())
    return {
        name: {
            "best": round(min(each["best"] for each in list), 5),
            "median": round(statistics.median(each["median"] for each in list), 5),
        }
        for name, list in found.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shared = os.environ.get("DEUTERON_SHARED") or ROOT.parent / "shared"
    parser.add_argument("--shared", type=Path, default=Path(shared))
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    import numpy as np

    deuteron = (args.build / "deuteron").resolve()
    models = {}
    with tempfile.TemporaryDirectory() as temporary:
        work, programs = Path(temporary), []
        for name in (*TINY, QUANTIZED):
            print(f"measuring {name}", flush=True)
            program, inputs = work / f"{name}.pte", work / f"{name}.npy"
            programs.append(program)
            if name in TINY:
                path = args.shared / f"models/mlperf_tiny/{name}_int8.tflite"
            else:
                path = quantized(deuteron, args.shared / "models" / name, work)
            values, litert = tflite(path, False)
            # Programs count N, C, H, W.
            np.save(inputs, np.moveaxis(values, -1, 1) if values.ndim == 4 else values)
            peers = {"litert": litert}
            if name in TINY:  # one call of a large network takes longer than a computer is quiet
                peers["reference"] = tflite(path, True)[1]
            subprocess.run(
                [deuteron, "compile", path, "--no-check", "-o", program],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            turns = {"ours": ours(deuteron, program, inputs, work), **peers}
            models[name] = measure(turns, args.rounds)
            print(f"  {models[name]}", flush=True)
        text = subprocess.run(
            [args.build / "bench/bench_simulator_kernels", *programs],
            check=True,
            text=True,
            stdout=subprocess.PIPE,
        ).stdout
        kernels = [json.loads(line) for line in text.splitlines()]
    git = ["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"]
    record = {
        "commit": subprocess.run(git, text=True, stdout=subprocess.PIPE).stdout.strip(),
        "date": datetime.date.today().isoformat(),
        "cpu": cpu_name(),
        "instruction_set": instruction_set(),
        "yardstick_ms": yardstick_ms(),
        "models": models,
        "core": kernels[0],
        "kernels": kernels[1:],
    }
    (ROOT / "bench/simulation.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
