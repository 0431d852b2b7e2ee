#!/usr/bin/env python3
"""Names that someone chose to do harm: in programs, models and paths. Whatever a verb prints is one
line a name without control characters, JSON is UTF-8, and a firmware project has the names as text
alone. Standard library only.

    hostile_names.py DEUTERON [--device]

With --device the firmware is built and runs under QEMU, from a file, in a folder and with a TMPDIR
of such names.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

from checks import finish

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/digits_cnn"
MARK = "INJECTED"
# What ends a string, a comment, a line or a cell somewhere, and what a terminal obeys; the last
# bytes are no UTF-8 (a surrogate, an overlong form).
HOSTILE = (
    b'"; int INJECTED = 1; //\n#error INJECTED\n*/ INJECTED /*\\\nINJECTED ??/\nINJECTED'
    b' R"(${INJECTED} $(touch INJECTED) `touch INJECTED` \x1b[31m\x07\r --> |'
    b' </script><script>INJECTED @MODEL@ @TENSORS@ {} %s \xe2\x80\xae\xe2\x80\xa8\xc2\x9b31m'
    b' \xed\xa0\x80\xc0\xaf\xff'
)
NOT_PLAIN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
OUTPUT = b"dequantize_per_tensor_14"  # its name
failures = []


def fail(text):
    failures.append(text)


def run(what, *command, code=0, cwd=None, **environment):
    """What it printed, checked: as a terminal may show it."""
    words = [word if isinstance(word, bytes) else str(word) for word in command]
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=cwd,
        env={**os.environb, **{k.encode(): v for k, v in environment.items()}},
    )
    printed = done.stdout + done.stderr
    if done.returncode != code:
        fail(f"{what}: exit code {done.returncode}\n{printed[-1500:]}")
    try:
        text = printed.decode()
    except UnicodeDecodeError as error:
        fail(f"{what}: not UTF-8: {error}")
        text = printed.decode(errors="replace")
    if found := NOT_PLAIN.search(text):
        fail(
            f"{what}: prints {found.group()!r} in"
            f" {text[max(0, found.start() - 60):found.end() + 20]!r}"
        )
    for line in text.split("\n"):
        if re.match(rf"\s*({MARK}|#error|\*/|warning\[)", line):
            fail(f"{what}: a name makes a line of its own: {line!r}")
    return text


def check_json(what, path):
    try:
        json.loads(path.read_bytes().decode())
    except (OSError, ValueError) as error:
        fail(f"{what}: {path.name}: {error}")


def with_checksum(program):
    """The program, whose last segment holds its checksum, with the right one."""
    at = checksum_at(program)
    empty = program[:at] + bytes(4) + program[at + 4 :]
    return empty[:at] + struct.pack("<I", zlib.crc32(empty)) + empty[at + 4 :]


def checksum_at(program):
    if not hasattr(checksum_at, "from_end"):
        original = GOOD.read_bytes()
        checksum_at.from_end = next(
            n
            for n in range(4, 4096)
            if struct.unpack_from("<I", original, len(original) - n)[0]
            == zlib.crc32(original[:-n] + bytes(4) + original[len(original) - n + 4 :])
        )
    return len(program) - checksum_at.from_end


def renamed(program, names):
    """A program whose strings of these names, outside of its segments, are others: they are written
    behind the structure, which grows."""
    size, base = struct.unpack_from("<QQ", program, 16)
    head = bytearray(program[:base])
    for old, new in names.items():
        found = [
            match.start()
            for match in re.finditer(
                re.escape(struct.pack("<I", len(old)) + old + b"\0"), bytes(head[:size])
            )
        ]
        if not found:
            fail(f"the program has no string {old!r}")
        for string in found:
            places = [
                at
                for at in range(0, size, 4)
                if at + struct.unpack_from("<I", head, at)[0] == string
            ]
            head += bytes(-len(head) % 4)
            where = len(head)
            head += struct.pack("<I", len(new)) + new + b"\0"
            for at in places:
                struct.pack_into("<I", head, at, where - at)
    head += bytes(-len(head) % 16)
    struct.pack_into("<QQ", head, 16, len(head), len(head))
    return with_checksum(bytes(head) + program[base:])


def hostile_export(target):
    """An export whose names of nodes, parameters, modules and source files are hostile."""
    text = (
        HOSTILE.decode(errors="surrogateescape").encode(errors="ignore").decode()
    )  # JSON is UTF-8
    quoted = json.dumps(text)[1:-1]
    with zipfile.ZipFile(MODEL / "float.pt2") as before, zipfile.ZipFile(target, "w") as after:
        for entry in before.infolist():
            data = before.read(entry)
            if entry.filename.endswith("models/model.json"):
                source = data.decode()
                for name in ("hardswish", "conv2d"):
                    source = re.sub(rf'"{name}"', lambda _: f'"{quoted}{name}"', source)
                source = source.replace("make_models.py", f"{quoted}.py")
                within = quoted.replace(";", ":").replace(",", ":")
                source = re.sub(
                    r'("nn_module_stack": "[^"]*)',
                    lambda stack: stack[0].replace("stem", f"stem{within}"),
                    source,
                )
                data = source.encode()
            after.writestr(entry, data)


def use_every_verb(deuteron, folder, program, what, same_model=True):
    data = MODEL / "test.npz"
    out = {
        name: folder / f"{what}.{name}"
        for name in (
            "npz",
            "etdump",
            "json",
            "csv",
            "html",
            "stats.json",
            "perfetto.json",
            "eval.json",
            "verify.json",
        )
    }
    run(f"{what}: inspect", deuteron, "inspect", program)
    run(
        f"{what}: run",
        deuteron,
        "run",
        program,
        "--input",
        data,
        "--samples",
        2,
        "--output",
        out["npz"],
        "--profile",
        out["etdump"],
        "--stats-json",
        out["stats.json"],
    )
    run(f"{what}: inspect etdump", deuteron, "inspect", out["etdump"])
    run(f"{what}: eval", deuteron, "eval", program, "--data", data, "--json", out["eval.json"])
    run(
        f"{what}: verify",
        deuteron,
        "verify",
        program,
        "--against",
        MODEL / "quantized.pt2",
        "--data",
        data,
        "--json",
        out["verify.json"],
        code=0 if same_model else 1,
    )
    run(
        f"{what}: compare",
        deuteron,
        "compare",
        program,
        MODEL / "quantized.pt2",
        "--data",
        data,
        "--samples",
        2,
    )
    for by in ("operator", "module", "kernel", "memory"):
        run(f"{what}: profile --by {by}", deuteron, "profile", program, "--by", by)
    run(
        f"{what}: profile",
        deuteron,
        "profile",
        out["etdump"],
        "--program",
        program,
        "--json",
        out["json"],
        "--csv",
        out["csv"],
        "--html",
        out["html"],
        "--perfetto",
        out["perfetto.json"],
    )
    run(f"{what}: profile --compare", deuteron, "profile", program, "--compare", program)
    run(f"{what}: explain", deuteron, "explain", program)
    for name in (
        "json",
        "stats.json",
        "perfetto.json",
        "eval.json",
        *(["verify.json"] if same_model else []),
    ):
        check_json(what, out[name])
    if not out["html"].exists() or b"<script>INJECTED" in out["html"].read_bytes():
        fail(f"{what}: the page has a script of the program")


def check_firmware(deuteron, folder, program, what):
    project = folder / f"{what}_firmware"
    run(f"{what}: firmware", deuteron, "firmware", program, "-o", project)
    run(
        f"{what}: firmware of two",
        deuteron,
        "firmware",
        program,
        GOOD,
        "-o",
        folder / f"{what}_two",
    )
    for file in [*project.rglob("*"), *(folder / f"{what}_two").rglob("*")]:
        if (
            file.suffix in (".cpp", ".c", ".h", ".txt", ".cmake", ".S", ".md")
            and "deuteron" not in file.relative_to(folder).parts
        ):
            for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
                if re.match(rb"\s*(INJECTED|#error)", line):
                    fail(f"{what}: {file.name}:{number} has a line of the program: {line!r}")
                if NOT_PLAIN.search(line.decode(errors="replace").replace("\t", "")):
                    fail(f"{what}: {file.name}:{number} has control characters: {line!r}")
    return project


def check_device(deuteron, folder, program, what):
    """Built and run: the outputs are those of the host, and nothing of a name was code."""
    host, device = folder / f"{what}.host.npz", folder / f"{what}.device.npz"
    temporary = folder / "tmp # ; $HOME ' \" $(touch INJECTED)"
    temporary.mkdir(exist_ok=True)
    run(
        f"{what}: on the host",
        deuteron,
        "run",
        program,
        "--input",
        MODEL / "test.npz",
        "--samples",
        1,
        "--output",
        host,
    )
    run(
        f"{what}: on qemu",
        deuteron,
        "run",
        program,
        "--input",
        MODEL / "test.npz",
        "--samples",
        1,
        "--output",
        device,
        "--on",
        "qemu",
        TMPDIR=str(temporary).encode(),
    )
    if not device.exists() or host.read_bytes() != device.read_bytes():
        fail(f"{what}: outputs on the device differ from the host's")


def check_host_access(deuteron, folder):
    """An image that tries to reach the host (test/device/host_access.cpp), started by `run --on
    qemu` in place of the program's, gets nothing of it."""
    project, host, tools = folder / "host_access", folder / "host", folder / "tools"
    run("host access: firmware", deuteron, "firmware", GOOD, "-o", project)
    source = (ROOT / "test/device/host_access.cpp").read_text().replace("@FOLDER@", str(host))
    (project / "main.cpp").write_text(source)
    images = {}
    for name, option in (("serial", "ON"), ("semihosting", "OFF")):
        build = project / f"build_{name}"
        run(
            f"host access: configure {name}",
            "cmake",
            "-G",
            "Ninja",
            "-S",
            project,
            "-B",
            build,
            f"-DDEUTERON_SERIAL={option}",
        )
        run(f"host access: build {name}", "cmake", "--build", build)
        images[name] = build / "firmware.elf"
    qemu = shutil.which("qemu-system-arm")
    tools.mkdir()
    (tools / "qemu-system-arm").write_text(
        "#!/bin/sh\nfor word; do shift; [ \"$word\" = build/firmware.elf ] &&"
        f" word={images['serial']}; set -- \"$@\" \"$word\"; done\nexec {qemu} \"$@\"\n"
    )
    (tools / "qemu-system-arm").chmod(0o755)

    def reached(start):
        shutil.rmtree(host, ignore_errors=True)
        host.mkdir()
        for file in ("secret", "to_rename", "to_remove"):
            (host / file).write_text("a secret of ours")
        text = start()
        if "tried everything" not in text:
            fail(f"host access: the image did not come to its end:\n{text}")
        changes = {
            "secret": "a secret" not in text,
            "ran": not (host / "ran").exists(),
            "written": not (host / "written").exists(),
            "renamed": (host / "to_rename").exists(),
            "removed": (host / "to_remove").exists(),
        }
        return [name for name, kept in changes.items() if not kept]

    with_everything = reached(
        lambda: run(
            "host access by semihosting",
            qemu,
            "-M",
            "mps2-an505",
            "-kernel",
            images["semihosting"],
            "-nographic",
            "-monitor",
            "none",
            "-serial",
            "none",
            "-semihosting-config",
            "enable=on,target=native",
            cwd=project,
        )
    )
    if len(with_everything) != 5:
        fail(f"with semihosting the image reaches only {with_everything}: it tries nothing")
    found = reached(
        lambda: run(
            "host access by run --on qemu",
            deuteron,
            "run",
            GOOD,
            "--input",
            MODEL / "test.npz",
            "--samples",
            1,
            "--on",
            "qemu",
            code=1,
            PATH=f"{tools}:{os.environ['PATH']}".encode(),
        )
    )
    if found:
        fail(f"an image under run --on qemu reaches the host: {found}")


