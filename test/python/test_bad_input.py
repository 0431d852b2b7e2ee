"""Bad input and limits: a clear error or a right result, never a crash of the interpreter."""
import copy
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy
import pytest

import deuteron

from conftest import slow


def refused(id, call, *arguments, **named):
    with pytest.raises(deuteron.Error) as caught:
        call(*arguments, **named)
    error = caught.value
    assert error.id == id, str(error)
    assert error.reason and isinstance(error.place, deuteron.Place)
    assert str(error).startswith(f"error[{id}]: ")
    assert "--" not in str(error), "an option of the command, not an argument"
    return error


# ---- what an error says


def test_an_error_has_id_place_reason_and_fix(digits):
    error = refused("calibration-missing", deuteron.compile, digits / "float.pt2")
    assert error.place.file == str(digits / "float.pt2")
    assert "calibration" in error.fix and "calibrate_random" in error.fix
    assert pickle.loads(pickle.dumps(error)).id == error.id
    assert isinstance(error, Exception) and not isinstance(error, ValueError)


@pytest.mark.parametrize(
    "id, model",
    [
        ("file-not-found", "nowhere.pt2"),
        ("file-not-found", ""),
        ("file-not-found", "a\0b"),
        ("ir-syntax", b"what is this"),
        ("model-unknown", b""),
        ("python-model", 7),
        ("python-model", None),
        ("python-model", ["float.pt2"]),
    ],
)
def test_what_is_no_model(id, model):
    refused(id, deuteron.compile, model)


def test_arguments_are_checked(digits):
    model, data = digits / "float.pt2", digits / "calibration.npz"
    refused("target-unknown", deuteron.compile, model, data, target="abacus")
    refused("python-argument", deuteron.compile, model, data, io="int4")
    refused("python-argument", deuteron.compile, model, data, observer="guess")
    refused("python-argument", deuteron.compile, model, data, calibrate=data)
    refused("python-argument", deuteron.compile, model, data, calibrate_random=3)
    refused("python-argument", deuteron.compile, model, calibrate_random=0)
    refused("python-argument", deuteron.compile, model, data, threads=-1)
    refused("python-argument", deuteron.compile, model, data, threads=1025)
    refused("node-unknown", deuteron.compile, model, data, stop_at="nothing")
    refused("check-inaccurate", deuteron.compile, model, data, min_sqnr=90)
    with pytest.raises(TypeError, match="nonsense"):
        deuteron.compile(model, data, nonsense=1)
    with pytest.raises(TypeError):
        deuteron.compile(model, data, threads=1.5)
    for option, value, what in (
        ("stop_at", b"conv", "cannot be b'conv', of type bytes"),
        ("target", {}, "cannot be {}, of type dict"),
        ("converter", 3, "cannot be 3, of type int"),
        ("dims", 3, "cannot be 3, of type int"),
        ("keep_off", 3, "cannot be 3, of type int"),
        ("output", 3, "cannot be 3, of type int"),
        ("equalize", "no", "cannot be 'no', of type str"),
    ):
        error = refused("python-argument", deuteron.compile, model, data, **{option: value})
        assert isinstance(error, TypeError) and error.reason == f"{option} {what}" and error.fix
    error = refused("python-argument", deuteron.compile, model, data, stop_at="\udcff")
    assert "no Unicode" in error.reason


# ---- arrays


def test_dtypes_and_shapes_of_inputs(program, images):
    x = images[:2]
    refused("data-dtype", program, x.astype("float64"))
    refused("data-dtype", program, x.astype("int8"))
    refused("data-dtype", program, x.astype("complex64"))
    refused("data-dtype", program, x.astype(object))
    refused("data-dtype", program, numpy.array(["a"]))
    refused("data-shape", program, x[:, :, :8])
    refused("data-shape", program, numpy.float32(1))
    refused("data-shape", program, [[1.0], [2.0, 3.0]])
    refused("data-missing-array", program)
    refused("data-missing-array", program, y=x)
    refused("run-input", program, x, x)
    refused("run-input", program, x, x=x)
    refused("python-argument", program.run, x, repeat=0)
    refused("python-argument", program.run, x, repeat=2**70)
    refused("python-data", program, "test.npz")
    refused("data-empty", program, x[:0])


def test_layouts_of_inputs_do_not_matter(program, images):
    x = images[:6]
    expected = program(x)
    wide = numpy.zeros((6, 1, 16, 32), "float32")
    wide[..., ::2] = x
    for same in (
        wide[..., ::2],
        numpy.asfortranarray(x),
        x[::-1][::-1],
        x.astype(">f4"),
        x[:, None],
        list(x),
    ):
        if isinstance(same, list):
            same = numpy.stack(same)
        assert program(same).tobytes() == expected.tobytes()
    assert program(x=x).tobytes() == expected.tobytes()
    assert program({"x": x}).tobytes() == expected.tobytes()
    half = x.astype("float16")
    assert program(half).tobytes() == program(half.astype("float32")).tobytes()
    readonly = x.copy()
    readonly.flags.writeable = False
    assert program(readonly).tobytes() == expected.tobytes()
    program(x)[:] = 0  # the result is the caller's


