"""Progress of long work: on terminals and in notebooks, nowhere else."""
import os
import subprocess
import sys
import textwrap
import threading

import pytest

# The delay is taken away, and tqdm too, or replaced by a class that tells what it was called with.
SOURCE = """
    import sys, types
    import numpy, deuteron
    from deuteron import _progress
    folder, kind, show = sys.argv[1:]
    _progress._DELAY = 0
    sys.modules["tqdm"] = sys.modules["tqdm.auto"] = None
    calls = []
    if kind == "notebook":
        class tqdm:
            def __init__(self, total, desc, leave):
                self.n, self.total = 0, total
                calls.append(("open", desc, total, leave))
            def update(self, more):
                self.n += more
            def close(self):
                calls.append(("close", self.n == self.total))
        sys.modules["ipykernel"] = types.ModuleType("ipykernel")
        sys.modules["tqdm"] = types.ModuleType("tqdm")
        sys.modules["tqdm.auto"] = types.ModuleType("tqdm.auto")
        sys.modules["tqdm.auto"].tqdm = tqdm
    data = numpy.load(folder + "/calibration.npz")["input"]
    data = numpy.concatenate([data] * 20)
    shown = {"none": None, "yes": True, "no": False}[show]
    program = deuteron.compile(
        folder + "/float.pt2", calibration=data, calibration_samples=len(data), progress=shown
    )
    program.run(data, progress=shown)
    if kind == "notebook":
        print(calls)
"""


def process(digits, kind, show, stderr):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SOURCE), str(digits), kind, show],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        check=True,
    )


def on_terminal(digits, show):
    """What a terminal gets."""
    outer, inner = os.openpty()
    parts = []

    def read():
        try:
            while part := os.read(outer, 65536):
                parts.append(part)
        except OSError:  # the end of a terminal
            pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        process(digits, "terminal", show, inner)
    finally:
        os.close(inner)
        reader.join()
        os.close(outer)
    return b"".join(parts).decode()


def test_a_terminal_shows_a_line_that_is_gone_in_the_end(digits):
    text = on_terminal(digits, "none")
    for label in ("calibrate", "run"):
        assert f"\r{label} 1" in text and f"{label} 2" in text
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text
    assert on_terminal(digits, "no") == ""


@pytest.mark.parametrize("show, drawn", [("none", False), ("yes", True)])
def test_a_file_shows_it_when_asked(digits, show, drawn):
    assert ("calibrate" in process(digits, "file", show, subprocess.PIPE).stderr) == drawn


def test_a_notebook_has_a_bar(digits):
    calls = eval(process(digits, "notebook", "none", subprocess.PIPE).stdout)
    assert [call[:2] for call in calls if call[0] == "open"] == [
        ("open", "calibrate"),
        ("open", "run"),
    ]
    assert all(call[2] > 1 and call[3] is False for call in calls if call[0] == "open")
    assert [call for call in calls if call[0] == "close"] == [("close", True)] * 2
