"""Every argument of every function, with values that it cannot have: an error that says which."""
import inspect
import warnings

import numpy
import pytest

import deuteron

NOT_NUMBERS = [
    float("nan"),
    float("inf"),
    -float("inf"),
    True,
    10**5000,
    b"1",
    [1],
    "nan",
]
WRONG = [3, -1, 2.5, float("nan"), True, "x", b"x", "\udcff", object(), [3], {3: 3}, (), len]


@pytest.fixture(scope="module")
def calls(digits, program, tmp_path_factory):
    """Each function with arguments that are right."""
    folder = tmp_path_factory.mktemp("arguments")
    path, model = folder / "p.pte", digits / "float.pt2"
    program.save(path)
    few = {"input": numpy.load(digits / "test.npz")["input"][:2]}
    few["label"] = numpy.load(digits / "test.npz")["label"][:2]
    x, profile = few["input"], program.profile()
    return {
        deuteron.compile: {"model": model, "calibration": digits / "calibration.npz"},
        deuteron.load: {"program": path},
        deuteron.run: {"program": path, "input": x},
        deuteron.eval: {"program": path, "data": few},
        deuteron.evaluate: {"program": path, "dataset": few},
        deuteron.verify: {"program": path, "against": model, "data": x},
        deuteron.compare: {"a": model, "b": path, "data": x},
        deuteron.explain: {"program": path},
        deuteron.firmware: {"programs": path, "output": folder / "f"},
        deuteron.inspect: {"file": path},
        deuteron.profile: {"trace": path},
        deuteron.explore: {"model": model, "calibration": digits / "calibration.npz", "points": 2},
        deuteron.qat_prepare: {"model": model},
        deuteron.convert: {"model": b"no model"},
        program.verify: {"data": x},
        program.profile: {"data": x},
        program.explain: {},
        program.eval: {"data": few},
        program.save: {"path": folder / "q.pte"},
        program.firmware: {"output": folder / "g"},
        profile.text: {},
        profile.to_csv: {},
        profile.to_html: {},
        profile.compare: {"other": profile},
    }


def parameters(function):
    for name, each in inspect.signature(function).parameters.items():
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            yield name, str(each.annotation)


def test_numbers_are_checked(calls):
    count = 0
    for function, right in calls.items():
        for name, annotation in parameters(function):
            kinds = set(annotation.split(" | "))
            if not kinds & {"int", "float"}:
                continue
            least = [] if name == "min_sqnr" else [-1]
            for value in [*NOT_NUMBERS, *least, *([] if "float" in kinds else [1.5, 2**70])]:
                if isinstance(value, str) and "str" in kinds:
                    continue
                with pytest.raises(deuteron.Error) as caught:
                    function(**{**right, name: value})
                    pytest.fail(f"{function.__name__}({name}={value!r:.30}) is taken")
                assert caught.value.fix, (function, name, value)
                count += 1
    assert count > 250
    for value in (float("nan"), float("inf"), True, "3", -1):
        with pytest.raises(deuteron.Error):
            deuteron.load(calls[deuteron.load]["program"]).run(
                calls[deuteron.run]["input"], repeat=value
            )


def test_wrong_types_are_errors_of_ours(calls, tmp_path, monkeypatch):
    """Each value is taken, where it has a meaning, or refused: nothing else is raised."""
    monkeypatch.chdir(tmp_path)
    others = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function, right in calls.items():
            for name, annotation in parameters(function):
                for value in WRONG:
                    try:
                        function(**{**right, name: value})
                    except deuteron.Error as error:
                        if not error.reason:
                            others.append((function.__name__, name, value, "no reason"))
                    except Exception as error:
                        others.append((function.__name__, name, value, repr(error)[:200]))
    assert not others, "\n".join(map(repr, others))


def test_flags_are_bools(calls):
    for function, right in calls.items():
        for name, annotation in parameters(function):
            if annotation not in ("bool", "bool | None"):
                continue
            for value in ("no", 3, numpy.zeros(2)):
                with pytest.raises(deuteron.Error, match="python-argument"):
                    function(**{**right, name: value})
