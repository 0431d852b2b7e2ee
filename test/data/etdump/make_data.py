#!/usr/bin/env python3
"""Makes records and traces in ExecuTorch's formats, its own and ours, and what its Inspector says
of them.

    make_data.py DEUTERON      (the wheel executorch 1.4; writes beside itself)

upstream.*: the model has two delegates, one that numbers its events and one that names them, and
kernels between them. The record is what ExecuTorch's exporter saves. The runtime of the wheel is
built without event tracing: the trace is made with the wheel's own writer, with the events that its
runtime logs of a call (docs of the runtime: etdump_flatcc.cpp), in the order in which they end, in
nanoseconds.

branches.*: a grouped, concatenated, multi-branch network, compiled and run by DEUTERON.
"""
import json
import re
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from executorch.devtools import Inspector
from executorch.devtools.etdump import schema_flatcc as flat
from executorch.devtools.etdump.serialize import serialize_to_etdump_flatcc
from executorch.devtools.inspector._inspector_utils import TimeScale
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import DelegateMappingBuilder

HERE = Path(__file__).parent
PLACES = {
    "aten.convolution.default": "NumberingBackend",
    "aten.relu.default": "NumberingBackend",
    "aten.tanh.default": "NamingBackend",
    "aten.sigmoid.default": "NamingBackend",
}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.ReLU())
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x):
        x = self.head(self.stem(x).mean((2, 3)))
        return torch.softmax(torch.sigmoid(torch.tanh(x)), 1)


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.grouped = torch.nn.Conv2d(4, 6, 3, padding=1, groups=2)
        self.pointwise = torch.nn.Conv2d(4, 5, 1)
        self.pool = torch.nn.MaxPool2d(3, 1, 1)
        self.join = torch.nn.Sequential(
            torch.nn.ReLU(), torch.nn.Conv2d(15, 8, 3, stride=2, padding=1)
        )
        self.head = torch.nn.Linear(8 * 4 * 4, 3)

    def forward(self, x):
        x = self.join(torch.cat([self.grouped(x), self.pointwise(x), self.pool(x)], 1))
        return torch.softmax(self.head(torch.relu(x).flatten(1)), 1)


def export(model, shape):
    """The export without paths of this machine."""
    exported = torch.export.export(model.eval(), (torch.randn(shape),))
    for node in exported.graph.nodes:
        if "stack_trace" in node.meta:
            node.meta["stack_trace"] = re.sub(
                r'File "([^"]*site-packages/|/[^"]*/)', 'File "', node.meta["stack_trace"]
            )
    return exported


def calls(program):
    return [node for node in program.graph.nodes if node.op == "call_function"]


class NumberingBackend(BackendDetails):
    """All nodes fused, then a step for the last one alone."""

    @staticmethod
    def preprocess(program, specs):
        builder = DelegateMappingBuilder(generated_identifiers=True)
        builder.insert_delegate_mapping_entry(calls(program))
        builder.insert_delegate_mapping_entry(calls(program)[-1])
        return PreprocessResult(
            processed_bytes=b"numbers", debug_handle_map=builder.get_delegate_mapping()
        )


class NamingBackend(BackendDetails):
    @staticmethod
    def preprocess(program, specs):
        builder = DelegateMappingBuilder()
        for node in calls(program):
            builder.insert_delegate_mapping_entry(node, identifier=f"kernel {node.name}")
        return PreprocessResult(
            processed_bytes=b"names", debug_handle_map=builder.get_delegate_mapping()
        )


class ByOperator(Partitioner):
    def partition(self, program):
        tags = {}
        for node in calls(program):
            backend = PLACES.get(node.target.__name__)
            if backend:
                node.meta["delegation_tag"] = backend
                tags[backend] = DelegationSpec(backend, [])
        return PartitionResult(program, tags)


class Clock:
    """Times as a host's steady clock has them: from wherever it stands."""

    def __init__(self):
        self.now = 1_000_000

    def lap(self, nanoseconds):
        start, self.now = self.now, self.now + nanoseconds
        return start, self.now


def event(name, times, instruction=-1, number=-1, text="", metadata=None):
    return flat.Event(
        allocation_event=None,
        debug_event=None,
        profile_event=flat.ProfileEvent(
            name=name,
            chain_index=0,
            instruction_id=instruction,
            delegate_debug_id_int=number,
            delegate_debug_id_str=text,
            delegate_debug_metadata=metadata,
            start_time=times[0],
            end_time=times[1],
        ),
    )


