"""The verb `explore`: programs of one model, and what each costs."""

from __future__ import annotations

from typing import Any

from . import _deuteron
from ._data import Data, Path, Row, arrays_of, parsed, path_of, samples_of
from ._errors import fail
from ._model import model_source
from ._progress import Progress
from ._results import MOST_THREADS, at_least, check_choice, seconds_of, text_of

__all__ = ["explore"]


def explore(
    model: Any,
    calibration: Data | None = None,
    *,
    axis: str = "sram",
    points: int | None = None,
    seconds: float | None = None,
    data: Any = None,
    labels: str = "label",
    target: str = "imxrt700",
    recipe: Path | None = None,
    calibrate_random: int | None = None,
    load_calibration: Path | None = None,
    io: str = "float",
    constants: str | None = None,
    json: Path | None = None,
    svg: Path | None = None,
    html: Path | None = None,
    threads: int = 0,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Shows what less SRAM, or less error, costs in cycles.

    axis "sram": compiles and simulates a model within ``points`` budgets (default 20), all with
    equal outputs. axis "accuracy": searches as ``compile(..., accuracy="auto")`` does, without a
    goal, for at most ``seconds`` (default 60); data, labels: labelled samples, whose accuracy each
    program then has too.

    Other arguments as in ``compile``. Returns ``programs``, the number of programs, and ``points``:
    those that no other program beats, each with ``cycles``, ``sram_bytes`` or ``sqnr_db``, and the
    other figures of the command's JSON. json, svg, html: files.
    """
    check_choice("axis", axis, ("sram", "accuracy"))
    given = {
        "points": axis == "accuracy" and points is not None,
        "load_calibration": axis == "accuracy" and load_calibration is not None,
        "seconds": axis == "sram" and seconds is not None,
        "data": axis == "sram" and data is not None,
        "labels": data is None and text_of("labels", labels) != "label",
    }
    for name, useless in given.items():
        if useless:
            raise fail(
                "python-argument", f"{name} has no effect with these arguments", "leave it out"
            )
    check_choice("io", io, ("float", "int8"))
    options: dict[str, Any] = {"target": text_of("target", target), "io": io}
    options["threads"] = at_least("threads", threads, 0, MOST_THREADS)
    if constants is not None:
        check_choice("constants", constants, ("sram", "flash"))
        options["constants"] = constants
    if recipe is not None:
        options["recipe"] = path_of(recipe, "recipe")
    if load_calibration is not None:
        options["load_calibration"] = path_of(load_calibration, "load_calibration")
    if calibrate_random is not None:
        options["calibrate_random"] = at_least("calibrate_random", calibrate_random, 1, 10_000)
    if seconds is not None:
        options["seconds"] = seconds_of(seconds)
    labelled: list[Row] | None = None
    if data is not None:
        labelled, options["data"] = arrays_of(data)
        options["labels"] = text_of("labels", labels)
    loader, name = samples_of(calibration)
    if loader is None and name:
        options["calibration"] = name
    source = model_source(model)
    with Progress("calibrate", progress) as shown:
        _, document, drawing, page = _deuteron.explore(
            source,
            options,
            axis,
            20 if points is None else at_least("points", points, 2, 200),
            loader,
            "calibration",
            labelled,
            shown,
            shown.step,
        )
    for path, content in ((json, document), (svg, drawing), (html, page)):
        if path is not None:
            _deuteron.write(path_of(path), content.encode())
    frontier: dict[str, Any] = parsed(document)
    return frontier
