#!/usr/bin/env python3
"""Makes recurrent.tflite and recurrent_int8.tflite: LSTM, RNN and SVDF layers of every form, each over
an input of its own, and what LiteRT computes run by run.

    make_recurrent.py          needs ai-edge-litert, flatbuffers and numpy

NAME.npz has input_I and output_I [runs, …]. The layers' variables last from run to run.
"""
import sys
from pathlib import Path

import flatbuffers
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "litert"))
from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: E402
from make_vectors import RELU, B, Model, O, TYPES, schema  # noqa: E402

F = np.float32
TANH, NONE = schema.ActivationFunctionType.TANH, schema.ActivationFunctionType.NONE
TYPES[np.dtype(np.int16)] = schema.TensorType.INT16
RUNS = 3


def options(name, **values):
    made = getattr(schema, f"{name}OptionsT")()
    for key, value in values.items():
        assert hasattr(made, key), key
        setattr(made, key, value)
    return made


class Layers(Model):
    """Layers side by side."""

    def x(self, *shape):
        return self.input(self.rng.uniform(-1, 1, (RUNS, *shape)), None, F)

    def weight(self, *shape):
        return self.constant(self.rng.uniform(-0.6, 0.6, shape), None, F)

    def vector(self, *shape, low=-0.6, high=0.6):
        return self.constant(self.rng.uniform(low, high, shape), None, F)

    def variable(self, *shape, q=None, dtype=F):
        made = self.tensor(shape, q, dtype)
        self.tensors[made].isVariable = True
        return made

    def several(self, code, inputs, shapes, made):
        first = self.op(code, inputs, shapes[0], None, made, F)
        more = [self.tensor(shape, None, F) for shape in shapes[1:]]
        self.operators[-1].outputs = [first, *more]

    # ---- layers

    def lstm_weights(self, features, cells, out, peephole, coupled, norm, projection):
        """Operands 1 to 17 of an LSTM, and the coefficients of its normalization."""
        missing = 1 if coupled else 0
        of_input = [-1] * missing + [self.weight(cells, features) for _ in range(4 - missing)]
        of_state = [-1] * missing + [self.weight(cells, out) for _ in range(4 - missing)]
        holes = [-1, -1, -1]
        if peephole:
            holes = [-1 if coupled else self.weight(cells), self.weight(cells), self.weight(cells)]
        biases = [-1] * missing + [self.vector(cells) for _ in range(4 - missing)]
        after = [self.weight(out, cells), self.vector(out)] if projection else [-1, -1]
        gains = []
        if norm:
            gains = [-1] * missing + [
                self.vector(cells, low=0.5, high=1.5) for _ in range(4 - missing)
            ]
        return [*of_input, *of_state, *holes, *biases, *after], gains

    def lstm(
        self,
        sequence=True,
        time_major=True,
        peephole=False,
        coupled=False,
        norm=False,
        projection=False,
        cell_clip=0.0,
        proj_clip=0.0,
        activation=TANH,
        batch=2,
        steps=4,
    ):
        features, cells = 5, 6
        out = 3 if projection else cells
        order = (steps, batch) if time_major else (batch, steps)
        x = self.x(*order, features) if sequence else self.x(batch, features)
        weights, gains = self.lstm_weights(
            features, cells, out, peephole, coupled, norm, projection
        )
        states = [self.variable(batch, out), self.variable(batch, cells)]
        made = options(
            "UnidirectionalSequenceLSTM" if sequence else "LSTM",
            fusedActivationFunction=activation,
            cellClip=cell_clip,
            projClip=proj_clip,
        )
        if sequence:
            made.timeMajor = time_major
        shape = [*order, out] if sequence else [batch, out]
        code = B.UNIDIRECTIONAL_SEQUENCE_LSTM if sequence else B.LSTM
        self.op(code, [x, *weights, *states, *gains], shape, None, made, F)

    def bidirectional_lstm(self, merged, time_major, peephole=False):
        # Of several batches in batch-major order LiteRT computes the later ones from memory that
        # nobody wrote: its results differ from run to run.
        batch, steps, features, cells = 2 if time_major else 1, 3, 4, 5
        order = (steps, batch) if time_major else (batch, steps)
        x = self.x(*order, features)
        forward, _ = self.lstm_weights(features, cells, cells, peephole, False, False, False)
        backward, _ = self.lstm_weights(features, cells, cells, peephole, False, False, False)
        states = [self.variable(batch, cells) for _ in range(4)]
        self.several(
            B.BIDIRECTIONAL_SEQUENCE_LSTM,
            [x, *forward, *backward, *states, *[-1] * 9],
            [[*order, 2 * cells]] if merged else [[*order, cells]] * 2,
            options(
                "BidirectionalSequenceLSTM",
                fusedActivationFunction=TANH,
                mergeOutputs=merged,
                timeMajor=time_major,
            ),
        )

    def rnn_weights(self, features, cells):
        return [self.weight(cells, features), self.weight(cells, cells), self.vector(cells)]

    def rnn(self, sequence, time_major=True, activation=TANH):
        batch, steps, features, cells = 2, 4, 5, 6
        order = (steps, batch) if time_major else (batch, steps)
        x = self.x(*order, features) if sequence else self.x(batch, features)
        made = options("SequenceRNN" if sequence else "RNN", fusedActivationFunction=activation)
        if sequence:
            made.timeMajor = time_major
        self.op(
            B.UNIDIRECTIONAL_SEQUENCE_RNN if sequence else B.RNN,
            [x, *self.rnn_weights(features, cells), self.variable(batch, cells)],
            [*order, cells] if sequence else [batch, cells],
            None,
            made,
            F,
        )

    def bidirectional_rnn(self, merged, time_major):
        batch, steps, features, cells = 2, 3, 4, 5
        order = (steps, batch) if time_major else (batch, steps)
        x = self.x(*order, features)
        forward = [*self.rnn_weights(features, cells), self.variable(batch, cells)]
        backward = [*self.rnn_weights(features, cells), self.variable(batch, cells)]
        self.several(
            B.BIDIRECTIONAL_SEQUENCE_RNN,
            [x, *forward, *backward, -1, -1, -1],
            [[*order, 2 * cells]] if merged else [[*order, cells]] * 2,
            options(
                "BidirectionalSequenceRNN",
                fusedActivationFunction=TANH,
                mergeOutputs=merged,
                timeMajor=time_major,
            ),
        )

    def svdf(self, rank, memory, activation, bias=True, batch=2):
        features, units = 5, 4
        self.op(
            B.SVDF,
            [
                self.x(batch, features),
                self.weight(units * rank, features),
                self.vector(units * rank, memory),
                self.vector(units) if bias else -1,
                self.variable(batch, memory * units * rank),
            ],
            [batch, units],
            None,
            options("SVDF", rank=rank, fusedActivationFunction=activation),
            F,
        )

    # ---- layers on codes

    def int8(self, *shape):
        return self.rng.integers(-127, 128, shape)

    def svdf_int8(self, rank, memory):
        features, units = 6, 4
        q, out = (0.02, 3), (0.11, -7)
        state, of_time = (0.04, 0), (2.0**-15, 0)
        x = self.input(self.rng.integers(-128, 128, (RUNS, 1, features)), q)
        self.op(
            B.SVDF,
            [
                x,
                self.constant(self.int8(units * rank, features), (0.01, 0)),
                self.constant(
                    self.rng.integers(-32767, 32768, (units * rank, memory)), of_time, np.int16
                ),
                self.constant(
                    self.rng.integers(-40000, 40000, units), (state[0] * of_time[0], 0), np.int32
                ),
                self.variable(1, memory * units * rank, q=state, dtype=np.int16),
            ],
            [1, units],
            out,
            options("SVDF", rank=rank, fusedActivationFunction=RELU),
        )

    def lstm_int8(self, time_major, batch=2, steps=4):
        features, cells = 6, 5
        q, out = (0.01, 4), (1 / 128, 0)
        order = (steps, batch) if time_major else (batch, steps)
        x = self.input(self.rng.integers(-128, 128, (RUNS, *order, features)), q)
        of_input = [self.constant(self.int8(cells, features), (0.006, 0)) for _ in range(4)]
        of_state = [self.constant(self.int8(cells, cells), (0.006, 0)) for _ in range(4)]
        biases = [
            self.constant(self.rng.integers(-9000, 9000, cells), (0.01 * 0.006, 0), np.int32)
            for _ in range(4)
        ]
        states = [
            self.variable(batch, cells, q=out),
            self.variable(batch, cells, q=(2.0**-12, 0), dtype=np.int16),
        ]
        self.op(
            B.UNIDIRECTIONAL_SEQUENCE_LSTM,
            [x, *of_input, *of_state, -1, -1, -1, *biases, -1, -1, *states],
            [*order, cells],
            out,
            options(
                "UnidirectionalSequenceLSTM",
                fusedActivationFunction=TANH,
                cellClip=0.0,
                projClip=0.0,
                timeMajor=time_major,
            ),
        )
        scales = [self.tensor([0], (2.0**-12, 0), np.int16) for _ in range(4)]
        self.operators[-1].intermediates = [*scales, self.tensor([0], out)]

    def write(self):
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.inputs = self.tensors, self.operators, self.inputs
        graph.outputs = [t for o in self.operators for t in o.outputs]
        graph.name = "main"
        model = schema.ModelT()
        model.version, model.subgraphs, model.buffers = 3, [graph], self.buffers
        model.description, model.operatorCodes = self.name, []
        versions = {B.UNIDIRECTIONAL_SEQUENCE_LSTM: 3, B.BIDIRECTIONAL_SEQUENCE_LSTM: 3, B.SVDF: 3}
        for code in self.codes:
            c = schema.OperatorCodeT()
            c.builtinCode, c.deprecatedBuiltinCode = code, min(code, 127)
            c.version = versions.get(code, 1)
            model.operatorCodes.append(c)
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(model.Pack(builder), b"TFL3")
        path = HERE / f"{self.name}.tflite"
        path.write_bytes(bytes(builder.Output()))
        interpreter = Interpreter(
            str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
        )
        interpreter.allocate_tensors()
        interpreter.reset_all_variables()
        results = [[] for _ in graph.outputs]
        for run in range(RUNS):
            for detail, data in zip(interpreter.get_input_details(), self.data):
                interpreter.set_tensor(detail["index"], data[run])
            interpreter.invoke()
            for result, detail in zip(results, interpreter.get_output_details()):
                result.append(interpreter.get_tensor(detail["index"]).copy())
        arrays = {f"output_{i}": np.stack(each) for i, each in enumerate(results)}
        arrays |= {f"input_{i}": data for i, data in enumerate(self.data)}
        np.savez_compressed(path.with_suffix(".npz"), **arrays)


