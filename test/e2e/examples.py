#!/usr/bin/env python3
"""The examples of the C and C++ API (device/runtime/examples): outputs are those of `deuteron run`;
what they are given wrongly is refused. Standard library only.

    examples.py DEUTERON RUN_MODEL_C RUN_MODEL_CPP
"""
import sys
import tempfile
import zipfile
from pathlib import Path

from checks import data_of, failures, finish, run

DIGITS = Path(__file__).resolve().parents[2] / "models/digits_cnn"
INPUT_BYTES, OUTPUT_BYTES = 16 * 16 * 4, 10 * 4


def refused(example, program, inputs, outputs, words, code=1):
    text = run(example, program, inputs, outputs, code=code)
    if words not in text:
        failures.append(f"{example.name} says\n{text}instead of\n{words}")


def main():
    deuteron, in_c, in_cpp = (Path(argument).resolve() for argument in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        inputs, outputs = folder / "inputs.bin", folder / "outputs.bin"
        inputs.write_bytes(data_of(DIGITS / "test.npz", "input.npy")[:INPUT_BYTES])
        for target, examples in (("executorch", (in_c, in_cpp)), ("cortex-m33", (in_c,))):
            program, expected = folder / f"{target}.pte", folder / "expected.npz"
            run(deuteron, "compile", DIGITS / "quantized.pt2", "--target", target, "-o", program)
            run(
                deuteron,
                "run",
                program,
                "--input",
                DIGITS / "test.npz",
                "--samples",
                1,
                "--output",
                expected,
            )
            judge = data_of(expected, zipfile.ZipFile(expected).namelist()[0])
            for example in examples:
                outputs.unlink(missing_ok=True)
                run(example, program, inputs, outputs)
                if (
                    not outputs.exists()
                    or outputs.read_bytes() != judge
                    or len(judge) != OUTPUT_BYTES
                ):
                    failures.append(f"{example.name} on {target}: outputs differ")
        bad, short = folder / "bad.pte", folder / "short.bin"
        short.write_bytes(inputs.read_bytes()[:-1])
        for example in (in_c, in_cpp):
            content = bytearray((folder / "executorch.pte").read_bytes())
            content[len(content) // 2] ^= 1
            bad.write_bytes(content)
            refused(
                example,
                bad,
                inputs,
                outputs,
                "load: the program is damaged: its checksum does not match (code 5",
            )
            bad.write_bytes(content[:100])
            refused(
                example,
                bad,
                inputs,
                outputs,
                "load: the program is shorter than its header says (code 1",
            )
            refused(
                example,
                folder / "executorch.pte",
                short,
                outputs,
                "input: the input's number of bytes differs from its tensor's (code 20",
            )
            program, whole, surplus = (
                folder / "executorch.pte",
                inputs.read_bytes(),
                folder / "surplus.bin",
            )
            surplus.write_bytes(whole + b"x")
            refused(
                example, program, surplus, outputs, "surplus.bin has more bytes than the inputs", 2
            )
            refused(example, program, inputs, "/dev/full", "/dev/full cannot be written", 2)
            refused(
                example, program, inputs, inputs, "inputs.bin is read, too: it would be lost", 2
            )
            for files in (
                (folder, inputs),
                (program, folder),
                (folder / "none", inputs),
                (program, folder / "none"),
            ):
                run(example, *files, outputs, code=2)
            outputs.write_bytes(b"of the last run")
            refused(example, bad, inputs, outputs, "load: the program is shorter")
            if inputs.read_bytes() != whole or outputs.read_bytes() != b"of the last run":
                failures.append(f"{example.name}: files are lost where nothing runs")
        refused(
            in_cpp,
            folder / "cortex-m33.pte",
            inputs,
            outputs,
            (
                "load: the program needs a kernel that is not there (code 10, index 0, detail 0)"
                " cortex_m::quantize_per_tensor"
            ),
        )
    finish(failures)


if __name__ == "__main__":
    main()
