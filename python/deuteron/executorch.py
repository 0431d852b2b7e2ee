"""Deuteron as a backend of ExecuTorch.

    from deuteron.executorch import DeuteronPartitioner, DeuteronQuantizer
    edge = to_edge_transform_and_lower(exported, partitioner=[DeuteronPartitioner()])
    edge.to_executorch().save("model.pte")

Importing this module registers the backend with ExecuTorch's runtime in this process, where it
simulates the NPU bit by bit:

    import deuteron.executorch
    from executorch.runtime import Runtime
    method = Runtime.get().load_program("model.pte").load_method("forward")
    outputs = method.execute([x])
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from . import _deuteron
from ._compile import names_of
from ._edge import (
    TAG,
    as_export,
    converts,
    operator_name,
    operator_of,
    partitions,
    place,
    quantizes_only_inputs,
    tag,
)
from ._errors import DeuteronWarning, Error, fail
from ._model import model_source
from ._quantizer import annotate, spell_out_attention
from ._results import check_choice

__all__ = [
    "DeuteronBackend",
    "DeuteronCompileSpec",
    "DeuteronPartitioner",
    "DeuteronQuantizer",
]

# Versions whose binary interface device/executorch/abi.h has.
SUPPORTED = "1.4"


def _installed() -> str:
    """The folder of ExecuTorch, of a version that works."""
    import importlib.metadata
    import importlib.util

    try:
        spec = importlib.util.find_spec("executorch")
        version = importlib.metadata.version("executorch")
    except ImportError:  # PackageNotFoundError is one
        spec, version = None, ""
    if spec is None or not spec.submodule_search_locations or not version:
        raise ImportError(
            f"deuteron.executorch needs ExecuTorch {SUPPORTED}, which is not installed: "
            f"pip install 'executorch=={SUPPORTED}.*'"
        )
    if version.split("+")[0].split(".")[:2] != SUPPORTED.split("."):
        raise ImportError(
            f"deuteron.executorch works with ExecuTorch {SUPPORTED}, {version} is installed: "
            f"pip install 'executorch=={SUPPORTED}.*'"
        )
    return next(iter(spec.submodule_search_locations))


_folder = _installed()

# The order matters: operators of the first library are those that the second finds.
import executorch.kernels.quantized  # noqa: E402, F401  isort: skip
from executorch.extension.pybindings import portable_lib as _portable_lib  # noqa: E402, F401
from executorch.exir.backend.backend_details import (  # noqa: E402
    BackendDetails,
    PreprocessResult,
)
from executorch.exir.backend.compile_spec_schema import CompileSpec  # noqa: E402
from executorch.exir.backend.partitioner import (  # noqa: E402
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from executorch.exir.backend.utils import WhyNoPartition, WhyNoPartitionReporter  # noqa: E402

from torchao.quantization.pt2e.quantizer import Quantizer  # noqa: E402


def _register() -> None:
    """Enters the backend in each of ExecuTorch's registries that is loaded, once."""
    if _deuteron.executorch_register(_folder) == 0:
        raise ImportError(
            "deuteron.executorch found no registry of backends in ExecuTorch's libraries: "
            f"pip install --force-reinstall 'executorch=={SUPPORTED}.*'"
        )


_register()
_logger = logging.getLogger(__name__)
_KEY = "deuteron"

# Functions that ExecuTorch takes to pieces, between which a quantized model has no quantization.
_WHOLE = frozenset(
    "celu glu group_norm hardsigmoid hardswish instance_norm log_sigmoid mish pixel_shuffle "
    "pixel_unshuffle prelu rms_norm selu silu softplus upsample_bilinear2d upsample_nearest2d".split()
)


# ExecuTorch's NeutronQuantizer finds operators by `source_fn_stack`, which only strict exports have.
_ONLY_INPUTS = (
    "not-quantized-in-model: the program quantizes its inputs, and no operator: its quantizer "
    "recognized none; fix: NeutronQuantizer needs a strict export, "
    "torch.export.export(model, inputs, strict=True), before prepare_pt2e"
)


@dataclass(frozen=True)
class DeuteronCompileSpec:
    """How partitions are made and compiled.

    target: a name of ``deuteron.targets()``, or the path of a target file. boundary: ``float``
    takes the quantize and dequantize around a partition into it, so that the program needs no other
    kernels for them; ``int8`` leaves those between the partition and other operators outside, where
    XNNPACK finds them. schedule, constants, row_packing, keep_off, force_on: as in ``deuteron.compile``; nodes have the names
    that they have in the edge program. weigh_costs: false delegates every node that the NPU can run.
    """

    target: str = "imxrt700"
    boundary: str = "float"
    schedule: str = "own"
    constants: str = ""
    row_packing: bool = False
    keep_off: Sequence[str] = ()
    force_on: Sequence[str] = ()
    weigh_costs: bool = True

    def __post_init__(self) -> None:
        check_choice("boundary", self.boundary, ("float", "int8"))
        check_choice("schedule", self.schedule, ("own", "nxp-like"))
        if self.constants:
            check_choice("constants", self.constants, ("sram", "flash"))
        object.__setattr__(self, "keep_off", tuple(names_of("keep_off", self.keep_off)))
        object.__setattr__(self, "force_on", tuple(names_of("force_on", self.force_on)))

    def to_compile_specs(self) -> list[Any]:
        """The same as a partitioner's list of ExecuTorch."""
        return [CompileSpec(_KEY, json.dumps(asdict(self)).encode())]

    @staticmethod
    def from_compile_specs(specs: Sequence[Any]) -> DeuteronCompileSpec:
        """What to_compile_specs made."""
        for spec in specs:
            if spec.key == _KEY:
                return DeuteronCompileSpec(**json.loads(bytes(spec.value)))
        return DeuteronCompileSpec()

    def _options(self) -> dict[str, Any]:
        options = asdict(self)
        del options["boundary"]
        options["keep_off"] = list(self.keep_off)
        options["force_on"] = list(self.force_on)
        return options


