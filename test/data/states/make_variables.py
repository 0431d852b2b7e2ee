#!/usr/bin/env python3
"""Makes spotter.tflite, a streaming int8 keyword spotter whose frames are in variables, and what
LiteRT computes step by step.

    make_variables.py          needs ai-edge-litert, flatbuffers and numpy

The form is that of microWakeWord's models: CALL_ONCE assigns the initial values, READ_VARIABLE and
a concatenation with the new frame give the window of a convolution, whose last frames
ASSIGN_VARIABLE keeps. spotter.npz has input_0 and output_I [steps, …]; the interpreter's variables
last from invocation to invocation.
"""
import sys
from pathlib import Path

import flatbuffers
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "litert"))
from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: E402
from make_vectors import RELU, VALID, B, Model, O, TYPES, schema  # noqa: E402

TYPES["resource"] = schema.TensorType.RESOURCE
STEPS = 14


def tensor(name, shape, kind, q=None, buffer=0):
    t = schema.TensorT()
    t.name, t.shape, t.type, t.buffer, t.hasRank = name, list(shape), kind, buffer, True
    if q is not None:
        t.quantization = schema.QuantizationParametersT()
        t.quantization.scale = np.asarray([q[0]], np.float32)
        t.quantization.zeroPoint = np.asarray([q[1]], np.int64)
    return t


class Stream(Model):
    """A model with variables, and the subgraph that gives them their initial values."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.once_tensors, self.once_operators, self.handles = [], [], {}

    def operator(self, code, inputs, outputs, options=None):
        if code not in self.codes:
            self.codes.append(code)
        o = schema.OperatorT()
        o.opcodeIndex, o.inputs, o.outputs = self.codes.index(code), inputs, outputs
        if options is not None:
            o.builtinOptions = options
            o.builtinOptionsType = getattr(O, type(options).__name__[:-1])
        return o

    def call_once(self):
        options = schema.CallOnceOptionsT()
        options.initSubgraphIndex = 1
        self.operators.append(self.operator(B.CALL_ONCE, [], [], options))

    def handle_operator(self, name, tensors):
        options = schema.VarHandleOptionsT()
        options.container, options.sharedName = "", name
        tensors.append(tensor(name + "_handle", [], schema.TensorType.RESOURCE))
        return self.operator(B.VAR_HANDLE, [], [len(tensors) - 1], options)

    def variable(self, name, initial, q):
        """Reads a variable that begins with these codes."""
        initial = np.asarray(initial, np.int8)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(initial.tobytes(), np.uint8)
        self.buffers.append(buffer)
        self.once_operators.append(self.handle_operator(name, self.once_tensors))
        handle = len(self.once_tensors) - 1
        self.once_tensors.append(
            tensor(name + "_0", initial.shape, schema.TensorType.INT8, q, len(self.buffers) - 1)
        )
        self.once_operators.append(
            self.operator(
                B.ASSIGN_VARIABLE, [handle, handle + 1], [], schema.AssignVariableOptionsT()
            )
        )
        self.operators.append(self.handle_operator(name, self.tensors))
        self.handles[name] = len(self.tensors) - 1
        read = self.tensor(initial.shape, q)
        self.operators.append(
            self.operator(
                B.READ_VARIABLE, [self.handles[name]], [read], schema.ReadVariableOptionsT()
            )
        )
        return read

    def assign(self, name, value):
        self.operators.append(
            self.operator(
                B.ASSIGN_VARIABLE, [self.handles[name], value], [], schema.AssignVariableOptionsT()
            )
        )

    def window(self, name, x, kept, initial=None):
        """The frames kept and the new ones, along dimension 1; the last ones are kept."""
        n, new, w, c = self.shape(x)
        q = self.q(x)
        codes = np.full((n, kept, w, c), q[1]) if initial is None else initial
        frames = self.variable(name, codes, q)
        options = schema.ConcatenationOptionsT()
        options.axis = 1
        window = self.op(B.CONCATENATION, [frames, x], [n, kept + new, w, c], q, options)
        bounds = [
            self.constant(each, dtype=np.int32)
            for each in ([0, new, 0, 0], [0, kept + new, 0, 0], [1, 1, 1, 1])
        ]
        options = schema.StridedSliceOptionsT()
        options.beginMask = options.endMask = 0b1101
        last = self.op(B.STRIDED_SLICE, [window, *bounds], [n, kept, w, c], q, options)
        self.assign(name, last)
        return window

    def write_stream(self, outputs, data):
        main, once = schema.SubGraphT(), schema.SubGraphT()
        main.tensors, main.operators, main.name = self.tensors, self.operators, "main"
        main.inputs, main.outputs = self.inputs, outputs
        once.tensors, once.operators, once.name = self.once_tensors, self.once_operators, "NoOp"
        once.inputs, once.outputs = [], []
        model = schema.ModelT()
        model.version, model.subgraphs, model.buffers = 3, [main, once], self.buffers
        model.description, model.operatorCodes = self.name, []
        for code in self.codes:
            c = schema.OperatorCodeT()
            c.builtinCode, c.deprecatedBuiltinCode, c.version = code, min(code, 127), 1
            if code in (B.CONV_2D, B.DEPTHWISE_CONV_2D):
                c.version = 3
            if code in (B.FULLY_CONNECTED, B.CONCATENATION, B.STRIDED_SLICE, B.LOGISTIC):
                c.version = 2
            model.operatorCodes.append(c)
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(model.Pack(builder), b"TFL3")
        path = HERE / f"{self.name}.tflite"
        path.write_bytes(bytes(builder.Output()))
        interpreter = Interpreter(
            str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
        )
        interpreter.allocate_tensors()
        results = [[] for _ in outputs]
        for step in range(len(data)):
            interpreter.set_tensor(interpreter.get_input_details()[0]["index"], data[step])
            interpreter.invoke()
            for result, detail in zip(results, interpreter.get_output_details()):
                result.append(interpreter.get_tensor(detail["index"]).copy())
        arrays = {f"output_{i}": np.stack(each) for i, each in enumerate(results)}
        np.savez_compressed(path.with_suffix(".npz"), input_0=data, **arrays)


def main():
    m = Stream("spotter", 5)
    data = m.rng.integers(-128, 128, (STEPS, 1, 2, 1, 10)).astype(np.int8)
    x = m.input(data, (0.1, -128))
    m.call_once()
    window = m.window("stem", x, 4, m.rng.integers(-128, 128, (1, 4, 1, 10)))
    x = m.convolution(
        window,
        m.rng.integers(-127, 128, (12, 5, 1, 10)),
        m.rng.uniform(0.002, 0.01, 12),
        m.rng.integers(-900, 900, 12),
        (0.2, -128),
        padding=VALID,
        activation=RELU,
    )
    window = m.window("middle", x, 6)
    x = m.convolution(
        window,
        m.rng.integers(-127, 128, (1, 3, 1, 12)),
        m.rng.uniform(0.002, 0.01, 12),
        m.rng.integers(-900, 900, 12),
        (0.15, 3),
        padding=VALID,
        depthwise=True,
    )
    flat = m.op(
        B.RESHAPE,
        [x, m.constant([1, 72], dtype=np.int32)],
        [1, 72],
        m.q(x),
        schema.ReshapeOptionsT(),
    )
    y = m.fully_connected(flat, m.rng.integers(-127, 128, (3, 72)), 0.0008, [5, -7, 100], (0.2, 1))
    y = m.op(B.LOGISTIC, [y], [1, 3], (1 / 256, -128))
    m.write_stream([y], data)


if __name__ == "__main__":
    main()
