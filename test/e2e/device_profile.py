#!/usr/bin/env python3
"""Profiles that a firmware records under QEMU: the host's events, in its order and with its NPU
cycles; what a run leaves that ends in the middle or has no room; nothing of it in an image without
the option. Standard library only.

    device_profile.py DEUTERON
"""
import json
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from checks import failures, finish, run

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import device_project  # noqa: E402

DIGITS = ROOT / "models/digits_cnn"
# Instructions of the core that an event may cost, and a command of the NPU, of which there are
# more.
MOST_OF_AN_EVENT, MOST_OF_A_COMMAND = 200, 120
PROFILER_FILES = (
    "device/npu/profile.h",
    "device/runtime/profiler.h",
    "device/runtime/profiler.cpp",
    "device/runtime/deuteron_profile.cpp",
    "device/runtime/ports/cortex_m/profile_log.h",
    "device/runtime/ports/cortex_m/profile_log.cpp",
)


def expect(what, found, expected):
    if found != expected:
        failures.append(f"{what}: {found}, expected {expected}")


def expect_text(what, text, *parts):
    for part in parts:
        if part not in text:
            failures.append(f"{what} has no `{part}`:\n{text}")


def events_of(deuteron, trace):
    """(instruction, command, start, end, name) of the first run."""
    lines = run(deuteron, "inspect", trace).split("  run 1")[0].splitlines()[2:]
    found = []
    for line in lines:
        place, start, end, name = re.fullmatch(r" {4}(\S*) +(\d+) +(\d+) +(.+)", line).groups()
        instruction, _, command = place.partition(".")
        found.append((instruction, command, int(start), int(end), name))
    return found


def told(events):
    """What does not depend on the Cortex-M: which events there are, in which order, and the times
    inside of a delegate's call."""
    begin, result = 0, []
    for instruction, command, start, end, name in events:
        if name == "delegate":
            begin = start
        inside = (start - begin, end - begin) if command or name == "delegate" else ()
        result.append((instruction, command, name, inside))
    return result


class Project:
    """A firmware project of the digits model with one input, built again and again in one
    folder."""

    def __init__(self, deuteron, folder):
        self.deuteron, self.program, self.folder = (
            deuteron,
            folder / "digits.pte",
            folder / "project",
        )
        # One partition: what is behind the average runs on the CPU.
        alone = ("--keep-off", "op:aten.linear")
        run(deuteron, "compile", DIGITS / "quantized.pt2", "-o", self.program, *alone)
        run(
            deuteron,
            "run",
            self.program,
            "--input",
            DIGITS / "test.npz",
            "--samples",
            1,
            "--profile",
            folder / "host.etdump",
        )
        self.host = events_of(deuteron, folder / "host.etdump")
        self.write()
        npy = zipfile.ZipFile(DIGITS / "test.npz").read("input.npy")
        (self.folder / "inputs.bin").write_bytes(
            npy[10 + int.from_bytes(npy[8:10], "little") :][: 16 * 16 * 4]
        )

    def write(self):
        for name in ("deuteron", "model"):  # files that were changed would be kept
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for name in ("main.cpp", "main.c"):
            (self.folder / name).unlink(missing_ok=True)
        run(self.deuteron, "firmware", self.program, "-o", self.folder)

    def edit(self, path, *changes):
        text = (self.folder / path).read_text()
        for old, new in changes:
            if old not in text:
                failures.append(f"{path} has no `{old}`")
            text = text.replace(old, new)
        (self.folder / path).write_text(text)

    def build(self, *options, targets=("firmware",)):
        device_project.build(run, self.folder, *options, targets=targets)

    def start(self, image="firmware", code=0):
        (self.folder / "profile.bin").unlink(missing_ok=True)
        return run(
            *device_project.qemu(f"build/{image}.elf", *device_project.COUNTED),
            code=code,
            cwd=self.folder,
        )

    def sections(self):
        """Bytes of the image's sections and of everything in them. The order of functions and the
        numbers of tables are the compiler's own."""
        sizes = run("arm-none-eabi-size", "-A", "build/firmware.elf", cwd=self.folder)
        symbols = run("arm-none-eabi-nm", "-S", "build/firmware.elf", cwd=self.folder)
        sized = re.findall(r"^\w+ (\w+) (\w) (\S+)$", symbols, re.MULTILINE)
        return dict(re.findall(r"^(\.\w+) +(\d+)", sizes, re.MULTILINE)), sorted(
            (re.sub(r"\.\d+$", "", name), kind, size) for size, kind, name in sized
        )

    def profile(self, *options):
        return run(
            self.deuteron,
            "profile",
            self.folder / "profile.bin",
            "--program",
            self.program,
            *options,
        )

    def events(self):
        self.profile("--etdump", self.folder / "device.etdump")
        return events_of(self.deuteron, self.folder / "device.etdump")


