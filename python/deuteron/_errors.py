"""Errors and warnings of Deuteron."""

from __future__ import annotations

__all__ = ["DeuteronWarning", "Error", "Place"]

# Options of the command whose argument here has another name.
_ARGUMENTS = {
    "calibrate": "calibration",
    "dim": "dims",
    "no-check": "check=False",
    "no-debug-map": "debug_map=False",
    "no-checksum": "checksum=False",
}


def as_arguments(text: str) -> str:
    """`text` with the options of the command as arguments of Python: --keep-off as keep_off."""
    if "--" not in text:
        return text
    import re

    def argument(match: re.Match[str]) -> str:
        return _ARGUMENTS.get(match[1], match[1].replace("-", "_"))

    text = text.replace("--accuracy auto", 'accuracy="auto"')
    return re.sub(r"--([a-z][a-z-]*[a-z])", argument, text)


class Place:
    """Where in the user's input. Each part may be empty.

    file: the path, or a name for what was in memory; node: an operator, tensor or array;
    module_path: a PyTorch module such as ``features.3.conv``; source_line: ``model.py:208``.
    """

    __slots__ = ("file", "module_path", "node", "source_line")

    def __init__(
        self, file: str = "", node: str = "", module_path: str = "", source_line: str = ""
    ) -> None:
        self.file = file
        self.node = node
        self.module_path = module_path
        self.source_line = source_line

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name)!r}" for name in ("file", "node")]
        parts += [
            f"{name}={getattr(self, name)!r}"
            for name in ("module_path", "source_line")
            if getattr(self, name)
        ]
        return f"Place({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and all(
            getattr(self, name) == getattr(other, name) for name in Place.__slots__
        )

    def __hash__(self) -> int:
        return hash((self.file, self.node, self.module_path, self.source_line))


class Error(Exception):
    """The input is at fault.

    id: stable, such as ``data-shape``; docs/diagnostics.md of the project has them all, those that
    start with ``python-`` are in docs/python.md. reason: one sentence, what is wrong, with the
    values. fix: one sentence, what to do; may be empty. place: where.
    """

    id: str
    reason: str
    fix: str
    place: Place

    def __init__(
        self,
        severity: str,
        id: str,
        reason: str,
        fix: str = "",
        file: str = "",
        node: str = "",
        module_path: str = "",
        source_line: str = "",
        text: str = "",
    ) -> None:
        super().__init__(severity, id, reason, fix, file, node, module_path, source_line, text)
        self.id = id
        self.reason = as_arguments(reason)
        self.fix = as_arguments(fix)
        self.place = Place(file, node, module_path, source_line)
        self._text = as_arguments(text)

    def __str__(self) -> str:
        if self._text:
            return self._text
        place = "".join(f"{part}: " for part in (self.place.file, self.place.node) if part)
        fix = f"\n  fix: {self.fix}" if self.fix else ""
        return f"error[{self.id}]: {place}{self.reason}{fix}"


def fail(id: str, reason: str, fix: str = "", file: str = "", node: str = "") -> Error:
    """An error of this package, to be raised."""
    return Error("error", id, reason, fix, file, node)


class ArgumentTypeError(Error, TypeError):
    """An argument is of a type that it cannot have."""


def shown(value: object) -> str:
    """A value in a message: any object of the user's, and not all of a long one."""
    try:
        text = repr(value)
    except Exception:
        return "an object that cannot be shown"
    return text if len(text) <= 60 else text[:57] + "..."


def wrong_type(argument: str, value: object, fix: str) -> Error:
    """An error of a type, to be raised."""
    reason = f"{argument} cannot be {shown(value)}, of type {type(value).__name__}"
    return ArgumentTypeError("error", "python-argument", reason, fix)


class DeuteronWarning(UserWarning):
    """A result that is correct but may not be what you intended."""


def warn(diagnostic: tuple[str, ...], stacklevel: int = 3) -> None:
    """Shows a diagnostic of severity warning, as the library gives it."""
    import warnings

    warnings.warn(as_arguments(diagnostic[8]), DeuteronWarning, stacklevel=stacklevel + 1)
