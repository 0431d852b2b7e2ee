"""Models and programs on their way in."""

from __future__ import annotations

import io
import sys
from typing import Any, TypeAlias

from ._data import is_path, path_of
from ._errors import fail

# A path with None, a name for messages with the bytes of the file, or these with parts (offset,
# bytes) that lie elsewhere: in the file stand zeros in their place.
Source: TypeAlias = "tuple[str, Any] | tuple[str, Any, list[tuple[int, Any]]]"
NO_SOURCE: Source = ("", None)

# Smaller tensors are copied with what is around them.
_LEAST_PART = 4096


def _is_exported(value: object) -> bool:
    torch_export = sys.modules.get("torch.export")
    return torch_export is not None and isinstance(value, torch_export.ExportedProgram)


def _storages(exported: Any) -> dict[int, list[Any]]:
    """The memory of the weights as arrays of bytes, by size."""
    import torch

    found: dict[int, dict[int, Any]] = {}
    for tensor in [*exported.state_dict.values(), *exported.constants.values()]:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
            continue
        if tensor.layout != torch.strided:
            continue
        storage = tensor.untyped_storage()
        if storage.nbytes() >= _LEAST_PART:
            view = torch.empty(0, dtype=torch.uint8).set_(storage)
            found.setdefault(storage.nbytes(), {})[storage.data_ptr()] = view.numpy()
    return {size: list(views.values()) for size, views in found.items()}


class _Archive(io.RawIOBase):
    """What torch.export.save writes, without the weights that the exported program holds."""

    def __init__(self, storages: dict[int, list[Any]]) -> None:
        self.storages = storages
        self.size = 0
        self.written: list[tuple[int, bytes]] = []
        self.parts: list[tuple[int, Any]] = []

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """PyTorch writes from the beginning to the end, and winds back once it is done."""
        return offset

    def write(self, data: Any) -> int:
        size = len(data)
        part = self._held(data) if size in self.storages else None
        if part is not None:
            self.parts.append((self.size, part))
        else:
            self.written.append((self.size, bytes(data)))
        self.size += size
        return size

    def _held(self, data: Any) -> Any:
        import numpy

        given = numpy.frombuffer(data, numpy.uint8)
        return next((each for each in self.storages[len(data)] if (each == given).all()), None)

    def source(self, name: str) -> Source:
        import mmap

        # Pages that nobody writes take no memory.
        file = mmap.mmap(-1, self.size)
        for offset, data in self.written:
            file[offset : offset + len(data)] = data
        return name, file, self.parts


def model_source(model: object, whole: bool = True) -> Source:
    """A model for the library: the path of a file, or the bytes of one in memory.

    whole: in one piece; else the weights of an ExportedProgram are not copied.
    """
    if is_path(model):
        return path_of(model), None  # type: ignore[arg-type]
    if isinstance(model, (bytes, bytearray, memoryview)):
        return "model", model
    if _is_exported(model):
        import torch

        file = _Archive({} if whole else _storages(model))
        torch.export.save(model, file)
        return file.source("exported program")
    torch_module = sys.modules.get("torch")
    if torch_module is not None and isinstance(model, torch_module.nn.Module):
        raise fail(
            "python-model",
            f"the model is a {type(model).__name__}, whose graph is not known",
            "export it first: torch.export.export(model.eval(), example_inputs)",
        )
    raise fail(
        "python-model",
        f"a model cannot be made of {type(model).__name__}",
        "give an ExportedProgram, the path of a .pt2, .tflite or .onnx file, or its bytes",
    )


def in_one_piece(source: Source) -> tuple[str, bytes | None]:
    """The same with a copy of everything: for a process that does not have the weights."""
    name, content, *rest = source
    if content is None:
        return name, None
    file = bytearray(content)
    for offset, part in rest[0] if rest else []:
        file[offset : offset + len(part)] = part.tobytes()
    return name, bytes(file)


def program_source(program: object) -> Source:
    """The same for a .pte file."""
    if is_path(program):
        return path_of(program), None  # type: ignore[arg-type]
    if isinstance(program, (bytes, bytearray, memoryview)):
        return "program", program
    raise fail(
        "python-model",
        f"a program cannot be made of {type(program).__name__}",
        "give the path of a .pte file, or its bytes",
    )
