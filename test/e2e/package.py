#!/usr/bin/env python3
"""The Debian packages of `make package`: what they hold and depend on, and that the commands run
from an unpacked one. Standard library only; without `make mpi` the part with MPI is left out.

    package.py BUILD_FOLDER
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import failures, finish
from scale import DIGITS, OVER

DEVICE = "usr/share/deuteron/device/runtime/api.h"


def output(*words, env=None):
    done = subprocess.run(
        [str(word) for word in words],
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=300,
    )
    if done.returncode != 0:
        failures.append(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(condition, text):
    if not condition:
        failures.append(text)


def fields(package):
    """The control file of a package, by its fields."""
    lines = output("dpkg-deb", "--field", package).splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line and line[0] != " ")


def files(package):
    """The files in a package, with their permissions and owners."""
    rows = [line.split() for line in output("dpkg-deb", "--contents", package).splitlines()]
    return {row[5][2:]: (row[0], row[1]) for row in rows if not row[0].startswith("d")}


def check_package(package, name, commands, folder):
    control, held = fields(package), files(package)
    check(control["Package"] == name, f"{package.name} is {control['Package']}")
    check(control["Section"] == "devel" and control["Maintainer"], f"{name}: {control}")
    found = {path for path in held if path.startswith("usr/bin/")}
    check(found == {f"usr/bin/{each}" for each in commands}, f"{name} has {found}")
    check(f"usr/share/doc/{name}/copyright" in held, f"{name} has no copyright file")
    strange = {p for p, (_, owner) in held.items() if owner != "root/root"}
    check(not strange, f"{name}: files of others: {strange}")
    outside = {p for p in held if not re.match(r"usr/(bin/|share/(deuteron|doc)/)", p)}
    check(not outside, f"{name}: files outside of its folders: {outside}")
    output("dpkg-deb", "--extract", package, folder)
    for each in commands:
        text = output(folder / "usr/bin" / each, "--help")
        check("deuteron" in text.lower(), f"{each} --help says:\n{text}")
    return control["Depends"], held


def main():
    build = Path(sys.argv[1]).resolve()
    if not (shutil.which("cpack") and shutil.which("dpkg-deb")):
        print("NOT RUN: Debian packages (cpack or dpkg-deb is missing)")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = build / "CPackConfig.cmake"
        output("cpack", "--config", config, "-B", folder, env={"PWD": str(build)})
        unpacked = folder / "root"
        commands = ["deuteron", "deuteron-opt", "deuteron-executor-runner"]
        package = next(folder.glob("deuteron_*.deb"))
        depends, held = check_package(package, "deuteron", commands, unpacked)
        check("openmpi" not in depends, f"deuteron depends on {depends}")
        check("libdnnl2" in depends and "libc6" in depends, f"deuteron depends on {depends}")
        check(DEVICE in held, f"deuteron has no {DEVICE}")
        deuteron, program = unpacked / "usr/bin/deuteron", folder / "digits.pte"
        output(deuteron, "compile", DIGITS / "quantized.pt2", "-o", program)
        words = ["eval", program, "--data", DIGITS / "test.npz"]
        alone = output(deuteron, *words)

        if not list(folder.glob("deuteron-mpi_*.deb")):
            print("NOT RUN: the package of deuteron-mpi (make mpi)")
            return
        package = next(folder.glob("deuteron-mpi_*.deb"))
        depends, held = check_package(package, "deuteron-mpi", ["deuteron-mpi"], unpacked)
        for needed in ("openmpi-bin", "libopenmpi3"):
            check(needed in depends, f"deuteron-mpi depends on {depends}")
        ranks = output("mpirun", "-np", 2, unpacked / "usr/bin/deuteron-mpi", *words, env=OVER)
        check(ranks == alone and "accuracy" in alone, f"on ranks:\n{ranks}\nalone:\n{alone}")


main()
finish(failures)
