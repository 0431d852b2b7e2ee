#!/usr/bin/env python3
"""Hard models of test/data/accuracy against bench/hard_models.json, and docs/hard_models.md against
that: SQNR on samples that neither calibration nor the search saw, by default and with --accuracy
auto at most 1 dB below what is recorded (ranges depend on the processor, and what a search finds
on ranges), cycles of the default, and every figure of the exports that were trained with
quantization, for which nothing is calibrated; and front ends of sound inside of a model, whose
values no int8 carries to a logarithm. Standard library only.

    accuracy.py DEUTERON [NAME …]
"""
import sys
import tempfile
import zipfile
from pathlib import Path

from checks import expect, failures, finish, judged

import hard_models_page

DATA = Path(__file__).resolve().parents[1] / "data/accuracy"
# Decibels of the default against PyTorch's outputs, and the accuracy that PyTorch has.
FRONT_ENDS = {"log_mel": (39.4, 1.0), "pcen": (37.7, 1.0)}


def test_samples(name, folder):
    """The samples to test on: `test` under the name `input`, with the other arrays."""
    path = Path(folder) / f"{Path(name).name}.npz"
    with zipfile.ZipFile(DATA / f"{name}.npz") as given, zipfile.ZipFile(path, "w") as taken:
        for array in given.namelist():
            if array != "input.npy":
                taken.writestr(array.replace("test.npy", "input.npy"), given.read(array))
    return path


def check(deuteron, name, recorded, folder):
    found = {}
    calibrated = ("--calibrate", DATA / f"{name}.npz")
    for way, model, options in (
        ("default", DATA / f"{name}.pt2", calibrated),
        ("auto", DATA / f"{name}.pt2", (*calibrated, "--accuracy", "auto", "--seconds", 600)),
        ("qat", DATA / f"trained/{name}.pt2", ()),
    ):
        if way not in recorded:
            print(f"NOT RUN: {name}, {way} (bench/hard_models.json has no figures of it)")
            continue
        found[way] = judged(deuteron, folder, model, test_samples(name, folder), *options)
    for way, figures in found.items():
        wanted = recorded[way]
        text = f"{name}, {way}: {figures}, recorded {wanted}"
        if way == "qat":
            expect(abs(figures["db"] - wanted["db"]) <= 0.06, text)
            expect(figures["accuracy"] == wanted.get("accuracy"), text)
        else:
            expect(figures["db"] >= min(99, wanted["db"]) - 1, text)
        expect(way == "auto" or figures["cycles"] == wanted["cycles"], text)
    print(f"{name}:", ", ".join(f"{way} {each['db']:.1f} dB" for way, each in found.items()))


def check_front_end(deuteron, name, folder):
    path = f"front_ends/{name}"
    options = ("--calibrate", DATA / f"{path}.npz")
    figures = judged(deuteron, folder, DATA / f"{path}.pt2", test_samples(path, folder), *options)
    db, accuracy = FRONT_ENDS[name]
    text = f"{name}: {figures}, recorded {db} dB"
    expect(figures["db"] >= db - 1, text)
    expect(figures["accuracy"] >= accuracy - 0.02, text)
    print(f"{name}: {figures['db']:.1f} dB, accuracy {figures['accuracy']}")


def main():
    deuteron = Path(sys.argv[1]).resolve()
    names = sorted(path.stem for path in DATA.glob("*.pt2"))
    recorded = hard_models_page.recorded()
    expect(names == sorted(recorded), f"{DATA} has {names}, the record {sorted(recorded)}")
    expect(
        hard_models_page.PAGE.read_text() == hard_models_page.page(recorded),
        f"{hard_models_page.PAGE.name} is not what bench/hard_models.json gives;"
        " bench/hard_models_page.py writes it",
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or [*names, *FRONT_ENDS]:
            if name in FRONT_ENDS:
                check_front_end(deuteron, name, folder)
            else:
                check(deuteron, name, recorded[name], folder)
    finish(failures)


if __name__ == "__main__":
    main()
