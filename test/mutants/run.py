#!/usr/bin/env python3
"""Mutation testing: puts each listed mistake into a scratch copy and runs the test that must fail.

  run.py                     every mutation; exit code 1 if one survives, is stale or does not build
  run.py --only N1,S5        some of them by id
  run.py --area cycles,ops   by area, which is the name of the file
  run.py --list              what is listed, without running anything
  run.py --check             whether every entry applies and is recorded (no build; part of ctest)
  run.py --record            also writes the results to docs/mutants.md

A mutation is a [[mutant]] table in test/mutants/AREA.toml:

  id          unique: letters and a number
  file        the source that is changed
  find        text that occurs exactly once in it; white space does not count, so that it
              holds whatever width the lines are formatted to
  replace     its replacement
  breaks      what a user would see go wrong
  test        what must fail, as narrow as possible:
                "ops Numerics.Hardswish*"       program test_ops with this gtest filter
                "lit passes/mask_softmax.ir"    one file of test/lit
                "ctest golden"                  a ctest entry (CTEST_TARGETS: what it needs)
                "compile ops numerics_test.cpp" a static assertion in this source of test_ops
  equivalent  the proof that no result can differ, if so: `test` must then pass

TEST_P cases are *Suite.Name*, because gtest puts a prefix and a parameter around them.
"""
import argparse
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).resolve().parent
SCRATCH = SOURCE / "build" / "mutants"
TREE, RESULTS = SCRATCH / "tree", SCRATCH / "results.json"
BUILD = TREE / "build" / "release"  # as deep as any preset's, so that ccache knows the objects
PAGE = SOURCE / "docs" / "mutants.md"
LIT = Path("/usr/lib/llvm-14/build/utils/lit/lit.py")
LLVM = Path("/usr/lib/llvm-14/bin")
KEYS = {"id", "file", "find", "replace", "breaks", "test"}
TIMEOUT = 600  # seconds a test; one that does not end has noticed the mutation
GOOD = ("killed", "equivalent")

# What the ctest entries that lists name need to be built.
CTEST_TARGETS = {
    "conformance": ["deuteron-conformance"],
    "golden": ["deuteron"],
    "random_graphs": ["deuteron-random"],
    "e2e_calibrate": ["deuteron"],
    "e2e_edge_cases": ["deuteron"],
    "e2e_models": ["deuteron"],
    "e2e_profile_agreement": ["deuteron"],
}

HEAD = """# Mutation testing

Written by `test/mutants/run.py --record` (`make mutants ARGS=--record`). Each row is a mistake that
was put into the sources on purpose, and the test that failed because of it. The lists in
`test/mutants/` have the text of each mistake and what a user would see go wrong;
[CONTRIBUTING](../CONTRIBUTING.md) says how to add one. `equivalent`: no result can differ, and the
list has the proof.

"""


class Mutant:
    """One entry of a list."""

    def __init__(self, area, table):
        missing, unknown = KEYS - table.keys(), table.keys() - KEYS - {"equivalent"}
        if missing or unknown:
            sys.exit(
                f"{area}.toml, {table.get('id', '?')}: missing keys {sorted(missing)}, "
                f"unknown keys {sorted(unknown)}"
            )
        self.area = area
        self.id, self.file, self.breaks = table["id"], table["file"], table["breaks"]
        self.find, self.replace = table["find"], table["replace"]
        self.test, self.equivalent = table["test"], table.get("equivalent")
        self.kind, _, self.name = self.test.partition(" ")

    def places(self, text):
        """Matches of `find` in a source, with any white space between its tokens."""
        tokens = re.findall(r"\w+|[^\w\s]", self.find)
        return list(re.finditer(r"\s*".join(map(re.escape, tokens)), text))

    def stale(self):
        """Why the entry does not fit the sources any more; None if it does."""
        path = SOURCE / self.file
        if not path.is_file():
            return f"{self.file} does not exist"
        count = len(self.places(path.read_text()))
        if count != 1:
            return (
                f"`{self.find.strip()}` occurs {count} times in {self.file}, expected once (blanks"
                " do not count): change `find` so that it names one place"
            )
        if self.find == self.replace:
            return "the replacement is the text itself"
        return self.stale_test()

    def stale_test(self):
        if self.kind == "lit":
            path = f"test/lit/{self.name}"
            return None if (SOURCE / path).is_file() else f"{path} does not exist"
        if self.kind == "ctest":
            known = self.name in CTEST_TARGETS
            return None if known else f"CTEST_TARGETS does not say what {self.name} needs"
        if self.kind == "compile":
            path = "test/unit/" + self.name.partition(" ")[2]
            return None if (SOURCE / path).is_file() else f"{path} does not exist"
        known = tests_of(self.kind)
        for pattern in self.name.split(":"):
            glob = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
            if not any(re.fullmatch(glob, test) for test in known):
                return f"no test {pattern} in test_{self.kind}"
        return None

    def targets(self):
        if self.kind == "lit":
            lines = re.findall(r"RUN:.*", (SOURCE / "test/lit" / self.name).read_text())
            return [
                tool
                for tool in ("deuteron", "deuteron-opt")
                if any(re.search(rf"(?<![\w-]){tool}(?![\w-])", line) for line in lines)
            ]
        if self.kind == "ctest":
            return CTEST_TARGETS[self.name]
        if self.kind == "compile":
            program, _, source = self.name.partition(" ")
            return [f"test/unit/CMakeFiles/test_{program}.dir/{source}.o"]
        return ["test_" + self.kind]


