#!/usr/bin/env python3
"""Evaluation in processes, on the ranks of an MPI job, and in parts: the same figures as one
thread's, whatever is killed meanwhile (docs/scale.md). Standard library only; the part with MPI needs
`make mpi`.

    scale.py DEUTERON DEUTERON_MPI
"""
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from checks import failures, finish, run

ROOT = Path(__file__).resolve().parents[2]
DIGITS, RING = ROOT / "models/digits_cnn", ROOT / "test/data/states"
# Root may start ranks, and more of them than there are processors.
OVER = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def repeated(source, path, times):
    """The data set `source` so many times over."""
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(path, "w") as written:
        for name in read.namelist():
            npy = read.read(name)
            length = 10 + int.from_bytes(npy[8:10], "little")
            header, data = npy[10:length].decode(), npy[length:]
            start = header.index("(", header.index("'shape'")) + 1
            end = min(header.index(mark, start) for mark in ",)")
            count = int(header[start:end])
            header = header[:start] + str(count * times) + header[end:].rstrip("\n ")
            header += " " * (-(11 + len(header)) % 64) + "\n"
            written.writestr(
                name,
                npy[:8] + len(header).to_bytes(2, "little") + header.encode() + data * times,
            )


def command(program, data, *options):
    return ["eval", program, "--data", data, *options]


