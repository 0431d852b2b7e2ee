"""Programs that keep states between runs: calls are one stream, as calls of the module are."""
from pathlib import Path

import deuteron
import numpy
import pytest

DATA = Path(__file__).resolve().parent.parent / "data/states"


@pytest.fixture(scope="module")
def arrays():
    return dict(numpy.load(DATA / "ring.npz"))


@pytest.fixture
def program():
    return deuteron.compile(str(DATA / "ring.pt2"), target="executorch")


def close(a, b):
    """Calls leave out a batch axis of 1 where they get several samples."""
    return numpy.allclose(a, numpy.reshape(b, numpy.shape(a)), atol=1e-5)


def test_calls_are_a_stream(program, arrays):
    x, y = arrays["input_0"], arrays["output_0"]
    for step in range(3):
        assert close(program(x[step]), y[step])
    assert close(program(x[3:]), y[3:])  # samples of a call are consecutive pieces
    program.reset()
    assert close(program(x), y)


def test_other_uses_have_their_own_states(program, arrays):
    x, y = arrays["input_0"], arrays["output_0"]
    assert close(program(x[0]), y[0])
    program.profile(x[4])
    program.verify(x)
    assert close(program(x[1]), y[1])


def test_states_are_told(program):
    (state,) = program.states
    assert (state.name, tuple(state.shape)) == ("frames", (1, 3, 4))
    assert "state 0" in program.inspect()


def test_repeat_is_refused(program, arrays):
    with pytest.raises(deuteron.Error, match="keeps states between runs"):
        program.run(arrays["input_0"], repeat=2)


def test_a_copy_begins_anew(program, arrays):
    x, y = arrays["input_0"], arrays["output_0"]
    program(x[:4])
    assert close(deuteron.load(program.pte)(x[0]), y[0])
