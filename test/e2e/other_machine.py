#!/usr/bin/env python3
"""Every verb on a machine that is not the first one: `test-4x4` has another array, other clocks and
less SRAM. Outputs are LiteRT's and the integer reference's byte for byte; cycles, clocks and limits
are the machine's own. A program for a machine that the command does not know is refused by name.
Standard library only.

    other_machine.py DEUTERON
"""
import json
import re
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

from checks import data_of, failures, finish, npy, run

ROOT = Path(__file__).resolve().parents[2]
DIGITS, TINY = ROOT / "models/digits_cnn", ROOT / "models/mlperf_tiny"
OWN, FIRST = "test-4x4", "imxrt700cm"
CLOCK, CPU_CLOCK, SRAM, LANES = 150_000_000, 75_000_000, 256 << 10, 4
SAMPLES = 8


def expect(what, holds, seen=""):
    if not holds:
        failures.append(f"{what}: {seen}")


def write_samples(path, data, shape):
    """SAMPLES images as PyTorch orders them, of a shape (channels, height, width), from bytes whose
    innermost dimension are the channels."""
    channels, height, width = shape
    size = channels * height * width
    images = [data[i * size : (i + 1) * size] for i in range(SAMPLES)]
    pixels = b"".join(image[c::channels] for image in images for c in range(channels))
    path.write_bytes(npy("|i1", (SAMPLES, 1, *shape), pixels))


def compiled(deuteron, folder, model, target):
    program, report = folder / f"{target}.pte", folder / "report.json"
    run(deuteron, "compile", model, "--target", target, "--report-json", report, "-o", program)
    return program, json.loads(report.read_text())


def check_tflite(deuteron, folder, name, shape):
    """An int8 model: its outputs are those that LiteRT computed, on both machines; only the time
    differs."""
    model, vectors, data = (
        TINY / f"{name}_int8.tflite",
        TINY / f"{name}_int8.npz",
        folder / "samples.npy",
    )
    expected = data_of(vectors, "output_0.npy")
    write_samples(data, data_of(vectors, "input_0.npy"), shape)
    figures = {}
    for target in (FIRST, OWN):
        program, figures[target] = compiled(deuteron, folder, model, target)
        text = run(deuteron, "run", program, "--input", data, "--output", folder / "out.npz")
        made = data_of(folder / "out.npz", "output_0.npy")
        expect(
            f"{name} on {target} is not what LiteRT computes",
            made and made == expected[: len(made)],
            text,
        )
        run(deuteron, "compare", model, program, "--data", data, "--samples", 2, "--max-steps", 0)
    own, first = figures[OWN], figures[FIRST]
    expect(
        f"{name}: the report's target",
        own["target"] == OWN and own["clock_hz"] == CLOCK,
        own["target"],
    )
    expect(
        f"{name}: fewer lanes take more cycles",
        own["npu_busy_cycles"] > 2 * first["npu_busy_cycles"],
        own["npu_busy_cycles"],
    )
    # 4,000 cycles a call and 200 a copy; of the other machine 8,000 and 400.
    for target, call, copy in ((OWN, 4000, 200), (FIRST, 8000, 400)):
        rest = figures[target]["npu_host_cycles"] - call * figures[target]["npu_calls"]
        expect(f"{name} on {target}: the host's cycles", rest >= 0 and rest % copy == 0, rest)
    # The same kernels on the CPU, whose clock is half the NPU's here: twice the cycles of the
    # program's clock.
    cpu = [
        sum(row["cpu_cycles"] for row in figures[target]["operators"]) for target in (OWN, FIRST)
    ]
    expect(f"{name}: the CPU's cycles are those of the NPU's clock", cpu[0] == 2 * cpu[1], cpu)
    print(
        f"{name}: {own['npu_total_cycles']} cycles on {OWN}, {first['npu_total_cycles']} on {FIRST}"
    )


