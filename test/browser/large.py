"""A profile of many operators, in the form of `deuteron profile --json`: what a report must stay
usable with."""
import random


def large_profile(profile, operators):
    """`profile` with its operators replaced by a network of so many convolutions, some of them with
    residual connections."""
    draw = random.Random(operators)
    sources, rows, spans, memory, tensors = [], [], [], [], []
    now = 0
    for i in range(operators):
        name, module, line = (
            f"conv2d_{i}",
            f"blocks.{i // 100}.layer{i // 10 % 10}.conv",
            f"model.py:{i}",
        )
        npu, host, stall = draw.randrange(200, 20000), 8400, draw.choice([0, 0, 300])
        macs = npu * draw.randrange(5, 64)
        call = now + host + stall
        spans.append(
            {
                "track": "copy",
                "kernel": "Copy",
                "row": i,
                "instruction": 1,
                "command": 3 * i,
                "start": now + 400,
                "end": now + 900,
                "bytes": 500,
                "limit": "flash",
            }
        )
        if stall:
            spans.append(
                {
                    "track": "host",
                    "kernel": "Wait",
                    "waits": True,
                    "row": i,
                    "instruction": 1,
                    "command": 3 * i + 1,
                    "start": now + host,
                    "end": call,
                }
            )
        spans.append(
            {
                "track": "npu",
                "kernel": "Conv2d",
                "row": i,
                "instruction": 1,
                "command": 3 * i + 2,
                "start": call,
                "end": call + npu,
                "step": i,
                "macs": macs,
                "bytes": 5000,
                "limit": "array",
            }
        )
        now = call + npu
        sources.append(
            {"name": name, "op": "aten.conv2d.default", "module": module, "source_line": line}
        )
        rows.append(
            {
                "name": name,
                "op": "aten.conv2d.default",
                "module": module,
                "source_line": line,
                "sources": [i],
                "backend": "NPU",
                "kernels": "Conv2d",
                "cycles": npu + host + stall,
                "npu": npu,
                "host": host,
                "stall": stall,
                "cpu": 0,
                "copying": 500,
                "added": 0,
                "calls": 1,
                "macs": macs,
                "utilization": macs / npu / 64,
                "flash_bytes": 500,
                "sram_bytes": 5000,
                "limited_by": "array",
            }
        )
        memory.append(
            {
                "name": name,
                "offset": i % 3 * 10000,
                "bytes": 9000,
                "first_step": i,
                "last_step": min(operators - 1, i + 1),
                "staged": False,
            }
        )
        memory.append(
            {
                "name": f"constants of call {i}",
                "offset": 30000 + i % 4 * 1000,
                "bytes": 800,
                "first_step": max(0, i - 1),
                "last_step": i,
                "staged": True,
            }
        )
        readers = {i + 1, i + 2 if i % 5 == 0 else i + 1, i + 40 if i % 50 == 0 else i + 1}
        readers = sorted(reader for reader in readers if reader < operators)
        tensors.append(
            {
                "name": name,
                "dtype": "i8",
                "shape": [1, 16, 8, 8],
                "layout": "channels_last",
                "place": "inside the delegate" if readers else "planned",
                "call": 1,
                "scale": 0.1,
                "zero_point": 3,
                "from": [i],
                "readers": [[reader] for reader in readers],
            }
        )
    spent = {kind: sum(row[kind] for row in rows) for kind in ("npu", "host", "stall", "cpu")}
    return profile | {
        "sources": sources,
        "rows": rows,
        "spans": spans,
        "memory": memory,
        "tensors": tensors,
        "total_cycles": now,
        "runs": [now],
        "on_operators": now,
        "planned_bytes": 34000,
        "spent": spent,
        "milliseconds": now / profile["clock_hz"] * 1e3,
    }
