"""The search of accuracy="auto": the command's program and table, and how it ends."""
import json
import pickle

import numpy
import pytest

import deuteron
from conftest import ROOT
from test_bad_input import interpreter, refused

MODELS = ROOT / "test/data/accuracy"


@pytest.fixture(scope="module")
def tuned():
    return deuteron.compile(MODELS / "regression.pt2", MODELS / "regression.npz", accuracy="auto")


def test_the_command_makes_the_same_program(command, tuned, tmp_path):
    text = command(
        "compile",
        MODELS / "regression.pt2",
        "--calibrate",
        MODELS / "regression.npz",
        "--accuracy",
        "auto",
        "--report-json",
        tmp_path / "r.json",
        "-o",
        tmp_path / "c.pte",
    )
    assert tuned.pte == (tmp_path / "c.pte").read_bytes()
    assert repr(tuned.accuracy) in text and repr(tuned) in text
    expected = json.loads((tmp_path / "r.json").read_text())["accuracy"]
    assert [each._asdict() for each in tuned.accuracy.steps] == expected["steps"]
    # Samples from memory are bound once, and searched over as those of a file.
    data = dict(numpy.load(MODELS / "regression.npz"))
    again = deuteron.compile(MODELS / "regression.pt2", data, accuracy="auto")
    assert again.pte == tuned.pte


def test_the_summary_says_what_was_gained(tuned):
    search = tuned.accuracy
    assert search and search.own_goal and "35.0 dB" in search.goal and search.cut is None
    assert (search.calibrated, search.judged, search.held_out) == (24, 8, True)
    assert search.steps[0].verdict == "start"
    kept = [each for each in search.steps if each.verdict == "kept"]
    assert "equalize" in [each.name for each in kept]
    assert search.result.sqnr_db > search.default.sqnr_db + 3
    assert search.float_accuracy is None and search.result.accuracy is None
    assert "equalize" in search._repr_html_()
    assert repr(search).startswith("accuracy auto:")  # without the report before it
    # What the steps were is an option each: the same settings by hand give the same program.
    copied = pickle.loads(pickle.dumps(tuned))
    assert repr(copied.accuracy) == repr(search)
    plain = deuteron.compile(MODELS / "regression.pt2", MODELS / "regression.npz")
    assert plain.accuracy is None and deuteron.load(tuned.pte).accuracy is None


def test_options_of_the_result_make_it():
    model, calibration = MODELS / "relu6.pt2", MODELS / "relu6.npz"
    tuned = deuteron.compile(model, calibration, accuracy="auto")
    words = tuned.accuracy.result.options
    after = {word: words[i + 1] for i, word in enumerate(words[:-1])}
    by_hand = deuteron.compile(
        model,
        calibration,
        equalize="--equalize" in words,
        rotate="--rotate" in words,
        round_weights=after.get("--round-weights", "nearest"),
        observer=after.get("--observer", "histogram"),
        keep_float=[words[i + 1] for i, word in enumerate(words) if word == "--keep-float"],
    )
    assert {"--equalize", "--observer", "--keep-float"} <= set(words)
    assert by_hand.pte == tuned.pte


def test_labelled_samples_judge_too(digits, tmp_path):
    test = {name: array[:40] for name, array in numpy.load(digits / "test.npz").items()}
    classes = {"input": test["input"], "digit": test["label"]}
    numpy.savez(tmp_path / "t.npz", **classes)
    options = {"accuracy": "auto", "labels": "digit", "max_loss": 50}
    model, data = digits / "float.pt2", digits / "calibration.npz"
    program = deuteron.compile(model, data, data=classes, **options)
    search = program.accuracy
    assert search and search.labelled == 40 and "50.00 points" in search.goal
    assert search.float_accuracy > 0.9 and search.result.accuracy > 0.9
    right = numpy.mean(program(test["input"]).argmax(1) == test["label"])
    assert search.result.accuracy == pytest.approx(right)
    of_file = deuteron.compile(model, data, data=tmp_path / "t.npz", **options)
    assert of_file.pte == program.pte and repr(of_file.accuracy) == repr(search)


def test_a_search_that_ends_early_is_a_warning(digits):
    with pytest.warns(deuteron.DeuteronWarning, match="accuracy-cut.*the time is over"):
        program = deuteron.compile(
            MODELS / "regression.pt2", MODELS / "regression.npz", accuracy="auto", seconds=0
        )
    assert program.accuracy.cut == "the time is over"
    assert program.accuracy.result.sqnr_db >= program.accuracy.default.sqnr_db
    with pytest.warns(deuteron.DeuteronWarning) as seen:
        program = deuteron.compile(
            MODELS / "regression.pt2",
            MODELS / "regression.npz",
            accuracy="auto",
            min_sqnr=98,
            seconds=0,
        )
    assert {str(each.message).split("]")[0] for each in seen} == {
        "warning[accuracy-cut",
        "warning[accuracy-unmet",
        "warning[check-inaccurate",
    }
    assert all(each.filename == __file__ for each in seen)
    assert not program.accuracy and program.accuracy.goal == "98.0 dB"