def check_verbs(deuteron, folder, program, report):
    """What each verb says of the machine is in the program's own row of `deuteron targets`."""
    model, data = DIGITS / "quantized.pt2", DIGITS / "test.npz"
    total = report["npu_total_cycles"] + report["cpu_cycles"]
    stats = folder / "stats.json"
    run(
        deuteron,
        "run",
        program,
        "--input",
        data,
        "--samples",
        1,
        "--output",
        folder / "host.npz",
        "--stats-json",
        stats,
    )
    expect(
        "run: cycles",
        json.loads(stats.read_text())["npu_total_cycles"] == report["npu_total_cycles"],
        stats.read_text(),
    )

    accuracy = [
        re.search(
            r"accuracy of the int8 program +(\S+)", run(deuteron, "eval", each, "--data", data)
        )
        for each in (program, folder / f"{FIRST}.pte")
    ]
    expect("eval: accuracy", all(accuracy) and accuracy[0][1] == accuracy[1][1], accuracy)

    run(
        deuteron,
        "verify",
        program,
        "--against",
        model,
        "--data",
        data,
        "--samples",
        2,
        "--json",
        folder / "verify.json",
    )

    text = run(deuteron, "profile", program, "--json", folder / "profile.json")
    profile = json.loads((folder / "profile.json").read_text())
    expect("profile: clock", profile["clock_hz"] == CLOCK and "at 150 MHz" in text, text)
    expect(
        "profile: array", profile["array"] == {"pipelines": LANES, "macs": LANES}, profile["array"]
    )
    expect("profile: SRAM", profile["sram_bytes"] == SRAM, profile["sram_bytes"])
    expect("profile: total", f"{total:,}" in text or str(total) in text, text)
    expect(
        "profile: says how well the time is known",
        "no figure is published for test-4x4" in text,
        text,
    )

    text = run(deuteron, "explain", program, "--most", 20)
    expect(
        "explain: the array's size",
        "one product for each of the 4 a pipeline could add" in text,
        text,
    )

    text = run(deuteron, "inspect", program)
    own = re.search(r"target test-4x4 \(hash ([0-9a-f]{8})\)", text)
    expect(
        "inspect: the microcode is listed",
        own
        and f"microcode 2.0 target={own[1]}" in text
        and " end\n" in text
        and "refused" not in text,
        text,
    )
    return profile


