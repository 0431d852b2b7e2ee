"""One method of a program that has several (docs/methods.md), against PyTorch's outputs."""
import json
import pickle

import numpy as np
import pytest
from conftest import ROOT

import deuteron

DATA = ROOT / "test/data/pte"


@pytest.mark.parametrize("method", ["prefill", "decode"])
def test_a_method_runs(method):
    inputs, outputs = np.load(DATA / f"{method}.npz"), np.load(DATA / f"{method}_outputs.npz")
    program = deuteron.load(DATA / "methods.pte", method=method)
    assert len(program.inputs) == len(inputs.files)
    arrays = [inputs[name][0] for name in inputs.files]
    for each in (program, pickle.loads(pickle.dumps(program))):
        np.testing.assert_allclose(each(*arrays), outputs["output_0"][0], atol=1e-6)
    compared = deuteron.compare(outputs, program, data=inputs, atol=1e-6)
    assert compared
    assert "method prefill" in program.inspect()


@pytest.mark.parametrize("method", ["", "nothing"])
def test_other_methods_are_refused(method):
    with pytest.raises(deuteron.Error) as error:
        deuteron.load(DATA / "methods.pte", method=method)
    assert error.value.id == "pte-missing-method"
    assert "decode, prefill, get_max_seq_len" in error.value.fix


@pytest.mark.parametrize("method", ["prefill", "decode"])
def test_functions_take_a_method(method, tmp_path):
    path = DATA / "methods.pte"
    inputs, outputs = np.load(DATA / f"{method}.npz"), np.load(DATA / f"{method}_outputs.npz")
    arrays = {name: inputs[name] for name in inputs.files}
    loaded = deuteron.load(path, method=method)
    other = deuteron.load(path, method="decode" if method == "prefill" else "prefill")
    expected = loaded(arrays)
    for program in (path, path.read_bytes(), loaded, other):
        result = deuteron.run(program, arrays, method=method).outputs[0]
        assert result.tobytes() == expected.tobytes()
        assert deuteron.compare(outputs, program, data=arrays, atol=1e-6, method=method)
    for function in (deuteron.profile, deuteron.explain):
        with pytest.raises(deuteron.Error) as error:
            function(path, method="nothing")
        assert error.value.id == "pte-missing-method"


def test_functions_and_command_take_the_same_method(digits, command, tmp_path):
    path, model = tmp_path / "m.pte", digits / "float.pt2"
    data = ("--calibrate", digits / "calibration.npz", "--keep-off", "b=conv2d_1", "-o", path)
    command("compile", f"a={model}", f"b={model}", *data)
    texts = []
    for method in ("a", "b"):
        text = command("explain", path, "--method", method)
        assert deuteron.explain(path, method=method) == text
        command(
            "eval",
            path,
            "--method",
            method,
            "--data",
            digits / "test.npz",
            "--json",
            tmp_path / "e",
        )
        figures = deuteron.eval(path, digits / "test.npz", method=method)
        assert figures == json.loads((tmp_path / "e").read_text())
        verified = deuteron.verify(path, model, digits / "test.npz", method=method)
        against = ("--against", model, "--data", digits / "test.npz")
        assert repr(verified) + "\n" == command("verify", path, "--method", method, *against)
        assert deuteron.profile(path, method=method).total_cycles == figures["total_cycles"]
        deuteron.load(path, method=method).profile().to_etdump(tmp_path / "t.etdump")
        read = deuteron.profile(tmp_path / "t.etdump", program=path, method=method)
        assert read.total_cycles == figures["total_cycles"]
        assert [row["name"] for row in read.operators if row["sources"]]
        deuteron.firmware(path, tmp_path / method, method=method)
        texts.append((text, figures["total_cycles"]))
    assert texts[0][0] != texts[1][0] and texts[0][1] < texts[1][1]
    made = [(tmp_path / method).rglob("*.cpp") for method in ("a", "b")]
    assert all(list(each) for each in made)
