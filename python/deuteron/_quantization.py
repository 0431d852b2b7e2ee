"""Where a compilation lost accuracy: tensors, operators and their shares of the outputs' error."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._data import Path
from ._results import _written

__all__ = ["QuantizationReport", "report_file"]

_STYLE = (
    "<style>table.dtr-q{border-collapse:collapse;font:13px sans-serif}"
    "table.dtr-q td,table.dtr-q th{padding:2px 8px;text-align:left;border-bottom:1px solid #ddd}"
    "table.dtr-q td.n{text-align:right}"
    "table.dtr-q div{height:10px;background:#c33}table.dtr-q div.good{background:#3a3}</style>"
)


class QuantizationReport:
    """The integer model beside the float one, as ``compile --quantization-json`` writes it.

    operators: rows with name, op, module_path, source_line, tensor, adds_db, sqnr_db, saturated,
    share, by_weights and by_saturation, the largest share of the outputs' error first. tensors:
    rows with name, min, max, scale, zero_point, saturated, sqnr_db and selected, in program order.
    outputs_db: of the worst output. first_bad: the first tensor with less than 10 dB, None
    without one. advice: what to do, in a sentence, None where the outputs are good.
    """

    operators: list[dict[str, Any]]
    tensors: list[dict[str, Any]]
    float_operators: list[str]
    outputs_db: float
    first_bad: str | None
    advice: str | None

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.operators = document["operators"]
        self.tensors = document["tensors"]
        self.float_operators = document["float_operators"]
        self.outputs_db = document["outputs_db"]
        self.first_bad = document["first_bad"] or None
        self.advice = document["advice"]

    def share(self, name: str) -> float:
        """Share of the outputs' error that an operator causes, 0 to 1; below 0 it makes up for others.

        Raises KeyError for a name that no quantized operator has.
        """
        found = [row["share"] for row in self.operators if row["name"] == name]
        if not found:
            raise KeyError(name)
        return float(sum(each or 0.0 for each in found))

    def __repr__(self) -> str:
        lines = [f"outputs {self.outputs_db:.1f} dB, judged on {self.document['samples']} samples"]
        lines += [
            f"{_percent(row['share']):>7}  {row['adds_db']:6.1f} dB  {row['op']:<24} {row['name']}"
            for row in self.operators[:10]
        ]
        return "\n".join(lines + ([self.advice] if self.advice else []))

    def _repr_html_(self) -> str:
        rows = "".join(_row(row) for row in self.operators)
        words = [f"Worst output: {self.outputs_db:.1f} dB."]
        if self.first_bad:
            words.append(f"The first tensor below 10 dB is {self.first_bad}.")
        if self.advice:
            words.append(f"{self.advice}.")
        head = "".join(
            f"<th>{name}</th>"
            for name in (
                "share of the error",
                "",
                "adds, dB",
                "result, dB",
                "operator",
                "kind",
                "source",
            )
        )
        return (
            f"{_STYLE}<p>{html.escape(' '.join(words))}</p>"
            f"<table class=dtr-q><tr>{head}</tr>{rows}</table>"
        )

    def to_html(self, path: Path | None = None) -> str:
        """The table with the shares drawn, a page of its own; into a file too, where a path is given."""
        page = (
            "<!DOCTYPE html><html><head><meta charset=utf-8><title>Quantization</title></head>"
            f"<body>{self._repr_html_()}</body></html>\n"
        )
        return _written(page, path)


@contextmanager
def report_file(wanted: bool, given: str | None) -> Iterator[str | None]:
    """The file that a report is written to: the given one, or one that is removed afterwards."""
    if given or not wanted:
        yield given
        return
    import tempfile  # when it is needed: imports are to be short

    with tempfile.TemporaryDirectory() as folder:
        yield f"{folder}/quantization.json"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _row(row: dict[str, Any]) -> str:
    share = row["share"] or 0.0
    kind = " class=good" if share < 0 else ""
    bar = f"<div{kind} style='width:{min(100.0, 100 * abs(share)):.1f}px'></div>"
    place = " ".join(filter(None, (row["module_path"], row["source_line"])))
    texts = (row["name"], row["op"], place)
    return (
        f"<tr><td class=n>{_percent(row['share'])}</td><td>{bar}</td>"
        f"<td class=n>{row['adds_db']:.1f}</td><td class=n>{row['sqnr_db']:.1f}</td>"
        + "".join(f"<td>{html.escape(text)}</td>" for text in texts)
        + "</tr>"
    )
