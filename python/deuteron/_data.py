"""Converts arrays of NumPy, PyTorch and other packages to and from the library's form."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ._errors import DeuteronWarning, fail, wrong_type

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    Array: TypeAlias = "numpy.ndarray[Any, numpy.dtype[Any]]"
else:
    Array = Any

# An array as the library takes and gives it: name, dtype, shape, contiguous bytes.
Row: TypeAlias = "tuple[str, str, tuple[int, ...], Any]"
# Name, dtype and shape of an input.
Input: TypeAlias = "tuple[str, str, tuple[int, ...]]"
# What becomes arrays: one array or tensor, a dict of them by input, or an iterable of batches.
Data: TypeAlias = Any
Path: TypeAlias = "str | os.PathLike[str]"

_DTYPES = {
    "bool": "bool",
    "uint8": "u8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float32": "f32",
    "float64": "f64",
}
_NAMES = {short: name for name, short in _DTYPES.items()}


def is_path(value: object) -> bool:
    """Whether the value names a file."""
    return isinstance(value, (str, os.PathLike))


def is_tensor(value: object) -> bool:
    """Whether the value is a tensor of PyTorch, which is not imported for this check."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: object) -> bool:
    """Whether the value is one array, and no collection of arrays."""
    return is_tensor(value) or hasattr(value, "__array__") or hasattr(value, "__dlpack__")


_PLAIN = "give a plain tensor that holds its data, outside of torch.func and FakeTensorMode"


def _tensor_to_numpy(tensor: Any, name: str) -> Any:
    torch = sys.modules["torch"]
    if tensor.device.type == "meta":
        raise fail(
            "python-device",
            "the tensor is on the device `meta`: it has a shape and no data",
            "give a tensor with data",
            node=name,
        )
    if tensor.layout != torch.strided or tensor.is_quantized:
        kind = "quantized" if tensor.is_quantized else str(tensor.layout)
        raise fail(
            "python-data",
            f"the tensor is {kind}; programs take dense arrays",
            "give a dense tensor: x.to_dense(), x.dequantize()",
            node=name,
        )
    try:
        tensor = tensor.detach().resolve_conj().resolve_neg().cpu()
        if tensor.dtype in (torch.bfloat16, torch.float16):
            tensor = tensor.float()
        array = tensor.numpy()
        # Wrapped tensors (torch.func, FakeTensor) and freed ones have a shape and no memory of it.
        last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
        end = (tensor.storage_offset() + last + 1) * tensor.element_size()
        held = tensor.untyped_storage().nbytes() if type(tensor) is torch.Tensor else end
        wrapped = torch._is_functional_tensor(tensor) or (
            tensor.numel() > 0 and (tensor.data_ptr() == 0 or held < end)
        )
    except (TypeError, RuntimeError) as error:
        if str(error).startswith("Got unsupported ScalarType"):
            raise fail(
                "data-dtype", f"the tensor is {tensor.dtype}: {error}", "give float32", node=name
            ) from error
        raise fail(
            "python-data", f"the tensor's data cannot be read: {error}", _PLAIN, node=name
        ) from error
    if wrapped:
        raise fail("python-data", "the tensor has a shape and no memory", _PLAIN, node=name)
    return array


def to_numpy(value: object, name: str = "") -> Array:
    """`value` as a C-contiguous array of a dtype that programs know. `name` is for messages."""
    import numpy

    if is_tensor(value):
        value = _tensor_to_numpy(value, name)
    elif not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
        value = numpy.from_dlpack(value)
    try:
        array = numpy.asarray(value)
    except ValueError as error:  # a ragged list
        raise fail("data-shape", f"it is no array: {error}", "give an array", node=name) from error
    if array.dtype == numpy.float16:
        array = array.astype(numpy.float32)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.name not in _DTYPES:
        raise fail(
            "data-dtype",
            f"the array's dtype is {array.dtype}, and programs take {', '.join(_DTYPES)}",
            "convert it: x.astype(numpy.float32)",
            node=name,
        )
    return array if array.flags.c_contiguous else array.copy(order="C")


def to_row(name: str, value: object) -> Row:
    """An array as the library takes it; its memory is not copied where it is contiguous."""
    array = to_numpy(value, name)
    # A view of bytes: the buffer protocol has no zero-sized strides and no bool of its own.
    flat = array.reshape(-1).view("uint8") if array.size else b""
    return (name, _DTYPES[array.dtype.name], array.shape, flat)


def from_row(row: Row) -> Array:
    """An array that the library gives."""
    import numpy

    _, dtype, shape, buffer = row
    return numpy.frombuffer(buffer, dtype=_NAMES[dtype]).reshape(shape)


def along_samples(array: Array, entry: Input) -> Array:
    """`array` as samples along a new first axis of an input."""
    name, _, shape = entry
    if array.shape == shape:
        return array[None]
    if array.shape[1:] == shape and array.ndim > 0:
        return array
    if shape[:1] == (1,):
        if array.ndim == len(shape) and array.shape[1:] == shape[1:]:
            return array[:, None]
        if array.shape == shape[1:]:
            return array[None, None]
    raise fail(
        "data-shape",
        f"a batch has shape {array.shape}, the input takes {shape}",
        "give batches whose samples have the shape of the input",
        node=name,
    )


