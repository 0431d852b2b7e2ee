"""The verbs of the command as functions. Each calls what its verb calls."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _deuteron
from ._data import (
    Data,
    Path,
    along_samples,
    arrays_of,
    from_row,
    is_array,
    is_path,
    parsed,
    path_of,
    samples_of,
    to_numpy,
    to_row,
    to_rows,
)
from ._errors import fail, wrong_type
from ._model import NO_SOURCE, in_one_piece, model_source, program_source
from ._program import Program
from ._progress import Progress
from ._results import (
    MOST_THREADS,
    Profile,
    RunResult,
    Verification,
    at_least,
    check_choice,
    flag,
    text_of,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = [
    "Converted",
    "QatPrepared",
    "convert",
    "eval",
    "evaluate",
    "explain",
    "firmware",
    "inspect",
    "load",
    "ops",
    "profile",
    "qat_prepare",
    "run",
    "targets",
    "verify",
]


def load(program: Any, tensors: Any = None, method: str = "") -> Program:
    """Reads a program: the path or the bytes of a .pte file, and of its tensor file (.ptd).

    method: of a program that has several; default: ``forward``, or the only one. Functions that take
    a program take this too.
    """
    outside = NO_SOURCE if tensors is None else program_source(tensors)
    return Program(_deuteron.load(program_source(program), outside, text_of("method", method)))


def run(
    program: Any,
    input: Any,
    *,
    output: Path | None = None,
    samples: int = 0,
    tensors: Any = None,
    method: str = "",
    repeat: int = 1,
    on: str = "host",
    threads: int = 0,
    progress: bool | None = None,
) -> RunResult:
    """Runs a program on samples, the NPU simulated bit by bit.

    program: a Program, or the path or bytes of a .pte file. input: arrays as Program.__call__ takes
    them, a dict of them by input, or the path of an .npz or .npy. output: an .npz to write, with
    ``output_0``, … and samples along the first axis. samples: only the first so many (0: all).
    repeat: runs of each sample, for timing. on: ``host``, or where firmware is built and run, its
    instructions counted; threads: see Program.run.
    """
    loaded = _program(program, tensors, method)
    if is_path(input):
        input = _read_arrays(path_of(input), loaded)
    if at_least("samples", samples, 0):
        entries = loaded._signature()
        rows = to_rows(input, entries)
        named = {entry[0]: entry for entry in entries}
        # An only input may be called `input` or `input_0` too.
        input = {
            row[0]: along_samples(from_row(row), named.get(row[0], entries[0]))[:samples]
            for row in rows
        }
    result = loaded.run(input, repeat=repeat, on=on, threads=threads, progress=progress)
    if output is not None:
        rows = [to_row(f"output_{i}", value) for i, value in enumerate(result.outputs)]
        _deuteron.write_npz(path_of(output), rows)
    return result


def eval(
    program: Any,
    data: Any,
    *,
    labels: str = "label",
    against: Any = None,
    json: Path | None = None,
    tensors: Any = None,
    method: str = "",
    threads: int = 0,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Computes the accuracy of a program over a data set, next to the float model's.

    data: the path of an .npz, or a dict of arrays, with the inputs, the class numbers under the
    name ``labels``, and ``float_output`` if the float model's outputs are known. against: a float
    model to run on the same data. Returns ``samples``, ``accuracy``, ``float_accuracy``,
    ``same_class`` (shares from 0 to 1), ``sqnr_db`` (dB) and the cost of one inference:
    ``npu_total_cycles``, ``cpu_cycles`` (estimated), ``total_cycles`` and ``milliseconds``.
    """
    document = _program(program, tensors, method)._evaluated(
        data, labels, against, threads, progress
    )
    if json is not None:
        _deuteron.write(path_of(json), document.encode())
    figures: dict[str, Any] = parsed(document)
    return figures


