"""The models and conformance cases that exist on this machine: those of the repository, and the
full sets of $DEUTERON_SHARED."""
import json
import os
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("DEUTERON_SHARED") or ROOT.parent / "shared")
MODELS = [
    "ad_fcae",
    "digits_cnn",
    "digits_transformer",
    "ic_resnet8",
    "kws_dscnn",
    "mobilenet_v2",
    "vww_mobilenetv1",
]


def not_run(what):
    """Says it, and leaves it in the file $DTR_NOT_RUN for the last line of a run that has other
    stages."""
    print(f"NOT RUN: {what}")
    if os.environ.get("DTR_NOT_RUN"):
        with open(os.environ["DTR_NOT_RUN"], "a") as file:
            file.write(what + "\n")


class Case:
    """A folder with quantized.pt2 or qat.pt2 (a model that does not come quantized: float.pt2) and
    inputs."""

    def __init__(self, folder, data):
        self.name, self.folder = folder.name, folder
        self.program = next(
            (
                folder / f
                for f in ("quantized.pt2", "qat.pt2", "float.pt2")
                if (folder / f).exists()
            ),
            None,
        )
        self._data = folder / data

    def samples(self, count):
        """Up to `count` samples, each a list of arrays in the order of the inputs, without the axis
        of samples."""
        with np.load(self._data) as arrays:
            names = sorted(
                (n for n in arrays.files if n == "input" or n.startswith("input_")),
                key=lambda n: (len(n), n),
            )
            inputs = [arrays[n] for n in names]
        return [[array[i] for array in inputs] for i in range(min(count, len(inputs[0])))]


def _folders(*places):
    found = {}
    for place in places:
        if place.is_dir():
            for folder in sorted(place.iterdir()):
                if folder.is_dir() and folder.name != "__pycache__":
                    found.setdefault(folder.name, folder)
    return found


def models():
    """Each as it comes quantized where some folder has that, in float elsewhere."""
    found = []
    for name in MODELS:
        folders = [Case(place / name, "test.npz") for place in (ROOT / "models", SHARED / "models")]
        there = [case for case in folders if case.program and case._data.exists()]
        found += sorted(there, key=lambda case: case.program.name == "float.pt2")[:1]
    return found


def _conformance():
    found = _folders(ROOT / "test" / "data" / "conformance", SHARED / "conformance")
    return [Case(found[name], "calibration.npz") for name in sorted(found)]


def conformance():
    """Those of the full set."""
    return [case for case in _conformance() if not case.name.startswith("own_")]


def own():
    """Those of the repository's own, which hold operators and forms of them that no case of the
    full set has."""
    return [case for case in _conformance() if case.name.startswith("own_")]


def exception(case, direction):
    """Why a case is left out, of "their programs" or "our programs"; None if it is not. `NAME/FILE`
    names one form of a model."""
    listed = json.loads((Path(__file__).parent / "exceptions.json").read_text())[direction]
    return listed.get(case.name) or listed.get(f"{case.name}/{case.program.name}")