class DeuteronPartitioner(Partitioner):  # type: ignore[misc]
    """Delegates what Deuteron would place on the NPU.

    After a partition, ``reporter.get_table_report()`` has the reason for each node that stays
    outside, and so has ``node.meta["deuteron_reason"]``; they are logged as ExecuTorch's
    ``WhyNoPartition`` too.
    """

    def __init__(self, compile_spec: DeuteronCompileSpec | None = None) -> None:
        super().__init__()
        if compile_spec is None:
            compile_spec = DeuteronCompileSpec()
        if not isinstance(compile_spec, DeuteronCompileSpec):
            raise fail(
                "python-argument",
                f"the partitioner's argument is a {type(compile_spec).__name__}",
                "give a DeuteronCompileSpec, or nothing",
            )
        self.compile_spec = compile_spec
        self.delegation_spec = DelegationSpec(
            DeuteronBackend.__name__, compile_spec.to_compile_specs()
        )
        self.reporter = WhyNoPartitionReporter()

    def ops_to_not_decompose(self, ep: Any) -> tuple[list[Any], None]:
        """Operators whose parts the model does not quantize, if the NPU runs all of them."""
        whole: dict[Any, bool] = {}
        for node in ep.graph.nodes:
            if operator_name(node) == "executorch_call_delegate":
                return [], None  # it is lowered already
            if node.op == "call_function" and _packet(node) in _WHOLE:
                whole[operator_of(node)] = True
        if not whole:
            return [], None
        try:
            placed = place(ep, self.compile_spec._options())
        except Error:
            return [], None  # `partition` says it
        for node in ep.graph.nodes:
            row = placed.get(node.name)
            if operator_of(node) in whole and (row is None or not row.delegated):
                whole[operator_of(node)] = False
        return [target for target, delegated in whole.items() if delegated], None

    def partition(self, exported_program: Any) -> Any:
        """Tags the nodes of the NPU; see ExecuTorch's Partitioner."""
        spec = self.compile_spec
        placed = place(exported_program, spec._options())
        why = WhyNoPartition(_logger)
        groups = partitions(exported_program, placed, spec.boundary)
        tags = tag(exported_program, groups, "deuteron_")
        unannotated = not tags and quantizes_only_inputs(exported_program)
        if unannotated:
            warnings.warn(_ONLY_INPUTS, DeuteronWarning, stacklevel=2)
        for node in exported_program.graph_module.graph.nodes:
            row = placed.get(node.name)
            if row is None or TAG in node.meta or converts(node):
                continue
            reason = row.reason or "partition-cycle: its partition would depend on itself"
            if unannotated and reason.startswith("not-quantized-in-model"):
                reason = _ONLY_INPUTS
            node.meta["deuteron_reason"] = reason
            self.reporter.report_reject(node, reason)
            why(node, reason)
        return PartitionResult(
            tagged_exported_program=exported_program,
            partition_tags={each: self.delegation_spec for each in tags},
        )


class DeuteronBackend(BackendDetails):  # type: ignore[misc]
    """Compiles a partition to a program of Deuteron, the payload of its delegate."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: list[Any]) -> Any:
        """See ExecuTorch's BackendDetails."""
        options = DeuteronCompileSpec.from_compile_specs(compile_specs)._options()
        # The placement is decided. Names are of the whole program.
        options.update(weigh_costs=False, keep_off=[], force_on=[])
        source = model_source(as_export(edge_program), False)
        payload, events = _deuteron.executorch_compile(source, options)
        handles = {
            node.name: node.meta.get("debug_handle")
            for node in edge_program.graph_module.graph.nodes
        }
        return PreprocessResult(
            processed_bytes=payload,
            debug_handle_map={
                event: tuple(sorted(found))
                for event, nodes in events
                if (found := _flat(handles.get(name) for name in nodes))
            },
        )


class DeuteronQuantizer(Quantizer):  # type: ignore[misc]
    """Annotates for ``prepare_pt2e`` what Deuteron's own quantization would make int8.

    The patterns are those of the target; ranges come from PyTorch's observers. Attention is
    spelled out, so that its scores are quantized too.
    """

    def __init__(self, compile_spec: DeuteronCompileSpec | None = None) -> None:
        super().__init__()
        self.compile_spec = compile_spec or DeuteronCompileSpec()

    def transform_for_annotation(self, model: Any) -> Any:
        """See PT2E's Quantizer."""
        return spell_out_attention(model)

    def annotate(self, model: Any) -> Any:
        """See PT2E's Quantizer."""
        annotate(model, {"target": self.compile_spec.target})
        return model

    def validate(self, model: Any) -> None:
        """See PT2E's Quantizer."""


def _packet(node: Any) -> str:
    """``hardswish`` of ``aten.hardswish.default``."""
    parts = operator_name(node).split(".")
    return parts[1] if len(parts) == 3 else ""


def _flat(handles: Any) -> set[int]:
    """Debug handles of nodes: a number, several, or none each."""
    found: set[int] = set()
    for handle in handles:
        if isinstance(handle, int):
            found.add(handle)
        elif handle is not None:
            found.update(handle)
    return found
