#!/usr/bin/env python3
"""The warning that the CPU alone is faster: its figures are those of both programs, the option that
it names makes the second one, and where there is no warning, no option does. Standard library only.

    cpu_is_cheaper.py DEUTERON
"""
import json
import re
import sys
import tempfile
from pathlib import Path

from checks import expect, failures, finish, run

ROOT = Path(__file__).resolve().parents[2]
MLP = """graph @forward(%x: f32[1,12]) {
  %v: f32[16,12] = constant seeded<1>
  %w: f32[5,16] = constant seeded<2>
  %h: f32[1,16] = aten.linear(%x, %v)
  %t: f32[1,16] = aten.tanh(%h)
  %y: f32[1,5] = aten.linear(%t, %w)
  return %y
}
"""
# Models, and whether the CPU alone is faster.
CASES = [
    (ROOT / "test/data/pt2/recurrent.pt2", True),
    (ROOT / "test/data/pt2/attention.pt2", None),
    (ROOT / "models/digits_cnn/float.pt2", False),
    (ROOT / "models/digits_cnn/quantized.pt2", False),
    (ROOT / "models/kws_dscnn/float.pt2", False),
]
TARGETS = ("imxrt700", "imxrt700cm", "imx95")
CHOICES = (["--keep-off", "all"], ["--keep-float", "all"])


def compiled(deuteron, folder, model, *options):
    """The report of a program, and the warnings of this kind."""
    report = folder / "report.json"
    command = [deuteron, "--diagnostics=json", "compile", model, "-o", folder / "x.pte"]
    text = run(*command, "--report-json", report, "--min-sqnr", -99, *options)
    found = [json.loads(line) for line in text.split("\n") if '"cpu-is-cheaper"' in line]
    return json.loads(report.read_text()), found


def judge(deuteron, folder, model, wanted, target, *options):
    """Returns whether there is a warning."""
    options = ["--target", target, *options]
    report, found = compiled(deuteron, folder, model, *options)
    name, cycles = f"{model.name} {options}", report["total_cycles"]
    if wanted is not None:
        expect(len(found) == int(wanted), f"{name}: {len(found)} warnings")
    others = {}
    for choice in CHOICES:
        if (
            "quantized" in name
            and "--keep-float" in choice
            or "int8" in options
            and choice[0] == "--keep-float"
        ):
            continue
        other, again = compiled(deuteron, folder, model, *options, *choice)
        expect(
            other["partitions"] == 0 and not again, f"{name} {choice}: {other['partitions']} calls"
        )
        others[choice[0]] = other["total_cycles"]
    fewest = min(others.values())
    if not found:
        expect(fewest > 0.95 * cycles, f"{name}: {cycles} cycles, {others} without a warning")
        return False
    said = [
        int(number.replace(",", "")) for number in re.findall(r"takes ([\d,]+)", found[0]["reason"])
    ]
    option = re.search(r"(--keep-\w+) all", found[0]["fix"])[1]
    expect(found[0]["severity"] == "warning", f"{name}: {found[0]['severity']}")
    expect(said == [cycles, others[option]], f"{name}: says {said} of {cycles} and {others}")
    expect(others[option] == fewest, f"{name}: advises {option} of {others}")
    expect(fewest <= 0.95 * cycles, f"{name}: {fewest} of {cycles} is no reason to warn")
    return True


def main():
    deuteron = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mlp = folder / "mlp.ir"
        mlp.write_text(MLP)
        noise = ["--calibrate-random", "8"]
        warned = 0
        for target in TARGETS:
            for model, wanted in [(mlp, target != "imx95"), *CASES]:
                calibrate = [] if model.name == "quantized.pt2" else noise
                sure = wanted if target != "imx95" else None
                warned += judge(deuteron, folder, model, sure, target, *calibrate)
        warned += judge(deuteron, folder, mlp, None, "imxrt700cm", *noise, "--io", "int8")
        expect(warned >= 5, f"{warned} warnings")

        # Who chose the placement knows it; cycles that are unknown compare with nothing.
        for options in (
            ["--force-on", "tanh"],
            ["--force-on", "all"],
            ["--keep-off", "tanh"],
            ["--no-check"],
        ):
            text = run(deuteron, "compile", mlp, "-o", folder / "x.pte", *noise, *options)
            expect("cpu-is-cheaper" not in text, f"{options}: {text}")
        # No samples are needed where nothing is quantized.
        run(deuteron, "compile", mlp, "-o", folder / "x.pte", "--keep-float", "all")
    finish(failures)


main()
