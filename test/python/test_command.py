"""Python and the command line are two doors to one library: the same bytes, figures and texts."""
import json
import multiprocessing
import re
import shutil
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy
import pytest

import deuteron
from conftest import ROOT

OPTIONS = [
    {},
    {"io": "int8"},
    {"target": "imxrt700cm"},
    {"target": "cortex-m55"},
    {"observer": "min-max", "schedule": "nxp-like"},
    {"constants": "sram", "debug_map": False},
    {"sram": "64K", "optimize": "size"},
    {"keep_off": ["conv2d_1"], "force_on": ["all"]},
    {"stop_at": "add"},
    {"equalize": True, "round_weights": "error", "keep_float": ["op:linear"]},
]


def flags(options):
    for name, value in options.items():
        if isinstance(value, bool):
            yield f"--{'' if value else 'no-'}{name.replace('_', '-')}"
            continue
        for each in value if isinstance(value, list) else [value]:
            yield f"--{name.replace('_', '-')}"
            yield str(each)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "none")
def test_compile_writes_the_same_bytes(digits, command, tmp_path, options):
    model, data = digits / "float.pt2", digits / "calibration.npz"
    command("compile", model, "--calibrate", data, "-o", tmp_path / "c.pte", *flags(options))
    expected = (tmp_path / "c.pte").read_bytes()
    assert deuteron.compile(model, calibration=data, **options).pte == expected
    # From memory, and from batches of 7 with labels behind them.
    images = numpy.load(data)["input"]
    batches = ((images[i : i + 7], i) for i in range(0, len(images), 7))
    assert deuteron.compile(model.read_bytes(), calibration=batches, **options).pte == expected


def test_calibration_samples_are_those_of_the_command(digits, command, tmp_path, capsys):
    """Evenly spaced ones of a file, of an array and of batches; of more than 1,024 without being asked."""
    images = numpy.load(digits / "calibration.npz")["input"]
    many = numpy.concatenate([images + numpy.float32(i / 100) for i in range(9)])
    assert len(many) > 1024
    model, data = digits / "float.pt2", tmp_path / "many.npz"
    numpy.savez(data, input=many)
    unlimited = {"calibration_samples": 2 * len(many)}
    written = {}
    for options, count in (({"calibration_samples": 30}, 30), ({}, 1024), (unlimited, len(many))):
        command("compile", model, "--calibrate", data, "-o", tmp_path / "c.pte", *flags(options))
        written[count] = (tmp_path / "c.pte").read_bytes()
        for same in (data, many, (many[i : i + 50] for i in range(0, len(many), 50))):
            assert deuteron.compile(model, same, **options).pte == written[count]
            note = capsys.readouterr().err
            assert ("take more of them with calibration_samples\n" in note) == (count < len(many))
            assert "--" not in note
    assert len(set(written.values())) == len(written)


def test_open_dimensions_get_their_sizes(command, tmp_path):
    """The sizes of an export with dynamic shapes, by input and dimension, and by its own name."""
    model = ROOT / "test/data/pt2/symbolic.pt2"
    options = ("--calibrate-random", "1", "-o", tmp_path / "c.pte")
    command("compile", model, "--dim", "x.0=7", *options)
    expected = (tmp_path / "c.pte").read_bytes()
    with pytest.raises(deuteron.Error) as refused:
        deuteron.compile(model, calibrate_random=1)
    name = re.search(r'dims=\{"(\w+)": 4\}', refused.value.fix)[1]
    for dims in ({"x.0": 7}, {name: 7}):
        program = deuteron.compile(model, calibrate_random=1, dims=dims)
        assert program.pte == expected and program.inputs[0].shape[0] == 7
    # Without `dims` they have the sizes of a file with samples.
    shape = program.inputs[0].shape
    data = numpy.random.default_rng(1).standard_normal((5, 4, *shape[1:]), numpy.float32)
    numpy.savez(tmp_path / "c.npz", x=data)
    assert deuteron.compile(model, tmp_path / "c.npz").inputs[0].shape == (4, *shape[1:])
    for dims in ({"x.0": 0}, {"x.0": 7, name: 8}, {"no such": 7}, {"x.0": "seven"}):
        with pytest.raises(deuteron.Error):
            deuteron.compile(model, calibrate_random=1, dims=dims)