def _batch(item: object, inputs: list[Input]) -> dict[str, object]:
    """The arrays of one batch by input; elements after the inputs, such as labels, are ignored."""
    if isinstance(item, Mapping):
        return {str(name): value for name, value in item.items()}
    if isinstance(item, (list, tuple)) and (not item or any(map(_is_batch_part, item))):
        if len(item) < len(inputs):
            raise fail(
                "data-missing-array",
                f"a batch has {len(item)} arrays, the model takes {len(inputs)} inputs",
                "yield one array for each input",
            )
        return {entry[0]: value for entry, value in zip(inputs, item, strict=False)}
    if len(inputs) > 1:
        raise fail(
            "data-missing-array",
            f"a batch is one array, the model takes {len(inputs)} inputs",
            "yield tuples with one array for each input, or dicts by name",
        )
    return {inputs[0][0]: item} if inputs else {}


def _name_in(batch: dict[str, object], place: int, entry: Input) -> str | None:
    """The name of an input's array in a batch, as in an .npz: its own, `input_k`, `input`."""
    names = [entry[0], f"input_{place}", *(["input"] if place == 0 else [])]
    return next((name for name in names if name in batch), None)


def _is_batch_part(value: object) -> bool:
    return is_array(value) or isinstance(value, (list, tuple))


def _from_batches(batches: Iterable[object], inputs: list[Input]) -> list[Row]:
    import numpy

    collected: dict[str, list[Array]] = {entry[0]: [] for entry in inputs}
    count = 0
    for item in batches:
        count += 1
        batch = _batch(item, inputs)
        for place, entry in enumerate(inputs):
            name = _name_in(batch, place, entry)
            if name is None:
                raise fail(
                    "data-missing-array",
                    f"batch {count} has no array for the input; its arrays:"
                    f" {', '.join(batch) or 'none'}",
                    f"yield an array by the name {entry[0]} in every batch",
                    node=entry[0],
                )
            value = to_numpy(batch[name], entry[0])
            collected[entry[0]].append(along_samples(value, entry))
    if count == 0:
        raise fail(
            "data-empty", "the iterable ended without a batch", "give at least one batch of samples"
        )
    promised = _length(batches)
    if promised is not None and count < promised:
        import warnings

        warnings.warn(
            f"the loader has a length of {promised} and ended after {count} batches",
            DeuteronWarning,
            stacklevel=2,
        )
    return [to_row(name, numpy.concatenate(parts)) for name, parts in collected.items()]


def _length(batches: object) -> int | None:
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:
        return None


def to_rows(data: Data, inputs: list[Input]) -> list[Row]:
    """Samples for the inputs of a model: from one array, a dict by name, or batches."""
    if isinstance(data, Mapping):
        return [to_row(str(name), value) for name, value in data.items()]
    if is_array(data):
        return [to_row(inputs[0][0] if inputs else "input", data)]
    if isinstance(data, Iterable) and not isinstance(data, (bytes, bytearray)):
        return _from_batches(data, inputs)
    raise fail(
        "python-data",
        f"samples cannot be made of {type(data).__name__}",
        "give an array, a tensor, a dict of them by input, an iterable of batches, or a path",
    )


def arrays_of(data: Any) -> tuple[list[Row] | None, str]:
    """Arrays with a name for messages, or None and the path of a file that holds them."""
    if is_path(data):
        return None, path_of(data)
    if not isinstance(data, Mapping):
        return [to_row("input", data)], "data"
    return [to_row(str(name), value) for name, value in data.items()], "data"


def loader_of(data: Data) -> Callable[[list[Input]], list[Row]]:
    """A function that the library calls when it knows the inputs of the model."""
    return lambda inputs: to_rows(data, inputs)


def samples_of(data: Data | None) -> tuple[Callable[[list[Input]], list[Row]] | None, str]:
    """A loader, or the path of a file."""
    if data is None:
        return None, ""
    if is_path(data):
        return None, path_of(data)
    return loader_of(data), "calibration"


def path_of(value: Path, argument: str = "the path") -> str:
    """A path as text, checked for what no file system has. `argument` is for messages."""
    try:
        text = os.fspath(value)
    except TypeError:
        raise wrong_type(argument, value, "give a path: text or pathlib.Path") from None
    if not isinstance(text, str):
        text = os.fsdecode(text)
    if not text or "\0" in text:
        raise fail("file-not-found", f"{text!r} is not a path", "give the path of a file")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise fail(
            "file-not-found", f"the path {text!r} is not UTF-8", "rename the file, or link to it"
        ) from None
    return text


def parsed(document: str) -> Any:
    """A JSON document of the library. json is imported when it is needed: imports are to be short."""
    import json

    return json.loads(document)