def check_firmware(deuteron, folder, program, report, profile):
    """A project has the machine's numbers, and runs as the host does; what it records is told in
    the cycles of the program's clock."""
    run(deuteron, "firmware", program, "-o", folder / "project")
    code = "".join(path.read_text() for path in (folder / "project").glob("*/model.cpp"))
    expect(
        "firmware: the machine",
        f"kNpu{{{LANES}, {LANES}, 32767, 2048, 4, 4, 4, 4, 48, 4000, 200, 100, 32, {SRAM},"
        f" {CLOCK}}}" in code,
        code[:2000],
    )
    trace, stats = folder / "device.etdump", folder / "device.json"
    text = run(
        deuteron,
        "run",
        program,
        "--input",
        DIGITS / "test.npz",
        "--samples",
        1,
        "--on",
        "qemu",
        "--output",
        folder / "device.npz",
        "--stats-json",
        stats,
        "--profile",
        trace,
    )
    if failures:
        return
    expect(
        "firmware: outputs",
        (folder / "device.npz").read_bytes() == (folder / "host.npz").read_bytes(),
    )
    expect(
        "firmware: NPU cycles", f"{report['npu_total_cycles']:,} cycles with the NPU" in text, text
    )
    run(deuteron, "profile", trace, "--program", program, "--json", folder / "device_profile.json")
    device = json.loads((folder / "device_profile.json").read_text())
    for part in ("npu", "host", "stall"):
        found, expected = (sum(row[part] for row in each["rows"]) for each in (device, profile))
        expect(f"firmware: recorded cycles, {part}", found == expected, (found, expected))
    # An instruction is a cycle of the CPU, two of the program's clock.
    kernels = [row["cpu"] for row in device["rows"] if row["cpu"] > 0]
    expect(
        "firmware: the CPU's cycles",
        kernels and all(cycles % (CLOCK // CPU_CLOCK) == 0 for cycles in kernels),
        kernels,
    )
    print(
        f"{program.name} on QEMU: {sum(kernels)} cycles of the CPU,"
        f" {report['cpu_cycles']} estimated"
    )


def check_too_large(deuteron, folder):
    """The limits in a message are the machine's."""
    graph = folder / "large.ir"
    graph.write_text(
        "graph @forward(%x: i8[1,600,500] quant<0.05>) {\n"
        "  %y: i8[1,600,500] quant<0.05> = aten.relu(%x)\n  return %y\n}\n"
    )
    text = run(deuteron, "compile", graph, "--target", OWN, "-o", folder / "large.pte", code=1)
    expect("compile: too large", "test-4x4 has 262,144 bytes of SRAM" in text, text)
    run(deuteron, "compile", graph, "--target", FIRST, "-o", folder / "large.pte")


def changed(program, name, change):
    """The program with other bytes and the checksum that belongs to them: the CRC-32 of the file
    with the checksum's own four bytes zero."""
    data = bytearray(program.read_bytes())
    at = next(
        at
        for at in range(0, len(data) - 3, 4)
        if zlib.crc32(bytes(data[:at]) + bytes(4) + bytes(data[at + 4 :])).to_bytes(4, "little")
        == data[at : at + 4]
    )
    change(data)
    data[at : at + 4] = bytes(4)
    data[at : at + 4] = zlib.crc32(bytes(data)).to_bytes(4, "little")
    other = program.with_name(f"{name}.pte")
    other.write_bytes(data)
    return other


def renamed(program, to, own=OWN):
    """The program with another target in its manifest."""

    def change(data):
        name = data.index(own.encode() + bytes(1), data.index(b"DTRM"))
        data[name : name + 32] = to.encode().ljust(32, b"\0")

    return changed(program, to, change)


def check_no_manifest(deuteron, folder, program, report):
    """Without a manifest the microcode itself says which machine it is for."""

    def change(data):
        key = data.index(b"deuteron.manifest")
        data[key : key + 17] = b"deuteron.manifesT"

    other, stats = changed(program, "no_manifest", change), folder / "stats.json"
    expect("inspect: no manifest", "target test-4x4" not in run(deuteron, "inspect", other))
    run(
        deuteron,
        "run",
        other,
        "--input",
        DIGITS / "test.npz",
        "--samples",
        1,
        "--output",
        folder / "other.npz",
        "--stats-json",
        stats,
    )
    expect(
        "run without a manifest: outputs",
        (folder / "other.npz").read_bytes() == (folder / "host.npz").read_bytes(),
    )
    expect(
        "run without a manifest: cycles",
        json.loads(stats.read_text())["npu_total_cycles"] == report["npu_total_cycles"],
        stats.read_text(),
    )


def check_unknown(deuteron, folder, program):
    """Each verb refuses a program for a machine that it does not know; inspect shows the rest of
    it."""
    other = renamed(program, "moon-9x9")
    data = DIGITS / "test.npz"
    for words in (
        ["run", other, "--input", data],
        ["run", other, "--input", data, "--on", "qemu"],
        ["eval", other, "--data", data],
        ["verify", other, "--against", DIGITS / "quantized.pt2", "--data", data],
        ["profile", other],
        ["explain", other],
        ["compare", other, program, "--data", data],
        ["firmware", other, "-o", folder / "other"],
    ):
        text = run(deuteron, *words, code=1)
        for part in (
            "target-unknown",
            "compiled for `moon-9x9` by deuteron",
            "compile the model again for one of: imxrt700,",
        ):
            expect(
                f"{words[0]} of a program for an unknown machine has no `{part}`",
                part in text,
                text,
            )
    text = run(deuteron, "inspect", other)
    expect(
        "inspect of a program for an unknown machine",
        "target moon-9x9" in text
        and "; not listed: the program was compiled for `moon-9x9`" in text,
        text,
    )
    # A machine that is known, but whose NPU is another one.
    text = run(deuteron, "run", renamed(program, FIRST), "--input", data, code=1)
    expect("run on another NPU", "the NPU program was compiled for another machine" in text, text)


def check_row(deuteron, folder, target, lanes, clock, sram, call):
    """Every verb on a row: the same outputs, and the row's array, clock, SRAM and cost of a call."""
    program, report = compiled(deuteron, folder, DIGITS / "quantized.pt2", target)
    data = DIGITS / "test.npz"
    expect(
        f"{target}: the report",
        (report["target"], report["clock_hz"], report["sram"]["target_bytes"])
        == (target, clock, sram),
        report,
    )
    rest = report["npu_host_cycles"] - call * report["npu_calls"]
    expect(f"{target}: the host's cycles", rest >= 0 and (call > 0 or rest == 0), rest)
    for on in ("host", "qemu"):
        made = folder / f"{target}_{on}.npz"
        run(
            deuteron,
            *("run", program, "--input", data, "--samples", 1, "--on", on, "--output", made),
        )
        expect(f"{target} on {on}", made.read_bytes() == (folder / "host.npz").read_bytes())
    samples = ("--data", data, "--samples", 2)
    run(deuteron, "compare", DIGITS / "quantized.pt2", program, *samples, "--max-steps", 0)
    run(deuteron, "eval", program, "--data", data)
    run(deuteron, "verify", program, "--against", DIGITS / "quantized.pt2", *samples)
    run(deuteron, "profile", program, "--json", folder / "row_profile.json")
    profile = json.loads((folder / "row_profile.json").read_text())
    expect(
        f"{target}: the profile",
        (profile["array"], profile["clock_hz"], profile["sram_bytes"]) == (lanes, clock, sram),
        profile["array"],
    )
    text = run(deuteron, "explain", program, "--most", 20)
    expect(
        f"{target}: explain",
        f"one product for each of the {lanes['macs']} a pipeline could add" in text,
        text,
    )
    text = run(deuteron, "inspect", program)
    expect(f"{target}: inspect", f"target {target} (hash " in text and "not listed" not in text)
    run(deuteron, "firmware", program, "-o", folder / f"{target}_project")
    code = "".join(path.read_text() for path in (folder / f"{target}_project").glob("*/model.cpp"))
    expect(f"{target}: firmware", f"kNpu{{{lanes['pipelines']}, {lanes['macs']}, " in code)
    run(
        deuteron,
        *("explore", DIGITS / "quantized.pt2", "--target", target, "--points", 3),
        *("--json", folder / "explore.json"),
    )
    expect(
        f"{target}: explore",
        json.loads((folder / "explore.json").read_text())["target"] == target,
    )


def check_file(deuteron, folder):
    """A machine that is a file: a program carries it, so that every verb runs without the file."""
    name, lanes, clock, sram = "own.8x2", {"pipelines": 8, "macs": 2}, 200_000_000, 96 << 10
    row = json.loads(run(deuteron, "targets", "--json", OWN))
    row["name"] = name
    row["npu"].update(lanes, clock_hz=clock, call_host_cycles=123, copy_host_cycles=10)
    row["memory"]["sram_bytes"] = sram
    file, program, report = folder / "own.json", folder / "own.pte", folder / "own_report.json"
    file.write_text(json.dumps(row))
    model, data = DIGITS / "quantized.pt2", DIGITS / "test.npz"
    run(deuteron, "compile", model, "--target", file, "--report-json", report, "-o", program)
    file.unlink()
    report = json.loads(report.read_text())
    expect(
        "own machine: the report",
        (report["target"], report["clock_hz"], report["sram"]["target_bytes"])
        == (name, clock, sram),
        report,
    )
    rest = report["npu_host_cycles"] - 123 * report["npu_calls"]
    expect("own machine: the host's cycles", rest >= 0 and rest % 10 == 0, report)

    run(deuteron, "run", program, "--input", data, "--samples", 1, "--output", folder / "own.npz")
    expect(
        "own machine: outputs",
        (folder / "own.npz").read_bytes() == (folder / "host.npz").read_bytes(),
    )
    samples = ("--data", data, "--samples", 2)
    run(deuteron, "compare", model, program, *samples, "--max-steps", 0)
    run(deuteron, "eval", program, "--data", data)
    run(deuteron, "verify", program, "--against", model, *samples)
    run(deuteron, "profile", program, "--json", folder / "own_profile.json")
    profile = json.loads((folder / "own_profile.json").read_text())
    expect(
        "own machine: the profile",
        (profile["array"], profile["clock_hz"], profile["sram_bytes"]) == (lanes, clock, sram),
        profile["array"],
    )
    text = run(deuteron, "explain", program, "--most", 20)
    expect("own machine: explain", "one product for each of the 2 a pipeline could add" in text)
    text = run(deuteron, "inspect", program)
    expect("own machine: inspect", f"target {name} (hash " in text and "not listed" not in text)

    run(deuteron, "firmware", program, "-o", folder / "own_project")
    code = "".join(path.read_text() for path in (folder / "own_project").glob("*/model.cpp"))
    expect("own machine: firmware", "kNpu{8, 2, 32767, 2048, 4, 4, 4, 4, 48, 123, 10, " in code)
    trace = folder / "own.etdump"
    text = run(
        deuteron,
        *("run", program, "--input", data, "--samples", 1, "--on", "qemu"),
        *("--output", folder / "own_device.npz", "--profile", trace),
    )
    expect("own machine on QEMU", f"{report['npu_total_cycles']:,} cycles with the NPU" in text)
    expect(
        "own machine on QEMU: outputs",
        (folder / "own_device.npz").read_bytes() == (folder / "host.npz").read_bytes(),
    )
    text = run(deuteron, "profile", trace, "--program", program)
    expect("own machine: a device's profile", "not compared with silicon, at 200 MHz" in text, text)

    # A manifest that names another machine than the one in the program.
    other = renamed(program, "moon-9x9", name)
    text = run(deuteron, "run", other, "--input", data, code=1)
    expect("own machine, renamed", f"the program's machine is `{name}` (hash " in text, text)


def main():
    deuteron = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        text = run(deuteron, "targets")
        expect(
            "targets",
            re.search(
                (
                    r"^test-4x4\n  a machine for tests.*\n.*\n  NPU: 4 pipelines x 4 MACs, 150 MHz;"
                    r" CPU: Cortex-M33, 75 MHz\n  SRAM: 256 KiB"
                ),
                text,
                re.MULTILINE,
            ),
            text,
        )
        for name, shape in (("kws_dscnn", (1, 49, 10)), ("ic_resnet8", (3, 32, 32))):
            check_tflite(deuteron, folder, name, shape)
        compiled(deuteron, folder, DIGITS / "quantized.pt2", FIRST)
        program, report = compiled(deuteron, folder, DIGITS / "quantized.pt2", OWN)
        run(
            deuteron,
            "compare",
            DIGITS / "quantized.pt2",
            program,
            "--data",
            DIGITS / "test.npz",
            "--samples",
            SAMPLES,
            "--max-steps",
            0,
        )
        profile = check_verbs(deuteron, folder, program, report)
        check_firmware(deuteron, folder, program, report, profile)
        check_too_large(deuteron, folder)
        check_unknown(deuteron, folder, program)
        check_no_manifest(deuteron, folder, program, report)
        check_file(deuteron, folder)
        array = {"pipelines": 4, "macs": 4}
        check_row(deuteron, folder, "mcxn947", array, 150_000_000, 448 << 10, 8000)
        array = {"pipelines": 64, "macs": 16}
        check_row(deuteron, folder, "imx95", array, 1_000_000_000, 2 << 20, 0)
    finish(failures)


if __name__ == "__main__":
    main()