def test_every_verb_of_the_command_is_a_function(command):
    verbs = re.findall(r"^  ([a-z][a-z-]+) {2,}[A-Z]", command("--help"), re.MULTILINE)
    assert len(verbs) >= 12 and "qat-prepare" in verbs, verbs
    for verb in verbs:
        assert callable(getattr(deuteron, verb.replace("-", "_"))), verb


def test_every_option_of_the_command_is_an_argument(command):
    import inspect

    named = {
        "calibrate": "calibration",
        "dim": "dims",
        "no_check": "check",
        "no_debug_map": "debug_map",
        "no_checksum": "checksum",
    }
    # What is not an argument: functions return it, methods of what they return write it, or
    # `evaluate` and its executors do it. Child processes of the interpreter are the user's to make:
    # searches run in threads. `checked` is DEUTERON_CHECKED in the environment, for all sessions.
    elsewhere = {
        "compile": "processes",
        "explore": "processes",
        "run": "checked stats_json profile profile_events debug_buffer",
        "eval": "checked processes checkpoint resume",
        "verify": "checked processes",
        "convert": "input verbose",
        "ops": "tflite onnx pt2",
        "targets": "json fields",
        "profile": "by sort filter depth compare compare_program compare_etrecord compile_report "
        "verify etdump json csv perfetto html",
    }
    verbs = re.findall(r"^  ([a-z][a-z-]+) {2,}[A-Z]", command("--help"), re.MULTILINE)
    for verb in verbs:
        arguments = inspect.signature(getattr(deuteron, verb.replace("-", "_"))).parameters
        options = re.findall(r"^  (?:-\w,)?--([a-z0-9-]+)", command(verb, "--help"), re.MULTILINE)
        names = {option.replace("-", "_") for option in options}
        names -= {"help", "diagnostics", "version", "tensors", "markdown"}
        others = set(elsewhere.get(verb, "").split())
        assert others <= names, verb
        for name in names - others:
            assert named.get(name, name) in arguments, f"{verb} --{name}"


def test_a_call_is_a_run(digits, command, program, images, tmp_path):
    program.save(tmp_path / "p.pte")
    command(
        "run", tmp_path / "p.pte", "--input", digits / "test.npz", "--output", tmp_path / "y.npz"
    )
    expected = numpy.load(tmp_path / "y.npz")["output_0"]
    actual = program(images)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes()
    one = program(images[:1])
    assert one.shape == (1, 10) and one.tobytes() == expected[:1].tobytes()
    result = deuteron.run(program, digits / "test.npz", samples=5, output=tmp_path / "p.npz")
    assert result.outputs[0].tobytes() == expected[:5].tobytes()
    assert numpy.load(tmp_path / "p.npz")["output_0"].tobytes() == expected[:5].tobytes()


def test_a_run_on_a_board_is_a_run(digits, command, program, images, tmp_path):
    if not shutil.which("qemu-system-arm") or not shutil.which("arm-none-eabi-g++"):
        pytest.skip("no QEMU or Arm compiler")
    here = program.run(images[:1])
    there = deuteron.run(program, {"x": images[:1]}, on="qemu", output=tmp_path / "y.npz")
    assert there.outputs[0].tobytes() == here.outputs[0].tobytes()
    assert numpy.load(tmp_path / "y.npz")["output_0"].tobytes() == here.outputs[0].tobytes()
    assert there.stats["npu_total_cycles"] == here.stats["npu_total_cycles"]
    program.save(tmp_path / "p.pte")
    numpy.savez(tmp_path / "x.npz", x=images[:1])
    options = ("--on", "qemu", "--stats-json", tmp_path / "s.json")
    command("run", tmp_path / "p.pte", "--input", tmp_path / "x.npz", *options)
    steps = json.loads((tmp_path / "s.json").read_text())["steps"]
    assert there.stats["steps"] == steps and sum(each["instructions"] for each in steps) > 0
    with pytest.raises(deuteron.Error, match="toaster"):
        program.run(images[:1], on="toaster")


