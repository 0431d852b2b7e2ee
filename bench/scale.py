#!/usr/bin/env python3
"""Measures what an evaluation costs on MPI's ranks, and writes the model of docs/scale.md with it:
constants, what the model says of 1 to 8 ranks of this machine beside what they take, and what it says
of clusters. Standard library only; needs `make mpi`.

    bench/scale.py            measures and writes bench/scale.json and docs/scale.md
    bench/scale.py --page     writes the page from bench/scale.json
    bench/scale.py --check    fails if the page is not that of bench/scale.json
"""
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test/e2e"))
from scale import OVER, repeated  # noqa: E402

JSON, PAGE = ROOT / "bench/scale.json", ROOT / "docs/scale.md"
DEUTERON, MPI = ROOT / "build/release/deuteron", ROOT / "build/release/deuteron-mpi"
BEGIN, END = "<!-- by bench/scale.py -->\n", "<!-- end of bench/scale.py -->\n"
LATENCY = 2e-3  # an order and its first result each wait at most 1 ms for the next look (kLook)
CORES_A_MACHINE = 64
SAMPLES = 50_000


def cost(words, env=None):
    """Wall and CPU seconds of a command; the CPU time is that of the process itself."""
    start = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
    )
    usage = os.wait4(process.pid, 0)[2]
    return {"wall": time.monotonic() - start, "cpu": usage.ru_utime + usage.ru_stime}


def least(runs):
    """The least of each figure: what others on the machine take only adds."""
    runs = list(runs)
    return {key: min(run[key] for run in runs) for key in runs[0]}


def mpirun(ranks, words, folder, times=3):
    """The cost of a run on so many ranks, and the CPU seconds of rank 0."""

    def once():
        told = folder / "rank0.json"
        first = ["-np", 1, sys.executable, __file__, "--rank", told, MPI, *words]
        others = [":", "-np", ranks - 1, MPI, *words] if ranks > 1 else []
        run = cost(["mpirun", *first, *others], OVER)
        return {"wall": run["wall"], "cpu0": json.loads(told.read_text())["cpu"]}

    return least(once() for _ in range(times))


def program(name, folder):
    """A program and its samples, some thousands of them."""
    source = {
        "digits": (ROOT / "models/digits_cnn/float.pt2", ROOT / "models/digits_cnn", 100),
        "kws_dscnn": (ROOT / "models/kws_dscnn/float.pt2", ROOT / "models/kws_dscnn", 50),
    }
    model, data, times = source[name]
    path, long = folder / f"{name}.pte", folder / f"{name}.npz"
    compile_words = [DEUTERON, "compile", model, "--calibrate", data / "calibration.npz"]
    subprocess.run([*compile_words, "-o", path], check=True, capture_output=True)
    repeated(data / "test.npz", long, times)
    one = folder / f"{name}1.npz"
    repeated(data / "test.npz", one, 1)
    return path, long, one


def measure(folder):
    models, runs = {}, []
    for name in ("digits", "kws_dscnn"):
        path, long, one = program(name, folder)
        told = folder / "out.json"
        checkpoint = folder / "checkpoint"
        subprocess.run(
            [DEUTERON, "eval", path, "--data", long, "--json", told, "--checkpoint", checkpoint],
            check=True,
            capture_output=True,
        )
        samples = json.loads(told.read_text())["samples"]
        few = samples // (100 if name == "digits" else 50)
        record_bytes = (checkpoint.stat().st_size - 32) / samples
        checkpoint.unlink()

        def slope(*options):
            both = [
                least(cost([DEUTERON, "eval", path, "--data", d, *options]) for _ in range(5))
                for d in (long, one)
            ]
            return (both[0]["cpu"] - both[1]["cpu"]) / (samples - few), both[1]["wall"]

        read = max(slope("--labels", "none of them")[0], 0)  # it ends once the data are read
        run, start = slope("--threads", 1)
        models[name] = {
            "samples": samples,
            "data_bytes": long.stat().st_size / samples,
            "record_bytes": record_bytes,
            "read": read,
            "run": run - read,
            "start": start,
        }
        words = ["eval", path, "--data", long]
        for ranks in range(1, 9):
            runs.append({"model": name, "ranks": ranks, **mpirun(ranks, words, folder)})
        few_words = ["eval", path, "--data", one]
        starts = [mpirun(ranks, few_words, folder)["wall"] for ranks in (1, 8)]
        models[name]["mpi_start"] = [starts[0], (starts[1] - starts[0]) / 7]
    # Of rank 0: what it reads is known; what is left goes with the time, looking for messages,
    # and with the results.
    two = {r["model"]: r for r in runs if r["ranks"] == 2}
    rest = {n: two[n]["cpu0"] - m["samples"] * m["read"] for n, m in models.items()}
    a, b = (models[n]["samples"] for n in ("digits", "kws_dscnn"))
    ta, tb = (two[n]["wall"] for n in ("digits", "kws_dscnn"))
    determinant = a * tb - b * ta
    result = (rest["digits"] * tb - rest["kws_dscnn"] * ta) / determinant
    polling = (a * rest["kws_dscnn"] - b * rest["digits"]) / determinant
    return {
        "cores": os.cpu_count(),
        "models": models,
        "runs": runs,
        "result": max(result, 1e-7),
        "polling": min(max(polling, 0.0), 0.5),
    }


