"""What a firmware image of the keyword model is made of, and what loading costs: the section on
firmware of docs/performance.md.
`test/e2e/firmware.py` holds the same figures and their bounds. Standard library only.
"""
import re
import subprocess
import sys
from pathlib import Path

import device_project
from tables import table

ROOT = Path(__file__).resolve().parent.parent
KEYWORDS = ROOT / "models/kws_dscnn"
# Bytes on a Cortex-M33: of the loader and executor without texts and checksum; of RAM besides
# arenas, state and stack; of all code and constants.
MOST_CORE, MOST_RAM, MOST_TEXT = 8192, 1024, 42 * 1024


def run(*command, cwd=None):
    done = subprocess.run(
        list(map(str, command)), text=True, stdin=subprocess.DEVNULL, capture_output=True, cwd=cwd
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def image(deuteron, program, project, *options):
    """{part: [text, RAM, program, arenas]} of the image, and the instructions that loading takes
    under QEMU."""
    run(deuteron, "firmware", program, "-o", project, *options)
    sizes = device_project.build(run, project, targets=["sizes"])
    parts = {
        name: list(map(int, columns.split()))
        for name, columns in re.findall(r"^(\S.*?) {2,}((?: *\d+){4})$", sizes, re.MULTILINE)
    }
    (project / "inputs.bin").write_bytes(b"")
    text = run(*device_project.qemu("build/firmware.elf", *device_project.COUNTED), cwd=project)
    return parts, int(re.search(r"load (\d+) instructions", text).group(1))


def measure(deuteron, folder):
    program = folder / "kws.pte"
    run(
        deuteron,
        "compile",
        KEYWORDS / "float.pt2",
        "--calibrate",
        KEYWORDS / "calibration.npz",
        "--target",
        "cortex-m33",
        "-o",
        program,
    )
    parts, load = image(deuteron, program, folder / "sizes")
    without, load_without = image(deuteron, program, folder / "sizes_without", "--no-checksum")
    return {
        "parts": parts,
        "load": load,
        "without_checksum": {
            "text": without["in all"][0],
            "load": load_without,
            "parts": sorted(without),
        },
        "program_bytes": program.stat().st_size,
    }


def section(sizes):
    parts, everything = sizes["parts"], sizes["parts"]["in all"]
    rows = [
        [
            name,
            f"{columns[0]:,}",
            f"{columns[1]:,}",
            f"{MOST_CORE:,}" if name == "loader and executor" else "",
        ]
        for name, columns in parts.items()
        if name != "in all"
    ]
    rows.append(
        ["in all", f"{everything[0]:,}", f"{everything[1]:,}", f"{MOST_TEXT:,} and {MOST_RAM:,}"]
    )
    without = sizes["without_checksum"]
    return f"""## Firmware

Bytes of a firmware image of `kws_dscnn` on a Cortex-M33 without the NPU (`deuteron firmware`; loader and executor with `-Os`, kernels with `-O2`), besides
the program of {sizes['program_bytes']:,} bytes, arena, state and stack; `cmake --build build --target sizes` prints this table of any project.
`make test` holds the bounds (`test/e2e/firmware.py`).

{table(["part", "code and constants", "RAM", "bound"], rows)}

The loader and executor has no static memory. Checksum, error texts, tensor files, the NPU's delegate and the C API are linked only where they are used.
Loading takes {sizes['load']:,} instructions, of which {sizes['load'] - without['load']:,} are the checksum's; `--no-checksum` saves them and
{everything[0] - without['text']:,} bytes.
"""
