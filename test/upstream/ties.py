"""Counts the differences between two results of an NXP test that are ties.

A tie is an exact value midway between two codes: PyTorch rounds it to the even one, the NPU away
from zero. The Neutron IR of the test is evaluated in double: once with every tie rounded down and
once with every tie rounded up. Both results of an element that differs only by ties lie between.
Models with other operators than averages and those that move elements are not judged.
"""

import numpy as np
import torch

# An exact value is computed in double from scales in float32.
NEARLY = 1e-5


def _schema(name):
    from importlib import import_module

    return getattr(import_module(f"executorch.backends.nxp.backend.ir.lib.tflite.{name}"), name)


class _Model:
    """The only subgraph of a .tflite file."""

    def __init__(self, path):
        self.model = _schema("Model").GetRootAs(path.read_bytes(), 0)
        self.graph = self.model.Subgraphs(0)

    def shape(self, tensor):
        return tuple(self.graph.Tensors(tensor).ShapeAsNumpy()) if self._ranked(tensor) else ()

    def _ranked(self, tensor):
        return self.graph.Tensors(tensor).ShapeLength() > 0

    def constant(self, tensor):
        data = self.model.Buffers(self.graph.Tensors(tensor).Buffer()).DataAsNumpy()
        return data.tobytes() if isinstance(data, np.ndarray) else b""

    def integers(self, tensor):
        return np.frombuffer(self.constant(tensor), np.int32).tolist()

    def quantization(self, tensor):
        found = self.graph.Tensors(tensor).Quantization()
        return float(found.Scale(0)), int(found.ZeroPoint(0))

    def operators(self):
        names = {value: name for name, value in vars(_schema("BuiltinOperator")).items()}
        for i in range(self.graph.OperatorsLength()):
            op = self.graph.Operators(i)
            code = self.model.OperatorCodes(op.OpcodeIndex())
            yield names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())], op

    def options(self, op, name):
        options = _schema(name)()
        table = op.BuiltinOptions()
        options.Init(table.Bytes, table.Pos)
        return options


def _channels_first(x, function):
    return function(torch.from_numpy(x).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).numpy()


def _pool(model, op, function):
    options = model.options(op, "Pool2DOptions")
    if options.Padding() != _schema("Padding").VALID:
        return None
    kernel = (options.FilterHeight(), options.FilterWidth())
    stride = (options.StrideH(), options.StrideW())
    return lambda x: _channels_first(x, lambda y: function(y, kernel, stride))


def _resize(model, op):
    options = model.options(op, "ResizeBilinearOptions")
    if options.AlignCorners() == options.HalfPixelCenters():
        return None
    settings = {"mode": "bilinear", "align_corners": options.AlignCorners()}
    size = tuple(model.integers(op.Inputs(1)))
    resize = torch.nn.functional.interpolate
    return lambda x: _channels_first(x, lambda y: resize(y, size=size, **settings))


def _function(model, name, op):
    """(whether it averages, the function of codes less their zero point); None of others."""
    if name == "TRANSPOSE":
        order = model.integers(op.Inputs(1))
        return False, lambda x: np.transpose(x, order)
    if name == "RESHAPE":
        shape = model.shape(op.Outputs(0))
        return False, lambda x: x.reshape(shape)
    if name == "MAX_POOL_2D":
        return False, _pool(model, op, torch.nn.functional.max_pool2d)
    if name == "AVERAGE_POOL_2D":
        return True, _pool(model, op, torch.nn.functional.avg_pool2d)
    if name == "RESIZE_BILINEAR":
        return True, _resize(model, op)
    if name == "MEAN":
        axes = tuple(model.integers(op.Inputs(1)))
        shape = model.shape(op.Outputs(0))
        return True, lambda x: x.mean(axis=axes).reshape(shape)
    return False, None


def _codes(path, count, scale, zero_point):
    """The codes of a file, which holds them or real values of float32."""
    data = np.fromfile(path, np.uint8)
    if data.size == count:
        return data.view(np.int8).astype(np.float64)
    if data.size != 4 * count:
        return None
    real = data.view(np.float32) * np.float32(1 / np.float32(scale))
    return np.clip(np.rint(real) + zero_point, -128, 127).astype(np.float64)


def count(folder):
    """How many of the elements that differ in the results of a test's folder are ties.

    None where the model has operators that are not judged here.
    """
    files = sorted(folder.glob("*_pure.et.tflite"))
    if len(files) != 1:
        return None
    model = _Model(files[0])
    if (model.graph.InputsLength(), model.graph.OutputsLength()) != (1, 1):
        return None
    source, result = model.graph.Inputs(0), model.graph.Outputs(0)
    steps = [(op, _function(model, name, op)) for name, op in model.operators()]
    if any(function is None for _, (_, function) in steps):
        return None
    # Codes where the program takes codes; calibration data where there are no others.
    places = (folder / each for each in ("dataset_quant", "dataset/test", "dataset/calibration"))
    samples = next((found for each in places if (found := sorted(each.glob("*.bin")))), [])
    ties = 0
    results = [
        sorted((folder / name).glob("*.bin/*.bin")) for name in ("results_npu", "results_cpu")
    ]
    if not samples or any(len(each) != len(samples) for each in results):
        return None
    for sample, *both in zip(samples, *results):
        shape = model.shape(source)
        x = _codes(sample, int(np.prod(shape)), *model.quantization(source))
        size = int(np.prod(model.shape(result)))
        npu, cpu = (_codes(each, size, *model.quantization(result)) for each in both)
        if x is None or npu is None or cpu is None:
            return None
        bounds = {source: (x.reshape(shape), x.reshape(shape))}
        for op, (averages, function) in steps:
            made = op.Outputs(0)
            (scale, zero), (wanted, offset) = map(model.quantization, (op.Inputs(0), made))
            low, high = (
                function(each - zero) * (scale / wanted) + offset for each in bounds[op.Inputs(0)]
            )
            if averages:
                low, high = np.ceil(low - 0.5 - NEARLY), np.floor(high + 0.5 + NEARLY)
            bounds[made] = (np.clip(low, -128, 127), np.clip(high, -128, 127))
        low, high = (each.ravel() for each in bounds[result])
        inside = [(low <= each) & (each <= high) for each in (npu, cpu)]
        ties += int(((npu != cpu) & inside[0] & inside[1]).sum())
    return ties
