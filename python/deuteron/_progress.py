"""Progress of long work, as tqdm shows it."""

from __future__ import annotations

import sys
import time
from typing import Any

from ._errors import wrong_type

# Work that ends sooner shows nothing.
_DELAY = 0.5


class Progress:
    """Called with (done, total). tqdm draws where it is installed, else a line on a terminal.

    show: None for a terminal or a notebook only, as tqdm's ``disable=None``.
    """

    def __init__(self, label: str, show: bool | None) -> None:
        if show is not None and not isinstance(show, bool):
            raise wrong_type("progress", show, "give None, True or False")
        self.label = label
        self.show = show
        self.start = time.monotonic()
        self.bar: Any = None
        self.drawn = False
        self.named = False  # the bar is the name of a step

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self.start < _DELAY or not self._wanted():
            return
        if self.named:
            self.close()
        if self.bar is None:
            self.bar = self._open(total=total, desc=self.label)
        if self.bar is not False:
            self.bar.update(done - self.bar.n)
        else:
            self.drawn = True
            sys.stderr.write(f"\r{self.label} {done}/{total}\x1b[K")
            sys.stderr.flush()

    def step(self, name: str) -> None:
        """Shows what is tried next, in the place of what was shown before."""
        if time.monotonic() - self.start < _DELAY or not self._wanted():
            return
        self.close()
        self.named = True
        self.bar = self._open(total=1, desc=f"try {name}", bar_format="{desc}")
        if self.bar is False:
            self.drawn = True
            sys.stderr.write(f"\rtry {name}\x1b[K")
            sys.stderr.flush()

    def _open(self, **settings: Any) -> Any:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return False
        return tqdm(leave=False, **settings)

    def _wanted(self) -> bool:
        if self.show is not None:
            return self.show
        return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())

    def close(self) -> None:
        if self.bar:
            self.bar.close()
        elif self.drawn:
            sys.stderr.write("\r\x1b[K")
        self.bar, self.drawn, self.named = None, False, False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