def test_nan_is_a_warning(program, images):
    x = images[:2].copy()
    x[1, 0, 3, 3] = numpy.nan
    with pytest.warns(deuteron.DeuteronWarning, match="run-input-nan"):
        program(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program(images[:2])


def test_inputs_without_dimensions():
    text = 'graph @forward(%s: f32[]) {\n  %y: f32[] = aten.relu(%s)\n  return %y\n}\n'
    scalar = deuteron.compile(text.encode(), calibration=[numpy.float32(2), numpy.float32(-1)])
    assert scalar(numpy.float32(2)).shape == ()
    assert abs(float(scalar(numpy.float32(2))) - 2) < 0.1
    assert scalar(numpy.array([2, -1, 0], "float32")).shape == (3,)


# ---- loaders


class Broken(Exception):
    pass


def test_exceptions_of_a_loader_come_as_they_are(digits, images):
    def loader():
        yield images[:2]
        raise Broken("the disk is gone")

    with pytest.raises(Broken, match="the disk is gone") as caught:
        deuteron.compile(digits / "float.pt2", calibration=loader())
    assert caught.traceback[-1].name == "loader"
    with pytest.raises(Broken):
        deuteron.qat_prepare(digits / "float.pt2", calibration=loader())

    def stops():
        yield images[:2]
        sys.exit(7)

    with pytest.raises(SystemExit):
        deuteron.compile(digits / "float.pt2", calibration=stops())


def test_loaders_that_end_early(digits, images):
    model = digits / "float.pt2"
    refused("data-empty", deuteron.compile, model, calibration=iter(()))
    refused("data-empty", deuteron.compile, model, calibration=[])

    class Short:
        def __len__(self):
            return 10

        def __iter__(self):
            yield images[:4]

    with pytest.warns(deuteron.DeuteronWarning, match="ended after 1 batches"):
        short = deuteron.compile(model, calibration=Short())
    assert short.pte == deuteron.compile(model, calibration=images[:4]).pte


def test_batches_of_every_kind_are_the_same(digits, images):
    model, data = digits / "float.pt2", images[:12]
    expected = deuteron.compile(model, calibration=data).pte
    for same in (
        list(data),  # without a batch axis: (1, 16, 16) for (1, 1, 16, 16)
        [data[:5], data[5:]],
        ((data[i : i + 3], numpy.int64(i)) for i in range(0, 12, 3)),
        ({"x": data[i : i + 4]} for i in (0, 4, 8)),
        ({"input": data[i : i + 4]} for i in (0, 4, 8)),
        ({"input_0": data[i : i + 4]} for i in (0, 4, 8)),
        {"x": data},
        {"input": data},
    ):
        assert deuteron.compile(model, calibration=same).pte == expected


def test_batches_that_do_not_fit(digits, images):
    model = digits / "float.pt2"
    refused("data-shape", deuteron.compile, model, calibration=[images[:2, :, :4]])
    refused("data-missing-array", deuteron.compile, model, calibration=[{"y": images[:2]}])
    refused("data-dtype", deuteron.compile, model, calibration=[images[:2].astype("float64")])
    refused("python-data", deuteron.compile, model, calibration=7)
    bad = images[:2].copy()
    bad[0, 0, 0, 0] = numpy.inf
    refused("data-not-finite", deuteron.compile, model, calibration=bad)


# ---- programs


def test_programs_are_pickled_and_copied(program, images):
    for twin in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program), copy.copy(program)):
        assert twin.pte == program.pte and repr(twin) == repr(program)
        assert twin(images[:2]).tobytes() == program(images[:2]).tobytes()
        assert twin.verify(images[:1])


