"""The verb `compile`: a model, or several as methods, becomes a program."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _deuteron
from ._data import Data, Path, Row, arrays_of, parsed, path_of, samples_of
from ._errors import as_arguments, fail, warn, wrong_type
from ._model import model_source
from ._program import Program
from ._progress import Progress
from ._quantization import QuantizationReport, report_file
from ._results import MOST_THREADS, at_least, check_choice, flag, number, seconds_of, text_of

__all__ = ["compile"]


def compile(
    model: Any,
    calibration: Data | None = None,
    *,
    target: str = "imxrt700",
    output: Path | None = None,
    external_constants: Path | None = None,
    recipe: Path | None = None,
    converter: str | None = None,
    keep_neutron_ir: Path | None = None,
    converter_seconds: int = 600,
    calibration_samples: int = 1024,
    calibrate_random: int | None = None,
    load_calibration: Path | None = None,
    save_calibration: Path | None = None,
    observer: str = "histogram",
    accuracy: str = "default",
    data: Any = None,
    labels: str = "label",
    max_loss: float | str | None = None,
    seconds: float | None = None,
    equalize: bool = False,
    rotate: bool = False,
    round_weights: str = "nearest",
    keep_float: Sequence[str] | Mapping[str, Sequence[str]] = (),
    io: str = "float",
    check: bool = True,
    min_sqnr: float | None = None,
    row_packing: bool = False,
    schedule: str = "own",
    constants: str | None = None,
    sram: int | str | None = None,
    optimize: str | None = None,
    debug_map: bool = True,
    etrecord: Path | None = None,
    keep_off: Sequence[str] | Mapping[str, Sequence[str]] = (),
    force_on: Sequence[str] | Mapping[str, Sequence[str]] = (),
    stop_at: str | None = None,
    dims: Mapping[str, int] | Mapping[str, Mapping[str, int]] | None = None,
    placement: Path | None = None,
    patterns: Path | None = None,
    report_quantization: bool = False,
    quantization_json: Path | None = None,
    report_json: Path | None = None,
    emit_ir: Path | None = None,
    elide_constants: bool = False,
    print_after: str | None = None,
    verbose: bool = False,
    time_passes: bool = False,
    threads: int = 0,
    calibrate: Data | None = None,
    progress: bool | None = None,
) -> Program:
    """Compiles a model for a target: quantizes, places, schedules, checks.

    model: an ExportedProgram of ``torch.export.export``, the path of a .pt2, .tflite, .onnx or .ir file,
        or the bytes of one. A dict of them by name makes each a method of one program:
        ``Program.methods`` has all, and what is returned is ``forward``, else the first
        (docs/methods.md). A dict by these names then gives each method its own ``calibration``,
        ``dims``, ``keep_float``, ``keep_off`` or ``force_on``; other values are for all.
    calibration: real inputs, from which a float model gets its quantization ranges. The path of an
        .npz or .npy; an array or tensor; a dict of them by input; or an iterable of batches, such
        as a DataLoader, whose elements after the inputs (labels) are ignored. Arrays have the shape
        of the input, or samples along one more axis, or along a batch axis of 1; float32 for
        inputs in float32. ``calibrate`` is the same, as the command calls it.
    target: a name of ``deuteron.targets()``, or the path of a target file (.json).
    output: the .pte file to write; none: nothing is written, ``Program.save`` does it later.
    external_constants: a tensor file (.ptd) for constants that kernels of the CPU read.
    recipe: backends, options and constraints instead of the target's (.json).
    converter, keep_neutron_ir, converter_seconds: the command of NXP's converter, a folder that
        keeps the files it reads and writes, and the seconds after which it is stopped.
    calibration_samples: at most so many of them choose the ranges, evenly spaced (of a model with
        states: the first ones); a note on standard error says how many there were.
    calibrate_random: number of samples of noise instead of real inputs; the accuracy will be poor.
    load_calibration, save_calibration: files of observed ranges (.json).
    observer: ``histogram``, ``min-max`` or ``tail``.
    accuracy: ``auto`` searches the settings with which the program is nearest to the float model,
        judged on held-out samples in the simulator (docs/quantization.md); ``Program.accuracy`` says
        what it did. ^C ends the search with the best program so far; a second one ends the call.
    data, labels: for ``auto``: labelled samples, a dict of arrays or the path of an .npz, with the
        inputs and, under the name ``labels``, the class numbers.
    max_loss, min_sqnr: for ``auto``: the goal, for which operators may stay float on the CPU. The
        accuracy is at most ``max_loss`` points (0.5, or "0.5pt") below the float model's, which
        needs ``data``; or the outputs have ``min_sqnr`` dB.
    seconds: for ``auto``: ends the search after so long; default 60.
    equalize: scales channels of activations against the weights beside them.
    rotate: mixes the channels of residual streams by a rotation inside of the weights.
    round_weights: ``nearest``, or ``error`` for the codes with the least error of the results.
    keep_float: nodes or operators that are not quantized; ``["all"]`` needs no samples.
    io: ``float``, or ``int8`` for inputs and outputs without quantize and dequantize.
    check: runs the program on a sample and compares it with the model.
    min_sqnr: without ``auto``, refuses the program if the SQNR of an output there is below this many
        dB; default 3.
    row_packing, schedule, constants: how the NPU is used; ``schedule`` is ``own`` or ``nxp-like``,
        ``constants`` ``flash`` or ``sram``.
    sram, optimize: the bytes of SRAM that the program may use, as a number or as text with K or M;
        ``optimize`` is ``speed``, ``balance`` or ``size`` (docs/memory.md).
    debug_map: the map that verify, profile and explain read.
    etrecord: a file for ExecuTorch's Inspector.
    keep_off, force_on: nodes or operators to keep off the NPU, or to run there at any cost;
        ``["all"]``: all that it could run.
    stop_at: a node whose value becomes the output.
    dims: sizes of dimensions that the export left open, by their name in it (``{"s77": 1}``), or by
        input and dimension (``{"x.0": 1}``); without them they have the sizes of a calibration file.
    placement, patterns, quantization_json, report_json, emit_ir: files for reports.
    report_quantization: prints the report of ``Program.quantization``, and keeps it.
    print_after, verbose, time_passes, elide_constants: as the command's.
    threads: of calibration, 0 for all; the result does not depend on it.
    progress: None shows it on terminals and in notebooks.

    Returns a Program, whose bytes are those that the command writes.
    Raises Error; an exception of your iterable is passed on.
    """
    check_choice("observer", observer, ("histogram", "min-max", "tail"))
    check_choice("accuracy", accuracy, ("default", "auto"))
    check_choice("round_weights", round_weights, ("nearest", "error"))
    check_choice("io", io, ("float", "int8"))
    check_choice("schedule", schedule, ("own", "nxp-like"))
    if constants is not None:
        check_choice("constants", constants, ("sram", "flash"))
    if optimize is not None:
        check_choice("optimize", optimize, ("speed", "balance", "size"))
    if calibrate is not None:
        if calibration is not None:
            raise fail(
                "python-argument", "calibration and calibrate are the same", "give one of them"
            )
        calibration = calibrate
    options: dict[str, Any] = {
        "target": text_of("target", target),
        "converter_seconds": at_least("converter_seconds", converter_seconds, 1, 86400),
        "calibration_samples": at_least("calibration_samples", calibration_samples, 1, 1_000_000),
        "observer": observer,
        "accuracy": accuracy,
        "labels": text_of("labels", labels),
        "equalize": flag("equalize", equalize),
        "rotate": flag("rotate", rotate),
        "round_weights": round_weights,
        "io": io,
        "check": flag("check", check),
        "row_packing": flag("row_packing", row_packing),
        "schedule": schedule,
        "debug_map": flag("debug_map", debug_map),
        "report_quantization": flag("report_quantization", report_quantization),
        "elide_constants": flag("elide_constants", elide_constants),
        "verbose": flag("verbose", verbose),
        "time_passes": flag("time_passes", time_passes),
        "threads": at_least("threads", threads, 0, MOST_THREADS),
    }
    nodes_of = {"keep_float": keep_float, "keep_off": keep_off, "force_on": force_on}
    paths: dict[str, Path | None] = {
        "output": output,
        "external_constants": external_constants,
        "recipe": recipe,
        "keep_neutron_ir": keep_neutron_ir,
        "load_calibration": load_calibration,
        "save_calibration": save_calibration,
        "etrecord": etrecord,
        "placement": placement,
        "patterns": patterns,
        "quantization_json": quantization_json,
        "report_json": report_json,
        "emit_ir": emit_ir,
    }
    options.update({name: path_of(path, name) for name, path in paths.items() if path is not None})
    texts = {
        "converter": converter,
        "constants": constants,
        "sram": (
            sram
            if sram is None or isinstance(sram, str)
            else str(at_least("sram", sram, 0, 2**63 - 1))
        ),
        "optimize": optimize,
        "max_loss": (
            max_loss
            if max_loss is None or isinstance(max_loss, str)
            else f"{number('max_loss', max_loss, 0, 100):.9f}"
        ),
        "stop_at": stop_at,
        "print_after": print_after,
    }
    options.update({name: text_of(name, text) for name, text in texts.items() if text is not None})
    if min_sqnr is not None:
        options["min_sqnr"] = number("min_sqnr", min_sqnr, -99, 99)
    if seconds is not None:
        options["seconds"] = seconds_of(seconds)
    labelled: list[Row] | None = None
    if data is not None:
        labelled, options["data"] = arrays_of(data)
        if labelled == []:
            raise fail("python-data", "data has no arrays", "give the inputs and their labels")
    if calibrate_random is not None:
        if calibration is not None:
            raise fail(
                "python-argument",
                "calibrate_random has no effect with calibration",
                "give one of them",
            )
        options["calibrate_random"] = at_least("calibrate_random", calibrate_random, 1, 10_000)
    if isinstance(model, Mapping):
        _check_methods(model, {**options, "data": data, "converter": converter})
    models = model if isinstance(model, Mapping) else {"": model}
    methods = []
    for method, each in models.items():
        own = {**options, "dims": _sizes(_value_of("dims", dims, method, models))}
        for argument, nodes in nodes_of.items():
            own[argument] = names_of(argument, _value_of(argument, nodes, method, models) or ())
        loader, path = samples_of(_value_of("calibration", calibration, method, models))
        if loader is None and path:
            own["calibration"] = path
        # An ETRecord contains the weights with the bytes of the file.
        source = model_source(each, whole=etrecord is not None)
        methods.append((method, source, own, loader, "calibration"))
    reported = report_quantization and not isinstance(model, Mapping)
    with Progress("calibrate", progress) as shown, report_file(
        reported, options.get("quantization_json")
    ) as report:
        watch = (shown, shown.step, _out, _err, lambda diagnostic: warn(diagnostic))
        if isinstance(model, Mapping):
            handles = _deuteron.compile_methods(methods, options.get("output", ""), *watch)
        else:
            _, source, own, loader, name = methods[0]
            if report:
                own["quantization_json"] = report
            handles = [_deuteron.compile(source, own, loader, name, labelled, *watch)]
        programs = {
            method: Program(handle, source)
            for handle, (method, source, *_) in zip(handles, methods, strict=True)
        }
        if report:
            with open(report, encoding="utf-8") as file:
                programs[""]._quantization = QuantizationReport(parsed(file.read()))
    for program in programs.values():
        program._methods = programs if isinstance(model, Mapping) else None
    return programs.get("forward", programs[methods[0][0]])


# Options that concern the files or the nodes of one model.
_OF_ONE_MODEL = (
    "external_constants",
    "load_calibration",
    "save_calibration",
    "report_json",
    "placement",
    "patterns",
    "quantization_json",
    "emit_ir",
    "etrecord",
    "stop_at",
    "data",
    "keep_neutron_ir",
)


def _check_methods(models: Mapping[Any, Any], options: Mapping[str, Any]) -> None:
    """Refuses names that no method can have, and options that are for one model."""
    if not models:
        raise fail(
            "python-argument",
            "there is no model: the dict is empty",
            'give a model for each method: {"forward": model}',
        )
    for name in models:
        if not _deuteron.is_method_name(text_of("the name of a method", name)):
            raise fail(
                "python-argument",
                f"{name!r} cannot be the name of a method",
                "give a word of letters, digits and _ that begins with no digit, at most 64 long, and none "
                "as input0_scale",
            )
    for option in _OF_ONE_MODEL:
        if options.get(option) is not None:
            raise fail(
                "python-argument",
                f"{option} is for one model, and there are methods",
                f"compile that method alone to use {option}",
            )


def _value_of(argument: str, value: Any, method: str, models: Mapping[str, Any]) -> Any:
    """What the argument gives to this method: its own value in a dict by method, or that of all."""
    if method == "":
        return value
    by_method = isinstance(value, Mapping) and not set(models).isdisjoint(value)
    if not by_method:
        if len(models) > 1 and isinstance(value, Iterator):
            raise fail(
                "python-argument",
                f"{argument} is an iterator, which ends after the first method",
                "give each method its own: {" + ", ".join(f'"{each}": …' for each in models) + "}",
            )
        return value
    if strangers := [each for each in value if each not in models]:
        raise fail(
            "python-argument",
            f"{argument} has a value for {strangers[0]!r}, which is no method",
            f"the methods are {', '.join(models)}",
        )
    return value.get(method)


def names_of(argument: str, value: Any) -> list[str]:
    if isinstance(value, str):
        return [text_of(argument, value)]
    if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray, Mapping)):
        raise wrong_type(argument, value, 'give names: ["conv2d"]')
    return [text_of(argument, each) for each in value]


def _sizes(dims: Any) -> list[str]:
    if dims is None:
        return []
    if not isinstance(dims, Mapping):
        raise wrong_type("dims", dims, 'give sizes by name: {"x.0": 1}')
    return [
        f"{text_of('dims', name)}={at_least(f'dims[{name!r}]', size, 1)}"
        for name, size in dims.items()
    ]


def _out(text: str) -> None:
    sys.stdout.write(text)


def _err(text: str) -> None:
    sys.stderr.write(as_arguments(text))