def said(figures, run):
    """What the model says of a run on this machine."""
    model, ranks, cores = figures["models"][run["model"]], run["ranks"], figures["cores"]
    samples, start = model["samples"], model["mpi_start"]
    work = samples * (model["run"] + figures["result"])
    reading = samples * model["read"]
    busy = min(ranks, cores)
    return (
        start[0]
        + start[1] * (ranks - 1)
        + reading * ranks / busy
        + work / max(busy - (ranks * figures["polling"] if ranks >= cores else 0), 0.5)
    )


def on_cluster(figures, seconds, cores):
    """Seconds for all samples on so many cores, without start and reading."""
    orders = 4 * math.log(max(SAMPLES / (4 * cores), 1)) + min(4, SAMPLES / cores)
    worker = SAMPLES * seconds / cores + max(orders, 1) * LATENCY
    return max(worker, SAMPLES * figures["result"], seconds)


def table(head, rows):
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def micro(seconds):
    return f"{1e6 * seconds:,.1f}"


def text(figures):
    models, result = figures["models"], figures["result"]
    rows = [
        [
            n,
            micro(m["run"]),
            micro(m["read"]),
            f"{m['data_bytes']:,.0f}",
            f"{m['record_bytes']:.0f}",
        ]
        for n, m in models.items()
    ]
    out = f"""\
Measured by `bench/scale.py` (after `make mpi`) on a machine with {figures['cores']} processors, which others used at the same time: the least of five runs each, and CPU
time of one process.

{table(["program", "run, µs a sample", "read, µs a sample and rank", "data, bytes a sample and rank", "result, bytes a sample"], rows)}
The coordinator takes {micro(result)} µs a result, and {100 * figures['polling']:.1f} % of a processor to look for messages every millisecond. An order is
some 100 bytes for up to 1,024 samples.

What the model says of one machine: start, reading by every rank, and the work of workers and coordinator on the processors that there are; measured is the
least of three runs, in wall time, of which other work on the machine takes its share.

"""
    rows = []
    for run in figures["runs"]:
        guess = said(figures, run)
        rows.append(
            [run["model"], str(run["ranks"]), f"{guess:.2f}", f"{run['wall']:.2f}",
             f"{100 * (run['wall'] / guess - 1):+.0f} %"]
        )  # fmt: skip
    out += table(["program", "ranks", "model, s", "measured, s", "difference"], rows)
    out += f"""
What it says of clusters, for {SAMPLES:,} samples, without start and reading: seconds, and the share of the processors' time that runs samples. A worker
gets about 4 · ln(samples / (4 · workers)) orders and waits at most {1e3 * LATENCY:.0f} ms for each. The coordinator saturates where the workers together send
a result every {micro(result)} µs: at as many cores as the last column says, with {models['kws_dscnn']['record_bytes'] / result / 1e6:,.0f} MB/s of results.

"""
    counts = (1, 10, 100, 1000, 10_000)
    rows = []
    named = [(n, m["run"]) for n, m in models.items()]
    for name, seconds in [*named, ("1 ms", 1e-3), ("10 ms", 1e-2), ("100 ms", 1e-1)]:
        row = [
            f"{name}, {micro(seconds)} µs" if (name, seconds) in named else f"a sample of {name}"
        ]
        for cores in counts:
            wall = on_cluster(figures, seconds, cores)
            row.append(f"{wall:,.2f} s, {100 * SAMPLES * seconds / cores / wall:.0f} %")
        rows.append([*row, f"{seconds / result:,.0f}"])
    out += table(["program", *(f"{c:,} core{'s' * (c > 1)}" for c in counts), "saturated at"], rows)
    out += f"""
Every rank reads all data: with one rank a machine of {CORES_A_MACHINE} cores, {10_000 // CORES_A_MACHINE + 1} ranks at 10,000 cores read {SAMPLES:,} samples of
{models['kws_dscnn']['data_bytes']:,.0f} bytes each from the file system, {(10_000 // CORES_A_MACHINE + 1) * SAMPLES * models['kws_dscnn']['data_bytes'] / 1e9:,.1f} GB in all. Not measured: more than one machine, a network,
and the start of more than 8 ranks.
"""
    return out


def write(figures, check):
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    made = before + BEGIN + text(figures) + END + rest.split(END)[1]
    if check and made != page:
        sys.exit("docs/scale.md is not that of bench/scale.json: run bench/scale.py --page")
    if not check:
        PAGE.write_text(made)


def main():
    if sys.argv[1:2] == ["--rank"]:
        Path(sys.argv[2]).write_text(json.dumps(cost(sys.argv[3:])))
        return
    if not sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            JSON.write_text(json.dumps(measure(Path(folder)), indent=1) + "\n")
    write(json.loads(JSON.read_text()), "--check" in sys.argv)


if __name__ == "__main__":
    main()