def instructions_of(text):
    return {
        int(step): int(count) for step, count in re.findall(r"step (\d+) (\d+) instructions", text)
    }


def strip(project):
    """Takes all of the profiler out of a project's sources."""
    for path in PROFILER_FILES:
        (project.folder / "deuteron" / path).unlink()
    for path in ("main.cpp", "model/model.h", "model/model.cpp", "deuteron/sources.cmake"):
        file = project.folder / path
        text = (
            file.read_text()
            .replace(", profile::of(model::kProfiled)}", "}")
            .replace("profile::start(kModels[m].profiled, kModels[m].start)", "kModels[m].start()")
        )
        file.write_text(
            "".join(
                line for line in text.splitlines(keepends=True) if "profile" not in line.lower()
            )
        )


def check_off(project):
    """The image without the option has the sections, functions and executed instructions of an
    image without a profiler."""
    project.build()
    off, text = project.sections(), project.start()
    if (project.folder / "profile.bin").exists():
        failures.append("an image without the option writes a profile")
    strip(project)
    (project.folder / "build/firmware.elf").unlink()
    project.build()
    expect("sections and functions without a profiler", project.sections(), off)
    expect("instructions without a profiler", project.start(), text)
    project.write()
    return instructions_of(text), off[0]


def check_on(project, instructions, sizes):
    project.build("-DDEUTERON_PROFILE=ON", targets=("firmware", "firmware_c"))
    text = project.start()
    device = project.events()
    expect("events on the device", told(device), told(project.host))
    expect(
        "room for events",
        int(project.sections()[0][".arena"]) - int(sizes[".arena"]),
        16 * len(device),
    )
    shown = project.profile("--json", project.folder / "profile.json")
    expect_text(
        "the profile",
        shown,
        ", counted instructions)",
        "  before the run: load ",
        " instructions, init ",
        "  recording cost ",
    )
    profile = json.loads((project.folder / "profile.json").read_text())
    expect(
        "times of kernels",
        (profile["cpu_times"], profile["complete"], profile["spent"]["npu"]),
        ("instructions", True, 8160),
    )
    counted = instructions_of(text)
    kernels = [
        end - start
        for instruction, command, start, end, name in device
        if name != "delegate" and instruction and not command
    ]
    expect(
        "instructions of kernels", kernels, [count for step, count in counted.items() if step != 1]
    )
    commands = sum(1 for _, command, _, _, _ in device if command)
    of_a_command = (counted[1] - instructions[1]) / commands
    print(
        f"recording: {profile['recording']['event']:.0f} instructions an event,"
        f" {of_a_command:.0f} a command (with and without: {counted[1]} and {instructions[1]}),"
        f" {len(device)} events"
    )
    if (
        not 0 < of_a_command <= MOST_OF_A_COMMAND
        or not of_a_command <= profile["recording"]["event"] <= MOST_OF_AN_EVENT
    ):
        failures.append("recording costs too much, or less than nothing")
    expect_text("the C firmware", project.start("firmware_c"), "done 1 samples\n")
    expect("events of the C firmware", told(project.events()), told(project.host))


