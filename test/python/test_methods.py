"""One method of a program that has several (docs/methods.md), against PyTorch's outputs."""
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