def tests_of(program, cache={}):  # noqa: B006 (each program's sources are read once)
    """Names of the tests of test_PROGRAM: SUITE.NAME, of TEST_P *SUITE.NAME*."""
    if program not in cache:
        lines = (SOURCE / "test/unit/CMakeLists.txt").read_text()
        call = rf"dtr_test\({re.escape(program)} SOURCES ([^)]*?)(?: DEPENDS|\))"
        sources = re.search(call, lines)
        names = set()
        for source in sources.group(1).split() if sources else []:
            text = (SOURCE / "test/unit" / source).read_text()
            for macro, suite, name in re.findall(r"^(TEST\w*)\((\w+),\s*(\w+)\)", text, re.M):
                names.add(f"*{suite}.{name}*" if macro == "TEST_P" else f"{suite}.{name}")
        cache[program] = names
    return cache[program]


def load():
    mutants = [
        Mutant(path.stem, table)
        for path in sorted(LISTS.glob("*.toml"))
        for table in tomllib.loads(path.read_text())["mutant"]
    ]
    ids = [mutant.id for mutant in mutants]
    if twice := sorted({each for each in ids if ids.count(each) > 1}):
        sys.exit(f"listed twice: {', '.join(twice)}")
    return mutants


def git(*arguments):
    return subprocess.run(
        ["git", "-C", SOURCE, *arguments], check=True, capture_output=True, text=True
    ).stdout


def commit():
    """The commit that last changed what is tested; with a + where the sources differ from it."""
    others = r"docs/|test/|[A-Z]+\.md|Makefile"
    product = [":/", ":!test", ":!docs", ":!*.md", ":!Makefile"]
    changed = [
        line
        for line in git("status", "--porcelain").splitlines()
        if not re.match(rf".. ({others})", line)
    ]
    at = git("log", "-1", "--format=%h", "--abbrev=10", "--", *product).strip()
    return at + ("+" if changed else "")


