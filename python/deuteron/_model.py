"""Models and programs on their way in."""

from __future__ import annotations

import io
import sys
from typing import Any, TypeAlias

from ._data import is_path, path_of
from ._errors import fail

# A path, or a name for messages with the bytes of the file.
Source: TypeAlias = "tuple[str, Any]"
NO_SOURCE: Source = ("", None)


def _is_exported(value: object) -> bool:
    torch_export = sys.modules.get("torch.export")
    return torch_export is not None and isinstance(value, torch_export.ExportedProgram)


def model_source(model: object) -> Source:
    """A model for the library: the path of a file, or the bytes of one in memory."""
    if is_path(model):
        return path_of(model), None  # type: ignore[arg-type]
    if isinstance(model, (bytes, bytearray, memoryview)):
        return "model", model
    if _is_exported(model):
        import torch

        file = io.BytesIO()
        torch.export.save(model, file)  # type: ignore[arg-type]
        return "exported program", file.getbuffer()
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
        "give an ExportedProgram, the path of a .pt2 or .tflite file, or its bytes",
    )


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
