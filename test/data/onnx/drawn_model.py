"""What the cases of make_cases.py are made of: a model under construction that draws its inputs, and
the list of cases."""
import numpy as np
import onnx
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"
F, I, L, T, Q, U = np.float32, np.int32, np.int64, np.bool_, np.int8, np.uint8


class Drawn:
    """A model under construction: inputs with numbers, constants, nodes."""

    def __init__(self, rng):
        self.rng = rng
        self.inputs, self.stored, self.nodes, self.outputs = [], [], [], []
        self.version = int(rng.choice([13, 15, 17, 18, 19, 20, 21, 22, 23]))

    def shape(self, rank=None, low=1, high=5):
        rank = int(self.rng.integers(1, 5)) if rank is None else rank
        return tuple(int(n) for n in self.rng.integers(low, high + 1, rank))

    def numbers(self, shape, dtype=F, low=-3, high=3):
        if dtype is T:
            return self.rng.integers(0, 2, shape).astype(T)
        if np.dtype(dtype).kind == "f":
            return self.rng.uniform(low, high, shape).astype(dtype)
        if dtype in (Q, U):
            bounds = np.iinfo(dtype)
            low, high = max(low, bounds.min), min(high, bounds.max)
        return self.rng.integers(int(low), int(high) + 1, shape).astype(dtype)

    def x(self, shape, dtype=F, low=-3, high=3):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, np.asarray(self.numbers(shape, dtype, low, high))))
        return name

    def const(self, value, dtype=L):
        name = f"c{len(self.stored)}"
        self.stored.append((name, np.asarray(value, dtype)))
        return name

    def op(self, name, inputs, outputs=1, domain="", **attributes):
        results = [f"y{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(name, inputs, results, domain=domain, **attributes))
        self.outputs = results
        return results[0]

    def one_of(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def flag(self):
        return bool(self.rng.integers(2))

    def axis(self, rank):
        return int(self.rng.integers(-rank, rank))

    def model(self):
        infer = onnx.helper.make_graph(
            self.nodes,
            "drawn",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
                for name, array in self.inputs
            ],
            [helper.make_empty_tensor_value_info(name) for name in self.outputs],
            [numpy_helper.from_array(array, name) for name, array in self.stored],
        )
        return helper.make_model(
            infer,
            ir_version=9,
            opset_imports=[
                helper.make_opsetid("", self.version),
                helper.make_opsetid(MICROSOFT, 1),
            ],
        )


def broadcastable(m):
    """Two shapes that broadcast."""
    whole = m.shape()
    part = tuple(1 if m.rng.integers(3) == 0 else n for n in whole)[
        int(m.rng.integers(len(whole))) :
    ]
    return (whole, part) if m.flag() else (part, whole)


CASES = []


def case(*names):
    def add(function):
        CASES.extend((name, function) for name in names)
        return function

    return add
