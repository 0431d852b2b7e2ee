"""What ExecuTorch's NXP backend calls of ``eiq_neutron_sdk``, by Deuteron."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .._commands import convert, targets

__all__ = ["merge_kernel_selection_files", "neutron_converter", "neutron_library_utils"]

_N3 = 2  # NeutronHWVersion.N3 of ExecuTorch
_SELECTION = "_kernel_selection.c"


@dataclass(frozen=True)
class NeutronTarget:
    """A machine, as ``NeutronTargetSpec`` reads it."""

    name: str
    subsystem: bool = False  # Neutron-C: an NPU beside a microcontroller's core
    numUnits: int = 1  # noqa: N815, the names are NXP's
    numPipes: int = 8  # noqa: N815
    numMacs: int = 8  # noqa: N815
    hwVersion: int = _N3  # noqa: N815


def _targets() -> list[NeutronTarget]:
    return [NeutronTarget(row["name"]) for row in targets() if row["name"].startswith("imxrt")]


class neutron_library_utils:  # noqa: N801
    """The names of machines."""

    @staticmethod
    def isNeutronTarget(name: str) -> bool:  # noqa: N802
        """Whether a machine has that name."""
        return any(each.name == name for each in _targets())

    @staticmethod
    def getNeutronTargets() -> list[NeutronTarget]:  # noqa: N802
        """All machines."""
        return _targets()


@dataclass
class CompilationOptions:
    """Options of a conversion. Those on passes and sizes of graphs change nothing here."""

    minNumOpsPerGraph: int = 1  # noqa: N815
    excludeGraphPasses: str = ""  # noqa: N815
    fetchConstantsToSRAM: bool = False  # noqa: N815
    dumpKernelSelectionCode: bool = False  # noqa: N815
    useProfiling: bool = False  # noqa: N815
    dumpAfterImport: str = ""  # noqa: N815
    dumpAfterGenerate: str = ""  # noqa: N815
    verbose: bool = False


@dataclass
class _CompilationContext:
    """The machine and the options of a conversion."""

    targetOpts: NeutronTarget | None = None  # noqa: N815
    compilationOpts: CompilationOptions = field(default_factory=CompilationOptions)  # noqa: N815


class neutron_converter:  # noqa: N801
    """The converter."""

    CompilationContext = _CompilationContext

    @staticmethod
    def getNeutronTarget(name: str) -> NeutronTarget:  # noqa: N802
        """The machine of that name. Raises ValueError."""
        for each in _targets():
            if each.name == name:
                return each
        raise ValueError(f"there is no target {name!r}: {[each.name for each in _targets()]}")

    @staticmethod
    def convertModel(  # noqa: N802
        model: Sequence[int], context: _CompilationContext
    ) -> Sequence[int]:
        """Neutron IR to the same model with NeutronGraph operators, both the bytes of a .tflite.

        Writes _kernel_selection.c into the current folder, and the log to standard output, where
        the options say so.
        """
        options = context.compilationOpts
        target = context.targetOpts.name if context.targetOpts else "imxrt700"
        made = convert(
            bytes(model),
            target=target,
            fetch_constants_to_sram=options.fetchConstantsToSRAM,
            profile=options.useProfiling,
        )
        if options.dumpKernelSelectionCode:
            with open(_SELECTION, "w") as file:
                file.write(made.kernel_selection)
        if options.verbose or "console" in (options.dumpAfterImport, options.dumpAfterGenerate):
            _print(made.log)
        return made.model


def _print(text: str) -> None:
    """To the process' standard output, which ExecuTorch redirects below Python's."""
    data = text.encode()
    while data:
        data = data[os.write(1, data) :]


def merge_kernel_selection_files(files: Iterable[str], output: str) -> None:
    """One table of the kernels that any of the tables has, which convertModel wrote."""
    from .. import _deuteron

    names: set[str] = set()
    for file in files:
        with open(file) as opened:
            found = re.findall(r"^  NEUTRON_KERNEL_(\w+),$", opened.read(), re.MULTILINE)
        names.update(found)
    with open(output, "w") as written:
        written.write(_deuteron.kernel_table(sorted(names)))
