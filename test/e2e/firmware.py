#!/usr/bin/env python3
"""Programs as firmware under QEMU: outputs byte for byte those of the host's runtime, the NPU's
cycles too; images without heap, exceptions and static constructors. Standard library only.

    firmware.py DEUTERON
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from checks import data_of, expect, failures, finish, run

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import device_project  # noqa: E402
import firmware_sizes  # noqa: E402: the section of docs/performance.md that has the same figures

DIGITS = ROOT / "models/digits_cnn"
KEYWORDS = ROOT / "models/kws_dscnn"
FORBIDDEN = re.compile(
    r"\b(malloc|calloc|realloc|free|_sbrk|abort|__cxa_\w+|_Unwind_\w+|_Zn[aw]\w+|_Zd[al]P\w+)$"
)
MOST_STACK = 4096


def same_on_qemu(deuteron, folder, model, data, target, board, samples=1, options=()):
    name = " ".join((f"{model.parent.name} for {target} on {board}", *options))
    program = folder / f"{model.parent.name}_{target}{''.join(options)}.pte"
    run(
        deuteron,
        "compile",
        model,
        *([] if "quantized" in model.name else ["--calibrate", data]),
        "--target",
        target,
        *options,
        "-o",
        program,
    )
    host, device = folder / "host.npz", folder / "device.npz"
    run(
        deuteron,
        "run",
        program,
        "--input",
        data,
        "--samples",
        samples,
        "--output",
        host,
        "--stats-json",
        folder / "host.json",
    )
    text = run(
        deuteron,
        "run",
        program,
        "--input",
        data,
        "--samples",
        samples,
        "--on",
        board,
        "--output",
        device,
    )
    if failures:
        return program
    if host.read_bytes() != device.read_bytes():
        failures.append(f"{name}: outputs differ from the host's")
    cycles = json.loads((folder / "host.json").read_text())["npu_total_cycles"]
    if f" {cycles:,} cycles with the NPU" not in text and cycles:
        failures.append(f"{name}: the host counts {cycles} NPU cycles, the firmware says\n{text}")
    total = re.search(r"total +([\d,]+)", text)
    print(f"{name}: {total.group(1) if total else '?'} instructions, {cycles} NPU cycles")
    return program


def check_image(deuteron, folder, program):
    """The project that a user builds: no heap, exceptions, constructors; the user's own files stay;
    sizes."""
    project = folder / "project"
    run(deuteron, "firmware", program, "-o", project)
    (project / "main.cpp").write_text((project / "main.cpp").read_text() + "// mine\n")
    again = run(deuteron, "firmware", program, "-o", project)
    if "kept main.cpp, which was changed\n" not in again or not (
        project / "main.cpp"
    ).read_text().endswith("// mine\n"):
        failures.append(f"main.cpp of the user was not kept:\n{again}")
    device_project.build(run, project)
    image = project / "build/firmware.elf"
    if not image.exists():
        return
    symbols = run("arm-none-eabi-nm", image)
    found = [line for line in symbols.splitlines() if FORBIDDEN.search(line)]
    if found:
        failures.append("the image has what a device has not:\n" + "\n".join(found))
    print(run("arm-none-eabi-size", image).rstrip())
    stack = run("cmake", "--build", project / "build", "--target", "stack")
    bound = re.search(r"stack: at most (\d+) bytes", stack)
    if not bound or int(bound.group(1)) > MOST_STACK:
        failures.append(f"more stack than {MOST_STACK} bytes:\n{stack}")
    else:
        print(bound.group(0))


def check_places(deuteron, folder, flash, sram):
    """A program lies in the board's flash, or in its RAM, where the start copies it; two of one
    image each where its own says."""
    project = folder / "places"
    shutil.copy(flash, folder / "a.pte")
    shutil.copy(sram, folder / "b.pte")
    run(deuteron, "firmware", folder / "a.pte", folder / "b.pte", "-o", project)
    device_project.build(run, project)
    symbols = run("arm-none-eabi-nm", project / "build/firmware.elf")
    for name, begin, end in (
        ("model_a_program", 0x80000000, 0x81000000),
        ("model_b_program", 0x38000000, 0x38400000),
    ):
        at = re.search(rf"^([0-9a-f]+) \w {name}$", symbols, re.MULTILINE)
        if not at or not begin <= int(at.group(1), 16) < end:
            failures.append(f"{name} lies at {at.group(1) if at else 'no place'}")


def run_image(folder, image, *options, code=0):
    return run(*device_project.qemu(image, *options), code=code, cwd=folder)


def check_two_programs(deuteron, folder, programs):
    """Two programs take turns in one arena, without the checksum; the first also from C. Each time
    the outputs are the host's."""
    project = folder / "two"
    run(
        deuteron,
        "firmware",
        *(program for program, _, _ in programs),
        "--no-checksum",
        "-o",
        project,
    )
    device_project.build(run, project, targets=["firmware", "firmware_c", "sizes"])
    run("cmake", "--build", project / "build", "--target", "stack")
    inputs, expected = [], []
    for program, data, sample_bytes in programs:
        run(
            deuteron,
            "run",
            program,
            "--input",
            data,
            "--samples",
            2,
            "--output",
            folder / "host.npz",
        )
        given, outputs = data_of(data, "input.npy"), data_of(
            folder / "host.npz", zipfile.ZipFile(folder / "host.npz").namelist()[0]
        )
        inputs.append([given[:sample_bytes], given[sample_bytes : 2 * sample_bytes]])
        expected.append([outputs[: len(outputs) // 2], outputs[len(outputs) // 2 :]])
    (project / "inputs.bin").write_bytes(
        b"".join(inputs[model][sample] for sample in range(2) for model in range(len(programs)))
    )
    text = run_image(project, "build/firmware.elf")
    if "done 2 samples\n" not in text:
        failures.append(f"two programs: {text}")
    elif (project / "outputs.bin").read_bytes() != b"".join(
        expected[model][sample] for sample in range(2) for model in range(len(programs))
    ):
        failures.append("two programs: outputs differ from the host's")
    whole = (project / "inputs.bin").read_bytes()
    first = programs[0][2]
    for size in (first - 1, first, len(whole) - 1):
        (project / "inputs.bin").write_bytes(whole[:size])
        text = run_image(project, "build/firmware.elf", code=2)
        if "error: inputs.bin ends within a sample of " not in text:
            failures.append(f"two programs and {size} bytes of inputs: {text}")
    (project / "inputs.bin").write_bytes(whole)
    text = run_image(project, "build/firmware_c.elf")
    if "done 1 samples\n" not in text or (project / "outputs.bin").read_bytes() != expected[0][0]:
        failures.append(f"main.c: outputs differ from the host's:\n{text}")


def check_tensor_file(deuteron, folder):
    """Constants in a file of their own become part of the image; without it they are named."""
    program, tensors, data = folder / "outside.pte", folder / "outside.ptd", DIGITS / "test.npz"
    run(
        deuteron,
        "compile",
        DIGITS / "quantized.pt2",
        "--target",
        "cortex-m33",
        "--external-constants",
        tensors,
        "-o",
        program,
    )
    outputs = []
    for place in ("host", "qemu-an505"):
        outputs.append(folder / f"outside_{place}.npz")
        run(
            deuteron,
            "run",
            program,
            "--tensors",
            tensors,
            "--input",
            data,
            "--samples",
            1,
            "--on",
            place,
            "--output",
            outputs[-1],
        )
    if not failures and outputs[0].read_bytes() != outputs[1].read_bytes():
        failures.append("a tensor file on the device: outputs differ from the host's")
    message = run(deuteron, "firmware", program, "-o", folder / "p", code=1)
    if "error[constants-missing]" not in message or "--tensors" not in message:
        failures.append(f"a firmware without its tensor file: {message}")


def check_plugin(deuteron, folder):
    """The source of a plug-in in the image gives what NumPy computed."""
    plugins = ROOT / "test/data/plugins"
    program, outputs = folder / "tilt.pte", folder / "tilt.npz"
    source = ("--plugin", plugins / "kernels.c")
    run(deuteron, "compile", plugins / "tilt.tflite", *source, "-o", program)
    data = plugins / "tilt_input.npz"
    run(deuteron, "run", program, *source, "--input", data, "--output", outputs, "--on", "qemu")
    for name in ("output_0.npy", "output_1.npy"):
        expected = data_of(plugins / "tilt_output.npz", name)
        expect(data_of(outputs, name) == expected, f"{name} of the plug-in differs on the board")


def check_sizes(deuteron, folder):
    """Bytes of the keyword model's image and instructions at load: within their bounds, and those
    of docs/performance.md."""
    sizes = firmware_sizes.measure(deuteron, folder)
    core, everything, without = (
        sizes["parts"]["loader and executor"],
        sizes["parts"]["in all"],
        sizes["without_checksum"],
    )
    print(
        f"loader and executor {core[0]} bytes, in all {everything[0]}, RAM {everything[1]}, load"
        f" {sizes['load']} instructions, {without['load']} without the checksum"
    )
    if (
        core[0] > firmware_sizes.MOST_CORE
        or everything[0] > firmware_sizes.MOST_TEXT
        or everything[1] > firmware_sizes.MOST_RAM
    ):
        failures.append(
            f"more than {firmware_sizes.MOST_CORE} bytes of loader and executor,"
            f" {firmware_sizes.MOST_TEXT} of text or {firmware_sizes.MOST_RAM} of RAM:"
            f" {sizes['parts']}"
        )
    if "checksum" in without["parts"] or not 0 < without["load"] < sizes["load"]:
        failures.append("the checksum is there though it is left out")
    recorded = json.loads((ROOT / "bench/performance.json").read_text())["firmware"]
    for key, now in sizes.items():
        if (
            key == "load" and abs(now - recorded[key]) <= recorded[key] // 1000
        ):  # the board's timer interrupts
            continue
        if (
            key == "without_checksum"
            and abs(now["load"] - recorded[key]["load"]) <= recorded[key]["load"] // 1000
        ):
            now = now | {"load": recorded[key]["load"]}
        if now != recorded[key]:
            failures.append(
                f"docs/performance.md, Firmware: {key} is {now} now, {recorded[key]} on the page"
                " (make bench)"
            )
    return folder / "kws.pte"


def check_bad_input(deuteron, folder, program):
    """Damaged programs and wrong memory on the device: errors, no faults, nothing written outside
    (test/device/bad_input.cpp)."""
    project = folder / f"bad_{program.stem}"
    run(deuteron, "firmware", program, "-o", project)
    shutil.copy(ROOT / "test/device/bad_input.cpp", project / "main.cpp")
    device_project.build(run, project)
    text = run_image(project, "build/firmware.elf")
    flips = re.search(
        r"(\d+) flips: (\d+) refused, (\d+) harmless; without the checksum (\d+) refused\ndone\n",
        text,
    )
    if not flips or int(flips.group(2)) < 9 * int(flips.group(3)):
        failures.append(f"bad input of {program.name}:\n{text[-1500:]}")
    else:
        print(f"bad input of {program.name}: {text.splitlines()[0]}")


def check_bad_index(deuteron, folder):
    """An index outside of what the NPU reads ends a run on the device, as it does on the host."""
    model = ROOT / "test/lit/cli/npu_index_outside.ir"
    make = ROOT / "test/lit/cli/index_data.py"
    program, data = folder / "index.pte", folder / "index.npz"
    run(deuteron, "compile", model, "--target", "imxrt700", "-o", program)
    ends = ["--on", "qemu", "--input", data, "--output", folder / "index_out.npz"]
    run(sys.executable, make, data, "5,4", "3", "4", "0", "2")
    run(deuteron, "run", program, *ends)
    run(sys.executable, make, data, "5,4", "3", "4", "5", "2")
    text = run(deuteron, "run", program, *ends, code=1)
    if "an index is outside of the tensor that it names elements of" not in text:
        failures.append(f"an index outside, on the device: {text}")


def check_refusals(deuteron, folder, program):
    wrong = folder / "not_a_program.pte"
    wrong.write_text("nothing")
    file = folder / "file"
    file.write_text("")
    for name, words, command, environment in (
        (
            "no such board",
            ("error[firmware-board]: there is no board `evk`", "use one of qemu-an505, qemu-an547"),
            ["firmware", program, "--board", "evk", "-o", folder / "p"],
            None,
        ),
        (
            "one program twice",
            ("error[firmware-board]", "two programs are called `digits_cnn_imxrt700`"),
            ["firmware", program, program, "-o", folder / "p"],
            None,
        ),
        (
            "another core",
            (
                "error[firmware-board]: ",
                (
                    "the program's int8 kernels are for a core with the DSP extension alone,"
                    " qemu-an547 has a core with MVE"
                ),
                "compile it with --target cortex-m33 or cortex-m55, or choose the other board",
            ),
            [
                "firmware",
                folder / "digits_cnn_cortex-m33.pte",
                "--board",
                "qemu-an547",
                "-o",
                folder / "p",
            ],
            None,
        ),
        ("no program", ("error[pte-truncated]",), ["firmware", wrong, "-o", folder / "p"], None),
        (
            "a file where the folder should be",
            ("error[file-not-writable]",),
            ["firmware", program, "-o", file],
            None,
        ),
        (
            "no tools",
            (
                "error[firmware-run]: cmake cannot be run: No such file or directory",
                "scripts/setup",
            ),
            ["run", program, "--input", DIGITS / "test.npz", "--on", "qemu"],
            {"PATH": str(folder)},
        ),
    ):
        done = subprocess.run(
            [deuteron, *map(str, command)],
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
        )
        if done.returncode != 1 or any(word not in done.stderr for word in words):
            failures.append(f"{name}: exit code {done.returncode}\n{done.stderr}")


def main():
    deuteron = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        program = same_on_qemu(
            deuteron, folder, DIGITS / "quantized.pt2", DIGITS / "test.npz", "imxrt700", "qemu", 2
        )
        same_on_qemu(
            deuteron,
            folder,
            DIGITS / "quantized.pt2",
            DIGITS / "test.npz",
            "cortex-m33",
            "qemu-an505",
        )
        same_on_qemu(
            deuteron,
            folder,
            DIGITS / "quantized.pt2",
            DIGITS / "test.npz",
            "cortex-m55",
            "qemu-an547",
        )
        in_sram = same_on_qemu(
            deuteron,
            folder,
            DIGITS / "quantized.pt2",
            DIGITS / "test.npz",
            "imxrt700",
            "qemu",
            2,
            ("--constants", "sram"),
        )
        same_on_qemu(
            deuteron,
            folder,
            DIGITS / "quantized.pt2",
            DIGITS / "test.npz",
            "cortex-m55",
            "qemu-an547",
            1,
            ("--constants", "sram"),
        )
        # 20 ms a sample, whose frames the board keeps.
        states = ROOT / "test/data/states"
        same_on_qemu(
            deuteron,
            folder,
            states / "keywords.pt2",
            states / "keywords.npz",
            "imxrt700",
            "qemu",
            6,
        )
        check_places(deuteron, folder, program, in_sram)
        check_image(deuteron, folder, program)
        check_plugin(deuteron, folder)
        keywords = check_sizes(deuteron, folder)
        check_two_programs(
            deuteron,
            folder,
            (
                (program, DIGITS / "test.npz", 16 * 16 * 4),
                (keywords, KEYWORDS / "test.npz", 49 * 10 * 4),
            ),
        )
        check_tensor_file(deuteron, folder)
        check_bad_input(deuteron, folder, ROOT / "test/data/pte/small.pte")
        check_bad_index(deuteron, folder)
        check_refusals(deuteron, folder, program)
    finish(failures)


if __name__ == "__main__":
    main()
