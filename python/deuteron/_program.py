"""A compiled program: runs it, and reports its accuracy and cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _deuteron
from ._data import (
    _NAMES,
    Data,
    Input,
    Path,
    Row,
    arrays_of,
    from_row,
    is_path,
    is_tensor,
    parsed,
    path_of,
    to_row,
    to_rows,
)
from ._errors import Error, fail, warn
from ._model import NO_SOURCE, Source, in_one_piece, model_source
from ._progress import Progress
from ._quantization import QuantizationReport
from ._results import (
    FINITE,
    MOST_THREADS,
    AccuracySearch,
    Codes,
    InputSpec,
    Memory,
    Placement,
    Profile,
    RunResult,
    Verification,
    at_least,
    check_choice,
    flag,
    framed,
    number,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Program"]


class Program:
    """A program for a target, which this computer simulates bit by bit.

    Call it with arrays or tensors: ``y = program(x)``. Calls from several threads are safe and run
    concurrently. A program can be pickled.
    """

    def __init__(self, handle: _deuteron.Program, model: Source = NO_SOURCE) -> None:
        self._handle = handle
        self._model = model
        self._inputs: list[Input] | None = None
        self._page: str | None = None
        # Those of the same bytes by method, which share this dict; None: not asked for yet.
        self._methods: dict[str, Program] | None = None
        self._quantization: QuantizationReport | None = None

    # ---- what it is

    @property
    def pte(self) -> bytes:
        """The bytes of the .pte file."""
        return self._handle.pte

    @property
    def tensors(self) -> bytes:
        """The bytes of its tensor file (.ptd), empty if all constants are in the program."""
        return self._handle.tensors

    @property
    def target(self) -> str:
        """Name of the machine that it was compiled for."""
        return self._handle.target()

    @property
    def method(self) -> str:
        """Name of the method that a call runs: ``forward`` of most programs."""
        chosen, _ = self._handle.methods()
        return chosen

    @property
    def methods(self) -> dict[str, Program]:
        """The methods of the program by name, each as a Program of the same bytes.

        ``program.methods["decode"](x)`` runs one (docs/methods.md); reports, profiles and states are
        those of one method, ``save`` writes all.
        """
        if self._methods is None:
            chosen, names = self._handle.methods()
            self._methods = {
                name: self if name == chosen else Program(self._handle.with_method(name))
                for name in names
            }
            for program in self._methods.values():
                program._methods = self._methods
        return dict(self._methods)

    @property
    def inputs(self) -> list[InputSpec]:
        """Name, dtype and shape of each input, in the order of a call."""
        return [InputSpec(name, _NAMES[dtype], shape) for name, dtype, shape in self._signature()]

    @property
    def report(self) -> dict[str, Any]:
        """What the compilation decided and what it costs, as ``compile --report-json`` writes it.

        Raises Error ``python-no-report`` for a program that was loaded from a file.
        """
        if not self._handle.report_json:
            raise fail(
                "python-no-report",
                "the program was loaded from a file, which does not hold the compiler's report",
                "compile it here: deuteron.compile(model, …)",
                file=self._handle.name,
            )
        return dict(parsed(self._handle.report_json))

    @property
    def accuracy(self) -> AccuracySearch | None:
        """What the search of ``compile(…, accuracy="auto")`` tried, and what it gained.

        None of a program that was compiled without it, or loaded from a file.
        """
        if not self._handle.report_json or "accuracy" not in self.report:
            return None
        # The table is the end of the report.
        text = self._handle.report_text
        return AccuracySearch(text[text.index("accuracy auto:") :], self.report["accuracy"])

    @property
    def quantization(self) -> QuantizationReport | None:
        """Where accuracy is lost: shares of the outputs' error, operator by operator, and advice.

        None unless ``compile(…, report_quantization=True)`` made it in this process.
        """
        return self._quantization

    @property
    def placement(self) -> Placement:
        """The backend of each operator, and why operators are not on the NPU."""
        if not self._handle.report_json:
            rows = self.profile().operators
            return Placement([{**row} for row in rows if row.get("sources")], [], [])
        report = self.report
        return Placement(report["operators"], report["refusals"], report["transposes"])

    @property
    def memory(self) -> Memory:
        """Bytes of SRAM and flash, and where each tensor is."""
        document = self.profile().document
        return Memory(
            document["planned_bytes"],
            document["used_bytes"],
            document["sram_bytes"],
            document["flash_bytes"],
            document["program_bytes"],
            document["memory"],
        )

    @property
    def codes(self) -> dict[str, Codes]:
        """What the codes of int8 inputs and outputs mean, by name; outputs are ``output_0`` ….

        Of a program of ``compile(…, io="int8")``. Its inputs may be given as codes or as float32
        values, which are quantized; its outputs are codes: ``program.codes["output_0"].values(y)``.
        """
        return {
            name: Codes(scale, zero_point, minimum, maximum)
            for name, scale, zero_point, minimum, maximum in self._handle.codes()
        }

    @property
    def states(self) -> list[InputSpec]:
        """Name, dtype and shape of the tensors that the program keeps between runs (see reset)."""
        return [
            InputSpec(name, _NAMES[dtype], shape) for name, dtype, shape in self._handle.states()
        ]

    # ---- running

    def reset(self) -> None:
        """Sets the program's states to their initial values: the next call begins a new stream.

        A model that writes to its buffers is a program with states. They last from call to call,
        as the module's buffers do; the samples of a call are consecutive pieces of the stream.
        Without states nothing changes.
        """
        self._handle.reset()

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Simulates the program, bit by bit.

        inputs: one array or tensor for each input, in order, or by name; each of the input's shape,
        or with samples along one more axis, or along a batch axis of 1. float16 and bfloat16 are
        taken as float32, and float32 is quantized for an input in int8 whose codes are known; no
        other dtype is converted. A program with states takes samples and calls
        as one stream, until ``reset``.

        Returns the output, or a tuple of them: tensors if an input is a tensor, else arrays.
        Samples are along the first axis.
        """
        # As a dict, since an input may have the name of an argument of `run`.
        outputs = self.run(*inputs, *([named] if named else ())).outputs
        return outputs[0] if len(outputs) == 1 else outputs

    def run(
        self,
        *inputs: Any,
        repeat: int = 1,
        on: str = "host",
        threads: int = 0,
        progress: bool | None = None,
        **named: Any,
    ) -> RunResult:
        """The same, with what the run costs.

        repeat: runs of each sample, for timing. on: ``host``, or ``qemu``, ``qemu-an505`` or
        ``qemu-an547``: the firmware is built and run there, which takes seconds a sample, and
        ``stats`` have the instructions of each step. That needs CMake, Ninja, the Arm compiler and
        QEMU. A board begins with the initial states at each call. threads: run samples beside each
        other; 0: one for each processor, but a single one for repeated runs and boards. Results do
        not depend on it.
        """
        check_choice("on", on, ("host", "qemu", "qemu-an505", "qemu-an547"))
        repeat = at_least("repeat", repeat, 1)
        rows = self._rows(inputs, named)
        with Progress("run", progress) as shown:
            arrays, stats, warnings = self._handle.run(
                rows, "input", repeat, on, at_least("threads", threads, 0, MOST_THREADS), shown
            )
        for warning in warnings:
            warn(warning)
        outputs = [from_row(row) for row in arrays]
        if any(map(is_tensor, _values(inputs, named))):
            import torch

            return RunResult(tuple(torch.from_numpy(each) for each in outputs), parsed(stats))
        return RunResult(tuple(outputs), parsed(stats))

    # ---- judging

    def verify(
        self,
        data: Data | None = None,
        *,
        against: Any = None,
        samples: int = 0,
        min_sqnr: float = 10.0,
        threads: int = 0,
    ) -> Verification:
        """Compares every operator with the model, which is evaluated in float.

        data: samples, or the path of an .npz. against: the model; default: the one that the
        program was compiled from. samples: use at most this many (0: all). min_sqnr: a layer with a
        lower SQNR (dB) is bad. threads: 0 for all; the result does not depend on it.
        """
        min_sqnr = number("min_sqnr", min_sqnr, *FINITE)
        if data is None:
            raise fail("python-argument", "there are no samples to verify on", "give data")
        source = self._model if against is None else model_source(against)
        if not source[0]:
            raise fail(
                "python-argument",
                "the program was loaded from a file, and its model is not known",
                "give the model: against=…",
                file=self._handle.name,
            )
        rows, name = self._data(data)
        try:
            text, document, good = self._handle.verify(
                source,
                rows,
                name,
                at_least("samples", samples, 0, _ALL_SAMPLES) or _ALL_SAMPLES,
                min_sqnr,
                at_least("threads", threads, 0, MOST_THREADS),
            )
        except Error as error:
            # Its weights are where PyTorch has them; the checksums are those of the compilation.
            if error.id == "zip-corrupt" and against is None and len(source) == 3:
                raise fail(
                    "python-model-changed",
                    "the model's weights have changed since the program was compiled",
                    "give the model as it was (against=…), or compile it again",
                ) from None
            raise
        return Verification(text, document, good, min_sqnr)

    def profile(
        self, data: Data | None = None, *, profile_events: int = 65536, debug_buffer: bool = False
    ) -> Profile:
        """What each operator costs.

        data: samples; default: zeros, since on this machine the cost does not depend on them.
        profile_events: room for events of a run, the oldest are kept. debug_buffer: record what
        operators compute too, for ExecuTorch's Inspector.
        """
        events = at_least("profile_events", profile_events, 1, 16_777_216)
        values = flag("debug_buffer", debug_buffer)
        rows = None if data is None else self._data(data, read=True)[0]
        handle = self._handle.profile(rows, "input", events, values)
        return Profile(handle, self._handle.report_json)

    def explain(self, op: str = "", most: int = 5) -> str:
        """Explains in words what determines the cycles of operators, and what would reduce them.

        op: only operators whose name, module or kernel contains this; most: number of operators.
        """
        return self._handle.explain(text_of("op", op), at_least("most", most, 1, 1_000_000))

    def inspect(self) -> str:
        """The program as text, with the microcode of the NPU decoded."""
        return self._handle.describe()

    def eval(
        self,
        data: Any,
        *,
        labels: str = "label",
        against: Any = None,
        threads: int = 0,
        progress: bool | None = None,
    ) -> dict[str, Any]:
        """Accuracy over labelled data: see deuteron.eval."""
        return dict(parsed(self._evaluated(data, labels, against, threads, progress)))

    # ---- writing

    def save(self, path: Path, tensors: Path | None = None) -> None:
        """Writes the .pte file, whole or not at all.

        tensors: where its tensor file goes (.ptd), for a program with constants outside.
        """
        if self.tensors and tensors is None:
            raise fail(
                "python-argument",
                "the program has constants in a tensor file of their own",
                "give a path for it: tensors='model.ptd'",
            )
        self._handle.save(path_of(path), path_of(tensors) if tensors is not None else "")

    def firmware(
        self, output: Path, *, board: str = "qemu-an505", checksum: bool = True, name: str = "model"
    ) -> dict[str, list[str]]:
        """Writes a CMake project that runs the program on a board.

        output: the folder; files that a user changed in it are kept, and listed in the result.
         board: qemu-an505 (Cortex-M33) or qemu-an547 (Cortex-M55). checksum: whether the
        loader checks the program's.
        """
        return _deuteron.firmware(
            [self._handle],
            [text_of("name", name)],
            path_of(output, "output"),
            text_of("board", board),
            flag("checksum", checksum),
        )

    # ---- how it looks

    def __repr__(self) -> str:
        if self._handle.report_text:
            report = self._handle.report_text.rstrip("\n")
            others = [name for name in self._methods or () if name != self.method]
            if not others:
                return report
            return f"method {self.method} (others: {', '.join(others)})\n{report}"
        inputs = ", ".join(f"{each.name}: {each.dtype} {each.shape}" for each in self.inputs)
        size = f"{len(self.pte):,} bytes"
        return f"<deuteron.Program {self._handle.name!r} for {self.target}, {size}, ({inputs})>"

    def _repr_html_(self) -> str:
        if self._page is None:
            self._page = framed(self.profile().to_html())
        return self._page

    def __reduce__(self) -> tuple[Any, ...]:
        handle = self._handle
        state = (
            handle.name,
            handle.pte,
            handle.tensors,
            handle.report_json,
            handle.report_text,
            handle.placement_json,
            handle.method,
        )
        return _restored, (state, in_one_piece(self._model))

    # ---- helpers

    def _signature(self) -> list[Input]:
        if self._inputs is None:
            self._inputs = self._handle.inputs()
        return self._inputs

    def _evaluated(
        self, data: Any, labels: str, against: Any, threads: int, progress: bool | None
    ) -> str:
        """The figures of ``eval`` as a JSON document."""
        source = NO_SOURCE if against is None else model_source(against)
        rows, name = arrays_of(data)
        with Progress("eval", progress) as shown:
            _, document = _deuteron.eval(
                self._handle,
                rows,
                name,
                text_of("labels", labels),
                source,
                at_least("threads", threads, 0, MOST_THREADS),
                shown,
                None,
            )
        return document

    def _rows(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Row]:
        signature = self._signature()
        # Arrays in order, and behind them or alone a dict of those by name.
        if inputs and isinstance(inputs[-1], Mapping):
            return self._rows(inputs[:-1], {**inputs[-1], **named})
        if len(inputs) > len(signature):
            raise fail(
                "run-input",
                f"{len(inputs)} inputs are given, the program takes {len(signature)}",
                "give one array for each input",
            )
        for value in inputs:
            if is_path(value):
                raise fail(
                    "python-data", "the input is a path", "read it: numpy.load(path)", str(value)
                )
        rows = [to_row(entry[0], value) for entry, value in zip(signature, inputs, strict=False)]
        if twice := sorted({row[0] for row in rows} & set(named)):
            raise fail(
                "run-input", f"{', '.join(twice)} is given twice", "give one array for each input"
            )
        rows += [to_row(str(name), value) for name, value in named.items()]
        # By name alone the library also takes `input`, `input_0`, …: names of other inputs, maybe.
        missing = {entry[0] for entry in signature} - {row[0] for row in rows}
        if inputs and missing:
            raise fail(
                "data-missing-array",
                f"there is no array for {', '.join(sorted(missing))}",
                "give one array for each input",
            )
        return rows

    def _data(self, data: Data, read: bool = False) -> tuple[list[Row] | None, str]:
        if is_path(data):
            path = path_of(data)
            return (_deuteron.read_arrays(self._handle, path) if read else None), path
        return to_rows(data, self._signature()), "data"


_ALL_SAMPLES = 1_000_000


def _values(inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """All arrays of a call."""
    nested = [each.values() if isinstance(each, Mapping) else [each] for each in inputs]
    return [*(value for values in nested for value in values), *named.values()]


def _restored(state: tuple[str, bytes, bytes, str, str, str, str], model: Source) -> Program:
    return Program(_deuteron.restore(*state), model)
