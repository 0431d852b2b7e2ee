"""deuteron.eiq: NXP's names in a virtual environment, and the converter behind them."""

import os
import subprocess
import sys
import sysconfig
import venv

import numpy
import pytest

import deuteron
from conftest import ROOT

IR = ROOT / "test/data/conformance/conv_097/neutron_ir_0.tflite"


def test_convert_writes_the_same_model(command, tmp_path):
    command("convert", IR, tmp_path / "y.tflite", "--kernel-selection", tmp_path / "k.c")
    made = deuteron.convert(IR, tmp_path / "z.tflite", kernel_selection=tmp_path / "l.c")
    assert (
        made.model == (tmp_path / "y.tflite").read_bytes() == (tmp_path / "z.tflite").read_bytes()
    )
    assert made.kernel_selection == (tmp_path / "k.c").read_text() == (tmp_path / "l.c").read_text()
    assert (made.operators, made.converted, made.graphs) == (3, 3, 1)
    assert deuteron.convert(IR.read_bytes()).model == made.model
    # ExecuTorch cuts the log at this word, and reads nothing of one that has other than two.
    assert made.log.count("Graphs:") == 2
    with pytest.raises(deuteron.Error) as error:
        deuteron.convert(b"no model")
    assert error.value.id == "model-unknown"


def test_the_sdk_of_upstream(tmp_path, monkeypatch):
    from deuteron.eiq import sdk

    assert sdk.neutron_library_utils.isNeutronTarget("imxrt700")
    assert not sdk.neutron_library_utils.isNeutronTarget("imxrt7000")
    assert "imxrt700" in [each.name for each in sdk.neutron_library_utils.getNeutronTargets()]
    with pytest.raises(ValueError):
        sdk.neutron_converter.getNeutronTarget("imxrt7000")
    context = sdk.neutron_converter.CompilationContext()
    context.targetOpts = sdk.neutron_converter.getNeutronTarget("imxrt700")
    context.compilationOpts.dumpKernelSelectionCode = True
    monkeypatch.chdir(tmp_path)
    made = sdk.neutron_converter.convertModel(list(IR.read_bytes()), context)
    assert bytes(made) == deuteron.convert(IR).model
    sdk.merge_kernel_selection_files(["_kernel_selection.c"] * 2, "merged.c")
    assert (tmp_path / "merged.c").read_text() == (tmp_path / "_kernel_selection.c").read_text()


def test_the_runner_of_upstream(tmp_path, monkeypatch, capsys):
    from deuteron.eiq import runner

    data = ROOT / "test/data/eiq"
    (tmp_path / "set").mkdir()
    numpy.load(data / "convolution.npz")["input_0"].tofile(tmp_path / "set/a.bin")
    words = ["--model", str(data / "convolution.pte"), "--output", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["run", *words, "--dataset", str(tmp_path / "set")])
    assert runner.main() == 0
    expected = numpy.load(data / "convolution_expected.npz")["output_0"]
    assert (tmp_path / "out/a.bin/0000.bin").read_bytes() == expected.tobytes()
    assert "Finished..." in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["run", *words, "--inputs", str(tmp_path / "none")])
    assert runner.main() == 1


@pytest.fixture
def environment(tmp_path):
    """Runs Python in a virtual environment that has what this one has."""
    folder = tmp_path / "environment"
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    with open(f"{found}/base.pth", "w") as file:
        file.write(sysconfig.get_paths()["purelib"] + "\n")

    def run(*arguments):
        return subprocess.run([python, *arguments], capture_output=True, text=True, cwd=tmp_path)

    run.folder, run.site = folder, found
    return run


def test_enable_and_disable(environment):
    before = sorted(os.listdir(environment.site))
    assert "not installed" in environment("-m", "deuteron.eiq", "status").stdout
    for _ in range(2):
        done = environment("-m", "deuteron.eiq", "enable")
        assert done.returncode == 0 and "eiq_neutron_sdk: Deuteron" in done.stdout, done.stderr
    done = environment(
        "-c",
        "import importlib.metadata as m; from eiq_neutron_sdk import neutron_converter as c;"
        "print(c.getNeutronTarget('imxrt700').name, m.version('eiq_nsys'))",
    )
    assert done.stdout.split() == ["imxrt700", "0.0+deuteron"], done.stderr
    assert os.access(environment.folder / "bin/nxp_executor_runner", os.X_OK)
    assert environment("-m", "deuteron.eiq", "disable").returncode == 0
    assert sorted(os.listdir(environment.site)) == before
    assert not (environment.folder / "bin/nsys").exists()


def test_nothing_shadows_the_real_sdk(environment):
    package = f"{environment.site}/eiq_neutron_sdk"
    os.mkdir(package)
    with open(f"{package}/__init__.py", "w") as file:
        file.write("neutron_converter = None\n")
    for action in ("enable", "disable"):
        done = environment("-m", "deuteron.eiq", action)
        with open(f"{package}/__init__.py") as file:
            assert file.read() == "neutron_converter = None\n"
        assert not (environment.folder / "bin/nsys").exists()
        if action == "enable":
            assert done.returncode == 1 and "is installed here, and stays" in done.stderr


def test_only_in_a_virtual_environment(monkeypatch):
    from deuteron import eiq

    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(deuteron.Error, match="virtual environment"):
        eiq.enable()
