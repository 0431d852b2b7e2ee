"""Results, programs and models compared with each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _deuteron
from ._data import Path, Row, arrays_of, parsed, path_of, to_row
from ._model import model_source
from ._program import Program
from ._results import FINITE, at_least, number, text_of

__all__ = ["Comparison", "compare"]


class Comparison:
    """How far outputs are apart. True if all given bounds hold.

    outputs: one row an output with max_absolute, mean_absolute, sqnr_db (dB), max_steps (quantization
    steps), same_argmax (samples), and failures, the bounds that do not hold.
    """

    outputs: list[dict[str, Any]]

    def __init__(self, text: str, document: str) -> None:
        self._text = text
        self._json = document
        self.outputs = parsed(document)

    def __bool__(self) -> bool:
        return not any(row["failures"] for row in self.outputs)

    def __repr__(self) -> str:
        return self._text.rstrip("\n")


def compare(
    a: Any,
    b: Any,
    *,
    data: Any = None,
    samples: int = 0,
    method: str = "",
    step: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: float | None = None,
    min_sqnr: float | None = None,
    min_argmax: float | None = None,
    json: Path | None = None,
) -> Comparison:
    """How far ``b`` is from ``a``.

    a, b: results (a dict of arrays with samples along the first axis, or the path of an .npz or
    .npy), programs, or models. data: samples to run programs and models on. samples: only the first
    so many (0: all). step: the quantization step of float outputs. rtol, atol, max_steps (in
    quantization steps), min_sqnr (dB), min_argmax (share of the samples): bounds that must hold.
    """
    rules = {
        "step": (step, 2.2250738585072014e-308, FINITE[1]),
        "rtol": (rtol, 0, FINITE[1]),
        "atol": (atol, 0, FINITE[1]),
        "max_steps": (max_steps, 0, FINITE[1]),
        "min_sqnr": (min_sqnr, *FINITE),
        "min_argmax": (min_argmax, 0, 1),
    }
    given = {
        rule: number(rule, value, least, most)
        for rule, (value, least, most) in rules.items()
        if value is not None
    }
    rows, name = (None, "") if data is None else arrays_of(data)
    text, document = _deuteron.compare(
        _side(a, "a", method),
        _side(b, "b", method),
        rows,
        name,
        at_least("samples", samples, 0),
        given,
    )
    if json is not None:
        _deuteron.write(path_of(json), document.encode())
    return Comparison(text, document)


def _side(value: Any, name: str, method: str) -> tuple[str, Any, list[Row] | None, Any, str]:
    """One side of a comparison: a file, bytes, or arrays."""
    method = text_of("method", method)
    if isinstance(value, Program):
        handle = value._handle
        return handle.name or name, value.pte, None, value.tensors or None, method or handle.method
    if isinstance(value, Mapping):
        return name, None, [to_row(str(each), array) for each, array in value.items()], None, ""
    if hasattr(value, "__array__"):
        return name, None, [to_row("output_0", value)], None, ""
    source = model_source(value)
    return source[0], source[1], None, None, method
