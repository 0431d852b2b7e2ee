"""Graphs of ExecuTorch on their way into the library, and how they are cut into partitions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from . import _deuteron
from ._errors import Error
from ._model import model_source

TAG = "delegation_tag"

# Metadata of a node that torch.export.save writes.
_KEPT = ("val", "nn_module_stack", "source_fn_stack", "stack_trace", "torch_fn")


def operator_of(node: Any) -> Any:
    """PyTorch's operator of a node, in both dialects."""
    import torch

    of_edge = getattr(node.target, "_op", None)
    return of_edge if isinstance(of_edge, torch._ops.OpOverload) else node.target


def operator_name(node: Any) -> str:
    """``aten.convolution.default``, in both dialects."""
    return str(operator_of(node))


def is_quantize(node: Any) -> bool:
    return node.op == "call_function" and ".quantize_per_" in operator_name(node)


def is_dequantize(node: Any) -> bool:
    return node.op == "call_function" and ".dequantize_per_" in operator_name(node)


def converts(node: Any) -> bool:
    """Whether a node is a quantize or a dequantize."""
    return is_quantize(node) or is_dequantize(node)


def quantizes_only_inputs(edge: Any) -> bool:
    """Whether a quantizer annotated inputs of the program, and the result of no operator."""
    sources = [each.args[0] for each in edge.graph_module.graph.nodes if is_quantize(each)]
    return bool(sources) and all(source.op == "placeholder" for source in sources)


def is_getitem(node: Any) -> bool:
    return node.op == "call_function" and node.target is operator.getitem


def _format_of(dim_order: Any, rank: int) -> Any:
    import torch

    if dim_order is None or list(dim_order) == list(range(rank)):
        return torch.contiguous_format if dim_order is not None else torch.preserve_format
    if list(dim_order) == [0, *range(2, rank), 1]:
        return torch.channels_last if rank == 4 else torch.channels_last_3d
    return None


def _in_aten(node: Any, copied: Callable[[Any], Any], torch: Any) -> tuple[Any, Any, Any]:
    """Operator, arguments and keywords of a node in PyTorch's own dialect."""
    target = operator_of(node)
    args = torch.fx.map_arg(node.args, copied)
    kwargs = dict(torch.fx.map_arg(node.kwargs, copied))
    name = operator_name(node)
    # The edge dialect has the functional variants of views.
    packet, _, overload = name.removeprefix("aten.").partition(".")
    if name.startswith("aten.") and packet.endswith("_copy") and not packet.startswith("_"):
        view = getattr(torch.ops.aten, packet.removesuffix("_copy"), None)
        if view is not None and overload in view.overloads():
            target = getattr(view, overload)
    if name.startswith("dim_order_ops.") and "empty" not in name:
        order = kwargs.pop("dim_order", None)
        form = _format_of(order, len(node.meta["val"].shape))
        if form is not None:
            clone = name.startswith("dim_order_ops._clone")
            aten = torch.ops.aten
            target = aten.clone.default if clone else aten._to_copy.default
            if clone:
                kwargs = {}
            return target, args, {**kwargs, "memory_format": form}
    return target, args, kwargs


