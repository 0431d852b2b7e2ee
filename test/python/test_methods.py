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


def test_models_become_methods(digits, command, tmp_path):
    model, data = digits / "float.pt2", digits / "calibration.npz"
    command(
        "compile",
        f"a={model}",
        f"b={model}",
        *("--calibrate", f"a={data}", "--calibrate", f"b={data}", "--keep-off", "b=conv2d_1"),
        *("-o", tmp_path / "c.pte"),
    )
    batches = (each[None] for each in np.load(data)["input"])
    program = deuteron.compile(
        {"a": model, "b": model.read_bytes()},
        calibration={"a": data, "b": batches},
        keep_off={"b": ["conv2d_1"]},
        output=tmp_path / "p.pte",
    )
    assert program.pte == (tmp_path / "c.pte").read_bytes() == (tmp_path / "p.pte").read_bytes()
    assert program.method == "a" and list(program.methods) == ["a", "b"]
    assert repr(program).startswith("method a (others: b)\n")
    x = np.load(digits / "test.npz")["input"][:3]
    alone = {
        "a": deuteron.compile(model, data),
        "b": deuteron.compile(model, data, keep_off=["conv2d_1"]),
    }
    for name, each in program.methods.items():
        assert each.method == name and each.methods[name] is each
        assert each(x).tobytes() == alone[name](x).tobytes()
        named = {"model": each.report["model"]}
        assert each.report == {**alone[name].report, **named}
        assert each.profile().total_cycles == alone[name].profile().total_cycles
        assert each.verify(x[0])
        restored = pickle.loads(pickle.dumps(each))
        assert restored.method == name and list(restored.methods) == ["a", "b"]
        assert deuteron.run(program, x, method=name).outputs[0].tobytes() == each(x).tobytes()
    assert alone["a"].pte != alone["b"].pte
    assert alone["a"].method == "forward" and list(alone["a"].methods) == ["forward"]


def test_a_method_called_forward_is_the_program(digits):
    model, data = digits / "float.pt2", digits / "calibration.npz"
    program = deuteron.compile({"other": model, "forward": model}, data)
    assert program.method == "forward"
    read = deuteron.load(program.pte)
    assert read.method == "forward" and list(read.methods) == ["other", "forward"]


@pytest.mark.parametrize(
    ("models", "options", "reason"),
    [
        ({}, {}, "there is no model: the dict is empty"),
        ({"2nd": None}, {}, "'2nd' cannot be the name of a method"),
        ({"a" * 65: None}, {}, "cannot be the name of a method"),
        ({"a": None}, {"stop_at": "x"}, "stop_at is for one model, and there are methods"),
        ({"a": None}, {"data": {"x": [1]}}, "data is for one model, and there are methods"),
        ({"a": 3}, {}, "a model cannot be made of int"),
        (
            {"a": b"", "b": b""},
            {"calibration": {"a": "x.npz", "c": "y.npz"}},
            "calibration has a value for 'c', which is no method",
        ),
        (
            {"a": b"", "b": b""},
            {"calibration": iter([np.zeros(3)])},
            "calibration is an iterator, which ends after the first method",
        ),
        ({"a": b"", "b": b""}, {"keep_off": {"a": 3}}, "keep_off cannot be 3, of type int"),
        ({"a": b"", "b": b""}, {"dims": {"b": {"x.0": 0}}}, "dims['x.0'] is 0"),
    ],
)
def test_bad_methods_are_refused(models, options, reason):
    with pytest.raises(deuteron.Error) as error:
        deuteron.compile(models, **options)
    assert error.value.id in ("python-argument", "python-model")
    assert reason in error.value.reason


def test_a_name_is_text(digits):
    with pytest.raises(TypeError):
        deuteron.compile({3: digits / "float.pt2"})
