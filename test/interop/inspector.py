#!/usr/bin/env python3
"""Live comparison with ExecuTorch's Inspector: its table of a run against `deuteron profile
--json`, event by event, and what it says of
the values between operators against a comparison of our own.

    inspector.py DEUTERON [MODEL.pt2 …] [--write-tables]      (the wheels of requirements.txt)

Without models: those of the repository, and those of the full set where DEUTERON_SHARED names it.
Beside a model lies calibration.npz, or it is compiled on noise. Exit code 1: something differs.
test/data/inspector holds what the Inspector says of a run of some models, for
test/e2e/profile_agreement.py, which has no wheels; --write-tables writes it anew, after a change of
map or cycles.
"""
import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from executorch.devtools import Inspector
from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc
from executorch.devtools.etrecord import parse_etrecord
from executorch.devtools.inspector._inspector_utils import TimeScale

ROOT = Path(__file__).resolve().parents[2]
RUNS = 2
TABLES = ROOT / "test/data/inspector"  # NAME.json
TABLE_NETS = (
    "ic_resnet8",
    "kws_dscnn",
    "vww_mobilenetv1",
    "ad_fcae",
    "digits_transformer",
    "branches",
)


def default_models():
    folders = [ROOT / "models"] + (
        [Path(os.environ["DEUTERON_SHARED"]) / "models"]
        if os.environ.get("DEUTERON_SHARED")
        else []
    )
    found = {}
    for folder in folders:
        for path in sorted(folder.glob("*/float.pt2")):
            found.setdefault(path.parent.name, path)
    return [*found.values(), ROOT / "test/data/etdump/branches.pt2"]


def name_of(model):
    return model.stem if model.stem != "float" else model.parent.name


def run(*command):
    done = subprocess.run(
        [str(part) for part in command], text=True, stdin=subprocess.DEVNULL, capture_output=True
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())


def make_files(deuteron, model, work):
    """Record, trace and our own profile of a model."""
    calibration = model.parent / "calibration.npz"
    ranges = ["--calibrate", calibration] if calibration.exists() else ["--calibrate-random", 2]
    run(
        deuteron, "compile", model, "-o", work / "m.pte", "--etrecord", work / "m.etrecord", *ranges
    )
    samples = work / "samples.npz"
    if calibration.exists():
        with np.load(calibration) as arrays:
            np.savez(samples, **{name: arrays[name][:RUNS] for name in arrays.files})
    else:
        graph = json.loads(
            subprocess.run(
                ["unzip", "-p", model, "*/models/model.json"], capture_output=True, check=True
            ).stdout
        )
        graph = graph["graph_module"]
        inputs = [
            each["user_input"]["arg"]["as_tensor"]["name"]
            for each in graph["signature"]["input_specs"]
            if "user_input" in each
        ]
        shapes = [
            [size["as_int"] for size in graph["graph"]["tensor_values"][name]["sizes"]]
            for name in inputs
        ]
        random = np.random.default_rng(0)
        np.savez(
            samples,
            **{
                f"input_{i}": random.normal(size=(RUNS, *shape)).astype(np.float32)
                for i, shape in enumerate(shapes)
            },
        )
    run(
        deuteron,
        "run",
        work / "m.pte",
        "--input",
        samples,
        "--samples",
        RUNS,
        "--profile",
        work / "m.etdump",
    )
    run(
        deuteron,
        "profile",
        work / "m.etdump",
        "--etrecord",
        work / "m.etrecord",
        "--json",
        work / "m.json",
    )
    return json.loads((work / "m.json").read_text())


def kernel_of(metadatas):
    return {"kernel": bytes(metadatas[0]).decode()}


def inspect(work, **options):
    return Inspector(
        etdump_path=str(work / "m.etdump"),
        etrecord=str(work / "m.etrecord"),
        source_time_scale=TimeScale.CYCLES,
        target_time_scale=TimeScale.CYCLES,
        delegate_metadata_parser=kernel_of,
        **options,
    )


def module_of(hierarchy):
    return list(hierarchy.values())[-1][0] if hierarchy else ""


