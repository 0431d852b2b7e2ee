"""Results of programs: outputs, verifications, placements, memory, profiles."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _deuteron
from ._data import Path, parsed, path_of
from ._errors import fail, shown, wrong_type

__all__ = [
    "AccuracySearch",
    "AccuracyStep",
    "Codes",
    "InputSpec",
    "Layer",
    "Memory",
    "Placement",
    "Profile",
    "RunResult",
    "Verification",
]


class InputSpec(NamedTuple):
    """An input of a program: its name, dtype as NumPy writes it, and shape with the batch."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Codes(NamedTuple):
    """What the int8 codes of an input or output mean: value = scale * (code - zero_point)."""

    scale: float
    zero_point: int
    minimum: int
    maximum: int

    def values(self, codes: Any) -> Any:
        """The values of codes, in float32: an array for an array, a tensor for a tensor."""
        offsets = codes.astype("int32") if hasattr(codes, "astype") else codes.int()
        steps = offsets - self.zero_point
        return (steps.astype("float32") if hasattr(steps, "astype") else steps.float()) * self.scale


class RunResult(NamedTuple):
    """Outputs of a run, and what it cost.

    outputs: one array an output, the samples along the first axis. stats: cycles of one sample
    (``npu_total_cycles`` simulated, ``cpu_cycles`` estimated, ``total_cycles``) and their
    ``milliseconds``, bytes of memory touched (``sram_touched_bytes``) and milliseconds of this
    computer (``simulation_ms``).
    """

    outputs: tuple[Any, ...]
    stats: dict[str, Any]


class Layer(NamedTuple):
    """One operator in a verification.

    sqnr_db: signal to quantization noise in dB, against the model in float. max_error: the largest
    absolute difference, in real values. steps: the same in quantization steps, None for float tensors.
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
    steps: float | None
    differing: float


class Verification:
    """A comparison of a program with its model, operator by operator. True if no layer is bad."""

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


class AccuracyStep(NamedTuple):
    """A program that the search of ``accuracy="auto"`` tried.

    name: the setting, such as ``equalize``. verdict: ``start``, ``kept``, ``rejected``, ``measured``
    (a candidate for a step with others) or ``failed``. sqnr_db: of the worst output over all judged
    samples, in dB, 99 at most. accuracy: share of the labelled samples, 0 to 1. same_class: share of
    the judged samples in the float model's class, None if the output does not look like scores.
    cycles: of one inference, of the NPU as simulated and of the CPU as estimated. why: of a verdict. options: of
    the command, besides the given ones, that make this program without a search.
    """

    name: str
    verdict: str
    sqnr_db: float
    accuracy: float | None
    same_class: float | None
    cycles: int
    why: str
    options: list[str]


class AccuracySearch:
    """What the search of ``accuracy="auto"`` did. True if its goal is reached, or there is none.

    steps: in the order in which they were tried. default, result: the default and this program, both
    with ranges of all samples. calibrated, judged, labelled: numbers of samples; held_out: whether
    those that judged are not among the calibrated ones. float_accuracy: share of the labelled samples
    that the float model has right, 0 to 1. goal: text; own_goal: it is the search's, none was given. cut: what ended the search
    early, None if nothing did.
    """

    steps: list[AccuracyStep]
    default: AccuracyStep
    result: AccuracyStep
    calibrated: int
    judged: int
    labelled: int
    held_out: bool
    float_accuracy: float | None
    goal: str | None
    own_goal: bool
    cut: str | None

    def __init__(self, text: str, document: dict[str, Any]) -> None:
        self._text = text
        self._met: bool = document["met"]
        self.steps = [AccuracyStep(**row) for row in document["steps"]]
        self.default = AccuracyStep(**document["default"])
        self.result = AccuracyStep(**document["result"])
        self.calibrated = document["calibrated"]
        self.judged = document["judged"]
        self.labelled = document["labelled"]
        self.held_out = document["held_out"]
        self.float_accuracy = document["float_accuracy"]
        self.goal = document["goal"]
        self.own_goal = document["own_goal"]
        self.cut = document["cut"]

    def __bool__(self) -> bool:
        return self._met

    def __repr__(self) -> str:
        return self._text.rstrip("\n")

    def _repr_html_(self) -> str:
        rows = [list(each) for each in (*self.steps, self.default, self.result)]
        return _table(rows, AccuracyStep._fields)


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
        """The same at the target's clock; ``document["time_known"]`` has its error."""
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
        check_choice("by", by, ("operator", "module", "kernel", "memory"))
        check_choice("sort", sort, ("cycles", "program"))
        return self._handle.text(by, sort, text_of("filter", filter), at_least("depth", depth, 0))

    def to_csv(
        self,
        path: Path | None = None,
        by: str = "operator",
        sort: str = "cycles",
        filter: str = "",
        depth: int = 0,
    ) -> str:
        """The same table for a spreadsheet; into a file too, where a path is given."""
        check_choice("by", by, ("operator", "module", "kernel", "memory"))
        check_choice("sort", sort, ("cycles", "program"))
        table = self._handle.csv(by, sort, text_of("filter", filter), at_least("depth", depth, 0))
        return _written(table, path)

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
        """The results of operators, for the Inspector; empty without ``debug_buffer``."""
        return _written_bytes(self._handle.debug_buffer(), path)

    def to_html(self, path: Path | None = None, verify: Verification | None = None) -> str:
        """A page with timeline, operators, roofline, memory and graph that loads nothing.

        verify: adds the errors of layers to it.
        """
        if verify is not None and not isinstance(verify, Verification):
            raise wrong_type("verify", verify, "give what Program.verify returned")
        verified = verify.to_json() if verify is not None else ""
        return _written(self._handle.html(self._compile_report, verified), path)

    def compare(
        self, other: Profile, by: str = "operator", filter: str = "", depth: int = 0
    ) -> str:
        """The table of both side by side, what got slower in ``other`` first."""
        check_choice("by", by, ("operator", "module", "kernel", "memory"))
        if not isinstance(other, Profile):
            raise wrong_type("other", other, "give another Profile")
        return self._handle.compare_text(
            other._handle, by, text_of("filter", filter), at_least("depth", depth, 0)
        )

    def __repr__(self) -> str:
        return self.text().rstrip("\n")

    def _repr_html_(self) -> str:
        return framed(self.to_html())