@pytest.mark.parametrize(
    "id, words, options",
    [
        ("python-argument", "accuracy", {"accuracy": "best"}),
        ("python-argument", "round_weights", {"round_weights": "up"}),
        ("python-argument", "seconds is -1", {"accuracy": "auto", "seconds": -1}),
        ("python-argument", "seconds is nan", {"accuracy": "auto", "seconds": float("nan")}),
        ("python-data", "data has no arrays", {"accuracy": "auto", "data": {}}),
        ("accuracy-options", 'data is for accuracy="auto"', {"data": {"input": [1.0]}}),
        ("accuracy-options", "labelled samples", {"accuracy": "auto", "max_loss": 0.5}),
        ("accuracy-options", "`few`", {"accuracy": "auto", "data": "t.npz", "max_loss": "few"}),
        ("accuracy-options", "`nan`", {"accuracy": "auto", "data": "t.npz", "max_loss": "nan"}),
        ("file-not-found", "t.npz", {"accuracy": "auto", "data": "t.npz"}),
        ("data-missing-array", "label", {"accuracy": "auto", "data": "unlabelled"}),
        ("node-unknown", "conv9", {"keep_float": "conv9"}),
    ],
)
def test_arguments_that_do_not_fit(digits, images, id, words, options):
    if options.get("data") == "unlabelled":
        options = {**options, "data": {"input": images[:4]}}
    data = digits / "calibration.npz"
    error = refused(id, lambda: deuteron.compile(digits / "float.pt2", data, **options))
    assert words in str(error) and "--" not in str(error)


def test_samples_are_needed(digits):
    model = digits / "float.pt2"
    refused("accuracy-options", lambda: deuteron.compile(model, accuracy="auto"))
    refused(
        "accuracy-options", lambda: deuteron.compile(model, calibrate_random=8, accuracy="auto")
    )
    refused(
        "calibration-unused",
        lambda: deuteron.compile(
            digits / "quantized.pt2", digits / "calibration.npz", accuracy="auto"
        ),
    )


INTERRUPTED = """
    import os, signal, sys, warnings
    import deuteron
    from deuteron import _progress
    folder, times = sys.argv[1:]
    tried = []
    class Progress(_progress.Progress):
        def step(self, name):
            tried.append(name)
            if len(tried) == 3:
                os.kill(os.getpid(), signal.SIGINT)
    deuteron._compile.Progress = Progress
    if times == "2":  # in the warning that the search was cut: the program is not returned yet
        deuteron._compile.warn = lambda _: os.kill(os.getpid(), signal.SIGINT)
    with warnings.catch_warnings(record=True) as seen:
        try:
            program = deuteron.compile(
                f"{folder}/mobilenet_v3.pt2", f"{folder}/mobilenet_v3.npz", accuracy="auto",
                min_sqnr=98, seconds=600,
            )
        except KeyboardInterrupt:
            print("KeyboardInterrupt")
            raise SystemExit
    print(program.accuracy.cut, len(program.accuracy.steps), len(tried))
    print(sum("accuracy-cut" in str(each.message) for each in seen))
"""


@pytest.mark.plain
def test_an_interrupt_keeps_the_best_so_far():
    process = interpreter(INTERRUPTED, MODELS, "1")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out.split() == ["interrupted", "2", "3", "1"]


@pytest.mark.plain
def test_a_second_interrupt_ends_the_call():
    process = interpreter(INTERRUPTED, MODELS, "2")
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out.strip()) == (0, "KeyboardInterrupt"), err


def test_share_of_an_operator_is_that_of_all_its_tensors():
    rows = [{"name": "lstm", "share": share} for share in (0.25, None, 0.5)]
    found = deuteron.QuantizationReport(
        {
            "operators": [*rows, {"name": "linear", "share": -0.125}],
            "tensors": [],
            "float_operators": [],
            "outputs_db": 30.0,
            "first_bad": "",
            "advice": None,
        }
    )
    assert found.share("lstm") == 0.75
    assert found.share("linear") == -0.125


def test_shares_of_the_error(tmp_path, capsys):
    model = MODELS / "regression.pt2"
    plain = deuteron.compile(model, MODELS / "regression.npz")
    assert plain.quantization is None
    path = tmp_path / "q.json"
    made = deuteron.compile(
        model, MODELS / "regression.npz", report_quantization=True, quantization_json=path
    )
    capsys.readouterr()
    found = made.quantization
    assert found.document == json.loads(path.read_text())
    assert abs(sum(row["share"] for row in found.operators if row["share"]) - 1) < 1e-3
    worst = found.operators[0]
    assert found.share(worst["name"]) >= worst["share"] > 0.1
    assert worst["name"] in found.advice and found.advice in repr(found)
    page = found.to_html(tmp_path / "q.html")
    assert (tmp_path / "q.html").read_text() == page
    assert f"{100 * worst['share']:.1f} %" in page and worst["name"] in page
    with pytest.raises(KeyError):
        found.share("no such operator")
    # Without a file of its own.
    again = deuteron.compile(model, MODELS / "regression.npz", report_quantization=True)
    capsys.readouterr()
    assert again.quantization.document == found.document and again.pte == plain.pte