def has_line(trace, line):
    file, _, number = line.rpartition(":")
    return not line or f'{file}", line {number}' in trace


class Comparison:
    """`differences` are sentences."""

    def __init__(self, ours, inspector):
        self.ours, self.inspector, self.differences, self.compared = ours, inspector, [], 0
        self.by_place = {
            (span["instruction"], span.get("command", -1)): span for span in ours["spans"]
        }

    def expect(self, what, theirs, ours):
        if theirs != ours:
            self.differences.append(f"{what}: the Inspector says {theirs}, we {ours}")

    def sources(self, span):
        return [
            self.ours["sources"][source] for source in self.ours["rows"][span["row"]]["sources"]
        ]

    def event(self, event):
        place = (
            event._instruction_id,
            event.delegate_debug_identifier if event.is_delegated_op else -1,
        )
        span = self.by_place.get(place)
        label = f"{event.name} at {place}"
        elapsed = set(event.perf_data.raw)
        if span is None:  # waits that wait for nothing are no spans
            self.expect(
                f"{label}, no span",
                (elapsed, event.delegate_debug_metadatas),
                ({0.0}, {"kernel": "Wait"}),
            )
            return
        self.compared += 1
        sources = self.sources(span)
        self.expect(
            f"{label}, cycles of {RUNS} runs",
            event.perf_data.raw,
            [float(span["end"] - span["start"])] * RUNS,
        )
        self.expect(
            f"{label}, operators",
            Counter(event.op_types),
            Counter(source["op"] for source in sources),
        )
        self.expect(
            f"{label}, modules",
            Counter(map(module_of, event.module_hierarchy.values())),
            Counter(source["module"] for source in sources),
        )
        traces = {name.rstrip("_"): trace or "" for name, trace in event.stack_traces.items()}
        for source in sources:
            if not has_line(
                next(
                    (trace for name, trace in traces.items() if name == source["name"].rstrip("_")),
                    "",
                ),
                source["source_line"],
            ):
                self.differences.append(
                    f"{label}: the stack trace of {source['name']} has no {source['source_line']}"
                )
        if event.is_delegated_op:
            self.expect(
                f"{label}, kernel", event.delegate_debug_metadatas["kernel"], span["kernel"]
            )
            self.expect(f"{label}, backend", event.delegate_backend_name, "DeuteronBackend")
        else:
            self.expect(f"{label}, kernel", event.name, "native_call_" + span["kernel"])

    def module_totals(self):
        for module in sorted({source["module"] for source in self.ours["sources"]} - {""}):
            spans = [
                span
                for span in self.ours["spans"]
                if any(module in source["module"] for source in self.sources(span))
            ]
            self.expect(
                f"cycles of module {module}",
                self.inspector.find_total_for_module(module),
                float(sum(span["end"] - span["start"] for span in spans)),
            )

    def run(self):
        events = [
            event
            for block in self.inspector.event_blocks
            if block.name == "Execute"
            for event in block.events
        ]
        for event in events:
            if event.name == "Method::execute":
                self.expect(
                    "cycles of the run",
                    event.perf_data.raw,
                    [float(self.ours["total_cycles"])] * RUNS,
                )
            elif event.name not in ("OPERATOR_CALL", "DELEGATE_CALL"):
                self.event(event)
        self.expect("events", self.compared, len(self.ours["spans"]))
        self.module_totals()
        frame = self.inspector.to_dataframe(include_delegate_debug_data=True)
        self.expect(
            "rows of the data frame",
            len(frame),
            sum(len(block.events) for block in self.inspector.event_blocks),
        )
        text = io.StringIO()
        self.inspector.print_data_tabular(file=text, include_delegate_debug_data=True)
        for source in (source for span in self.ours["spans"] for source in self.sources(span)):
            if source["op"] not in text.getvalue():
                self.differences.append(f"the printed table has no {source['op']}")