def test_damaged_programs(program, tmp_path):
    refused("file-not-found", deuteron.load, tmp_path / "nowhere.pte")
    with pytest.raises(deuteron.Error):
        deuteron.load(b"")
    for cut in (0, 8, 100, len(program.pte) // 2, len(program.pte) - 1):
        with pytest.raises(deuteron.Error):
            deuteron.load(program.pte[:cut])
    changed = bytearray(program.pte)
    changed[len(changed) // 2] ^= 1
    refused("pte-checksum", deuteron.load, bytes(changed))
    refused("python-model", deuteron.load, 7)


def test_a_loaded_program_says_what_it_does_not_know(program, images, digits):
    loaded = deuteron.load(program.pte)
    refused("python-no-report", lambda: loaded.report)
    refused("python-argument", loaded.verify, images[:1])
    refused("python-argument", program.verify)
    assert loaded.verify(images[:1], against=digits / "float.pt2")
    assert {row["backend"] for row in loaded.placement.operators} <= {
        "NPU",
        "CPU",
        "NPU+CPU",
        "CPU+NPU",
    }
    assert loaded.memory == program.memory
    assert "imxrt700" in repr(loaded)


def test_text_that_is_not_unicode(program, digits):
    for path in ("a\udcff.pte", os.fsdecode(b"\xff"), pathlib.Path("\udc80")):
        refused("file-not-found", deuteron.load, path)
        refused("file-not-found", deuteron.compile, path)
        refused("file-not-found", program.save, path)
    # A name in a damaged file comes in escapes.
    head, end, tail = (digits / "float.pt2").read_bytes().rpartition(b"PK\1\2")
    damaged = end + tail.replace(b"float/", b"f\xf5oat/", 1)
    error = refused("zip-invalid", deuteron.compile, head + damaged)
    assert r"f\xf5oat/" in str(error)


def test_rows_of_other_forms():
    for source in (("a",), (), 3):
        with pytest.raises(TypeError, match="a tuple of 2 or more"):
            deuteron._deuteron.executorch_place(source, {})
    with pytest.raises(TypeError, match="a tuple of 2 or more"):
        deuteron._deuteron.executorch_place(("a", b"0123", [(0,)]), {})


def test_files_that_cannot_be_written(program, tmp_path):
    refused("file-not-writable", program.save, tmp_path / "no" / "folder.pte")
    refused("file-not-writable", program.profile().to_html, tmp_path / "no" / "r.html")
    refused("firmware-board", program.firmware, tmp_path / "f", board="toaster")
    assert list(tmp_path.iterdir()) == []


# ---- threads, forks, signals, and the end


def test_two_threads_in_one_program(program, images):
    expected = [program(images[i : i + 20]).tobytes() for i in range(0, 200, 20)]
    results = [[] for _ in range(6)]

    def work(mine):
        for i in range(0, 200, 20):
            mine.append(program(images[i : i + 20]).tobytes())

    threads = [threading.Thread(target=work, args=(mine,)) for mine in results]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(mine == expected for mine in results)


@pytest.mark.plain
def test_others_run_while_it_works(program, images):
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    program.run(images, repeat=20)
    taken = time.monotonic() - start
    done.set()
    thread.join()
    gaps = [b - a for a, b in zip(ticks, ticks[1:])]
    assert len(ticks) > 3 and max(gaps) < max(0.5 * taken, 0.05)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_another_thread_runs(program, images):
    expected = program(images[:3]).tobytes()
    stop = threading.Event()

    def work():
        while not stop.is_set():
            program(images[:50])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                good = program(images[:3]).tobytes() == expected
                good = good and program.profile().total_cycles == 82653
                os._exit(0 if good else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


FORKED = """
    import os, signal, sys, threading, time
    import numpy, deuteron
    folder, = sys.argv[1:]
    data = numpy.load(folder + "/calibration.npz")["input"]
    def build():
        return deuteron.compile(folder + "/float.pt2", calibration=data)
    program = build()
    threading.Thread(target=lambda: program.run(data, repeat=1_000_000), daemon=True).start()
    time.sleep(0.2)
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        sys.exit(0 if build().pte == program.pte else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), time.monotonic() - start)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_compiles_and_ends_by_itself(digits):
    process = interpreter(FORKED, digits)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, f"{process.returncode}: {err}"
    code, seconds = out.split()
    assert code == "0", err
    # It waits for no thread of its parent: that would be 10 s.
    assert float(seconds) < (8 if slow(1) == 1 else 40)


def test_multiprocessing_gets_programs(program, images):
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(program, (images[:2],)).tobytes() == program(images[:2]).tobytes()


def interpreter(source, *arguments, **named):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **named,
    )


INTERRUPTED = """
    import os, signal, sys, threading, time
    import numpy, deuteron
    folder, what, out = sys.argv[1:]
    model = folder + "/float.pt2"
    data = numpy.load(folder + "/calibration.npz")["input"]
    program = deuteron.compile(model, calibration=data)
    sent = []
    def interrupt():
        time.sleep(0.3)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    def long():
        if what == "run":
            program.run(data, repeat=1_000_000)
        elif what == "compile":
            many = numpy.concatenate([data] * 300)
            deuteron.compile(model, many, calibration_samples=len(many), output=out)
        elif what == "loader":
            def endless():
                while True:
                    yield data[:1]
            deuteron.compile(model, calibration=endless(), output=out)
        elif what == "verify":
            program.verify(numpy.concatenate([data] * 300))
        elif what == "eval":
            labels = numpy.zeros(len(data) * 300, "int64")
            while True:
                deuteron.eval(program, {"input": numpy.concatenate([data] * 300), "label": labels})
        elif what == "qemu":
            program.run(data[:1], on="qemu")
    try:
        long()
    except KeyboardInterrupt:
        print(time.monotonic() - sent[0])
        print(program(data[:1]).shape)
"""


@pytest.mark.plain
@pytest.mark.parametrize("what", ["run", "compile", "loader", "verify", "eval", "qemu"])
def test_interrupts_end_work_soon_and_leave_nothing(digits, tmp_path, what):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = interpreter(INTERRUPTED, digits, what, tmp_path / "out.pte", env=environment)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    seconds, shape = out.splitlines()
    assert float(seconds) < slow(0.2)
    assert shape == "(1, 10)"
    assert list(tmp_path.iterdir()) == []


ENDS = """
    import sys, threading, time
    import numpy, deuteron
    folder, daemon = sys.argv[1:]
    data = numpy.load(folder + "/calibration.npz")["input"]
    program = deuteron.compile(folder + "/float.pt2", calibration=data)
    def work():
        while True:
            program.run(data, repeat=100_000)
    def build():
        while True:
            deuteron.compile(folder + "/float.pt2", calibration=numpy.concatenate([data] * 50))
    for target in (work, work, build):
        threading.Thread(target=target, daemon=True).start()
    time.sleep(0.5)
    print("ends", flush=True)
"""


def test_the_interpreter_ends_while_a_simulation_runs(digits):
    for _ in range(3):
        process = interpreter(ENDS, digits, "1")
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, f"{process.returncode}: {err}"
        assert out == "ends\n"
        assert "terminate" not in err and "Fatal" not in err


ENDS_IN_A_LOADER = """
    import atexit, sys, threading, time
    import numpy, deuteron
    folder, = sys.argv[1:]
    data = numpy.load(folder + "/calibration.npz")["input"][:4]
    def endless():
        while True:
            yield data
    def build():
        deuteron.compile(folder + "/float.pt2", calibration=endless())
    atexit.unregister(deuteron._deuteron.close)
    atexit.register(deuteron._deuteron.close, 0.5)  # and not 10 s
    threading.Thread(target=build, daemon=True).start()
    time.sleep(0.5)
    print("ends", flush=True)
"""


def test_the_interpreter_ends_while_a_loader_runs(digits):
    process = interpreter(ENDS_IN_A_LOADER, digits)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, f"{process.returncode}: {err}"
    assert out == "ends\n"
    assert "FATAL" not in err and "Fatal" not in err


FAILED_CHECK = """
    import sys
    import numpy, deuteron
    folder, = sys.argv[1:]
    data = numpy.load(folder + "/calibration.npz")["input"]
    program = deuteron.compile(folder + "/float.pt2", calibration=data)
    try:
        deuteron._deuteron._fail_check()
    except RuntimeError as error:
        print(error)
    print(program(data[:1]).shape)
"""


def test_a_failed_check_of_our_own_does_not_end_the_interpreter(digits):
    process = interpreter(FAILED_CHECK, digits)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, f"{process.returncode}: {err}"
    message, shape = out.splitlines()
    assert re.fullmatch(
        r"internal error: (../../)?python/src/commands\.cpp:\d+: check `.*` failed; .*", message
    )
    assert message in err  # for those who lost the exception
    assert shape == "(1, 10)"


@pytest.mark.plain
def test_imports_fast_and_without_others():
    source = """
        import sys, time
        start = time.process_time()
        import deuteron
        taken = time.process_time() - start
        print(taken)
        slow = ("numpy", "torch", "tqdm", "IPython", "inspect", "json")
        print(*[name for name in slow if name in sys.modules])
    """
    times = []
    for _ in range(3):
        out, err = interpreter(source).communicate(timeout=60)
        taken, others = out.split("\n")[:2]
        assert others == "", others
        times.append(float(taken))
    assert min(times) < 0.05


def test_help_answers():
    assert "calibration" in deuteron.compile.__doc__
    for name in deuteron.__all__:
        if name != "__version__":
            assert getattr(deuteron, name).__doc__, name
    for name in dir(deuteron.Program):
        if not name.startswith("_"):
            assert getattr(deuteron.Program, name).__doc__, name


def test_reports_for_notebooks(program, images):
    page = program._repr_html_()
    assert page.startswith("<iframe") and "sandbox" in page
    assert re.search(r"conv2d", page)
    assert "<table>" in program.verify(images[:1])._repr_html_()
    assert "<table>" in program.placement._repr_html_()
    assert "NPU" in repr(program)
