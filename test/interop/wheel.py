"""What the live comparison needs of ExecuTorch's wheel (1.4): its exporter and its runtime, with
portable and quantized kernels."""
import io
import logging
import os
import sys
import warnings
import zipfile
from pathlib import Path


def _import_quietly():
    """The wheels print about libraries for machines that this is not."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    saved = os.dup(2)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
        try:
            import torch
            import executorch.kernels.quantized  # noqa: F401  registers quantized_decomposed
            from executorch import exir
            from executorch.exir._serialize._program import deserialize_pte_binary
            from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
            from executorch.extension.pybindings import _portable_lib
            from executorch.runtime import Runtime
        finally:
            os.dup2(saved, 2)
            os.close(saved)
    torch.set_num_threads(1)
    return torch, exir, deserialize_pte_binary, FlatTensorSerializer, _portable_lib, Runtime


(
    torch,
    exir,
    deserialize_pte_binary,
    FlatTensorSerializer,
    _portable_lib,
    Runtime,
) = _import_quietly()
import numpy as np  # noqa: E402


def load(path):
    """A .pt2. The repository's own leave out the sample inputs, which PyTorch insists on and
    nothing here uses."""
    whole = io.BytesIO()
    with zipfile.ZipFile(path) as stored, zipfile.ZipFile(whole, "w") as archive:
        for name in stored.namelist():
            archive.writestr(name, stored.read(name))
        samples = f"{stored.namelist()[0].split('/')[0]}/data/sample_inputs/model.pt"
        if samples not in stored.namelist():
            nothing = io.BytesIO()
            torch.save(((), {}), nothing)
            archive.writestr(samples, nothing.getvalue())
    whole.seek(0)
    return torch.export.load(whole)


def lower(path):
    """Bytes of the .pte that the exporter makes of a .pt2, without a partitioner: every operator is
    a kernel call."""
    program = load(path)
    edge = exir.to_edge(program, compile_config=exir.EdgeCompileConfig(_check_ir_validity=False))
    return edge.to_executorch().buffer


def lower_module(module, inputs):
    """The same of a module."""
    program = torch.export.export(module, inputs)
    edge = exir.to_edge(program, compile_config=exir.EdgeCompileConfig(_check_ir_validity=False))
    return edge.to_executorch().buffer


def lower_with_tensor_file(path, folder):
    """The same with constants in a tensor file: bytes of the .pte, of the .ptd."""
    edge = exir.to_edge(load(path), compile_config=exir.EdgeCompileConfig(_check_ir_validity=False))
    program = edge.to_executorch(exir.ExecutorchBackendConfig(external_constants=True))
    Path(folder).mkdir(exist_ok=True)
    for old in Path(folder).glob("*.ptd"):
        old.unlink()
    program.write_tensor_data_to_file(str(folder))
    written = list(Path(folder).glob("*.ptd"))  # none, if there are no constants
    return program.buffer, written[0].read_bytes() if written else None


def plan(program):
    """The execution plan of a .pte, as upstream's own tool reads it."""
    return deserialize_pte_binary(bytes(program)).program.execution_plan[0]


def operators(program):
    return sorted(
        {f"{op.name}.{op.overload}" if op.overload else op.name for op in plan(program).operators}
    )


def delegates(program):
    return sorted({delegate.id for delegate in plan(program).delegates})


def external_tensors(program):
    """Constants of a .pte that lie outside of it: key, sizes and dimension order."""
    found = {}
    for value in plan(program).values:
        extra = getattr(value.val, "extra_tensor_info", None)
        if extra is not None and extra.location.name == "EXTERNAL":
            found[extra.fully_qualified_name] = (list(value.val.sizes), list(value.val.dim_order))
    return found


def tensor_file_entries(tensors):
    """The same of a .ptd, as upstream's own deserializer reads it; entries that are no tensors are
    left out."""
    held = FlatTensorSerializer().deserialize(bytes(tensors)).named_data
    layouts = {key: entry.tensor_layout for key, entry in held.items()}
    return {
        key: (list(layout.sizes), list(layout.dim_order))
        for key, layout in layouts.items()
        if layout is not None
    }


def registered_operators():
    return set(Runtime.get().operator_registry.operator_names)


class Refused(Exception):
    """The runtime does not load or run the program."""


class Method:
    """The method `forward` of a program, loaded by ExecuTorch's runtime; `tensors`: bytes of a .ptd
    with its constants."""

    def __init__(self, program, tensors=None):
        self._tensors = tensors
        self._bytes = bytes(program)  # the runtime reads in place
        held = plan(program)
        self._inputs = [
            (list(held.values[i].val.sizes), list(held.values[i].val.dim_order))
            for i in held.inputs
        ]
        try:
            if tensors is None:
                self._execute = (
                    Runtime.get().load_program(self._bytes).load_method("forward").execute
                )
            else:  # the class above has no argument for them
                self._execute = _portable_lib._load_for_executorch_from_buffer(
                    self._bytes, tensors
                ).forward
        except Exception as error:
            raise Refused(str(error)) from None

    def run(self, inputs):
        """Arrays of PyTorch's logical shape in and out; the axis of a batch of one may be missing
        from inputs."""
        tensors = []
        for array, (sizes, order) in zip(inputs, self._inputs):
            physical = np.ascontiguousarray(array.reshape(sizes).transpose(order))
            tensors.append(torch.from_numpy(physical).permute(*np.argsort(order).tolist()))
        try:
            return [tensor.contiguous().numpy() for tensor in self._execute(tensors)]
        except Exception as error:
            raise Refused(str(error)) from None


if __name__ == "__main__":
    sys.exit("a module; see live.py and make_data.py")