def main():
    m = Layers("recurrent", 3)
    m.lstm()
    m.lstm(time_major=False)
    m.lstm(sequence=False)
    m.lstm(peephole=True)
    m.lstm(coupled=True)
    m.lstm(norm=True)
    m.lstm(norm=True, coupled=True, peephole=True, time_major=False)
    m.lstm(projection=True, proj_clip=0.15)
    m.lstm(cell_clip=0.2, sequence=False)
    m.lstm(activation=RELU, batch=1, steps=1)
    m.lstm(projection=True, peephole=True, sequence=False)
    m.bidirectional_lstm(True, False)
    m.bidirectional_lstm(False, True, peephole=True)
    m.rnn(True)
    m.rnn(True, time_major=False, activation=RELU)
    m.rnn(False)
    m.bidirectional_rnn(True, True)
    m.bidirectional_rnn(False, False)
    m.svdf(1, 4, NONE)
    m.svdf(2, 3, RELU)
    m.svdf(1, 1, NONE, bias=False, batch=1)
    m.write()
    m = Layers("recurrent_int8", 4)
    m.svdf_int8(1, 5)
    m.svdf_int8(2, 3)
    m.lstm_int8(True)
    m.lstm_int8(False, batch=1, steps=3)
    m.write()


if __name__ == "__main__":
    main()