def _with_content(state: dict[str, Any]) -> dict[str, Any]:
    """Tensors with the content of the fake ones that ExecuTorch gives a partitioner.

    PyTorch's converter knows of which tensor it made each one. Where it does not, shapes must do:
    placement needs little more of a constant than a positive scale.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    real: dict[str, Any] = {}
    made_of: dict[int, dict[int, Any]] = {}
    for name, tensor in state.items():
        if not isinstance(tensor, FakeTensor):
            real[name] = tensor
            continue
        mode = tensor.fake_mode
        known = made_of.get(id(mode))
        if known is None:
            known = made_of[id(mode)] = {}
            converter = getattr(mode.fake_tensor_converter, "meta_converter", None)
            tensors = getattr(getattr(converter, "describer", None), "lookup_tensor", {})
            numbered = {number: each for each, number in tensors.items()}
            for number, fake in getattr(converter, "tensor_memo", {}).items():
                if number in numbered:
                    known[id(fake)] = numbered[number]
        found = known.get(id(tensor))
        if found is None or found.shape != tensor.shape or found.dtype != tensor.dtype:
            value = 2.0**-7 if tensor.dtype.is_floating_point else 0
            found = torch.full(tuple(tensor.shape), value, dtype=tensor.dtype)
        real[name] = found
    return real


def _readable(nodes: list[Any], cut: Collection[str], drop: Collection[str]) -> tuple[Any, Any]:
    """Nodes that take part, and those of other nodes that are inputs in their place."""
    import torch

    taken: set[Any] = set()
    given: set[Any] = set()
    for node in nodes:
        if node.name in drop or node.op not in ("placeholder", "call_function"):
            continue
        known = all(each in taken or each in given for each in node.all_input_nodes)
        if known and node.name not in cut:
            taken.add(node)
        elif isinstance(node.meta.get("val"), torch.Tensor):
            given.add(node)
    return taken, given


def as_export(edge: Any, cut: Collection[str] = (), drop: Collection[str] = ()) -> Any:
    """The ExportedProgram of PyTorch with the nodes of an edge program, under their names.

    cut: nodes that the library cannot read. Each becomes an input, and what it reads outputs. drop:
    nodes whose results it cannot read either; so become what reads them. State that the program
    changes is an input and an output too.
    """
    import torch
    from torch._export.verifier import TrainingIRVerifier
    from torch.export.graph_signature import (
        ExportGraphSignature,
        InputKind,
        InputSpec,
        OutputKind,
        OutputSpec,
        TensorArgument,
    )

    signature = edge.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    specs = {spec.arg.name: spec for spec in signature.input_specs}
    graph = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    inputs: list[Any] = []

    def placeholder(node: Any, spec: Any) -> None:
        copy = graph.create_node("placeholder", node.name, name=node.name)
        copy.meta = {"val": node.meta.get("val")}
        copies[node] = copy
        inputs.append(spec)

    def user_input(node: Any) -> Any:
        return InputSpec(InputKind.USER_INPUT, TensorArgument(name=node.name), None)

    nodes = list(edge.graph_module.graph.nodes)
    taken, given = _readable(nodes, cut, drop)
    for node in nodes:
        if node.op == "placeholder" and node in taken:
            spec = specs[node.name]
            changes = spec.target in mutated and spec.kind == InputKind.BUFFER
            placeholder(node, user_input(node) if changes else spec)
    for node in nodes:
        if node in given:
            placeholder(node, user_input(node))
    outputs: dict[str, Any] = {}
    for node in nodes:
        if node.op != "call_function" or node not in taken:
            continue
        target, args, kwargs = _in_aten(node, copies.__getitem__, torch)
        copy = graph.create_node("call_function", target, args, kwargs, name=node.name)
        copy.meta = {key: node.meta[key] for key in _KEPT if key in node.meta}
        copies[node] = copy
    for node in nodes:
        reads = node not in taken
        for each in node.all_input_nodes if reads else ():
            computed = copies.get(each)
            if computed is not None and isinstance(each.meta.get("val"), torch.Tensor):
                outputs.setdefault(computed.name, computed)
    graph.output(tuple(outputs.values()))
    used = {spec.target for spec in inputs if spec.target is not None}
    return torch.export.ExportedProgram(
        torch.nn.Module(),
        graph,
        ExportGraphSignature(
            inputs,
            [
                OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=name), None)
                for name in outputs
            ],
        ),
        _with_content({name: tensor for name, tensor in edge.state_dict.items() if name in used}),
        edge.range_constraints,
        edge.module_call_graph,
        None,
        {name: value for name, value in edge.constants.items() if name in used},
        verifiers=[TrainingIRVerifier],
    )


@dataclass
class Placed:
    """Where the library runs a node: on the NPU, or why not."""

    delegated: bool
    reason: str


# Errors that are the fault of the options, not of the model.
_OF_OPTIONS = (
    "node-unknown",
    "option-needs-npu",
    "placement-forced",
    "recipe-invalid",
    "target-invalid",
    "target-unknown",
)


def place(edge: Any, options: dict[str, Any]) -> dict[str, Placed]:
    """Where nodes run, by name. Those without a row are merged into others, as a quantize is."""
    nodes = {node.name: node for node in edge.graph_module.graph.nodes}
    cut: dict[str, Placed] = {}
    drop: set[str] = set()
    for node in nodes.values():
        # The library computes these in float32; ExecuTorch's tensors around a delegate stay.
        dtype = str(getattr(node.meta.get("val"), "dtype", "")).removeprefix("torch.")
        if dtype not in ("float16", "bfloat16", "float64"):
            continue
        reason = f"pt2-unsupported-dtype: `{node.name}` is {dtype}, a delegate has float32"
        drop.add(node.name)
        for each in (node, *node.users):
            if each.op == "call_function":
                cut.setdefault(each.name, Placed(False, reason))
    while True:
        try:
            export = as_export(edge, cut, drop)
            rows = _deuteron.executorch_place(model_source(export, False), options)
            break
        except Error as error:
            if error.id in _OF_OPTIONS:
                raise
            # An operator that the library does not read: it and its likes run elsewhere.
            culprit = nodes.get(error.place.node)
            if culprit is None or error.id == "pt2-symbolic-shape" or culprit.name in drop:
                # The whole model: it is float, or has dynamic shapes.
                return {
                    name: Placed(False, f"{error.id}: {error.reason}")
                    for name, node in nodes.items()
                    if node.op == "call_function"
                }
            if culprit.op == "placeholder" or culprit.name in cut:
                drop.add(culprit.name)  # nor its result, of another dtype
                reason = f"{error.id}: {error.reason}"
                for node in nodes.values():
                    if node.op == "call_function" and culprit in node.all_input_nodes:
                        cut.setdefault(node.name, Placed(False, reason))
                continue
            whole = error.id == "pt2-unsupported-operator"
            for node in nodes.values():
                same = whole and node.target == culprit.target
                if (node is culprit or same) and not is_getitem(node):
                    cut[node.name] = Placed(False, f"{error.id}: {error.reason}")
                    for user in node.users:
                        if is_getitem(user):
                            cut[user.name] = cut[node.name]
    taken, _ = _readable(list(nodes.values()), cut, drop)
    placed = {
        name: Placed(False, "pt2-unsupported-operator: it reads what the library cannot read")
        for name, node in nodes.items()
        if node.op == "call_function" and node not in taken
    }
    placed.update(cut)
    for name, delegated, id, reason, remedy, because_of in rows:
        text = f"{id}: {reason}" + (f"; fix: {remedy}" if remedy else "") if id else ""
        if because_of:
            text = f"{id}: it follows {because_of}, which is not on the NPU"
        if nodes.get(name) in taken:
            placed[name] = Placed(delegated, "" if delegated else text)
    return placed


def _constant_nodes(edge: Any) -> set[Any]:
    """Nodes that depend on constants alone, such as the dequantize of weights."""
    signature = edge.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    state = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    held = {name for name, target in state.items() if target not in mutated}
    constant: set[Any] = set()
    for node in edge.graph_module.graph.nodes:
        if node.op == "placeholder" and node.name in held:
            constant.add(node)
        elif node.op == "call_function" and node.all_input_nodes:
            if all(each in constant for each in node.all_input_nodes):
                constant.add(node)
    return constant


def _keeps_outside(node: Any, compute: Collection[Any]) -> bool:
    """With int8 boundaries: whether a quantize or dequantize belongs to others than the NPU."""

    def is_npu(each: Any) -> bool:
        return each in compute

    if is_dequantize(node):
        source = node.args[0]
        ends = all(user.op == "output" for user in node.users)
        made = is_quantize(source) and is_npu(source.args[0])
        return not (any(map(is_npu, node.users)) or (ends and made))
    source = node.args[0]
    readers = [user for each in node.users for user in each.users]
    feeds = source.op == "placeholder" and readers and all(map(is_npu, readers))
    return not (is_npu(source) or feeds)


def partitions(edge: Any, placed: dict[str, Placed], boundary: str) -> list[list[Any]]:
    """Nodes of each partition: those on the NPU with the quantize and dequantize around them.

    What is computed from constants, such as the dequantize of a weight, belongs to the partition
    that reads it. ``placed`` is told of nodes that lose their place, because another partition has
    the constant that they read.
    """
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    constant = _constant_nodes(edge)
    graph = edge.graph_module.graph
    order = {node: index for index, node in enumerate(graph.nodes)}

    class Support(OperatorSupportBase):  # type: ignore[misc]
        def __init__(self, supported: set[Any]) -> None:
            self.supported = supported

        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return node in self.supported

    while True:
        compute = {
            node
            for node in graph.nodes
            if node.op == "call_function" and (row := placed.get(node.name)) and row.delegated
        }
        supported: set[Any] = set()
        for node in graph.nodes:
            if node.op != "call_function" or node in constant:
                continue
            row = placed.get(node.name)
            if converts(node):
                if boundary == "float" or not _keeps_outside(node, compute):
                    supported.add(node)
            elif row is None or row.delegated:
                supported.add(node)
        found = CapabilityBasedPartitioner(
            edge.graph_module, Support(supported), allows_single_node_partition=True
        ).propose_partitions()
        groups = [sorted(each.nodes, key=order.__getitem__) for each in found]
        groups = [group for group in groups if any(map(_computes(compute), group))]
        groups.sort(key=lambda group: order[group[0]])
        floats = {
            node for group in groups if not any(map(converts, group)) for node in group
        } & compute
        for node in floats:
            placed[node.name] = Placed(False, "partition-float: no value around it is quantized")
        lost = _add_constants(graph, constant, groups)
        if not lost and not floats:
            return [sorted(group, key=order.__getitem__) for group in groups]
        for node in lost:
            placed[node.name] = Placed(
                False, "partition-constant: another partition has the constant that it reads"
            )


def _computes(compute: Collection[Any]) -> Callable[[Any], bool]:
    return lambda node: node in compute and not converts(node)


def _add_constants(graph: Any, constant: Collection[Any], groups: list[list[Any]]) -> set[Any]:
    """Adds to each group what is computed from constants for it; returns readers without it."""
    owner = {node: index for index, group in enumerate(groups) for node in group}
    lost: set[Any] = set()
    for node in reversed(list(graph.nodes)):
        if node.op != "call_function" or node not in constant:
            continue
        readers = {owner[user] for user in node.users if user in owner}
        if not readers:
            continue
        owner[node] = min(readers)
        groups[owner[node]].append(node)
        lost.update(user for user in node.users if owner.get(user, owner[node]) != owner[node])
    while passing := [node for node in lost if node in constant]:
        lost.difference_update(passing)
        lost.update(user for node in passing for user in node.users)
    return lost


def tag(edge: Any, groups: Iterable[list[Any]], prefix: str) -> list[str]:
    """Tags the nodes of partitions and the constants that they read; returns the tags.

    A constant that several partitions read is copied to each by ExecuTorch.
    """
    from executorch.exir.backend.utils import tag_constant_data

    tags = []
    for index, group in enumerate(groups):
        tags.append(f"{prefix}{index}")
        for node in group:
            node.meta[TAG] = tags[-1]
    tag_constant_data(edge)
    return tags
