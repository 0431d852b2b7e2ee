"""Deuteron compiles PyTorch models for microcontrollers with an eIQ Neutron NPU, runs them
bit-exactly on a simulator, and shows what they cost.

    program = deuteron.compile(torch.export.export(model, inputs), calibration=loader)
    y = program(x)

Every verb of the command line is a function here, under its name, with its options as arguments.
"""

from __future__ import annotations

import atexit

from . import _deuteron
from ._commands import (
    Converted,
    QatPrepared,
    convert,
    eval,
    evaluate,
    explain,
    firmware,
    inspect,
    load,
    load_plugin,
    ops,
    profile,
    qat_prepare,
    run,
    targets,
    verify,
)
from ._compare import Comparison, compare
from ._compile import compile
from ._errors import DeuteronWarning, Error, Place
from ._explore import explore
from ._program import Program
from ._quantization import QuantizationReport
from ._results import (
    AccuracySearch,
    AccuracyStep,
    Codes,
    InputSpec,
    Layer,
    Memory,
    Placement,
    Profile,
    RunResult,
    Verification,
)
from ._training import train_batch_norms

__version__: str = _deuteron.version
__all__ = [
    "AccuracySearch",
    "AccuracyStep",
    "Codes",
    "Comparison",
    "Converted",
    "DeuteronWarning",
    "Error",
    "InputSpec",
    "Layer",
    "Memory",
    "Place",
    "Placement",
    "Profile",
    "Program",
    "QatPrepared",
    "QuantizationReport",
    "RunResult",
    "Verification",
    "__version__",
    "compare",
    "compile",
    "convert",
    "eval",
    "evaluate",
    "explain",
    "explore",
    "firmware",
    "inspect",
    "load",
    "load_plugin",
    "ops",
    "profile",
    "qat_prepare",
    "run",
    "targets",
    "train_batch_norms",
    "verify",
]

_deuteron.set_error(Error)
# Work that runs when the interpreter ends is cancelled, and has so many seconds to stop.
atexit.register(_deuteron.close, 10.0)
