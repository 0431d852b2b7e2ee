#!/usr/bin/env python3
"""Kind of damage × loader, through the command: exit code 1, a stable id, a place and a fix, and
nothing left behind. Standard library only.

    bad_input.py DEUTERON
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from checks import finish, npy

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/digits_cnn"
failures = []
ran = 0


def packed(shape, values, descr="<f4", kind="f"):
    return npy(descr, shape, struct.pack(f"<{len(values)}{kind}", *values))


def npz(path, **arrays):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in arrays.items():
            archive.writestr(f"{name}.npy", data)
    return path


def edited_model(path, edit, source=MODEL / "float.pt2"):
    """A copy of the model with its JSON graph changed by `edit`."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for member in old.infolist():
            data = old.read(member)
            if member.filename.endswith("models/model.json"):
                graph = json.loads(data)
                edit(graph)
                data = json.dumps(graph).encode()
            new.writestr(member.filename, data)
    return path


def expect(deuteron, name, ids, *command, outputs=(), code=1):
    global ran
    ran += 1
    done = subprocess.run(
        [str(deuteron), "--diagnostics", "json", *map(str, command)],
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    problem = None
    try:
        message = json.loads(done.stderr.strip().splitlines()[-1])
    except (ValueError, IndexError):
        message = None
    if done.returncode != code:
        problem = f"exit code {done.returncode}: {done.stderr[-500:]}"
    elif message is None:
        problem = f"no diagnostic: {done.stderr[-500:]}"
    elif message["id"] not in ids:
        problem = f"id {message['id']}, expected one of {ids}: {message['reason']}"
    elif not message["reason"]:
        problem = "no reason"
    elif not (message["file"] or message["node"]):
        problem = f"no place: {message}"
    left = [
        str(file)
        for output in outputs
        for file in Path(output).parent.glob("*")
        if Path(output).name in file.name
    ]
    if left:
        problem = f"left behind: {left}"
    if problem:
        failures.append(f"{name}: {problem}")


def survive(deuteron, name, *command):
    """Damage that may hit weights alone: the command works, or refuses with a reason."""
    global ran
    ran += 1
    done = subprocess.run(
        [str(deuteron), "--diagnostics", "json", *map(str, command)],
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    said = done.stderr.strip().splitlines()
    if done.returncode == 0 or (
        done.returncode == 1
        and said
        and said[-1].startswith("{")
        and json.loads(said[-1])["reason"]
    ):
        return
    failures.append(f"{name}: exit code {done.returncode}: {done.stderr[-500:]}")


def graph_nodes(model):
    return model["graph_module"]["graph"]["nodes"]


def models(deuteron, work, good):
    out = work / "out.pte"

    def compile_of(name, ids, path):
        expect(deuteron, name, ids, "compile", path, "--calibrate", good, "-o", out, outputs=[out])

    data = (MODEL / "float.pt2").read_bytes()
    (work / "empty.pt2").write_bytes(b"")
    compile_of("pt2 empty", {"model-unknown"}, work / "empty.pt2")
    compile_of("pt2 missing", {"file-not-found"}, work / "none.pt2")
    compile_of("pt2 folder", {"file-not-found"}, work)
    for share in (3, 30, 60, 95):
        (work / "cut.pt2").write_bytes(data[: len(data) * share // 100])
        compile_of(
            f"pt2 truncated to {share} %", {"zip-invalid", "model-unknown"}, work / "cut.pt2"
        )
    flipped = bytearray(data)
    flipped[data.index(b'"graph_module"') + 5] ^= 1
    (work / "flip.pt2").write_bytes(flipped)
    compile_of("pt2 corrupted", {"zip-corrupt"}, work / "flip.pt2")
    with zipfile.ZipFile(work / "bomb.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", b" " * (1 << 28))
    compile_of("pt2 zip bomb", {"zip-too-large", "pt2-invalid"}, work / "bomb.pt2")
    with zipfile.ZipFile(work / "bare.pt2", "w") as archive:
        archive.writestr("m/readme", b"hello")
    compile_of("pt2 without a model", {"pt2-invalid"}, work / "bare.pt2")

    def edit(name, ids, change):
        compile_of(f"pt2 {name}", ids, edited_model(work / "edited.pt2", change))

    edit(
        "unsupported operator",
        {"pt2-unsupported-operator"},
        lambda m: graph_nodes(m)[2].update(target="torch.ops.aten.bessel_j0.default"),
    )
    edit(
        "control flow",
        {"pt2-control-flow"},
        lambda m: graph_nodes(m)[2].update(target="torch.ops.higher_order.cond"),
    )
    edit(
        "undefined name",
        {"pt2-undefined-name"},
        lambda m: graph_nodes(m)[2]["inputs"][0].update(arg={"as_tensor": {"name": "nowhere"}}),
    )
    edit(
        "cycle",
        {"pt2-undefined-name"},
        lambda m: graph_nodes(m)[0]["inputs"][0].update(arg={"as_tensor": {"name": "relu"}}),
    )
    edit(
        "absurd shape",
        {"pt2-type-mismatch", "pt2-weight-size", "ir-invalid", "pt2-invalid"},
        lambda m: m["graph_module"]["graph"]["tensor_values"]["x"].update(
            sizes=[{"as_int": 1 << 40}] * 4
        ),
    )
    edit(
        "symbolic shape",
        {"pt2-symbolic-shape"},
        lambda m: m["graph_module"]["graph"]["tensor_values"]["x"].update(
            sizes=[{"as_expr": {"expr_str": "u0", "hint": {"as_int": 1}}}] + [{"as_int": 8}] * 3
        ),
    )
    edit("newer schema", {"pt2-version"}, lambda m: m["schema_version"].update(major=99))
    edit(
        "complex input",
        {"pt2-type-mismatch"},
        lambda m: m["graph_module"]["graph"]["tensor_values"]["x"].update(dtype=10),
    )
    with zipfile.ZipFile(MODEL / "float.pt2") as old, zipfile.ZipFile(
        work / "weightless.pt2", "w"
    ) as new:
        for member in old.infolist():
            if not member.filename.endswith("weight_3"):
                new.writestr(member.filename, old.read(member))
    compile_of("pt2 missing weight", {"pt2-missing-weight"}, work / "weightless.pt2")

    bytes_of = (ROOT / "models/mlperf_tiny/kws_dscnn_int8.tflite").read_bytes()
    (work / "cut.tflite").write_bytes(bytes_of[: len(bytes_of) // 2])
    compile_of("tflite truncated", {"tflite-invalid"}, work / "cut.tflite")
    for at in range(64, len(bytes_of), len(bytes_of) // 8):
        damaged = bytearray(bytes_of)
        damaged[at : at + 16] = b"\xff" * 16
        (work / "bad.tflite").write_bytes(damaged)
        survive(
            deuteron,
            f"tflite damaged at {at}",
            "compile",
            work / "bad.tflite",
            "-o",
            work / "damaged.pte",
        )


def calibration(deuteron, work):
    out = work / "cal.pte"

    def compile_with(name, ids, path):
        expect(
            deuteron,
            f"calibration {name}",
            ids,
            "compile",
            MODEL / "float.pt2",
            "--calibrate",
            path,
            "-o",
            out,
            outputs=[out],
        )

    expect(
        deuteron,
        "calibration none",
        {"calibration-missing"},
        "compile",
        MODEL / "float.pt2",
        "-o",
        out,
        outputs=[out],
    )
    compile_with("missing file", {"file-not-found"}, work / "none.npz")
    compile_with(
        "other shape", {"data-shape"}, npz(work / "a.npz", input=packed((2, 1, 7, 16), [0.5] * 224))
    )
    compile_with(
        "other dtype",
        {"data-dtype"},
        npz(work / "b.npz", input=packed((1, 1, 16, 16), [1] * 256, "<i4", "i")),
    )
    compile_with(
        "other name",
        {"data-missing-array"},
        npz(work / "c.npz", image=packed((1, 1, 16, 16), [0.5] * 256), other=packed((1,), [1.0])),
    )
    compile_with(
        "NaN",
        {"data-not-finite"},
        npz(work / "d.npz", input=packed((1, 1, 16, 16), [0.5] * 255 + [float("nan")])),
    )
    compile_with("no sample", {"data-empty"}, npz(work / "e.npz", input=packed((0, 1, 16, 16), [])))
    compile_with(
        "array too short",
        {"npy-invalid", "zip-invalid"},
        npz(work / "f.npz", input=packed((9, 1, 16, 16), [0.5] * 64)),
    )
    compile_with(
        "absurd size",
        {"npy-invalid", "zip-too-large"},
        npz(work / "g.npz", input=packed((1 << 40, 1 << 20, 8, 8), [0.5])),
    )
    compile_with(
        "complex",  # pairs of a last dimension
        {"data-shape"},
        npz(work / "h.npz", input=packed((1, 1, 16, 16), [0.5] * 512, "<c8")),
    )
    (work / "text.npz").write_text("not an archive")
    compile_with("text", {"zip-invalid", "npy-invalid", "model-unknown"}, work / "text.npz")
    whole = (MODEL / "calibration.npz").read_bytes()
    (work / "cut.npz").write_bytes(whole[: len(whole) // 2])
    compile_with("truncated", {"zip-invalid"}, work / "cut.npz")
    for option in (
        ["--save-calibration", work / "ranges.json"],
        ["--load-calibration", MODEL / "test.npz"],
        ["--observer", "min-max"],
    ):
        expect(
            deuteron,
            f"calibration of a quantized model: {option[0]}",
            {"calibration-unused"},
            "compile",
            MODEL / "quantized.pt2",
            *option,
            "-o",
            out,
            outputs=[out, work / "ranges.json"],
        )
    for model in (
        ROOT / "models/mlperf_tiny/kws_dscnn_int8.tflite",
        ROOT / "test/lit/passes/fold_quantization.ir",
    ):
        expect(
            deuteron,
            f"training of {model.name}",
            {"qat-not-export"},
            "qat-prepare",
            model,
            "-o",
            out,
            outputs=[out],
        )
    expect(
        deuteron,
        "a conversion of a model out of order",
        {"tflite-invalid"},
        "convert",
        ROOT / "test/fuzz/regressions/tflite/reads_before_made.tflite",
        work / "converted.tflite",
        outputs=[work / "converted.tflite"],
    )
    for name in ("inputs_are_text", "inputs_are_an_object"):
        expect(
            deuteron,
            f"training of an export whose {name.replace('_', ' ')}",
            {"pt2-invalid"},
            "qat-prepare",
            ROOT / f"test/fuzz/regressions/pt2/{name}.pt2",
            "-o",
            out,
            outputs=[out],
        )
    expect(
        deuteron,
        "training of a program",
        {"model-unknown"},
        "qat-prepare",
        ROOT / "test/data/pte/small.pte",
        "-o",
        out,
        outputs=[out],
    )


def programs(deuteron, work, good):
    program = work / "good.pte"
    subprocess.run(
        [deuteron, "compile", MODEL / "float.pt2", "--calibrate", good, "-o", program],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    data, bad, out = program.read_bytes(), work / "bad.pte", work / "result.npz"

    def run(
        name,
        content,
        ids={
            "pte-checksum",
            "pte-malformed",
            "pte-not-a-program",
            "pte-truncated",
            "pte-newer-version",
        },
    ):
        bad.write_bytes(content)
        expect(
            deuteron,
            f"pte {name}",
            ids,
            "run",
            bad,
            "--input",
            MODEL / "calibration.npz",
            "--output",
            out,
            outputs=[out],
        )

    run("empty", b"")
    run("text", b"hello, this is not a program at all")
    for share in (1, 10, 50, 99):
        run(f"truncated to {share} %", data[: len(data) * share // 100])
    for at in range(8, len(data), max(1, len(data) // 40)):
        flipped = bytearray(data)
        flipped[at] ^= 0x10
        run(f"flipped at {at}", bytes(flipped))
    expect(
        deuteron,
        "run input of another shape",
        {"data-shape"},
        "run",
        program,
        "--input",
        npz(work / "s.npz", input=packed((1, 1, 9, 16), [0.5] * 144)),
    )
    expect(
        deuteron,
        "run raw input too short",
        {"data-shape"},
        "run",
        program,
        "--input",
        _raw(work / "x.bin", 10),
    )
    expect(
        deuteron,
        "eval without labels",
        {"data-missing-array"},
        "eval",
        program,
        "--data",
        MODEL / "calibration.npz",
    )
    expect(
        deuteron,
        "eval with other labels",
        {"data-missing-array"},
        "eval",
        program,
        "--data",
        MODEL / "test.npz",
        "--labels",
        "klass",
    )
    expect(
        deuteron,
        "verify against another model",
        {"verify-mismatch"},
        "verify",
        program,
        "--against",
        ROOT / "models/kws_dscnn/float.pt2",
        "--data",
        ROOT / "models/kws_dscnn/calibration.npz",
    )
    stripped = work / "stripped.pte"
    subprocess.run(
        [
            deuteron,
            "compile",
            MODEL / "float.pt2",
            "--calibrate",
            good,
            "-o",
            stripped,
            "--no-debug-map",
        ],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    expect(
        deuteron,
        "verify without debug map",
        {"no-debug-map"},
        "verify",
        stripped,
        "--against",
        MODEL / "float.pt2",
        "--data",
        good,
    )


def _raw(path, size):
    path.write_bytes(b"\0" * size)
    return path


def outputs(deuteron, work, good):
    expect(
        deuteron,
        "output folder missing",
        {"file-not-writable"},
        "compile",
        MODEL / "float.pt2",
        "--calibrate",
        good,
        "-o",
        work / "no/such/folder.pte",
    )
    if os.path.exists("/dev/full"):
        expect(
            deuteron,
            "no space",
            {"file-not-writable"},
            "compile",
            MODEL / "float.pt2",
            "--calibrate",
            good,
            "-o",
            "/dev/full",
        )
    expect(
        deuteron,
        "unknown target",
        {"target-unknown"},
        "compile",
        MODEL / "float.pt2",
        "--calibrate",
        good,
        "--target",
        "toaster",
        "-o",
        work / "t.pte",
        outputs=[work / "t.pte"],
    )


def usage(deuteron):
    global ran
    for arguments in (
        [],
        ["compile"],
        ["fly"],
        ["run", "--input"],
        ["compile", "x.pt2", "--observer", "sharp"],
    ):
        ran += 1
        done = subprocess.run([deuteron, *arguments], stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode != 2:
            failures.append(f"usage {arguments}: exit code {done.returncode}")


def main():
    deuteron, good = Path(sys.argv[1]).resolve(), MODEL / "calibration.npz"
    with tempfile.TemporaryDirectory() as folder:
        for name, part in (
            ("models", lambda w: models(deuteron, w, good)),
            ("calibration", lambda w: calibration(deuteron, w)),
            ("programs", lambda w: programs(deuteron, w, good)),
            ("outputs", lambda w: outputs(deuteron, w, good)),
        ):
            work = Path(folder) / name
            work.mkdir()
            part(work)
    usage(deuteron)
    print(f"{ran} cases")
    finish(failures)


if __name__ == "__main__":
    main()