def synchronize():
    """Makes the scratch tree equal to the sources; equal files keep their time: no new build."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    files = {name for name in listed if name and (SOURCE / name).is_file()}
    for root, folders, names in os.walk(TREE):
        if Path(root) == TREE:
            folders[:] = [folder for folder in folders if folder != "build"]
        for path in (Path(root) / name for name in names):
            if str(path.relative_to(TREE)) not in files:
                path.unlink()
    for name in files:
        source, copy = SOURCE / name, TREE / name
        if copy.is_file() and copy.read_bytes() == source.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
        shutil.copymode(source, copy)


def shared():
    """The folder with the full set of models; as in CMakeLists.txt, beside the sources."""
    found = os.environ.get("DEUTERON_SHARED", "")
    if not found and (SOURCE.parent / "shared/models").is_dir():
        found = str(SOURCE.parent / "shared")
    return found


def configure():
    done = subprocess.run(
        [
            "cmake",
            "-S",
            TREE,
            "-B",
            BUILD,
            "-G",
            "Ninja",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DDTR_BUILD_TESTS=ON",
            "-DDTR_BUILD_BENCH=OFF",
            f"-DDTR_SHARED={shared()}",
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])


def build(targets, jobs):
    done = subprocess.run(
        ["cmake", "--build", BUILD, "-j", str(jobs), "--target", *targets],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode == 0, done.stdout


def command_of(mutant):
    if mutant.kind == "lit":
        return [
            sys.executable,
            LIT,
            "-sv",
            "-j1",
            "--param",
            f"tools={BUILD}",
            "--param",
            f"llvm={LLVM}",
            "--param",
            f"shared={shared()}",
            TREE / "test/lit" / mutant.name,
        ]
    if mutant.kind == "ctest":
        return [
            "ctest",
            "--test-dir",
            BUILD,
            "-R",
            f"^{mutant.name}$",
            "--no-tests=error",
            "--output-on-failure",
        ]
    return [
        BUILD / f"test/unit/test_{mutant.kind}",
        "--gtest_brief=1",
        f"--gtest_filter={mutant.name}",
    ]


def run_test(mutant):
    """Of the mutant's test in the scratch build: (passed, what failed or ran, output)."""
    environment = os.environ | {"DEUTERON_SOURCE": str(TREE), "DEUTERON_SHARED": shared()}
    try:
        done = subprocess.run(
            [str(part) for part in command_of(mutant)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return False, f"{mutant.test} (does not end)", ""
    passed, output = done.returncode == 0, done.stdout
    if mutant.kind == "lit":
        return passed and bool(re.search(r"Passed *: [1-9]", output)), mutant.test, output
    if mutant.kind == "ctest":
        return passed, mutant.test, output
    if passed:
        ran = re.search(r"\[  PASSED  \] [1-9]", output)
        return bool(ran), mutant.test if ran else f"{mutant.test}: no test ran", output
    failed = list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", output, re.M)))
    by = failed[0] if failed else mutant.name + " (crashes)"
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    return False, f"{mutant.kind} {by}{more}", output


def judge(mutant, jobs):
    """(outcome, what killed it) of a mutation that is in the scratch tree."""
    built, log = build(mutant.targets(), jobs)
    if not built:
        errors = [line for line in log.splitlines() if "error:" in line]
        expected = ("static assertion failed", "non-constant condition")
        if errors and all(any(text in line for text in expected) for line in errors):
            place = re.search(r"([\w-]+\.(?:cpp|h)):\d+", errors[0])
            return "killed", f"static_assert of {place.group(1) if place else mutant.name}"
        return "does not build", errors[0] if errors else log[-500:]
    if mutant.kind == "compile":
        return "survived", ""
    passed, by, _ = run_test(mutant)
    return ("survived", "") if passed else ("killed", by)


def baseline(mutants, jobs):
    """The tests must pass without any mutation."""
    targets = sorted({target for mutant in mutants for target in mutant.targets()})
    print(f"building {', '.join(targets)}", flush=True)
    built, log = build(targets, jobs)
    if not built:
        sys.exit("the sources do not build without a mutation:\n" + log[-3000:])
    once = {mutant.test: mutant for mutant in mutants if mutant.kind != "compile"}
    for test, mutant in once.items():
        passed, by, output = run_test(mutant)
        if not passed:
            sys.exit(f"{output[-3000:]}\n{test} fails without a mutation: {by}")
    print(f"{len(once)} tests pass without a mutation", flush=True)


def read_results():
    return json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}


def recorded():
    """The rows of docs/mutants.md by id."""
    lines = PAGE.read_text().splitlines() if PAGE.is_file() else []
    rows = {}
    for line in lines:
        if match := re.match(r"\| ([A-Z]+\d+) \|", line):
            rows[match.group(1)] = line
    return rows


def outcome_of(row):
    return row.split(" | ")[3]


def record(mutants, ran):
    """Writes docs/mutants.md: rows of this run are new, those of others stay."""
    results, rows = read_results(), recorded()
    for mutant in ran:
        if result := results.get(mutant.id):
            rows[mutant.id] = (
                f"| {mutant.id} | {mutant.area} | `{mutant.file}` | "
                f"{result['outcome']} | {result['by']} | {result['commit']} |"
            )
    table = [rows[mutant.id] for mutant in mutants if mutant.id in rows]
    outcomes = [outcome_of(row) for row in table]
    counts = ", ".join(f"{outcomes.count(each)} {each}" for each in sorted(set(outcomes)))
    PAGE.write_text(
        f"{HEAD}{len(table)} mutations: {counts}.\n\n"
        "| id | area | file | outcome | by | at commit |\n|---|---|---|---|---|---|\n"
        + "\n".join(table)
        + "\n"
    )


def check(mutants):
    """Whether the lists still fit the sources and all results are recorded; for ctest."""
    wrong = []
    rows = recorded()
    for mutant in mutants:
        where = f"{mutant.id} ({mutant.area}.toml)"
        if why := mutant.stale():
            wrong.append(f"{where} is stale: {why}")
        if mutant.id not in rows:
            wrong.append(
                f"{where} has no result in docs/mutants.md: "
                f"make mutants ARGS='--record --only {mutant.id}'"
            )
        elif outcome_of(rows[mutant.id]) not in GOOD:
            wrong.append(f"{where}: docs/mutants.md says {outcome_of(rows[mutant.id])}")
    listed = {mutant.id for mutant in mutants}
    wrong += [f"docs/mutants.md has {each}, which no list has" for each in rows.keys() - listed]
    print("\n".join(wrong) if wrong else f"{len(mutants)} mutations apply; all have a result")
    return 1 if wrong else 0


def apply_and_judge(mutant, jobs):
    if why := mutant.stale():
        return "stale", why
    path = TREE / mutant.file
    original = path.read_text()
    (place,) = mutant.places(original)
    start, end = place.span()
    path.write_text(original[:start] + mutant.replace.strip() + original[end:])
    try:
        outcome, by = judge(mutant, jobs)
    finally:
        path.write_text(original)
    if not mutant.equivalent:
        return outcome, by
    return ("equivalent", mutant.test) if outcome == "survived" else ("not equivalent", by)


def run(mutants, jobs):
    SCRATCH.mkdir(parents=True, exist_ok=True)
    lock = open(SCRATCH / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("another run uses build/mutants")
    synchronize()
    configure()
    at = commit()
    if fresh := [mutant for mutant in mutants if not mutant.stale()]:
        baseline(fresh, jobs)
    bad = 0
    # One target and file after the other: between two mutations only that file is compiled.
    for mutant in sorted(mutants, key=lambda each: (each.kind, each.file)):
        begin = time.monotonic()
        outcome, by = apply_and_judge(mutant, jobs)
        bad += outcome not in GOOD
        result = {"outcome": outcome, "by": by, "commit": at}
        RESULTS.write_text(json.dumps(read_results() | {mutant.id: result}, indent=1))
        seconds = time.monotonic() - begin
        print(f"{mutant.id:6} {mutant.area:12} {outcome:14} {by}  ({seconds:.0f} s)", flush=True)
    print(f"{len(mutants)} mutations: {len(mutants) - bad} killed or equivalent, {bad} not")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="ids, separated by commas")
    parser.add_argument("--area", help="areas, separated by commas")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count())
    options = parser.parse_args()
    mutants = load()
    if options.check:
        return check(mutants)
    chosen = mutants
    if options.area:
        areas = options.area.split(",")
        chosen = [mutant for mutant in chosen if mutant.area in areas]
        if unknown := set(areas) - {mutant.area for mutant in mutants}:
            sys.exit(f"no area {', '.join(sorted(unknown))}")
    if options.only:
        ids = options.only.split(",")
        chosen = [mutant for mutant in chosen if mutant.id in ids]
        if unknown := set(ids) - {mutant.id for mutant in chosen}:
            sys.exit(f"no mutation {', '.join(sorted(unknown))}")
    if options.list:
        for mutant in chosen:
            proven = "equivalent, " if mutant.equivalent else ""
            print(
                f"{mutant.id:6} {mutant.area:12} {mutant.file}: {mutant.breaks} "
                f"[{proven}{mutant.test}]"
            )
        return 0
    code = run(chosen, options.jobs)
    if options.record:
        record(mutants, chosen)
    return code


if __name__ == "__main__":
    sys.exit(main())