def lines_of(traces):
    """The lines of a stack trace, without folders."""
    return sorted(
        {
            f"{Path(file).name}:{line}"
            for trace in traces
            for file, line in re.findall(r'File "([^"]+)", line (\d+)', trace or "")
        }
    )


def table_of(inspector):
    """What the Inspector says of a run's events; without the sums OPERATOR_CALL and DELEGATE_CALL,
    and waits that did not wait."""
    rows = []
    for event in (
        event
        for block in inspector.event_blocks
        if block.name == "Execute"
        for event in block.events
    ):
        kernel = event.delegate_debug_metadatas["kernel"] if event.is_delegated_op else event.name
        if event.name in ("OPERATOR_CALL", "DELEGATE_CALL") or (
            kernel == "Wait" and event.perf_data.raw[0] == 0
        ):
            continue
        place = [] if event._instruction_id < 0 else [event._instruction_id]
        place += [event.delegate_debug_identifier] if event.is_delegated_op else []
        rows.append(
            {
                "at": place,
                "kernel": kernel,
                "cycles": int(event.perf_data.raw[0]),
                "op_types": sorted(event.op_types),
                "modules": sorted(map(module_of, event.module_hierarchy.values())),
                "lines": lines_of(event.stack_traces.values()),
            }
        )
    return rows


def table_text(rows):
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def compare(deuteron, model, work):
    ours = make_files(deuteron, model, work)
    comparison = Comparison(ours, inspect(work, enable_module_hierarchy=True))
    comparison.run()
    halved = inspect(work, delegate_time_scale_converter=lambda name, cycles: cycles / 2)
    whole = [
        sum(event.perf_data.raw)
        for block in comparison.inspector.event_blocks
        for event in block.events
        if event.is_delegated_op
    ]
    half = [
        sum(event.perf_data.raw)
        for block in halved.event_blocks
        for event in block.events
        if event.is_delegated_op
    ]
    comparison.expect("halved times of delegates", half, [value / 2 for value in whole])
    return comparison


class NodeValues(torch.fx.Interpreter):
    """What PyTorch computes at every node, by its name."""

    def run_node(self, node):
        value = super().run_node(node)
        self.values = getattr(self, "values", {})
        self.values[node.name] = value
        return value


GAPS = {
    "SNR": lambda ideal, actual: 10
    * np.log10(np.mean(ideal**2) / np.mean((ideal - actual) ** 2)),
    "MSE": lambda ideal, actual: np.mean((ideal - actual) ** 2),
    "L1": lambda ideal, actual: np.sum(np.abs(ideal - actual)),
}