def main():
    global GOOD
    deuteron = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        GOOD = folder / "good.pte"
        run(
            "compile",
            deuteron,
            "compile",
            MODEL / "quantized.pt2",
            "--target",
            "cortex-m33",
            "-o",
            GOOD,
        )
        good = GOOD.read_bytes()
        program = folder / "hostile.pte"
        program.write_bytes(renamed(good, {b"forward": HOSTILE, OUTPUT: HOSTILE + OUTPUT}))

        # Names of the debug map, in a segment of their own: others of the same length.
        mapped = folder / "mapped.pte"
        head = struct.unpack_from("<QQ", good, 16)[1]
        segments = good[head:]
        for old, new in (
            (b"hardswish", b"\x1b[3\nINJEC"),
            (b"make_models.py", b"\n#error \xed\xa0\x80\x07|<"),
            (b"hidden.0", b"\xe2\x80\xae\r\n*/|"),
        ):
            if old not in segments or len(old) != len(new):
                fail(f"the debug map has no {old}")
            segments = segments.replace(old, new)
        mapped.write_bytes(with_checksum(good[:head] + segments))

        unknown = folder / "unknown.pte"
        unknown.write_bytes(renamed(good, {b"aten::hardswish": HOSTILE}))
        listed = run(
            "unknown kernel", deuteron, "run", unknown, "--input", MODEL / "test.npz", code=1
        )
        if "pte-missing-kernel" not in listed or MARK not in listed:
            fail(f"unknown kernel: {listed}")
        line = run(
            "unknown kernel as JSON",
            deuteron,
            "--diagnostics",
            "json",
            "run",
            unknown,
            "--input",
            MODEL / "test.npz",
            code=1,
        )
        if MARK not in json.loads(line)["reason"]:
            fail(f"unknown kernel as JSON: {line}")
        run("no such file", deuteron, "inspect", HOSTILE.replace(b"/", b"|"), code=1)

        export = folder / "hostile.pt2"
        hostile_export(export)
        run("hostile export: inspect", deuteron, "inspect", export)
        report, placement, patterns, quantization = (
            folder / f"{kind}.json" for kind in ("report", "placement", "patterns", "quantization")
        )
        run(
            "hostile export: compile",
            deuteron,
            "compile",
            export,
            "--calibrate",
            MODEL / "calibration.npz",
            "-o",
            folder / "export.pte",
            "--verbose",
            "--report-json",
            report,
            "--placement",
            placement,
            "--patterns",
            patterns,
            "--quantization-json",
            quantization,
            "--report-quantization",
            "--keep-off",
            "op:linear",
            "--print-after",
            "all",
        )
        for file in (report, placement, patterns, quantization):
            check_json("hostile export", file)

        strange = folder / "fol der;#$x'"
        strange.mkdir()
        path = os.path.join(
            os.fsencode(strange),
            (
                b"a\"; ${x} $(touch INJECTED) `touch INJECTED`\x1b[31m\n#error INJECTED\n\\"
                b" ??>@MODEL@ *|.pte"
            ),
        )
        shutil.copy(program, path)
        if "--device" in sys.argv:
            check_device(deuteron, folder, path, "hostile path")
            check_host_access(deuteron, folder)
        else:
            use_every_verb(deuteron, folder, program, "hostile program")
            use_every_verb(deuteron, folder, mapped, "hostile debug map", same_model=False)
            check_firmware(deuteron, folder, program, "hostile program")
            check_firmware(deuteron, folder, path, "hostile path")
            run("hostile folder", deuteron, "inspect", path)
        left = [str(file) for file in folder.rglob("*") if file.name == MARK]
        if left:
            fail(f"a command of a name ran: {left}")
    finish(failures)


if __name__ == "__main__":
    main()
