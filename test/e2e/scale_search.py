#!/usr/bin/env python3
"""Searches in processes and on the ranks of an MPI job: the same report and the same programs as
those of one process, whatever is killed meanwhile (docs/scale.md). Standard library only; the part
with MPI needs `make mpi`.

    scale_search.py DEUTERON DEUTERON_MPI
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import failures, finish, run, sampled
from scale import OVER, ROOT, descendants, evaluated, kill_while, name_of, parent_of, same

KWS = ROOT / "models/mlperf_tiny/kws_dscnn_int8.tflite"
ACCURACY = ROOT / "test/data/accuracy"


# So many points that there is time to kill processes.
MANY = len(sampled(range(200)))


def explore(points):
    return ["explore", KWS, "--io", "int8", "--points", points]


def explore_accuracy(name):
    data = ["--calibrate", ACCURACY / f"{name}.npz"]
    return ["explore", ACCURACY / f"{name}.pt2", "--axis", "accuracy", "--seconds", 600, *data]


def auto(name, program, *options):
    data = ["--calibrate", ACCURACY / f"{name}.npz", "--accuracy", "auto", "--seconds", 600]
    return ["compile", ACCURACY / f"{name}.pt2", *data, "-o", program, *options]


# The search has steps that are kept and rejected, and grows float operators for a goal.
SEARCHES = [("depthwise", ()), ("mobilenet_v3", ()), ("transformer", ("--min-sqnr", 45))]


class Judge:
    """What one process finds, with which the others are compared."""

    def __init__(self, deuteron, folder):
        self.deuteron = deuteron
        self.folder, self.program, self.report = folder, folder / "a.pte", folder / "a.json"
        self.cases = [explore(12), explore_accuracy("depthwise")]
        self.wanted = [self.explored("alone", [deuteron], words) for words in self.cases]
        self.programs = [self.compiled("alone", [deuteron], *case) for case in SEARCHES]

    def explored(self, what, command, words, *options, env=None):
        found = evaluated(what, command, [*words, *options], self.report, env)
        return found[:2]

    def compiled(self, what, command, name, goal, *options, env=None):
        self.program.unlink(missing_ok=True)
        words = [*command, *auto(name, self.program, *goal, "--report-json", self.report), *options]
        self.report.unlink(missing_ok=True)
        done = run_process(words, env)
        if done.returncode != 0:
            failures.append(f"{what}, {name}: exit code {done.returncode}\n{done.stderr}")
            return None
        tried = [line for line in done.stderr.splitlines() if line.startswith("try ")]
        return self.program.read_bytes(), self.report.read_text(), done.stdout, tried

    def compare(self, what, command, *options, env=None):
        for words, wanted in zip(self.cases, self.wanted):
            same(what, self.explored(what, command, words, *options, env=env), wanted)
        for case, wanted in zip(SEARCHES, self.programs):
            seen = self.compiled(what, command, *case, *options, env=env)
            if seen is not None and seen != wanted:
                failures.append(f"{what}, {case[0]}: another program or report")


def run_process(words, env=None):
    return subprocess.run(
        [str(word) for word in words],
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=900,
    )


def killed(judge, what, start, choose, kills, env, *options):
    """A long search whose processes are killed, fewer than a task may cost: `start` begins the
    command."""
    wanted = judge.explored(f"{what}, alone", [judge.deuteron], explore(MANY))
    judge.report.unlink()
    words = [*start, *explore(MANY), *options, "--json", judge.report]
    code, said, count = kill_while(what, words, env, kills, choose)
    if code != 0 or count == 0:
        failures.append(f"{what}: exit code {code}, {count} killed\n{said}")
    same(what, judge.report.read_text() if judge.report.exists() else said, wanted[0])


def check_processes(deuteron, judge):
    for processes in sampled((5, 1, 2)):
        judge.compare(f"{processes} processes", [deuteron], "--processes", processes)
    generator = random.Random(7)

    def worker(processes):
        deep = [each for each in processes if parent_of(each) in processes]
        return generator.sample(deep, 1) if deep else []

    killed(judge, "killed workers", [deuteron], worker, 2, {}, "--processes", 2)
    # A search that needs earlier results, with a worker killed in its middle.
    goal = ("--min-sqnr", 60)
    wanted = judge.compiled("60 dB", [deuteron], "transformer", goal)
    judge.program.unlink()
    words = [deuteron, *auto("transformer", judge.program, *goal), "--processes", 2]
    code, said, count = kill_while("killed in a search", words, {}, 2, worker)
    if code != 0 or count == 0 or judge.program.read_bytes() != wanted[0]:
        failures.append(f"killed in a search: exit code {code}, {count} killed\n{said}")

    # ^C, as a terminal sends it to all processes: the best program so far is written.
    judge.program.unlink()
    started = subprocess.Popen(
        [str(word) for word in words],
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    text = ""
    for line in started.stderr:
        text += line
        if line.startswith("try ") and text.count("\ntry ") == 1:
            os.killpg(started.pid, signal.SIGINT)
    if started.wait() != 0 or "warning[accuracy-cut]" not in text or not judge.program.exists():
        failures.append(f"^C: exit code {started.returncode}\n{text}")

    output = run(deuteron, "compile", ACCURACY / "gru.pt2", "--processes", 2, code=2)
    if "--processes is for --accuracy auto" not in output:
        failures.append(f"--processes without a search:\n{output}")


def check_mpi(deuteron, mpi, judge):
    for ranks in (1, 2, 3, 8):
        judge.compare(f"{ranks} ranks", ["mpirun", "-np", ranks, mpi], env=OVER)
    judge.compare("workers of ranks", ["mpirun", "-np", 2, mpi], "--processes", 2, env=OVER)
    start = ["mpirun", "-np", 3]

    def ranks_of(processes):
        return [
            each
            for each in processes
            if name_of(each) == "deuteron-mpi" and name_of(parent_of(each)) != "deuteron-mpi"
        ]

    def worker(processes):
        forkers = [p for p in processes if parent_of(p) in ranks_of(processes)]
        return [p for p in processes if parent_of(p) in forkers][-1:]

    def other_rank(processes):
        ranks = ranks_of(processes)
        # MPI does not start without one of its ranks: once all of them have their workers.
        workers = [p for p in processes if parent_of(p) in ranks]
        if len(ranks) < 3 or len(workers) < 3:
            return []
        time.sleep(0.5)
        return ranks[-1:]

    killed(judge, "killed workers of ranks", [*start, mpi], worker, 2, OVER)
    killed(judge, "a killed rank", [*start, "--enable-recovery", mpi], other_rank, 1, OVER)

    # Ranges that a rank observes with other instructions round differently: the search refuses to
    # mix them. Where the processor has no others, the result is the same.
    words = explore_accuracy("mobilenet_v3")
    alone = run_process([deuteron, *words])
    other = ["-x", "ONEDNN_MAX_CPU_ISA=SSE41", "-np", 1, mpi, *words]
    done = run_process(["mpirun", "-np", 1, mpi, *words, ":", *other], OVER)
    if "processors of different kinds" not in done.stderr or done.returncode != 1:
        same("ranks of two kinds", (done.returncode, done.stdout), (0, alone.stdout))

    # An error is printed once; nothing is left of what ranks would write.
    missing = auto("none", judge.folder / "none.pte")
    done = run_process([*start, mpi, *missing], OVER)
    if done.returncode != 1 or done.stderr.count("error[file-not-found]") != 1:
        failures.append(f"no model: exit code {done.returncode}\n{done.stderr}")
    left = [
        path.name for path in judge.folder.iterdir() if path not in (judge.program, judge.report)
    ]
    if left:
        failures.append(f"left behind: {left}")
    done = run_process([mpi, "compile", KWS, "-o", judge.program])
    if done.returncode != 2 or "ranks share the work of --accuracy auto" not in done.stderr:
        failures.append(f"no search: exit code {done.returncode}\n{done.stderr}")


def main():
    deuteron, mpi = (Path(word).resolve() for word in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(deuteron, Path(folder))
        check_processes(deuteron, judge)
        if mpi.exists() and shutil.which("mpirun"):
            check_mpi(deuteron, mpi, judge)
        else:
            print("NOT RUN: searches on MPI's ranks (make mpi)")
    finish(failures)


main()
