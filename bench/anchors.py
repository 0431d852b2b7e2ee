"""Measures the peers that docs/performance.md compares with and writes bench/anchors.json; `make
anchors` runs it in a venv of its own.

    anchors.py [--shared DIR] [--output FILE] [--repeats N] [--only
    compile,reference,xnnpack,accuracy]

Peers, each with one thread:
    compile     ExecuTorch's NXP flow (load, quantize, lower), by DIR/tools/lower_upstream.py; the
                closed converter is a stand-in that costs nothing
    reference   LiteRT's bit-exact integer kernels (BUILTIN_REF): the int8 models of MLPerf Tiny,
                and the Neutron IR of the flow above
                where it is one partition
    xnnpack     ExecuTorch's XNNPACK int8 kernels (fast, not bit-exact) on mobilenet_v2
    accuracy    PyTorch's evaluation of upstream's quantized.pt2, from each test.npz
Best and median of several runs are kept: a busy machine can only make a figure worse.
"""
import argparse
import ast
import datetime
import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from yardstick import cpu_name, yardstick_ms

ROOT = Path(__file__).resolve().parent.parent
COMPILED = {"mobilenet_v2": 16, "kws_dscnn": 100, "digits_cnn": 64}  # model: calibration samples
EVALUATED = ("digits_cnn", "kws_dscnn", "ic_resnet8", "vww_mobilenetv1", "ad_fcae", "mobilenet_v2")
MLPERF_TINY = ("kws_dscnn", "ic_resnet8", "vww_mobilenetv1", "ad_fcae")
PACKAGES = ("torch", "torchao", "executorch", "ai-edge-litert")


def summary(times, unit=1.0):
    return {
        "best": round(min(times) * unit, 4),
        "median": round(statistics.median(times) * unit, 4),
        "runs": len(times),
    }


def time_compile(shared, name, samples, repeats, dump):
    """The whole flow in a process of its own; `imports` is what the process costs beside it."""
    environment = os.environ | {
        "PYTHONPATH": str(shared / "tools"),
        "DTR_DUMP_IR": dump,
        "OMP_NUM_THREADS": "1",
    }
    command = [
        sys.executable,
        shared / "tools/lower_upstream.py",
        shared / "models" / name,
        "--images",
        str(samples),
    ]
    runs = []
    for _ in range(repeats):
        start = time.perf_counter()
        output = subprocess.run(
            command,
            env=environment,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ).stdout
        wall = time.perf_counter() - start
        stages = ast.literal_eval(re.search(r"\{.*?\}", output).group())
        total = float(re.search(r"total ([0-9.]+)", output).group(1))
        runs.append({"total": total, "imports": round(wall - total, 2), "stages": stages})
        print(f"  {name}: {total} s and {wall - total:.1f} s of imports", flush=True)
    best = min(runs, key=lambda run: run["total"])
    return {
        "samples": samples,
        "seconds": summary([run["total"] for run in runs]),
        "imports_seconds": best["imports"],
        "stages": best["stages"],
    }


def time_calls(call, seconds=3.0):
    """Times of single calls over about `seconds`, after a warm-up call."""
    call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return summary(times, 1e3)


def time_reference(path):
    """LiteRT with BUILTIN_REF on zeros: the kernels have no data-dependent work."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        str(path), num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    return time_calls(interpreter.invoke)


def time_xnnpack(folder):
    """ExecuTorch's runtime on the XNNPACK int8 program of the model in `folder`."""
    import numpy as np
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.set_num_threads(1)
    samples = torch.from_numpy(np.load(folder / "calibration.npz")["input"][:4])
    graph = prepare_pt2e(
        torch.export.load(folder / "float.pt2").module(),
        XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True)),
    )
    for sample in samples:
        graph(sample[None])
    exported = torch.export.export(convert_pt2e(graph), (samples[:1],))
    program = to_edge_transform_and_lower(
        exported, partitioner=[XnnpackPartitioner()]
    ).to_executorch()
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    cpu = {max(os.sched_getaffinity(0))}
    for thread in os.listdir("/proc/self/task"):
        # the wheel's thread pool has as many threads as CPUs; this leaves them one CPU
        os.sched_setaffinity(int(thread), cpu)
    return time_calls(lambda: method.execute([samples[:1]]))


def stored_accuracy(path):
    """SQNR of upstream's int8 outputs against the float model over the whole test set, and both
    accuracies where there are labels."""
    import numpy as np

    data = np.load(path)
    real, quantized = data["float_output"].astype(np.float64), data["quantized_output"].astype(
        np.float64
    )
    result = {
        "sqnr_db": round(10 * np.log10((real**2).sum() / ((real - quantized) ** 2).sum()), 2)
    }
    if "label" in data:
        result["float_accuracy"], result["accuracy"] = (
            round(float((x.argmax(1) == data["label"]).mean()), 4) for x in (real, quantized)
        )
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--shared",
        type=Path,
        default=Path(os.environ.get("DEUTERON_SHARED") or ROOT.parent / "shared"),
    )
    parser.add_argument("--output", type=Path, default=ROOT / "bench/anchors.json")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="compile,reference,xnnpack,accuracy")
    args = parser.parse_args()
    if not (args.shared / "tools/lower_upstream.py").exists():
        sys.exit(
            f"{args.shared}: no tools/lower_upstream.py; name the folder of models and tools with"
            " --shared or DEUTERON_SHARED"
        )
    wanted = set(args.only.split(","))
    anchors = json.loads(args.output.read_text()) if args.output.exists() else {}
    if wanted & {"compile", "reference", "xnnpack"}:
        anchors |= {
            "date": datetime.date.today().isoformat(),
            "cpu": cpu_name(),
            "threads": 1,
            "yardstick_ms": yardstick_ms(),
            "versions": {"python": platform.python_version()}
            | {name: importlib.metadata.version(name) for name in PACKAGES},
        }
    with tempfile.TemporaryDirectory() as dump:
        if "compile" in wanted:
            anchors["compile"] = {}
            for name, samples in COMPILED.items():
                before = set(Path(dump).iterdir())
                anchors["compile"][name] = time_compile(
                    args.shared, name, samples, args.repeats, dump
                )
                made = set(Path(dump).iterdir()) - before  # one file a partition
                if len(made) == 1:
                    made.pop().rename(Path(dump) / f"{name}.tflite")
        if "reference" in wanted:
            for name in MLPERF_TINY:
                anchors.setdefault("reference_ms", {})[name] = time_reference(
                    args.shared / f"models/mlperf_tiny/{name}_int8.tflite"
                )
            for name in set(COMPILED) - set(MLPERF_TINY):
                if (path := Path(dump) / f"{name}.tflite").exists():
                    anchors["reference_ms"][name] = time_reference(path)
            print(
                "  reference kernels:",
                {name: times["best"] for name, times in anchors["reference_ms"].items()},
                "ms",
                flush=True,
            )
    if "xnnpack" in wanted:
        anchors["xnnpack_ms"] = {"mobilenet_v2": time_xnnpack(args.shared / "models/mobilenet_v2")}
        print("  XNNPACK:", anchors["xnnpack_ms"], flush=True)
    if "accuracy" in wanted:
        anchors["accuracy"] = {
            name: stored_accuracy(args.shared / f"models/{name}/test.npz") for name in EVALUATED
        }
    args.output.write_text(json.dumps(anchors, indent=2) + "\n")
    print(f"wrote {args.output}")


main()