def trace(program, delegate_map):
    clock = Clock()
    load = [event("Program::load_method", clock.lap(5000)), event("Method::init", clock.lap(7000))]
    plan = program.execution_plan[0]
    runs = []
    for repeat in range(2):
        begin, events = clock.now, []
        for index, instruction in enumerate(plan.chains[0].instructions):
            start = clock.now
            if hasattr(instruction.instr_args, "delegate_index"):
                for nth, identifier in enumerate(delegate_map[index]["delegate_map"]):
                    numbered = isinstance(identifier, int)
                    events.append(
                        event(
                            None,
                            clock.lap(1000 * (nth + 1) + repeat),
                            index,
                            identifier if numbered else -1,
                            "" if numbered else identifier,
                            b"kernel 1" if numbered else None,
                        )
                    )
                clock.lap(100)
                events.append(event("DELEGATE_CALL", (start, clock.now), index))
            else:
                operator = plan.operators[instruction.instr_args.op_index].name
                events.append(
                    event(
                        f"native_call_{operator.split('::')[1]}.out",
                        clock.lap(300 + 10 * index),
                        index,
                    )
                )
                clock.lap(20)
                events.append(event("OPERATOR_CALL", (start, clock.now), index))
        events.append(event("Method::execute", (begin, clock.now)))
        runs.append(events)
    blocks = [("Default", load)] + [("Execute", events) for events in runs]
    return flat.ETDumpFlatCC(
        version=0,
        run_data=[
            flat.RunData(name=name, bundled_input_index=-1, allocators=[], events=events)
            for name, events in blocks
        ],
    )


def size_prefixed(dump):
    """As the runtime writes it; the wheel's writer leaves the size out. Everything moves by 8
    bytes, so that it stays aligned."""
    root = struct.unpack_from("<I", dump)[0]
    return struct.pack("<II", len(dump) + 4, root + 4) + dump[4:8] + bytes(4) + dump[8:]


def table(inspector):
    rows = []
    for block in inspector.event_blocks:
        for each in block.events:
            modules = [
                list(stack.values())[-1][0] for stack in each.module_hierarchy.values() if stack
            ]
            rows.append(
                {
                    "block": block.name,
                    "name": each.name,
                    "elapsed": [int(value) for value in each.perf_data.raw],
                    "op_types": each.op_types,
                    "modules": modules,
                }
            )
    return rows


def inspect(stem, scale):
    inspector = Inspector(
        etdump_path=str(HERE / f"{stem}.etdump"),
        etrecord=str(HERE / f"{stem}.etrecord"),
        source_time_scale=scale,
        target_time_scale=scale,
    )
    lines = ",\n".join(json.dumps(row) for row in table(inspector))
    (HERE / f"{stem}.json").write_text(f"[\n{lines}\n]\n")


def make_upstream():
    torch.manual_seed(0)
    executorch = to_edge_transform_and_lower(
        export(Net(), (1, 2, 6, 6)), partitioner=[ByOperator()], generate_etrecord=True
    ).to_executorch()
    record = executorch.get_etrecord()
    record.exported_program = None  # the Inspector needs the edge program only
    record.save(HERE / "upstream.etrecord")
    dump = serialize_to_etdump_flatcc(
        trace(executorch.executorch_program, executorch.delegate_map["forward"])
    )
    (HERE / "upstream.etdump").write_bytes(size_prefixed(dump))
    inspect("upstream", TimeScale.NS)


def make_branches(deuteron):
    torch.manual_seed(1)
    torch.export.save(export(Branches(), (1, 4, 8, 8)), HERE / "branches.pt2")
    samples = HERE / "samples.npz"
    np.savez(samples, input=np.random.default_rng(1).normal(size=(4, 4, 8, 8)).astype(np.float32))
    program = [
        "branches.pt2",
        "-o",
        "branches.pte",
        "--calibrate",
        samples,
        "--etrecord",
        "branches.etrecord",
    ]
    for arguments in (
        ["compile", *program],
        [
            "run",
            "branches.pte",
            "--input",
            samples,
            "--samples",
            "2",
            "--profile",
            "branches.etdump",
        ],
    ):
        subprocess.run([deuteron, *arguments], cwd=HERE, check=True)
    samples.unlink()
    inspect("branches", TimeScale.CYCLES)


def main():
    warnings.simplefilter("ignore")
    make_upstream()
    make_branches(Path(sys.argv[1]).resolve())


if __name__ == "__main__":
    main()
