#!/usr/bin/env python3
"""The conformance run's verdicts on damaged cases: what is refused or has nothing to compare with
has not passed. Standard library only.

    conformance_states.py CONFORMANCE      build/release/deuteron-conformance
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import finish

ROOT = Path(__file__).resolve().parents[2]
NAME = "batch_norm_fusion_006"
NONE = {"exceptions": [], "refused": [], "not compared": []}
failures = []


def run(conformance, data, exceptions):
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder) / "exceptions.json"
        known.write_text(json.dumps(NONE | exceptions))
        done = subprocess.run(
            [
                conformance,
                "--data",
                data,
                "--filter",
                f"^{NAME}$",
                "--jobs",
                "1",
                "--exceptions",
                known,
            ],
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        return done.returncode, done.stdout


def expect(conformance, what, code, text, data, **exceptions):
    got, said = run(
        conformance, data, {name.replace("_", " "): entries for name, entries in exceptions.items()}
    )
    if got != code or text not in said:
        failures.append(f"{what}: exit code {got}, expected {code} and `{text}`:\n{said}")


def entry(says, check="neutron_ir_0"):
    return {"case": NAME, "check": check, "says": says, "cause": "a test"}


def main():
    conformance = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as work:

        def case(name, change):
            data = Path(work) / name
            shutil.copytree(ROOT / "test/data/conformance" / NAME, data / NAME)
            change(data / NAME)
            return data

        model = "neutron_ir_0.tflite"
        whole = case("whole", lambda folder: None)
        cut = case(
            "cut", lambda folder: (folder / model).write_bytes((folder / model).read_bytes()[:600])
        )
        words = case("words", lambda folder: (folder / model).write_text("rubbish, not a model"))
        alone = case("alone", lambda folder: (folder / "neutron_ir_0.npz").unlink())
        other = case(
            "other",
            lambda folder: (folder / "float.pt2").write_bytes(
                (folder / "float.pt2").read_bytes()[:900]
            ),
        )
        expect(conformance, "an intact case", 0, "0 failures", whole)
        expect(
            conformance, "a truncated file of Neutron IR", 1, "neutron_ir_0: refused: error[", cut
        )
        expect(
            conformance, "words instead of Neutron IR", 1, "neutron_ir_0: refused: error[", words
        )
        expect(
            conformance,
            "no stored outputs",
            1,
            "neutron_ir_0: not compared: no stored outputs",
            alone,
        )
        expect(conformance, "a truncated model", 1, "float: refused: error[", other)
        expect(
            conformance,
            "a refusal that is known",
            0,
            "1 refused and 0 not compared as known",
            words,
            refused=[entry("error[")],
        )
        expect(
            conformance,
            "a refusal for another reason",
            1,
            "refused: error[",
            words,
            refused=[entry("TRANSPOSE_CONV")],
        )
        expect(
            conformance,
            "a refusal that is known as a failure",
            1,
            "refused: error[",
            words,
            exceptions=[entry("error[")],
        )
        expect(
            conformance,
            "a known refusal that passes",
            1,
            "no exception any more",
            whole,
            refused=[entry("error[")],
        )
        expect(
            conformance,
            "nothing to compare with, as known",
            0,
            "0 refused and 1 not compared as known",
            alone,
            not_compared=[entry("no stored")],
        )
        expect(conformance, "an exception that says nothing", 2, "", words, refused=[entry("")])
    finish(failures)


if __name__ == "__main__":
    main()
