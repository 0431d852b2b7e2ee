"""Programs whose inputs and outputs are int8: values and codes in, what codes mean, out."""

from pathlib import Path

import deuteron
import numpy as np
import pytest

MODEL = Path(__file__).resolve().parent.parent.parent / "models/digits_cnn"


@pytest.fixture(scope="module")
def data():
    return np.load(MODEL / "test.npz")["input"][:4]


def compiled(**options):
    return deuteron.compile(MODEL / "float.pt2", calibration=MODEL / "calibration.npz", **options)


def test_values_and_codes_give_the_same(data):
    program, other = compiled(io="int8"), compiled()
    assert other.codes == {}
    x, y = program.codes["x"], program.codes["output_0"]
    # np.rint rounds halves to even; 1 / scale in float32, as ExecuTorch's kernel has it.
    steps = np.rint(data * (np.float32(1) / np.float32(x.scale))) + x.zero_point
    codes = np.clip(steps, x.minimum, x.maximum).astype(np.int8)
    outputs = program(codes)
    assert outputs.dtype == np.int8
    np.testing.assert_array_equal(outputs, program(data))
    values = y.values(outputs)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, other(data))


def test_codes_outlive_a_file(tmp_path):
    program = compiled(io="int8")
    program.save(tmp_path / "model.pte")
    assert deuteron.load(tmp_path / "model.pte").codes == program.codes
    assert list(program.methods) == ["forward"]


def test_other_dtypes_are_refused(data):
    with pytest.raises(deuteron.Error) as error:
        compiled(io="int8")(data.astype(np.int32))
    assert error.value.id == "data-dtype"


def test_tensors(data):
    torch = pytest.importorskip("torch")
    program = compiled(io="int8")
    outputs = program(torch.from_numpy(data))
    values = program.codes["output_0"].values(outputs)
    assert values.dtype == torch.float32
    np.testing.assert_array_equal(values.numpy(), program.codes["output_0"].values(outputs.numpy()))