def test_verify_gives_the_same_table(digits, command, program, images, tmp_path):
    program.save(tmp_path / "p.pte")
    text = command(
        "verify",
        tmp_path / "p.pte",
        "--against",
        digits / "float.pt2",
        "--data",
        digits / "test.npz",
        "--json",
        tmp_path / "v.json",
    )
    verified = program.verify(images[:1])
    assert repr(verified) == text.rstrip("\n")
    assert verified.to_json() == (tmp_path / "v.json").read_text()
    assert verified and verified.first_bad is None
    assert not program.verify(images[:1], min_sqnr=60)
    assert program.verify(images[:1], min_sqnr=60).first_bad.name == "relu"


def test_profile_writes_the_same_files(command, program, tmp_path):
    path = tmp_path / "p.pte"
    program.save(path)
    text = command("profile", path, "--perfetto", tmp_path / "t.json", "--csv", tmp_path / "t.csv")
    profile = deuteron.profile(path)

    def simulated(lines):  # without the times of this computer
        return [line for line in lines.splitlines() if "the computer that simulated" not in line]

    assert simulated(profile.text()) == simulated(text)
    assert profile.to_perfetto() == (tmp_path / "t.json").read_text()
    assert profile.to_csv() == (tmp_path / "t.csv").read_text()
    assert profile.total_cycles == program.profile().total_cycles == 82653
    assert program.profile().to_html().startswith("<!")


def test_traces_are_read_back(command, program, images, tmp_path):
    program.save(tmp_path / "p.pte")
    program.profile(images[:2]).to_etdump(tmp_path / "t.etdump")
    assert "= 82,653 =" in command(
        "profile", tmp_path / "t.etdump", "--program", tmp_path / "p.pte"
    )
    read = deuteron.profile(tmp_path / "t.etdump", program=tmp_path / "p.pte")
    assert read.total_cycles == 82653
    assert "conv2d" in read.compare(program.profile())


def test_eval_gives_the_same_figures(digits, command, program, tmp_path):
    program.save(tmp_path / "p.pte")
    command(
        "eval", tmp_path / "p.pte", "--data", digits / "test.npz", "--json", tmp_path / "e.json"
    )
    expected = json.loads((tmp_path / "e.json").read_text())
    assert deuteron.eval(program, digits / "test.npz") == expected
    assert program.eval(dict(numpy.load(digits / "test.npz"))) == expected
    against = deuteron.eval(tmp_path / "p.pte", digits / "test.npz", against=digits / "float.pt2")
    assert against["float_accuracy"] == expected["float_accuracy"]


@pytest.mark.parametrize("kind", ["threads", "processes", "none"])
def test_evaluate_on_an_executor_gives_the_same_figures(digits, program, kind):
    data = digits / "test.npz"
    expected = deuteron.eval(program, data)
    against = deuteron.eval(program, data, against=digits / "float.pt2")
    if kind == "none":
        assert deuteron.evaluate(program, data) == expected
        return
    with (
        ThreadPoolExecutor(3)
        if kind == "threads"
        else ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))
    ) as executor:
        assert deuteron.evaluate(program, data, executor) == expected
        arrays = dict(numpy.load(data))
        assert deuteron.evaluate(program, arrays, executor, chunks=7) == expected
        assert (
            deuteron.evaluate(program, data, executor, against=digits / "float.pt2", chunks=1000)
            == against
        )
        with pytest.raises(deuteron.Error) as caught:
            deuteron.evaluate(program, {**arrays, "label": arrays["label"][1:]}, executor)
        assert caught.value.id == "data-shape"


