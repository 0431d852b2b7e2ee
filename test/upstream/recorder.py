"""A plugin of pytest for the NXP tests of ExecuTorch: takes a sample, and records every result.

    pytest -p recorder --record FILE [--sample N] …

A record is a line of JSON: test, file, outcome, reason, and for tests that wrote results of the NPU
and of the CPU how many of their elements there are, how many differ, and how many of these are ties
(ties.py; null: not judged). Before them stand how many tests were `collected` and how many are
`wanted` of these, and before each the name of the test that was `started`. The sample is the same
in every run: the tests whose names have the smallest hashes.

A test that any file beside FILE has a record of is not run again. One that was started twice and
has no record ended the interpreter: it is recorded as failed.
"""

import hashlib
import json
import re
import unittest
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import ties

OUTPUTS = Path(".outputs")


def pytest_configure():
    """Makes torchvision importable where its operators cannot be loaded.

    Tests take models from it and call none of its operators. A build for CUDA beside PyTorch for
    the CPU does not load them, and its import then fails, since those two are not declared.
    """
    import torch

    try:
        import torchvision  # noqa: F401
    except ImportError:
        return
    except RuntimeError:  # its meta functions are of operators that do not exist
        for name in ("nms", "qnms"):
            torch.library.define(
                f"torchvision::{name}",
                "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
            )


def pytest_pycollect_makeitem(obj):
    """Collects the classes that are marked for unittest's own runner alone, too."""
    if isinstance(obj, type) and issubclass(obj, unittest.TestCase):
        obj.__test__ = True


def pytest_addoption(parser):
    parser.addoption("--record", required=True, help="file for the records")
    parser.addoption("--sample", type=int, default=0, help="number of tests; 0: all")
    parser.addoption("--portion", default="1/1", help="K/N: the Kth of N portions of the tests")


def _hash(item):
    return hashlib.sha256(item.nodeid.encode()).hexdigest()


def pytest_collection_modifyitems(config, items):
    kept = sorted(items, key=_hash)
    if config.getoption("--sample"):
        kept = kept[: config.getoption("--sample")]
    _write(config, {"collected": len(items), "wanted": len(kept)})
    portion, portions = map(int, config.getoption("--portion").split("/"))
    taken = kept[portion - 1 :: portions]
    done, started = _recorded(config)
    for item in taken:
        if item.nodeid not in done and started[item.nodeid] >= 2:
            _write(config, _row(item.nodeid, "failed", "the interpreter ended in this test, twice"))
            done.add(item.nodeid)
    left = {item.nodeid for item in taken} - done
    items[:] = [item for item in items if item.nodeid in left]


def pytest_runtest_setup(item):
    _write(item.config, {"started": item.nodeid})


def _row(test, outcome, reason=""):
    return {"test": test, "file": test.split("::")[0], "outcome": outcome, "reason": reason}


def _write(config, row):
    with open(config.getoption("--record"), "a") as file:
        file.write(json.dumps(row) + "\n")


def _recorded(config):
    """Tests with a record, and how often each test was started, over all jobs of all runs."""
    done, started = set(), Counter()
    for path in Path(config.getoption("--record")).parent.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if "test" in row:
                done.add(row["test"])
            elif "started" in row:
                started[row["started"]] += 1
    return done, started


def _folder(item):
    """Where the test writes, as its own get_test_name says."""
    name = re.sub(r'[<>:"/\\|?* ,()`]', "_", item.nodeid.lstrip(":"))
    return OUTPUTS / name.strip(" .")


def _compare(folder):
    """(elements, different ones) of the two sets of results; None if there are not both."""
    found, different = 0, 0
    npu, cpu = folder / "results_npu", folder / "results_cpu"
    if not npu.is_dir() or not cpu.is_dir():
        return None
    # Programs without quantize and dequantize have their inputs in a folder of codes.
    dtype = np.int8 if (folder / "dataset_quant").is_dir() else np.float32
    for file in sorted(npu.rglob("*.bin")):
        other = cpu / file.relative_to(npu)
        if not file.is_file() or not other.is_file():
            continue
        a, b = np.fromfile(file, np.uint8), np.fromfile(other, np.uint8)
        if a.size != b.size or a.size % np.dtype(dtype).itemsize:
            return None
        a, b = a.view(dtype), b.view(dtype)
        found += a.size
        different += int((a != b).sum())
    return (found, different) if found else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    skipped = report.when == "setup" and report.outcome != "passed"
    if report.when != "call" and not skipped:
        return
    xfail = item.get_closest_marker("xfail")
    row = _row(item.nodeid, report.outcome) | {"seconds": round(report.duration, 1)}
    if hasattr(report, "wasxfail"):
        row["outcome"] = "xfailed" if report.outcome == "skipped" else "xpassed"
        row["reason"] = report.wasxfail
    elif report.outcome == "failed" and str(report.longrepr).startswith("[XPASS(strict)]"):
        row["outcome"] = "xpassed"
        row["reason"] = xfail.kwargs.get("reason", "") if xfail else ""
    elif report.outcome == "skipped":
        row["reason"] = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    elif report.outcome == "failed":
        text = str(call.excinfo.value) if call.excinfo else str(report.longrepr)
        row["reason"] = f"{call.excinfo.typename}: {text}"[:400] if call.excinfo else text[:400]
    compared = _compare(_folder(item))
    if compared:
        row["elements"], row["different"] = compared
        if row["different"]:
            row["ties"] = ties.count(_folder(item))
    _write(item.config, row)