# What arguments may be. Each returns the value, or raises Error `python-argument`.


def check_choice(argument: str, value: str, choices: tuple[str, ...]) -> None:
    fix = f"give one of: {', '.join(choices)}"
    if not isinstance(value, str):
        raise wrong_type(argument, value, fix)
    if value not in choices:
        raise fail("python-argument", f"{argument} is {shown(value)}", fix)


# As many as the command takes.
MOST_THREADS = 1024


def at_least(argument: str, value: int, least: int, most: int = 2**31 - 1) -> int:
    import operator

    fix = f"give a whole number from {least:,} to {most:,}"
    if isinstance(value, bool):
        raise wrong_type(argument, value, fix)
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong_type(argument, value, fix) from None
    if not least <= number <= most:
        # Numbers of thousands of digits have no text.
        raise fail("python-argument", f"{argument} is {shown(number)}", fix)
    return number


# The least and the greatest number that is finite.
FINITE = (-1.7976931348623157e308, 1.7976931348623157e308)


def number(argument: str, value: float, least: float, most: float) -> float:
    """A finite number within bounds: NaN is not."""
    import numbers

    fix = f"give a number from {least:g} to {most:g}"
    if (least, most) == FINITE:
        fix = "give a finite number"
    elif most == FINITE[1]:
        fix = f"give a finite number from {least:g}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise wrong_type(argument, value, fix)
    if not least <= value <= most:
        raise fail("python-argument", f"{argument} is {shown(value)}", fix)
    return float(value)


def seconds_of(value: float) -> float:
    """What the command's --seconds takes."""
    return number("seconds", value, 0, 86400)


def flag(argument: str, value: bool) -> bool:
    # NumPy's own kind of bool too.
    if type(value).__name__ not in ("bool", "bool_"):
        raise wrong_type(argument, value, "give True or False")
    return bool(value)


def text_of(argument: str, value: str) -> str:
    if not isinstance(value, str):
        raise wrong_type(argument, value, "give text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise fail(
            "python-argument", f"{argument} is {shown(value)}, no Unicode", "give text in Unicode"
        ) from None
    return value


def _written(text: str, path: Path | None) -> str:
    if path is not None:
        _written_bytes(text.encode(), path)
    return text


def _written_bytes(content: bytes, path: Path | None) -> bytes:
    if path is not None:
        _deuteron.write(path_of(path), content)
    return content


def framed(page: str) -> str:
    """A page in a frame of its own, so that neither it nor the notebook changes the other."""
    import html

    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts allow-downloads" '
        'style="width: 100%; height: 720px; border: 1px solid #ccc"></iframe>'
    )


def _table(rows: list[list[Any]], names: tuple[str, ...]) -> str:
    import html

    def cell(value: Any) -> str:
        text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
        return html.escape(text)

    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
