"""A compiled program and what it can tell of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _deuteron
from ._data import (
    Data,
    Input,
    Path,
    Row,
    from_row,
    is_array,
    is_path,
    is_tensor,
    parsed,
    path_of,
    to_row,
    to_rows,
)
from ._errors import fail, warn
from ._model import NO_SOURCE, Source, model_source
from ._progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "InputSpec",
    "Layer",
    "Memory",
    "Placement",
    "Profile",
    "Program",
    "RunResult",
    "Verification",
]


class InputSpec(NamedTuple):
    """An input of a program: its name, dtype as NumPy writes it, and shape with the batch."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class RunResult(NamedTuple):
    """Outputs of a run, and what it cost.

    outputs: one array an output, the samples along the first axis. stats: cycles of
    one sample (``npu_total_cycles`` simulated, ``cpu_cycles`` estimated, ``total_cycles``) and their
    ``milliseconds``, bytes of memory touched (``sram_touched_bytes``) and milliseconds of this
    computer (``simulation_ms``).
    """

    outputs: tuple[Any, ...]
    stats: dict[str, Any]


class Layer(NamedTuple):
    """One operator in a verification.

    sqnr_db: signal to quantization noise in dB, against the model in float. max_error: the largest
    absolute difference, in real values. steps: the same in quantization steps, 0 for float tensors.
    differing: share of the elements, 0 to 1, that are more than half a step apart. fused: computed
    inside another operator's kernel call, so that there is nothing to compare.
    """

    name: str
    op: str
    module_path: str
    source_line: str
    fused: bool
    where: str
    dtype: str
    sqnr_db: float
    max_error: float
    steps: float
    differing: float


class Verification:
    """A program held against its model, operator by operator. True if no layer is bad."""

    layers: list[Layer]
    min_sqnr: float

    def __init__(self, text: str, document: str, good: bool, min_sqnr: float) -> None:
        self._text = text
        self._json = document
        self._good = good
        self.min_sqnr = min_sqnr
        self.layers = [Layer(**row) for row in parsed(document)["layers"]]

    @property
    def first_bad(self) -> Layer | None:
        """The first layer, in the model's order, with fewer dB than ``min_sqnr``."""
        bad = (each for each in self.layers if not each.fused and each.sqnr_db < self.min_sqnr)
        return next(bad, None)

    def to_json(self, path: Path | None = None) -> str:
        """What ``deuteron verify --json`` writes; into a file too, where a path is given."""
        return _written(self._json, path)

    def __bool__(self) -> bool:
        return self._good

    def __repr__(self) -> str:
        return self._text.rstrip("\n")

    def _repr_html_(self) -> str:
        names = ("name", "module_path", "where", "sqnr_db", "max_error", "steps", "differing")
        return _table([[getattr(layer, name) for name in names] for layer in self.layers], names)