class GapComparison:
    """calculate_numeric_gap against the model as PyTorch runs it and the bytes of the debug buffer,
    sample 0."""

    def __init__(self, ours, work, model):
        self.differences, self.rows, self.ours = [], 0, ours
        with np.load(work / "samples.npz") as arrays:
            inputs = [
                torch.from_numpy(
                    arrays[name][:1] if arrays[name].shape[1:] == shape[1:] else arrays[name][0]
                )
                for name, shape in zip(arrays.files, self.shapes(model))
            ]
        record = parse_etrecord(str(work / "m.etrecord"))
        if record._representative_inputs is None:
            record.update_representative_inputs(inputs)
        self.inspector = Inspector(
            etdump_path=str(work / "v.etdump"),
            etrecord=record,
            debug_buffer_path=str(work / "v.buffer"),
            source_time_scale=TimeScale.CYCLES,
            target_time_scale=TimeScale.CYCLES,
        )
        interpreter = NodeValues(self.exported.module())
        interpreter.run(*inputs)
        self.ideal = interpreter.values
        self.read_values(work)

    def shapes(self, model):
        self.exported = torch.export.load(str(model))
        inputs = set(self.exported.graph_signature.user_inputs)
        return [node.meta["val"].shape for node in self.exported.graph.nodes if node.name in inputs]

    def read_values(self, work):
        """By the last operator of an event: its value in the debug buffer, or None."""
        buffer, self.actual = (work / "v.buffer").read_bytes(), {}
        spans = {
            (span["instruction"], span.get("command", -1)): span for span in self.ours["spans"]
        }
        dump = deserialize_from_etdump_flatcc((work / "v.etdump").read_bytes())
        block = next(run for run in dump.run_data if run.bundled_input_index == 0)
        for event in (each.debug_event for each in block.events if each.debug_event is not None):
            span = spans.get((event.instruction_id, event.delegate_debug_id_int))
            if span is None:
                continue
            name = self.ours["sources"][max(self.ours["rows"][span["row"]]["sources"])]["name"]
            tensor = event.debug_entry.tensor
            self.actual[name] = None
            if tensor is not None:
                kind = {
                    "FLOAT": np.float32,
                    "CHAR": np.int8,
                    "LONG": np.int64,
                    "INT": np.int32,
                    "BOOL": np.bool_,
                }[tensor.scalar_type.name]
                self.actual[name] = np.frombuffer(
                    buffer, kind, int(np.prod(tensor.sizes)), tensor.offset
                ).reshape(tensor.sizes)

    def run(self):
        for metric, gap_of in GAPS.items():
            frame = self.inspector.calculate_numeric_gap(metric)
            self.rows = len(frame)
            for row in frame.itertuples():
                name = self.ours["sources"][row.runtime_debug_handle[-1] - 1]["name"]
                ideal, actual = self.ideal[name].detach().double().numpy(), self.actual[name]
                theirs = row.aot_intermediate_output.detach().double().numpy()
                if actual is None or ideal.shape != actual.shape:
                    self.differences.append(
                        f"{metric} of {name}: shapes {ideal.shape} and"
                        f" {getattr(actual, 'shape', None)}"
                    )
                elif (
                    np.abs(ideal - theirs).max() > 1e-5 * np.abs(ideal).max()
                ):  # the same in float32, in other operators
                    self.differences.append(
                        f"{name}: the Inspector's ideal is another one, by"
                        f" {np.abs(ideal - theirs).max()}"
                    )
                elif not np.isclose(
                    row.gap[0], gap_of(theirs, actual.astype(np.float64)), rtol=1e-9
                ):
                    self.differences.append(
                        f"{metric} of {name}: the Inspector says {row.gap[0]}, we"
                        f" {gap_of(theirs, actual)}"
                    )
        compared = {
            self.ours["sources"][handle - 1]["name"]
            for row in frame.itertuples()
            for handle in row.runtime_debug_handle
        }
        for name in sorted(
            name
            for name, value in self.actual.items()
            if value is not None and name not in compared
        ):
            self.differences.append(f"the Inspector does not compare {name}")
        return self


def compare_values(deuteron, model, work, ours):
    run(
        deuteron,
        "run",
        work / "m.pte",
        "--input",
        work / "samples.npz",
        "--samples",
        1,
        "--profile",
        work / "v.etdump",
        "--debug-buffer",
        work / "v.buffer",
    )
    return GapComparison(ours, work, model).run()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("deuteron", type=Path)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--write-tables", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = 0
    for model in arguments.models or default_models():
        with tempfile.TemporaryDirectory() as folder:
            comparison = compare(arguments.deuteron.resolve(), model.resolve(), Path(folder))
            values = compare_values(
                arguments.deuteron.resolve(), model.resolve(), Path(folder), comparison.ours
            )
        differences = comparison.differences + values.differences
        table = TABLES / f"{name_of(model)}.json"
        if name_of(model) in TABLE_NETS:
            if arguments.write_tables:
                table.parent.mkdir(exist_ok=True)
                table.write_text(table_text(table_of(comparison.inspector)))
            elif not table.exists() or table.read_text() != table_text(
                table_of(comparison.inspector)
            ):
                differences.append(
                    f"the Inspector says something else than {table.relative_to(ROOT)}: look, then"
                    " --write-tables"
                )
        for difference in differences[:10]:
            print(f"  FAIL {name_of(model)}: {difference}")
        failed += bool(differences)
        print(
            f"Inspector: {name_of(model)}: {comparison.compared} events, {values.rows} values"
            f" compared, {len(differences)} differences"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