def check_room(project):
    project.build("-DDEUTERON_PROFILE_EVENTS=5")
    project.start()
    lost = len(project.host) - 5
    expect("the oldest five", told(project.events()), told(project.host)[:5])
    expect_text(
        "the profile",
        project.profile(),
        f"PARTIAL: {lost} events found no room in the profile buffer; these are the first ",
    )
    for value in ("0", "-3", "many", "007"):
        text = run(
            "cmake",
            "-S",
            project.folder,
            "-B",
            project.folder / "build",
            f"-DDEUTERON_PROFILE_EVENTS={value}",
            code=1,
        )
        expect_text("CMake", text, f"DEUTERON_PROFILE_EVENTS is `{value}`")
    project.build("-DDEUTERON_PROFILE_EVENTS=99999999999")
    project.start()
    expect("room for more than all", told(project.events()), told(project.host))


def check_aborts(project):
    """The observer ends the run, the NPU does not answer, a kernel fails: the part before is there,
    and said to be one."""
    kept = {path: (project.folder / path).read_text() for path in ("main.cpp", "model/model.cpp")}
    times_out = (
        "->driver();\n",
        (
            "->driver();\n  static const auto run = npu.driver.run;\n  npu.driver.run = [](void* c,"
            " uint32_t h, const dtr::npu::Buffer* o, uint32_t n, dtr::npu::Buffer s, void"
            " (*e)(void*, const dtr::npu::Event&), void* x) {\n    dtr::npu::Report report = run(c,"
            " h, o, n, s, e, x);\n    report.status = dtr::npu::Status::kTimeout;\n    return"
            " report;\n  };\n"
        ),
    )
    fails = (
        "dtr::runtime::portable::mean_out}",
        "[](std::span<dtr::runtime::Value* const>) { return dtr::pte::Error::kKernelArguments; }}",
    )
    commands = sum(1 for _, command, _, _, _ in project.host if command)
    for what, path, change, events, message in (
        (
            "the observer",
            "main.cpp",
            ("  return true;\n}\nvoid after", "  return step < 1;\n}\nvoid after"),
            3,
            "the observer ended the run",
        ),
        ("the NPU", "model/model.cpp", times_out, 3 + commands, "a delegate's run failed"),
        ("a kernel", "model/model.cpp", fails, 6 + commands, "a kernel got arguments"),
    ):
        for each, text in kept.items():
            (project.folder / each).write_text(text)
        project.edit(path, change)
        project.build()
        expect_text(what, project.start(code=1), "error: run: ")
        expect(
            f"what {what} leaves",
            [event[:3] for event in told(project.events())],
            [event[:3] for event in told(project.host)][:events],
        )
        expect_text(
            f"the profile that {what} leaves",
            project.profile(),
            f"  PARTIAL: the run did not end: {message}",
        )
    for each, text in kept.items():
        (project.folder / each).write_text(text)


def check_run(deuteron, folder):
    """In one step, for a target without an NPU, with more room than there is memory: a run has
    fewer events."""
    program, trace = folder / "m33.pte", folder / "m33.etdump"
    run(deuteron, "compile", DIGITS / "quantized.pt2", "--target", "cortex-m33", "-o", program)
    given = ("run", program, "--input", DIGITS / "test.npz", "--samples", 1, "--profile")
    run(deuteron, *given, folder / "host.etdump")
    text = run(deuteron, *given, trace, "--on", "qemu", "--profile-events", 1 << 24)
    expect_text("run --on qemu --profile", text, "  recording cost ", " instructions per event, ")
    expect(
        "events without an NPU",
        told(events_of(deuteron, trace)),
        told(events_of(deuteron, folder / "host.etdump")),
    )
    expect_text(
        "the profile without an NPU",
        run(deuteron, "profile", trace, "--program", program),
        " ms of counted instructions, not compared with silicon, at 20 MHz",
    )
    message = run(deuteron, "profile", trace, "--program", folder / "digits.pte", code=1)
    expect_text("another program", message, "error[trace-program]: ")


def main():
    deuteron = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        project = Project(deuteron, folder)
        instructions, sizes = check_off(project)
        check_on(project, instructions, sizes)
        check_aborts(project)
        check_room(project)
        shutil.rmtree(project.folder)
        check_run(deuteron, folder)
    finish(failures)


if __name__ == "__main__":
    main()