def evaluate(
    program: Any,
    dataset: Any,
    executor: Executor | None = None,
    *,
    labels: str = "label",
    against: Any = None,
    chunks: int = 64,
    tensors: Any = None,
    method: str = "",
) -> dict[str, Any]:
    """Computes the accuracy of a program, as ``eval`` does, on the workers of an executor.

    dataset, labels, against: as for ``eval``. executor: any executor of concurrent.futures, such as
    ProcessPoolExecutor, those of mpi4py.futures, Dask and Ray; None: the threads of this process.
    Processes need Deuteron installed. chunks: the number of calls among which the samples are
    divided; each gets the program, its samples and ``against`` by pickle, and one thread. A program
    with states takes the samples as one stream, in one call. The figures are those of ``eval``, to
    the last bit. Raises Error, that of the first failing call in the order of samples, or what the
    executor raises.
    """
    loaded = _program(program, tensors, method)
    at_least("chunks", chunks, 1)
    if executor is None:
        return eval(loaded, dataset, labels=labels, against=against)
    if not callable(getattr(executor, "submit", None)):
        raise wrong_type("executor", executor, "give an executor of concurrent.futures, or None")
    labels = text_of("labels", labels)
    source = in_one_piece(NO_SOURCE if against is None else model_source(against))
    arrays, name = _dataset(dataset)

    def run(count: int, is_stream: bool) -> bytes:
        parts = 1 if is_stream else min(count, chunks)
        ends = [count * i // parts for i in range(parts + 1)]
        futures = [
            executor.submit(
                _eval_records, loaded, _slices(arrays, count, begin, end), labels, source
            )
            for begin, end in zip(ends, ends[1:], strict=False)
        ]
        try:
            return b"".join(future.result() for future in futures)
        finally:
            for future in futures:
                future.cancel()

    rows = [to_row(*item) for item in arrays.items()]
    _, document = _deuteron.eval(loaded._handle, rows, name, labels, source, 0, None, run)
    figures: dict[str, Any] = parsed(document)
    return figures


def _eval_records(program: Program, arrays: dict[str, Any], labels: str, against: Any) -> bytes:
    """What an executor calls: the results of some samples."""
    rows = [to_row(*item) for item in arrays.items()]
    return _deuteron.eval_records(program._handle, rows, labels, against, 1)


def _dataset(dataset: Any) -> tuple[dict[str, Any], str]:
    """The arrays of a data set by name, and its name for messages."""
    if not is_path(dataset):
        items = dataset if isinstance(dataset, Mapping) else {"input": dataset}
        return {str(key): to_numpy(value, str(key)) for key, value in items.items()}, "data"
    import numpy

    path = path_of(dataset)
    try:
        loaded = numpy.load(path)
    except (OSError, ValueError) as error:
        raise fail("file-not-found", str(error), "give an .npz or .npy", path) from error
    if is_array(loaded):
        return {"input": to_numpy(loaded)}, path
    # As the command does, it leaves out what is no input of programs, such as strings.
    kept = {key: loaded[key] for key in loaded if loaded[key].dtype.kind in "biuf"}
    return {key: to_numpy(value, key) for key, value in kept.items()}, path


def _slices(arrays: dict[str, Any], count: int, begin: int, end: int) -> dict[str, Any]:
    """Samples from `begin` to `end` of arrays with `count` samples."""
    if count == 1:
        return arrays
    sliced = {}
    for name, value in arrays.items():
        if value.shape[:1] != (count,) and value.size % count == 0 and "float_output" in name:
            value = value.reshape(count, -1)
        sliced[name] = value[begin:end] if value.shape[:1] == (count,) else value
    return sliced


def verify(
    program: Any,
    against: Any,
    data: Data,
    *,
    samples: int = 1,
    min_sqnr: float = 10.0,
    json: Path | None = None,
    tensors: Any = None,
    method: str = "",
    threads: int = 0,
) -> Verification:
    """Compares a program with its model layer by layer: see Program.verify."""
    result = _program(program, tensors, method).verify(
        data, against=against, samples=samples, min_sqnr=min_sqnr, threads=threads
    )
    if json is not None:
        result.to_json(json)
    return result


class QatPrepared:
    """A float export with fake quantization inside, ready for training.

    archive: the bytes of a .pt2 file. activations, weights: how many have fake quantization.
    batch_norms: whose fusion is simulated. notes: what stays float during training, and why.
    """

    def __init__(
        self, archive: bytes, activations: int, weights: int, batch_norms: int, notes: list[str]
    ) -> None:
        self.archive = archive
        self.activations = activations
        self.weights = weights
        self.batch_norms = batch_norms
        self.notes = notes

    def exported_program(self) -> Any:
        """The same as an ExportedProgram of PyTorch."""
        import io

        import torch

        return torch.export.load(io.BytesIO(self.archive))

    def save(self, output: Path) -> None:
        """Writes the .pt2 file."""
        _deuteron.write(path_of(output), self.archive)

    def __repr__(self) -> str:
        return (
            f"<deuteron.QatPrepared: fake quantization of {self.activations} activations and "
            f"{self.weights} weights; fusion of {self.batch_norms} batch norms simulated>"
        )


def qat_prepare(
    model: Any,
    calibration: Data | None = None,
    *,
    output: Path | None = None,
    target: str = "imxrt700",
    equalize: bool = False,
    observer: str = "histogram",
    threads: int = 0,
) -> QatPrepared:
    """Inserts fake quantization into a float export, for quantization-aware training in PyTorch.

    model: an ExportedProgram, or the path or bytes of a .pt2 file. calibration: data for the initial
    ranges, as compile takes them; default: the first batch of the training sets them. equalize:
    scales channels of activations against the weights beside them before training. observer:
    as compile takes it.
    """
    check_choice("observer", observer, ("histogram", "min-max", "tail"))
    options = {
        "threads": at_least("threads", threads, 0, MOST_THREADS),
        "equalize": flag("equalize", equalize),
        "observer": observer,
    }
    loader, name = samples_of(calibration)
    prepared = QatPrepared(
        *_deuteron.qat_prepare(
            model_source(model),
            text_of("target", target),
            loader,
            name,
            options,
        )
    )
    if output is not None:
        prepared.save(output)
    return prepared


class Converted(NamedTuple):
    """A model with NeutronGraph operators, the bytes of a .tflite.

    operators: of the model. converted: of them, those in NeutronGraph operators, of which there are
    ``graphs``. kept: the others, each with the name of its result, its operator and the reason.
    kernel_selection: C source, the table of the kernels that the model calls. log: what was read
    and made.
    """

    model: bytes
    log: str
    kernel_selection: str
    operators: int
    converted: int
    graphs: int
    kept: list[tuple[str, str, str]]


def convert(
    model: Any,
    output: Path | None = None,
    *,
    target: str = "imxrt700",
    fetch_constants_to_sram: bool = False,
    profile: bool = False,
    kernel_selection: Path | None = None,
) -> Converted:
    """Converts Neutron IR to NeutronGraph operators, as NXP's converter does.

    model: the path or bytes of a .tflite. Its int8 operators compute as PyTorch's, with one
    rounding. fetch_constants_to_sram: leave constants in flash, and copy them while the model runs.
    profile: payloads that record an event for each kernel. kernel_selection: a file for the
    table of kernels.
    """
    made = Converted(
        *_deuteron.convert(
            model_source(model),
            text_of("target", target),
            flag("fetch_constants_to_sram", fetch_constants_to_sram),
            flag("profile", profile),
        )
    )
    if output is not None:
        _deuteron.write(path_of(output), made.model)
    if kernel_selection is not None:
        _deuteron.write(path_of(kernel_selection), made.kernel_selection.encode())
    return made


def firmware(
    programs: Any,
    output: Path,
    *,
    board: str = "qemu-an505",
    tensors: Any = None,
    method: str = "",
    checksum: bool = True,
) -> dict[str, list[str]]:
    """Writes a CMake project that runs programs on a board: see Program.firmware.

    programs: one program, or a dict of them by name, which share one arena and run one at a time.
    """
    given = programs if isinstance(programs, Mapping) else {"model": programs}
    handles = {str(name): _program(each, tensors, method)._handle for name, each in given.items()}
    return _deuteron.firmware(
        list(handles.values()),
        list(handles),
        path_of(output, "output"),
        text_of("board", board),
        flag("checksum", checksum),
    )


def profile(
    trace: Any,
    *,
    program: Path | None = None,
    etrecord: Path | None = None,
    tensors: Any = None,
    method: str = "",
) -> Profile:
    """Shows where the cycles of a run went.

    trace: a Program or a .pte file, which is run; or the path of a profile (.etdump, or
    profile.bin of a device), whose operators ``program`` or ``etrecord`` name.
    """
    if not is_path(trace):
        return _program(trace, tensors, method).profile()
    handle = _deuteron.read_profile(
        path_of(trace),
        path_of(program) if program is not None else "",
        path_of(etrecord) if etrecord is not None else "",
        [path_of(tensors)] if tensors is not None else [],
        text_of("method", method),
    )
    return Profile(handle)


def explain(
    program: Any, op: str = "", *, most: int = 5, tensors: Any = None, method: str = ""
) -> str:
    """Explains in words what determines the cycles of operators: see Program.explain."""
    return _program(program, tensors, method).explain(op, most)


def inspect(file: Any) -> str:
    """A model, a program or data as text: a path (.pt2, .tflite, .onnx, .pte, .ptd, .etdump, .npz)."""
    if isinstance(file, Program):
        return file.inspect()
    if not is_path(file):
        return load(file).inspect()
    return _deuteron.inspect(path_of(file))


def targets() -> list[dict[str, Any]]:
    """The machines that programs are compiled for, with clocks in Hz and memories in bytes.

    ``json`` of each is a target file, from which one for another machine can be made."""
    return _deuteron.targets()


def ops() -> list[dict[str, Any]]:
    """The operators that models may have: name, summary, and whether they run in int8."""
    return _deuteron.operators()


def load_plugin(file: Path) -> None:
    """Loads a plug-in with kernels of operators that Deuteron does not know, for all calls until
    the process ends: a C source (``.c``) or a shared library, as ``--plugin`` of the command."""
    _deuteron.load_plugin(os.fspath(file))


# ---- helpers


def _program(program: Any, tensors: Any, method: str) -> Program:
    if not isinstance(program, Program):
        return load(program, tensors, method)
    if text_of("method", method) in ("", program.method):
        return program
    return program.methods.get(method) or load(program.pte, program.tensors or None, method)


def _read_arrays(path: str, program: Program) -> dict[str, Any]:
    """The arrays of a file that the inputs take, by their own names, `input_0`, … or `input`."""
    entries = program._signature()
    taken = {"input", *(f"input_{k}" for k in range(len(entries))), *(each[0] for each in entries)}
    rows = _deuteron.read_arrays(program._handle, path)
    return {row[0]: from_row(row) for row in rows if row[0] in taken}
