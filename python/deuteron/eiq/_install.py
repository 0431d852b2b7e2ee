"""Installs import names and programs in a virtual environment, and removes them."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from .._errors import fail

# In every file that `enable` writes; what lacks it is not ours.
MARK = "Installed by deuteron.eiq"
VERSION = "0.0+deuteron"
PACKAGE = "eiq_neutron_sdk"
DISTRIBUTIONS = (PACKAGE, "eiq_nsys")

_INIT = f'''"""{MARK}: Deuteron in the place of NXP's eIQ Neutron SDK."""

from deuteron.eiq.sdk import (  # noqa: F401
    merge_kernel_selection_files,
    neutron_converter,
    neutron_library_utils,
)

__version__ = "{VERSION}"
'''
# Where ExecuTorch's tests look for the firmware of NXP's simulator.
_FIRMWARE = "target/imxrt700/cmodel/NeutronFirmware.elf"
_PROGRAMS = {
    "nxp_executor_runner": "from deuteron.eiq.runner import main",
    "nsys": "from deuteron.eiq.runner import simulator as main",
}


def _site() -> Path:
    return Path(sysconfig.get_paths()["purelib"])


def _programs() -> Path:
    return Path(sysconfig.get_paths()["scripts"])


def _metadata(name: str) -> Path:
    return _site() / f"{name}-{VERSION}.dist-info"


def _is_ours(path: Path) -> bool:
    try:
        return MARK in path.read_text(errors="replace")
    except OSError:
        return False


def _foreign() -> str:
    """Where something that is not ours has one of the names; empty: nowhere."""
    importlib.invalidate_caches()
    for name in DISTRIBUTIONS:
        for found in importlib.metadata.distributions(name=name):
            if MARK not in (found.read_text("METADATA") or ""):
                return f"the distribution {name} {found.version}"
    # Wherever imports look, not only at the first place that has the name.
    for folder in dict.fromkeys([str(_site()), *sys.path]):
        spec = importlib.machinery.PathFinder.find_spec(PACKAGE, [folder])
        if spec is not None and not _is_ours(Path(spec.origin or "")):
            return str(spec.origin or Path(folder) / PACKAGE)
    for name in _PROGRAMS:
        path = _programs() / name
        if path.exists() and not _is_ours(path):
            return str(path)
    return ""


def status() -> str:
    """``Deuteron``, ``not installed``, or where something else has the name."""
    if foreign := _foreign():
        return f"not Deuteron's: {foreign}"
    return "Deuteron" if _is_ours(_site() / PACKAGE / "__init__.py") else "not installed"


def _check_environment() -> None:
    if sys.prefix == sys.base_prefix:
        raise fail(
            "python-argument",
            "this Python is not that of a virtual environment",
            "make one, python -m venv FOLDER, and install deuteron and executorch there",
        )


def enable() -> None:
    """Installs ``eiq_neutron_sdk``, ``nsys`` and ``nxp_executor_runner`` in this environment.

    Again: writes them anew. Raises Error outside of a virtual environment, and where NXP's SDK or
    anything else has one of the names.
    """
    _check_environment()
    if foreign := _foreign():
        raise fail(
            "python-argument",
            f"{foreign} is installed here, and stays",
            "use a virtual environment without it",
        )
    try:
        _write()
    except OSError as error:
        _remove()
        raise fail("file-not-writable", str(error), "make the environment writable") from None


def _write() -> None:
    package = _site() / PACKAGE
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(_INIT)
    (package / _FIRMWARE).parent.mkdir(parents=True, exist_ok=True)
    (package / _FIRMWARE).write_text(f"{MARK}: no firmware, Deuteron simulates without one\n")
    for name, source in _PROGRAMS.items():
        path = _programs() / name
        path.write_text(f"#!{sys.executable}\n# {MARK}\nimport sys\n{source}\nsys.exit(main())\n")
        path.chmod(0o755)
    for name in DISTRIBUTIONS:
        folder = _metadata(name)
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\nSummary: {MARK}\n"
        )
        (folder / "INSTALLER").write_text("deuteron.eiq\n")
        files = [folder / "METADATA", folder / "INSTALLER", folder / "RECORD"]
        if name == PACKAGE:
            files += [package / "__init__.py", package / _FIRMWARE]
            files += [_programs() / each for each in _PROGRAMS]
        listed = "".join(f"{os.path.relpath(each, _site())},,\n" for each in files)
        (folder / "RECORD").write_text(listed)
    importlib.invalidate_caches()


def disable() -> None:
    """Removes what ``enable`` installed, and nothing else."""
    _check_environment()
    try:
        _remove()
    except OSError as error:
        raise fail("file-not-writable", str(error), "make the environment writable") from None


def _remove() -> None:
    package = _site() / PACKAGE
    if _is_ours(package / "__init__.py"):
        (package / "__init__.py").unlink()
        shutil.rmtree(package / "__pycache__", ignore_errors=True)
        if _is_ours(package / _FIRMWARE):
            shutil.rmtree(package / "target")
        if not any(package.iterdir()):
            package.rmdir()
    for name in _PROGRAMS:
        if _is_ours(_programs() / name):
            (_programs() / name).unlink()
    for name in DISTRIBUTIONS:
        if _is_ours(_metadata(name) / "METADATA"):
            shutil.rmtree(_metadata(name))
    importlib.invalidate_caches()


__all__ = ["disable", "enable", "status"]