def test_evaluate_passes_on_what_an_executor_raises(digits, program):
    class Broken(ThreadPoolExecutor):
        def submit(self, function, *arguments):
            return super().submit(lambda: 1 / 0)

    class Wrong(ThreadPoolExecutor):
        def submit(self, function, *arguments):
            return super().submit(lambda: b"x")

    with Broken() as executor, pytest.raises(ZeroDivisionError):
        deuteron.evaluate(program, digits / "test.npz", executor)
    with Wrong() as executor, pytest.raises(deuteron.Error) as caught:
        deuteron.evaluate(program, digits / "test.npz", executor)
    assert caught.value.id == "run-failed"


def test_results_do_not_depend_on_the_threads(digits, program, images):
    runs = [program.run(images[:40], threads=threads).outputs for threads in (1, 2, 5, 0)]
    for outputs in runs[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(runs[0], outputs, strict=True))
    tables = [
        str(program.verify(images[:9], against=digits / "float.pt2", threads=threads))
        for threads in (1, 2, 5)
    ]
    assert tables[0] == tables[1] == tables[2]


def test_compare_gives_the_same_figures(digits, command, program, images, tmp_path):
    program.save(tmp_path / "p.pte")
    text = command(
        "compare",
        digits / "float.pt2",
        tmp_path / "p.pte",
        "--data",
        digits / "test.npz",
        "--samples",
        "9",
        "--json",
        tmp_path / "c.json",
    )
    compared = deuteron.compare(
        digits / "float.pt2", program, data={"input": images}, samples=9, min_sqnr=20
    )
    assert repr(compared) == text.rstrip("\n") and compared
    assert compared.outputs == json.loads((tmp_path / "c.json").read_text())
    assert not deuteron.compare(digits / "float.pt2", program, data=images[:9], min_sqnr=90)
    same = deuteron.compare({"output_0": program(images[:4])}, {"output_0": program(images[:4])})
    assert same.outputs[0]["different"] == 0


def test_texts_are_the_same(command, program, tmp_path):
    program.save(tmp_path / "p.pte")
    assert program.explain("conv2d_1") == command("explain", tmp_path / "p.pte", "conv2d_1")
    loaded = deuteron.load(tmp_path / "p.pte")
    assert loaded.inspect() == command("inspect", tmp_path / "p.pte")
    assert deuteron.inspect(tmp_path / "p.pte") == command("inspect", tmp_path / "p.pte")
    assert [each["name"] for each in deuteron.targets()][0] == "imxrt700"
    assert len(deuteron.ops()) == len(command("ops").splitlines())


def test_firmware_writes_the_same_project(command, program, tmp_path):
    program.save(tmp_path / "model.pte")
    command("firmware", tmp_path / "model.pte", "-o", tmp_path / "theirs")
    changes = program.firmware(tmp_path / "ours")
    assert set(changes) == {"kept", "beside", "unused", "removed"}
    names = sorted(p.relative_to(tmp_path / "ours") for p in (tmp_path / "ours").rglob("*"))
    assert names == sorted(
        p.relative_to(tmp_path / "theirs") for p in (tmp_path / "theirs").rglob("*")
    )
    for name in names:
        if (tmp_path / "ours" / name).is_file():
            assert (tmp_path / "ours" / name).read_bytes() == (
                tmp_path / "theirs" / name
            ).read_bytes()


def test_qat_prepare_writes_the_same_archive(digits, command, tmp_path):
    command(
        "qat-prepare",
        digits / "float.pt2",
        "--calibrate",
        digits / "calibration.npz",
        "-o",
        tmp_path / "q.pt2",
    )
    prepared = deuteron.qat_prepare(
        digits / "float.pt2", calibration=dict(numpy.load(digits / "calibration.npz"))
    )
    assert prepared.archive == (tmp_path / "q.pt2").read_bytes()
    assert prepared.activations > 0 and "batch norms" in repr(prepared)