class Placement:
    """Who runs what, and why operators are not on the NPU.

    operators: rows with name, op, module_path, source_line, backend, kernel, macs, cycles. refusals:
    rows with reason, remedy and ``cycles_lost``, causes before what follows from them. transposes:
    the changes of layout that remain, in bytes and estimated cycles. A program that was loaded
    from a file knows its operators only.
    """

    operators: list[dict[str, Any]]
    refusals: list[dict[str, Any]]
    transposes: list[dict[str, Any]]

    def __init__(
        self,
        operators: list[dict[str, Any]],
        refusals: list[dict[str, Any]],
        transposes: list[dict[str, Any]],
    ) -> None:
        self.operators = operators
        self.refusals = refusals
        self.transposes = transposes

    def __repr__(self) -> str:
        lines = [f"{row['backend']:<10} {row['op']:<28} {row['name']}" for row in self.operators]
        for row in self.refusals:
            lines.append(f"not on the NPU: {row['name']}: {row['reason']}")
            if row["remedy"]:
                lines.append(f"  fix: {row['remedy']}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names = ("name", "op", "module_path", "source_line", "backend")
        page = _table([[row[name] for name in names] for row in self.operators], names)
        if self.refusals:
            reasons = ("name", "reason", "remedy", "cycles_lost")
            page += _table([[row[name] for name in reasons] for row in self.refusals], reasons)
        return page


class Memory(NamedTuple):
    """Memory of a program in bytes.

    planned: the arena, tensors and staged constants; used: the part of it that a run touched;
    sram: what the target has; flash: constants and payloads; program: the .pte file. tensors: one
    row a buffer of the arena with name, offset, bytes, and the first and last step that needs it.
    """

    planned: int
    used: int
    sram: int
    flash: int
    program: int
    tensors: list[dict[str, Any]]


class Profile:
    """What each operator costs, in simulated cycles of the target."""

    def __init__(self, handle: _deuteron.Profile, compile_report: str = "") -> None:
        self._handle = handle
        self._compile_report = compile_report
        self._document: dict[str, Any] | None = None

    @property
    def total_cycles(self) -> int:
        """Cycles of one run: NPU, its host, waiting, kernels of the CPU."""
        return self._handle.total_cycles

    @property
    def milliseconds(self) -> float:
        """The same at the target's clock; ``document["time_known"]`` says how far it is known."""
        return float(self.document["milliseconds"])

    @property
    def document(self) -> dict[str, Any]:
        """Everything that is known, as docs/profiling.md of the project describes it."""
        if self._document is None:
            self._document = parsed(self._handle.json())
        return self._document

    @property
    def operators(self) -> list[dict[str, Any]]:
        """A row an operator, in program order."""
        return list(self.document["rows"])

    def text(
        self, by: str = "operator", sort: str = "cycles", filter: str = "", depth: int = 0
    ) -> str:
        """The table that ``deuteron profile`` prints.

        by: ``operator``, ``module``, ``kernel`` or ``memory``; sort: ``cycles`` or ``program``;
        filter: a part of an operator's, module's or kernel's name; depth: of modules, 0 for all.
        """
        _check_choice("by", by, ("operator", "module", "kernel", "memory"))
        _check_choice("sort", sort, ("cycles", "program"))
        return self._handle.text(by, sort, filter, depth)

    def to_csv(
        self,
        path: Path | None = None,
        by: str = "operator",
        sort: str = "cycles",
        filter: str = "",
        depth: int = 0,
    ) -> str:
        """The same table for a spreadsheet; into a file too, where a path is given."""
        _check_choice("by", by, ("operator", "module", "kernel", "memory"))
        _check_choice("sort", sort, ("cycles", "program"))
        return _written(self._handle.csv(by, sort, filter, depth), path)

    def to_json(self, path: Path | None = None) -> str:
        """Everything that is known, as JSON."""
        return _written(self._handle.json(), path)

    def to_perfetto(self, path: Path | None = None) -> str:
        """The timeline for https://ui.perfetto.dev, as JSON."""
        return _written(self._handle.perfetto(), path)

    def to_etdump(self, path: Path | None = None) -> bytes:
        """The trace for ExecuTorch's Inspector."""
        return _written_bytes(self._handle.etdump(), path)

    def to_debug_buffer(self, path: Path | None = None) -> bytes:
        """What operators computed, beside the trace; empty unless it was asked for."""
        return _written_bytes(self._handle.debug_buffer(), path)

    def to_html(self, path: Path | None = None, verify: Verification | None = None) -> str:
        """A page with timeline, operators, roofline, memory and graph that loads nothing.

        verify: adds the errors of layers to it.
        """
        verified = verify.to_json() if verify is not None else ""
        return _written(self._handle.html(self._compile_report, verified), path)

    def compare(
        self, other: Profile, by: str = "operator", filter: str = "", depth: int = 0
    ) -> str:
        """The table of both side by side, what got slower in ``other`` first."""
        _check_choice("by", by, ("operator", "module", "kernel", "memory"))
        return self._handle.compare_text(other._handle, by, filter, depth)

    def __repr__(self) -> str:
        return self.text().rstrip("\n")

    def _repr_html_(self) -> str:
        return _framed(self.to_html())


class Program:
    """A program for a target, which this computer simulates bit by bit.

    Call it with arrays or tensors: ``y = program(x)``. Calls from several threads are safe and run
    beside each other. A program can be pickled.
    """

    def __init__(self, handle: _deuteron.Program, model: Source = NO_SOURCE) -> None:
        self._handle = handle
        self._model = model
        self._inputs: list[Input] | None = None
        self._page: str | None = None

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
    def inputs(self) -> list[InputSpec]:
        """Name, dtype and shape of each input, in the order of a call."""
        from ._data import _NAMES

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
    def placement(self) -> Placement:
        """Who runs what, and why operators are not on the NPU."""
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

    # ---- running

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Simulates the program, bit by bit.

        inputs: one array or tensor for each input, in order, or by name; each of the input's shape,
        or with samples along one more axis, or along a batch axis of 1. float16 and bfloat16 are
        taken as float32; no other dtype is converted.

        Returns the output, or a tuple of them: tensors if an input is a tensor, else arrays.
        Samples are along the first axis.
        """
        outputs = self.run(*inputs, **named).outputs
        return outputs[0] if len(outputs) == 1 else outputs

    def run(
        self, *inputs: Any, repeat: int = 1, progress: bool | None = None, **named: Any
    ) -> RunResult:
        """The same, with what the run costs. repeat: runs of each sample, for timing."""
        rows = self._rows(inputs, named)
        if repeat < 1:
            raise fail("python-argument", f"repeat is {repeat}", "give 1 or more")
        with Progress("run", progress) as shown:
            arrays, stats, warnings = self._handle.run(rows, "input", repeat, shown)
        for warning in warnings:
            warn(warning)
        outputs = [from_row(row) for row in arrays]
        if any(is_tensor(value) for value in (*inputs, *named.values())):
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
    ) -> Verification:
        """Holds every operator against the model, which is evaluated in float.

        data: samples, or the path of an .npz. against: the model; default: the one that the
        program was compiled from. samples: at most so many (0: all). min_sqnr: a layer with fewer
        dB is bad.
        """
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
        text, document, good = self._handle.verify(
            source, rows, name, samples or _ALL_SAMPLES, min_sqnr
        )
        return Verification(text, document, good, min_sqnr)

    def profile(
        self, data: Data | None = None, *, profile_events: int = 65536, debug_buffer: bool = False
    ) -> Profile:
        """What each operator costs.

        data: samples; default: zeros, since on this machine the cost does not depend on them.
        profile_events: room for events of a run, the oldest are kept. debug_buffer: record what
        operators compute too, for ExecuTorch's Inspector.
        """
        rows = None if data is None else self._data(data, read=True)[0]
        handle = self._handle.profile(rows, "input", profile_events, debug_buffer)
        return Profile(handle, self._handle.report_json)

    def explain(self, op: str = "", most: int = 5) -> str:
        """In words, why operators cost what they cost and what would be cheaper.

        op: only operators with this in their name, module or kernel; most: so many of them.
        """
        return self._handle.explain(op, most)

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
        from ._commands import eval as evaluate

        return evaluate(
            self, data, labels=labels, against=against, threads=threads, progress=progress
        )

    # ---- writing

    def save(self, path: Path, tensors: Path | None = None) -> None:
        """Writes the .pte file, whole or not at all.

        tensors: where its tensor file goes (.ptd), for a program with constants outside.
        """
        if self.tensors and tensors is None:
            raise fail(
                "python-argument",
                "the program has constants in a tensor file of their own",
                "say where it goes: tensors='model.ptd'",
            )
        self._handle.save(path_of(path), path_of(tensors) if tensors is not None else "")

    def firmware(
        self, output: Path, *, board: str = "qemu-an505", checksum: bool = True, name: str = "model"
    ) -> dict[str, list[str]]:
        """Writes a CMake project that runs the program on a board.

        output: the folder; files that someone changed in it are kept, and named in what is
        returned. board: qemu-an505 (Cortex-M33) or qemu-an547 (Cortex-M55). checksum: whether the
        loader checks the program's.
        """
        return _deuteron.firmware([self._handle], [name], path_of(output), board, checksum)

    # ---- how it looks

    def __repr__(self) -> str:
        if self._handle.report_text:
            return self._handle.report_text.rstrip("\n")
        inputs = ", ".join(f"{each.name}: {each.dtype} {each.shape}" for each in self.inputs)
        size = f"{len(self.pte):,} bytes"
        return f"<deuteron.Program {self._handle.name!r} for {self.target}, {size}, ({inputs})>"

    def _repr_html_(self) -> str:
        if self._page is None:
            self._page = _framed(self.profile().to_html())
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
        )
        name, content = self._model
        return _restored, (state, (name, None if content is None else bytes(content)))

    # ---- helpers

    def _signature(self) -> list[Input]:
        if self._inputs is None:
            self._inputs = self._handle.inputs()
        return self._inputs

    def _rows(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Row]:
        signature = self._signature()
        only = inputs[0] if len(inputs) == 1 and not named else None
        if isinstance(only, Mapping):
            return self._rows((), only)
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
            if not read:
                return None, path_of(data)
            import numpy

            loaded = numpy.load(path_of(data))
            data = loaded if is_array(loaded) else dict(loaded)
        return to_rows(data, self._signature()), "data"


_ALL_SAMPLES = 1_000_000


def _restored(state: tuple[str, bytes, bytes, str, str, str], model: Source) -> Program:
    return Program(_deuteron.restore(*state), model)


def _check_choice(argument: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise fail(
            "python-argument",
            f"{argument} is {value!r}",
            f"give one of: {', '.join(choices)}",
        )


def _written(text: str, path: Path | None) -> str:
    if path is not None:
        _written_bytes(text.encode(), path)
    return text


def _written_bytes(content: bytes, path: Path | None) -> bytes:
    if path is not None:
        _deuteron.write(path_of(path), content)
    return content


def _framed(page: str) -> str:
    """A page in a frame of its own, so that neither it nor the notebook changes the other."""
    import html

    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts allow-downloads" '
        'style="width: 100%; height: 720px; border: 1px solid #ccc"></iframe>'
    )


def _table(rows: list[list[Any]], names: tuple[str, ...]) -> str:
    import html

    def cell(value: Any) -> str:
        return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))

    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