def evaluated(what, deuteron, words, json, environment=None, code=0, timeout=900):
    """The JSON that an evaluation writes, and what it prints to standard output and error."""
    if json.exists():
        json.unlink()
    done = subprocess.run(
        [str(word) for word in [*deuteron, *words, "--json", json]],
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, **(environment or {})},
        timeout=timeout,
    )
    if done.returncode != code:
        failures.append(f"{what}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return json.read_text() if json.exists() else "", done.stdout, done.stderr


def same(what, seen, wanted):
    if seen != wanted:
        failures.append(f"{what}: {seen!r}\nis not {wanted!r}")


def descendants(process):
    """All processes below this one, by their ids."""
    found, new = [], [process]
    while new:
        parent = new.pop()
        try:
            tasks = Path(f"/proc/{parent}/task").iterdir()
            children = [int(c) for t in tasks for c in (t / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += children
        new += children
    return found


def name_of(process):
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def parent_of(process):
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def kill_while(what, words, environment, kills, choose, ready=lambda: True):
    """Runs a command and kills processes below it, which `choose` takes from them, once it is
    `ready`. Returns its exit code, its output and the number of processes that were killed."""
    process = subprocess.Popen(
        [str(word) for word in words],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
    )
    killed = 0
    end = time.monotonic() + 240
    while process.poll() is None and killed < kills and time.monotonic() < end:
        time.sleep(0.05)
        if not ready():
            continue
        for victim in choose(descendants(process.pid))[:1]:
            try:
                os.kill(victim, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
    try:
        said = process.communicate(timeout=240)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        said = process.communicate()[0]
        failures.append(f"{what}: does not end\n{said}")
    return process.returncode, said, killed


def check_processes(deuteron, program, data, long, folder, wanted, wanted_long):
    json = folder / "out.json"
    for processes in (1, 2, 5):
        seen = evaluated(
            "processes", [deuteron], [*command(program, data), "--processes", processes], json
        )
        same(f"{processes} processes", seen[:2], wanted)
    generator = random.Random(5)

    def worker(processes):
        # Not the one that forks the others: all of them at once have no task that is to blame.
        workers = [each for each in processes if parent_of(parent_of(each)) != 0]
        deep = [each for each in workers if parent_of(each) in processes]
        return generator.sample(deep, 1) if deep else []

    json.unlink()
    words = [deuteron, *command(program, long), "--processes", 2, "--json", json]
    code, said, killed = kill_while("killed workers", words, {}, 4, worker)
    if code != 0 or killed == 0:
        failures.append(f"killed workers: exit code {code}, {killed} killed\n{said}")
    same("killed workers", json.read_text() if json.exists() else said, wanted_long[0])


def check_resume(deuteron, program, data, long, folder, wanted_long):
    json, checkpoint = folder / "out.json", folder / "checkpoint"
    words = [*command(program, long), "--checkpoint", checkpoint]
    # Killed three times, then to the end.
    for attempt in range(3):
        process = subprocess.Popen(
            [str(w) for w in [deuteron, *words, *(["--resume"] if attempt else [])]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        size = checkpoint.stat().st_size if checkpoint.exists() else 0
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            if checkpoint.exists() and checkpoint.stat().st_size > size + 20_000:
                break
            time.sleep(0.001)
        process.kill()
        process.communicate()
    size = checkpoint.stat().st_size
    seen = evaluated("resume", [deuteron], [*words, "--resume"], json)
    same("resume", seen[:2], wanted_long)
    if "the checkpoint holds" not in seen[2] or "holds 0 of" in seen[2]:
        failures.append(f"resume: {seen[2]}")
    if checkpoint.stat().st_size <= size:
        failures.append("resume: there was nothing left to do")
    # Damage in the middle costs what is behind it.
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 1
    checkpoint.write_bytes(content)
    seen = evaluated("damaged", [deuteron], [*words, "--resume", "--processes", 2], json)
    same("damaged", seen[:2], wanted_long)
    if "are damaged, and their samples run again" not in seen[2]:
        failures.append(f"damaged: {seen[2]}")
    seen = evaluated("present", [deuteron], words, json, code=1)
    if "checkpoint-exists" not in seen[2] or "--resume" not in seen[2]:
        failures.append(f"present: {seen[2]}")
    other = [*command(program, data), "--checkpoint", checkpoint, "--resume"]
    seen = evaluated("other data", [deuteron], other, json, code=1)
    if "checkpoint-mismatch" not in seen[2] or "another run" not in seen[2]:
        failures.append(f"other data: {seen[2]}")
    run(deuteron, *command(program, data), "--resume", code=2)


def check_full(deuteron, program, long, folder, wanted_long):
    """A disk that becomes full: the results that the checkpoint holds are not lost."""
    json, checkpoint = folder / "out.json", folder / "full"
    words = [deuteron, *command(program, long), "--checkpoint", checkpoint]

    def refused(what, *options):
        done = subprocess.run(
            [str(word) for word in [*words, *options]],
            text=True,
            capture_output=True,
            timeout=120,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)),
        )
        if done.returncode != 1 or "--resume goes on with the results that" not in done.stderr:
            failures.append(f"{what}: exit code {done.returncode}\n{done.stderr}")
        if "error[file-not-writable]" not in done.stderr or checkpoint.stat().st_size != 40_000:
            failures.append(f"{what}: {done.stderr}")

    refused("full")
    refused("still full", "--resume", "--processes", 2)
    seen = evaluated("room again", [deuteron], [*words[1:], "--resume"], json)
    same("room again", seen[:2], wanted_long)
    if "the checkpoint holds 624 of" not in seen[2]:  # (40,000 - 32) / 64
        failures.append(f"room again: {seen[2]}")


def check_mpi(deuteron, mpi, program, data, long, folder, wanted, wanted_long):
    json = folder / "out.json"
    for ranks in (1, 2, 3, 8):
        start = ["mpirun", "-np", ranks, mpi]
        seen = evaluated(f"{ranks} ranks", start, command(program, data), json, OVER)
        same(f"{ranks} ranks", seen[:2], wanted)
    start = ["mpirun", "-np", 2, mpi]
    seen = evaluated(
        "workers of a rank", start, [*command(program, data), "--processes", 2], json, OVER
    )
    same("workers of a rank", seen[:2], wanted)
    # An error is printed once, by one rank, and ends all.
    seen = evaluated("no data", start, command(program, folder / "none.npz"), json, OVER, code=1)
    if seen[2].count("error[file-not-found]") != 1:
        failures.append(f"no data: {seen[2]}")
    ring = folder / "ring.pte"
    run(deuteron, "compile", RING / "ring.pt2", "--calibrate", RING / "ring.npz", "-o", ring)
    stream = [*command(ring, RING / "ring.npz"), "--against", RING / "ring.pt2"]
    alone = evaluated("stream", [deuteron], stream, json)
    seen = evaluated("stream on ranks", ["mpirun", "-np", 3, mpi], stream, json, OVER)
    same("stream on ranks", seen[:2], alone[:2])

    table = ["verify", program, "--against", DIGITS / "quantized.pt2", "--data", data]
    table += ["--samples", 20]
    alone = evaluated("verify", [deuteron], table, json)
    seen = evaluated("verify on ranks", ["mpirun", "-np", 3, mpi], table, json, OVER)
    same("verify on ranks", seen[:2], alone[:2])

    generator = random.Random(3)

    def ranks_of(processes):
        return [
            p
            for p in processes
            if name_of(p) == "deuteron-mpi" and name_of(parent_of(p)) != "deuteron-mpi"
        ]

    def worker(processes):
        # Two below a rank: the rank's forker is between them.
        forkers = [p for p in processes if parent_of(p) in ranks_of(processes)]
        workers = [p for p in processes if parent_of(p) in forkers]
        return generator.sample(workers, 1) if workers else []

    json.unlink()
    words = ["mpirun", "-np", 3, mpi, *command(program, long), "--json", json]
    code, said, killed = kill_while("killed workers of ranks", words, OVER, 4, worker)
    if code != 0 or killed == 0:
        failures.append(f"killed workers of ranks: exit code {code}, {killed} killed\n{said}")
    same("killed workers of ranks", json.read_text() if json.exists() else said, wanted_long[0])

    def rank(process):
        try:
            entries = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return next(
            (int(e.split(b"=")[1]) for e in entries if e.startswith(b"OMPI_COMM_WORLD_RANK=")),
            0,
        )

    def other_rank(processes):
        others = [p for p in ranks_of(processes) if rank(p) > 0]
        return generator.sample(others, 1) if others else []

    def first_rank(processes):
        return [p for p in ranks_of(processes) if rank(p) == 0]

    # Once there are results: MPI itself does not start without one of its ranks.
    checkpoint = folder / "mpi_checkpoint"

    def runs():
        return checkpoint.exists() and checkpoint.stat().st_size > 1000

    json.unlink(missing_ok=True)
    words = ["mpirun", "--enable-recovery", *words[1:], "--checkpoint", checkpoint]
    code, said, killed = kill_while("a killed rank", words, OVER, 1, other_rank, runs)
    if code != 0 or killed != 1:
        failures.append(f"a killed rank: exit code {code}, {killed} killed\n{said}")
    same("a killed rank", json.read_text() if json.exists() else said, wanted_long[0])

    # Without recovery mpirun ends the job; without its first rank the others end it: the checkpoint
    # keeps what there is.
    for what, option, choose in (
        ("a job that ends", [], other_rank),
        ("a job without its first rank", [], first_rank),
        ("ranks without the first one", ["--enable-recovery"], first_rank),
    ):
        checkpoint.unlink(missing_ok=True)
        json.unlink(missing_ok=True)
        start = ["mpirun", *option, "-np", 3, mpi]
        words = [*command(program, long), "--checkpoint", checkpoint]
        code, said, killed = kill_while(
            what, [*start, *words, "--json", json], OVER, 1, choose, runs
        )
        # With recovery mpirun says 0 whatever its ranks say.
        if (code == 0 and not option) or killed != 1 or json.exists():
            failures.append(f"{what}: exit code {code}, {killed} killed\n{said}")
        if checkpoint.exists():
            seen = evaluated(f"{what}, resumed", start, [*words, "--resume"], json, OVER)
            same(f"{what}, resumed", seen[:2], wanted_long)
        else:
            failures.append(f"{what}: there is no checkpoint")


def main():
    deuteron, mpi = (Path(word).resolve() for word in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        program, data, long = folder / "digits.pte", DIGITS / "test.npz", folder / "long.npz"
        run(deuteron, "compile", DIGITS / "quantized.pt2", "-o", program)
        repeated(data, long, 60)
        json = folder / "out.json"
        one = ["--threads", 1]
        wanted = evaluated("one thread", [deuteron], [*command(program, data), *one], json)[:2]
        wanted_long = evaluated("one thread", [deuteron], [*command(program, long), *one], json)[:2]
        check_processes(deuteron, program, data, long, folder, wanted, wanted_long)
        check_resume(deuteron, program, data, long, folder, wanted_long)
        check_full(deuteron, program, long, folder, wanted_long)
        if mpi.exists() and shutil.which("mpirun"):
            check_mpi(deuteron, mpi, program, data, long, folder, wanted, wanted_long)
        else:
            print("NOT RUN: evaluation on MPI's ranks (make mpi)")
    finish(failures)


if __name__ == "__main__":
    main()
