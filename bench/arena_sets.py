#!/usr/bin/env python3
"""The best known arenas of the sets of buffers in test/data/arena, by an exact solver.

    bench/arena_sets.py [--bench build/release/bench/bench_arena_sets] [--seconds 60] [NAME …]

Solves each set of test/data/arena/sets.txt and each random one of test/unit/arena_sets.h with
CP-SAT below the bytes of our own planner, and writes test/data/arena/best.txt: name, bytes of the
best plan that is known, and the bound below which the solver has proven that there is none. A set
whose plan meets its bound is not solved again. Needs ortools (its own virtual environment).
"""
import argparse
import subprocess
import sys
from pathlib import Path

from ortools.sat.python import cp_model

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "test/data/arena"


def read(line):
    name, buffers, trails, *numbers = line.split()
    numbers = [int(number) for number in numbers]
    buffers, trails = int(buffers), int(trails)
    fours = numbers[: 4 * buffers]
    threes = numbers[4 * buffers :]
    assert len(threes) == 3 * trails, name
    return (
        name,
        [tuple(fours[4 * i : 4 * i + 4]) for i in range(buffers)],
        [tuple(threes[3 * i : 3 * i + 3]) for i in range(trails)],
    )


def shared(operand, result, lag):
    """Bytes that operand and result of a trail share at most."""
    return max(0, operand + result - max(max(lag, 0) + operand, result))


def live_bound(buffers, trails):
    """Most bytes that are live at one step; with one alignment, of which all but one are rounded
    up to it."""
    most = 0
    for step in {first for _, _, first, _ in buffers}:
        live = {i for i, (_, _, first, last) in enumerate(buffers) if first <= step <= last}
        saved = sum(
            shared(buffers[operand][0], buffers[result][0], lag)
            for operand, result, lag in trails
            if operand in live and result in live
        )
        most = max(most, sum(buffers[i][0] for i in live) - saved)
        alignments = {buffers[i][1] for i in live}
        if not saved and len(alignments) == 1:
            unit = alignments.pop()
            rounded = [-(-buffers[i][0] // unit) * unit - buffers[i][0] for i in live]
            most = max(most, sum(buffers[i][0] for i in live) + sum(rounded) - max(rounded))
    return most


def check(buffers, trails, offsets, total):
    of_pair = {}
    for operand, result, lag in trails:
        of_pair[operand, result] = of_pair[result, operand] = (operand, result, lag)
    for a, (size, alignment, first, last) in enumerate(buffers):
        assert offsets[a] % alignment == 0 and 0 <= offsets[a] <= total - size
        for b in range(a):
            other, _, begin, end = buffers[b]
            apart = offsets[a] + size <= offsets[b] or offsets[b] + other <= offsets[a]
            if first > end or begin > last or apart:
                continue
            operand, result, lag = of_pair[a, b]
            assert offsets[result] + lag <= offsets[operand]


def solve(buffers, trails, most, bound, seconds, workers):
    """Offsets and bound; no offsets if nothing below `most` was found."""
    model = cp_model.CpModel()
    total = model.new_int_var(bound, most - 1, "total")
    offset = []
    for i, (size, alignment, _, _) in enumerate(buffers):
        place = model.new_int_var(0, max(0, (most - 1 - size) // alignment), f"at{i}")
        offset.append(place * alignment)
        model.add(offset[i] + size <= total)
    of_pair = {(min(o, r), max(o, r)): (r, o, lag) for o, r, lag in trails}
    for b, (size_b, _, first_b, last_b) in enumerate(buffers):
        for a in range(b):
            size_a, _, first_a, last_a = buffers[a]
            if first_a > last_b or first_b > last_a or not size_a or not size_b:
                continue
            lower, upper, lag = of_pair.get((a, b), (b, a, size_b))
            # The lower one ends, or trails, below the upper one; or the upper one ends below it.
            is_below = model.new_bool_var(f"b{a}_{b}")
            gap = min(lag, buffers[lower][0])
            model.add(offset[lower] + gap <= offset[upper]).only_enforce_if(is_below)
            model.add(offset[upper] + buffers[upper][0] <= offset[lower]).only_enforce_if(~is_below)
    if not trails:
        model.add_no_overlap_2d(
            [
                model.new_fixed_size_interval_var(first, last + 1 - first, "")
                for _, _, first, last in buffers
            ],
            [
                model.new_fixed_size_interval_var(offset[i], size, "")
                for i, (size, _, _, _) in enumerate(buffers)
            ],
        )
    model.minimize(total)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None, most
    # The solver's bound holds below `most` only.
    proven = min(most, int(round(solver.best_objective_bound)))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, proven
    return [solver.value(place) for place in offset], proven


def write(path, best):
    rows = [f"{name} {row['bytes']} {row['bound']}\n" for name, row in sorted(best.items())]
    path.write_text("".join(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench", default=ROOT / "build/release/bench/bench_arena_sets")
    parser.add_argument("--sets", default=DATA / "sets.txt")
    parser.add_argument("--best", default=DATA / "best.txt")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    best_file = Path(arguments.best)
    rows = best_file.read_text().splitlines() if best_file.exists() else []
    best = {
        name: {"bytes": int(total), "bound": int(bound)}
        for name, total, bound in map(str.split, rows)
    }
    text = Path(arguments.sets).read_text()
    text += subprocess.check_output([arguments.bench, "random"], text=True)
    plans = subprocess.check_output([arguments.bench, "plan"], input=text, text=True)
    planned = {row.split()[0]: int(row.split()[2]) for row in plans.splitlines()}
    sets = [read(line) for line in text.splitlines()]
    if len({name for name, _, _ in sets}) != len(sets):
        sys.exit("two sets have one name")
    best = {name: best[name] for name, _, _ in sets if name in best}
    for name, buffers, trails in sets:
        known = best.get(name, {"bytes": planned[name], "bound": 0})
        known["bytes"] = min(known["bytes"], planned[name])
        known["bound"] = max(known["bound"], live_bound(buffers, trails))
        best[name] = known
        if known["bytes"] == known["bound"] or (arguments.names and name not in arguments.names):
            continue
        offsets, bound = solve(
            buffers, trails, known["bytes"], known["bound"], arguments.seconds, arguments.workers
        )
        if offsets:
            known["bytes"] = max(at + buffer[0] for at, buffer in zip(offsets, buffers))
            check(buffers, trails, offsets, known["bytes"])
        known["bound"] = min(max(bound, known["bound"]), known["bytes"])
        print(name, len(buffers), planned[name], known, flush=True)
        write(best_file, best)
    write(best_file, best)


if __name__ == "__main__":
    main()
