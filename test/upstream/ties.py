"""Counts the differences between two results of an NXP test that are ties.

A tie is an exact value midway between two codes: PyTorch rounds it to the even one, the NPU away
from zero. The Neutron IR of the test is evaluated in double: once with every tie rounded down and
once with every tie rounded up. Both results of an element that differs only by ties lie between.

PyTorch adds the products of a convolution or linear layer in float32, the NPU in integers. Their
exact sum is a tie too if it is no farther from the middle of two codes than two roundings of float32
to the sum of the products' magnitudes, which any order of additions may be off by. Models with other
operators than these, averages, and those that move elements are not judged.
"""

import numpy as np
import torch

# An exact value is computed in double from scales in float32.
NEARLY = 1e-5
# Of the sum of the magnitudes of what is added in float32.
FLOAT32 = 2.0**-23
SUMS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


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

    def weights(self, tensor):
        """The codes, and a scale for each output channel or one for all; None if it is computed."""
        data = self.constant(tensor)
        if not data:
            return None
        scales = self.graph.Tensors(tensor).Quantization().ScaleAsNumpy().astype(np.float64)
        codes = np.frombuffer(data, np.int8).reshape(self.shape(tensor)).astype(np.float64)
        return codes, scales

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


def _without_activation(options):
    """Activations that move no value off a tie: a clamp of codes, which follows the rounding."""
    kind = _schema("ActivationFunctionType")
    return options.FusedActivationFunction() in (kind.NONE, kind.RELU)


def _sums(model, op, name):
    """The function of codes less their zero point to sums of products, in steps of the operand.

    With `magnitudes` it adds up |x| |w| instead.
    """
    found = model.weights(op.Inputs(1))
    has_bias = op.InputsLength() > 2 and op.Inputs(2) >= 0
    bias = np.zeros(1)
    if has_bias:
        bias = np.frombuffer(model.constant(op.Inputs(2)), np.int32).astype(np.float64)
    if found is None or bias.size == 0:
        return None
    weights, scales = found
    if name == "FULLY_CONNECTED":
        if not _without_activation(model.options(op, "FullyConnectedOptions")):
            return None
        wide = weights.shape[1]

        def multiply(x, w):
            return x.reshape(-1, wide) @ w.T

    else:
        depthwise = name == "DEPTHWISE_CONV_2D"
        options = model.options(op, "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions")
        if options.Padding() != _schema("Padding").VALID or not _without_activation(options):
            return None
        # Output channels, operand channels of a group, height, width.
        order = (3, 0, 1, 2) if depthwise else (0, 3, 1, 2)
        weights = np.transpose(weights, order)
        settings = {
            "stride": (options.StrideH(), options.StrideW()),
            "dilation": (options.DilationHFactor(), options.DilationWFactor()),
        }

        def multiply(x, w):
            groups = x.shape[-1] // w.shape[1]
            kernel = torch.from_numpy(np.ascontiguousarray(w))
            return _channels_first(
                x, lambda y: torch.nn.functional.conv2d(y, kernel, groups=groups, **settings)
            )

    shape = model.shape(op.Outputs(0))

    def function(x, magnitudes=False):
        if magnitudes:
            return ((multiply(np.abs(x), np.abs(weights)) + np.abs(bias)) * scales).reshape(shape)
        return ((multiply(x, weights) + bias) * scales).reshape(shape)

    return function


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
    """(whether it rounds, the function of codes less their zero point); None of others."""
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
    if name in SUMS:
        return True, _sums(model, op, name)
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
    steps = [(op, *_function(model, name, op), name in SUMS) for name, op in model.operators()]
    if any(function is None for _, _, function, _ in steps):
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
        for op, rounds, function, adds in steps:
            made = op.Outputs(0)
            (scale, zero), (wanted, offset) = map(model.quantization, (op.Inputs(0), made))
            low, high = (each - zero for each in bounds[op.Inputs(0)])
            near = NEARLY
            if adds:
                # Not every weight is positive: the middle, and how far the sums can be from it.
                middle, reach = (low + high) / 2, (high - low) / 2
                far = function(reach, magnitudes=True) - function(0 * reach, magnitudes=True)
                largest = np.maximum(np.abs(low), np.abs(high))
                near = near + FLOAT32 * function(largest, magnitudes=True) * (scale / wanted)
                low, high = function(middle) - far, function(middle) + far
            else:
                low, high = function(low), function(high)
            low, high = (each * (scale / wanted) + offset for each in (low, high))
            if rounds:
                low, high = np.ceil(low - 0.5 - near), np.floor(high + 0.5 + near)
            bounds[made] = (np.clip(low, -128, 127), np.clip(high, -128, 127))
        low, high = (each.ravel() for each in bounds[result])
        inside = [(low <= each) & (each <= high) for each in (npu, cpu)]
        ties += int(((npu != cpu) & inside[0] & inside[1]).sum())
    return ties
