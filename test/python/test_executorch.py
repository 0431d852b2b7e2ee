"""deuteron.executorch: partitions of ExecuTorch's edge programs, run by its unmodified runtime.

Judges are `deuteron.compile` of the same quantized program (equal in every bit) and PyTorch.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("executorch", reason="ExecuTorch is not installed")
import deuteron  # noqa: E402
import deuteron.executorch as backend  # noqa: E402
import executorch_models as models  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTITIONER = backend.DeuteronPartitioner
QUANTIZERS = {
    "xnnpack": models.xnnpack_quantizer,
    "deuteron": backend.DeuteronQuantizer,
    "neutron": models.neutron_quantizer,
}
# What stays outside, and the number of delegates, with each quantizer.
NETWORKS = {
    (models.Residual, "xnnpack"): (set(), 1),
    (models.Residual, "deuteron"): (set(), 1),
    (models.Residual, "neutron"): (set(), 1),
    (models.Inverted, "deuteron"): (set(), 1),
    (models.Inverted, "neutron"): (set(), 1),
    (models.Attention, "deuteron"): (set(), 1),
    (models.Text, "deuteron"): (set(), 1),
    (models.TwoAndThree, "xnnpack"): ({"aten.sub.Tensor", "aten.sigmoid.default"}, 1),
    (models.TwoAndThree, "deuteron"): (set(), 1),
    (models.TwoAndThree, "neutron"): (set(), 1),
    (models.Between, "xnnpack"): ({"aten.cumsum.default", "aten.erf.default"}, 2),
    (models.Between, "neutron"): ({"aten.cumsum.default", "aten.erf.default"}, 2),
    (models.Layers, "deuteron"): (set(), 1),
    (models.Upsample, "deuteron"): (set(), 1),
    (models.Upsample, "neutron"): (set(), 1),
}


def ready(kind, quantizer="deuteron"):
    torch.manual_seed(3)
    model = kind().eval()
    return model, *models.quantized(model, QUANTIZERS[quantizer](), strict=quantizer == "neutron")


def compare(program, exported, model, converted, method="forward"):
    """Runs samples upstream and holds the outputs against both judges."""
    reference = deuteron.compile(exported, check=False)
    steps = output_steps(exported)
    for _ in range(3):
        inputs = models.sample(model)
        outputs = models.run(program, inputs, method)
        expected = models.tensors(reference(*inputs))
        assert len(outputs) == len(expected)
        for actual, wanted in zip(outputs, expected):
            assert actual.shape == wanted.shape or actual.numel() == wanted.numel()
            assert torch.equal(actual.reshape(wanted.shape), wanted)
        # PyTorch computes the same network in float between codes: it may round another way.
        for actual, wanted, step in zip(outputs, models.tensors(converted(*inputs)), steps):
            assert (actual - wanted).abs().max() <= 2.01 * step


def output_steps(exported):
    """The quantization step of each output; 1e-6 for those in float."""
    returned = exported.graph.output_node().all_input_nodes
    return [node.args[1] if "dequantize" in node.name else 1e-6 for node in returned]


@pytest.mark.parametrize(
    "kind, quantizer", NETWORKS, ids=lambda each: getattr(each, "__name__", each)
)
def test_networks(kind, quantizer):
    model, converted, exported = ready(kind, quantizer)
    lowered = models.Lowered(exported, [PARTITIONER()])
    outside, delegates = lowered.operators()
    wanted, count = NETWORKS[kind, quantizer]
    assert {n for n in outside if "quantize" not in n and "dim_order" not in n} == wanted
    assert delegates == count
    compare(lowered.bytes, exported, model, converted)
    # The command runs the same file: its delegates are programs, what is beside them ExecuTorch's.
    ours = deuteron.load(lowered.bytes)
    for _ in range(2):
        inputs = models.sample(model)
        for actual, wanted in zip(models.tensors(ours(*inputs)), models.run(lowered.bytes, inputs)):
            assert torch.equal(actual.reshape(wanted.shape), wanted)
    assert delegates == 0 or ours.run(*models.sample(model)).stats["npu_total_cycles"] > 0


@pytest.fixture(scope="module")
def residual():
    model, converted, exported = ready(models.Residual)
    return model, converted, exported, models.Lowered(exported, [PARTITIONER()])


def test_constants_are_consumed(residual):
    *_, lowered = residual
    inputs = [node.name for node in lowered.module().graph.nodes if node.op == "placeholder"]
    assert inputs == ["x"]
    assert len(lowered.payloads()) == 1
    assert len(lowered.bytes) < 2 * len(lowered.payloads()[0])


def test_payload_is_a_program(residual):
    model, _, exported, lowered = residual
    (x,) = models.sample(model)
    assert torch.equal(deuteron.load(lowered.payloads()[0])(x), deuteron.compile(exported)(x))


def test_reasons():
    _, _, exported = ready(models.Between, "xnnpack")
    partitioner = PARTITIONER()
    lowered = models.Lowered(exported, [partitioner])
    report = partitioner.reporter.get_table_report()
    assert "aten_cumsum_default" in report and "aten_erf_default" in report
    assert "aten_convolution_default" not in report
    nodes = {node.name: node.meta for node in lowered.module().graph.nodes}
    reason = nodes["aten_cumsum_default"].get("deuteron_reason", "")
    assert not reason or reason.partition(":")[0] in report


def test_float_model():
    """Nothing is quantized: nothing is delegated, and each node has the reason."""
    model = models.Residual().eval()
    exported = torch.export.export(model, models.sample(model))
    partitioner = PARTITIONER()
    lowered = models.Lowered(exported, [partitioner])
    assert lowered.operators()[1] == 0
    reasons = set(partitioner.reporter._rejected_nodes.values())
    assert len(reasons) == 1 and "the model is float" in reasons.pop()
    (x,) = models.sample(model)
    assert torch.allclose(models.run(lowered.bytes, [x])[0], model(x), atol=1e-5)


def test_only_inputs_are_quantized():
    """NeutronQuantizer annotates inputs alone of what is no strict export: the partitioner says it."""
    model = models.Residual().eval()
    _, exported = models.quantized(model, models.neutron_quantizer())
    partitioner = PARTITIONER()
    with pytest.warns(deuteron.DeuteronWarning, match="strict=True"):
        lowered = models.Lowered(exported, [partitioner])
    assert lowered.operators()[1] == 0
    reasons = set(partitioner.reporter._rejected_nodes.values())
    assert len(reasons) == 1 and "strict=True" in reasons.pop()
    # A model without a quantizer, and one of which nothing is worth a call, have other reasons.
    for strict, quantizer in ((False, models.xnnpack_quantizer), (True, models.neutron_quantizer)):
        _, exported = models.quantized(model, quantizer(), strict=strict)
        spec = backend.DeuteronCompileSpec(target="cortex-m55")
        with warnings.catch_warnings():
            warnings.simplefilter("error", deuteron.DeuteronWarning)
            assert models.Lowered(exported, [PARTITIONER(spec)]).operators()[1] == 0


class Mixed(torch.nn.Module):
    """Values that no program of Deuteron holds, beside two convolutions."""

    shapes = ((1, 3, 8, 8),)

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3)
        self.second = torch.nn.Conv2d(8, 4, 3)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.second(x), x.double().mean(), x.argmax(1), x > 0.1


def test_mixed_dtypes():
    model, converted, exported = ready(Mixed, "xnnpack")
    partitioner = PARTITIONER()
    lowered = models.Lowered(exported, [partitioner])
    outside, delegates = lowered.operators()
    assert delegates == 1 and "aten.mean.default" in outside
    assert "aten.convolution.default" not in outside
    reasons = {n.name: r for n, r in partitioner.reporter._rejected_nodes.items()}
    assert "float64" in reasons["aten_mean_default"]
    for _ in range(2):
        inputs = models.sample(model)
        outputs = models.run(lowered.bytes, inputs)
        for actual, wanted in zip(outputs[1:], converted(*inputs)[1:]):
            assert actual.dtype == wanted.dtype and torch.equal(actual, wanted)
        step = output_steps(exported)[0]
        assert (outputs[0] - converted(*inputs)[0]).abs().max() <= 2.01 * step


def test_dynamic_shapes():
    model = models.Layers().eval()
    size = torch.export.Dim("size", min=1, max=4)
    exported = torch.export.export(model, models.sample(model), dynamic_shapes={"x": {0: size}})
    partitioner = PARTITIONER()
    assert models.Lowered(exported, [partitioner]).operators()[1] == 0
    reasons = " ".join(partitioner.reporter._rejected_nodes.values())
    assert "pt2-symbolic-shape" in reasons


def test_several_methods():
    first, second = ready(models.Residual), ready(models.Between, "xnnpack")
    lowered = models.Lowered(
        {"forward": first[2], "other": second[2]},
        {"forward": [PARTITIONER()], "other": [PARTITIONER()]},
    )
    for name, (model, converted, exported) in {"forward": first, "other": second}.items():
        compare(lowered.bytes, exported, model, converted, name)


@pytest.mark.parametrize("quantizer", ["xnnpack", "deuteron"])
def test_channels_last(quantizer):
    torch.manual_seed(4)
    model = models.Upsample().eval().to(memory_format=torch.channels_last)
    inputs = tuple(x.to(memory_format=torch.channels_last) for x in models.sample(model))
    converted, exported = models.quantized(model, QUANTIZERS[quantizer](), inputs)
    lowered = models.Lowered(exported, [PARTITIONER()])
    reference = deuteron.compile(exported, check=False)
    for _ in range(2):
        (x,) = models.sample(model)
        last = x.to(memory_format=torch.channels_last)
        (actual,) = models.run(lowered.bytes, [last])
        assert torch.equal(actual, reference(x))
        assert (actual - converted(x)).abs().max() <= 2.01 * output_steps(exported)[0]


def test_beside_xnnpack():
    """With int8 boundaries the others find quantize and dequantize around their operators."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    model, converted, exported = ready(models.Residual, "xnnpack")
    spec = backend.DeuteronCompileSpec(boundary="int8", keep_off=["aten_convolution_default_2"])
    lowered = models.Lowered(exported, [PARTITIONER(spec), XnnpackPartitioner()])
    module = lowered.module()
    backends = {
        getattr(module, node.target).backend_id
        for node in module.graph.nodes
        if node.op == "get_attr" and node.target.startswith("lowered_module")
    }
    assert backends == {"DeuteronBackend", "XnnpackBackend"}
    for _ in range(2):
        inputs = models.sample(model)
        (actual,) = models.run(lowered.bytes, inputs)
        step = output_steps(exported)[0]
        assert (actual - converted(*inputs)).abs().max() <= 2.01 * step


class Tied(torch.nn.Module):
    """One weight in two layers, with an operator between them that the NPU does not have."""

    shapes = ((2, 12),)

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(12, 12)

    def forward(self, x):
        return self.layer(torch.cumsum(self.layer(x), -1))


@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_shared_constants(quantizer):
    model, converted, exported = ready(Tied, quantizer)
    spec = backend.DeuteronCompileSpec(weigh_costs=False)  # they are too small to be worth a call
    lowered = models.Lowered(exported, [PARTITIONER(spec)])
    assert lowered.operators()[1] == 2
    compare(lowered.bytes, exported, model, converted)


# ---- the runtime


def in_process(code, *arguments, python=sys.executable, **settings):
    return subprocess.run(
        [python, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        **settings,
    )


@pytest.fixture(scope="module")
def saved(residual, tmp_path_factory):
    """The program as a file, an input, and the output."""
    model, _, _, lowered = residual
    folder = tmp_path_factory.mktemp("residual")
    (x,) = models.sample(model)
    (folder / "model.pte").write_bytes(lowered.bytes)
    torch.save((x, models.run(lowered.bytes, [x])[0]), folder / "data.pt")
    return folder


RUN = """
import sys, torch
{imports}
x, expected = torch.load(sys.argv[1] + "/data.pt")
method = Runtime.get().load_program(sys.argv[1] + "/model.pte").load_method("forward")
assert torch.equal(method.execute([x])[0], expected)
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import deuteron.executorch\nfrom executorch.runtime import Runtime",
        "from executorch.runtime import Runtime\nimport deuteron.executorch",
        "import executorch.kernels.quantized\nfrom executorch.runtime import Runtime\n"
        "Runtime.get()\nimport deuteron.executorch",
        "from executorch.runtime import Runtime\nimport executorch.kernels.quantized\n"
        "import deuteron.executorch",
    ],
    ids=["deuteron first", "runtime first", "kernels first", "kernels between"],
)
def test_order_of_imports(saved, imports):
    result = in_process(RUN.format(imports=imports), saved)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="not a virtual environment")
def test_environment_behind_a_symbolic_link(saved, tmp_path):
    """PyTorch loads ExecuTorch's kernels by their real path, which is not the package's then."""
    (tmp_path / "environment").symlink_to(pathlib.Path(sys.prefix).resolve())
    code = RUN.format(
        imports="import deuteron.executorch\nfrom executorch.runtime import Runtime\n"
        "assert deuteron.executorch._folder.startswith(sys.argv[2])"
    )
    result = in_process(code, saved, tmp_path, python=tmp_path / "environment/bin/python")
    assert result.returncode == 0, result.stderr


def test_registered_once():
    from executorch.runtime import Runtime

    backend._register()
    names = Runtime.get().backend_registry.registered_backend_names
    assert names.count("DeuteronBackend") == 1


def test_what_codes_mean(tmp_path):
    from executorch.runtime import Runtime

    folder = ROOT / "models/digits_cnn"
    program = deuteron.compile(
        folder / "float.pt2", calibration=folder / "calibration.npz", io="int8"
    )
    program.save(tmp_path / "model.pte")
    loaded = Runtime.get().load_program(tmp_path / "model.pte")

    def told(name):
        (value,) = loaded.load_method(name).execute([])
        return value

    for prefix, codes in (("input0", program.codes["x"]), ("output0", program.codes["output_0"])):
        assert told(prefix + "_scale") == codes.scale
        assert told(prefix + "_zp") == codes.zero_point
        assert (told(prefix + "_quant_min"), told(prefix + "_quant_max")) == codes[2:]
        assert told(prefix + "_dtype") == 1  # torch.int8


def test_threads(residual):
    """Methods of one program in several threads, each with its own NPU."""
    from executorch.runtime import Runtime

    model, _, exported, lowered = residual
    reference = deuteron.compile(exported, check=False)
    loaded = Runtime.get().load_program(lowered.bytes)
    wrong = []

    def work(seed):
        method = Runtime.get().load_program(lowered.bytes)
        forward = method.load_method("forward")
        x = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(seed))
        expected = reference(x)
        for _ in range(5):
            if not torch.equal(forward.execute([x])[0], expected):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    # One method from two threads: each gets a right result, or is told.
    forward = loaded.load_method("forward")
    (x,) = models.sample(model)
    expected = reference(x)

    def share():
        for _ in range(20):
            try:
                if not torch.equal(forward.execute([x])[0], expected):
                    wrong.append(x)
            except RuntimeError:
                pass

    threads = [threading.Thread(target=share) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_fork(saved):
    code = RUN.format(
        imports="import os\nimport deuteron.executorch\nfrom executorch.runtime import Runtime"
    )
    code += """
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(method.execute([x])[0], expected) else 1)
assert os.waitpid(child, 0)[1] == 0
assert torch.equal(method.execute([x])[0], expected)
"""
    result = in_process(code, saved)
    assert result.returncode == 0, result.stderr


def test_program_is_freed(saved):
    """The delegate keeps what it needs while a method lives."""
    code = """
import sys, gc, torch
import deuteron.executorch
from executorch.runtime import Runtime
x, expected = torch.load(sys.argv[1] + "/data.pt")
methods = []
for _ in range(20):
    program = Runtime.get().load_program(sys.argv[1] + "/model.pte")
    methods.append(program.load_method("forward"))
    del program
    gc.collect()
    assert torch.equal(methods[-1].execute([x])[0], expected)
    if len(methods) > 3:
        methods.pop(0)
"""
    result = in_process(code, saved)
    assert result.returncode == 0, result.stderr


MUTATE = """
import random, sys
import torch
import deuteron.executorch
from executorch.runtime import Runtime
data = bytearray(open(sys.argv[1] + "/model.pte", "rb").read())
x, expected = torch.load(sys.argv[1] + "/data.pt")
start, size = int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(int(sys.argv[4]))
refused = 0
for _ in range(int(sys.argv[5])):
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 4, 100))):
        at = start + chance.randrange(size)
        changed[at] = chance.randrange(256)
    if changed == data:
        continue
    kept = bytes(changed)
    program = Runtime.get().load_program(kept)
    try:
        assert torch.equal(program.load_method("forward").execute([x])[0], expected)
    except RuntimeError:
        refused += 1
print(refused)
"""


def test_mutated_payloads(residual, saved):
    """A payload that was changed is refused, or was changed where it does not matter."""
    *_, lowered = residual
    (payload,) = lowered.payloads()
    start = lowered.bytes.index(payload)
    result = in_process(MUTATE, saved, start, len(payload), 5, 300)
    assert result.returncode == 0, result.stderr[-2000:]
    assert int(result.stdout.split()[-1]) > 250
    assert "DeuteronBackend:" in result.stderr  # the reason, in ExecuTorch's log


def test_truncated_payloads(residual):
    """Each error of the payload is one of the delegate, with its reason."""
    *_, lowered = residual
    (payload,) = lowered.payloads()
    at = lowered.bytes.index(payload)
    broken = lowered.bytes[:at] + bytes(len(payload)) + lowered.bytes[at + len(payload) :]
    with pytest.raises(RuntimeError):
        models.run(broken, [torch.zeros(1, 3, 16, 16)])


def test_wrong_inputs(residual):
    *_, lowered = residual
    for inputs in ([torch.zeros(1, 3, 16, 15)], [torch.zeros(1, 3, 16, 16).int()], []):
        with pytest.raises(RuntimeError):
            models.run(lowered.bytes, inputs)


# ---- payloads of NXP's flow

NEUTRON = """
import sys
import numpy
import torch
{imports}
folder, mark = sys.argv[1], sys.argv[2].encode()
for name in ("convolution", "transposed", "longer", "difference"):
    data = open(f"{{folder}}/{{name}}.pte", "rb").read().replace(b"DTRN", mark)
    method = Runtime.get().load_program(data).load_method("forward")
    given = numpy.load(f"{{folder}}/{{name}}.npz")
    wanted = numpy.load(f"{{folder}}/{{name}}_expected.npz")
    outputs = method.execute([torch.from_numpy(given[f"input_{{i}}"]) for i in range(len(given))])
    assert len(outputs) == len(wanted)
    for i, output in enumerate(outputs):
        assert numpy.array_equal(output.numpy(), wanted[f"output_{{i}}"]), name
"""
REGISTER = "import deuteron.eiq\ndeuteron.eiq.register()\n"
RUNTIME = "from executorch.runtime import Runtime\n"


@pytest.mark.parametrize(
    "imports",
    [
        REGISTER + RUNTIME,
        RUNTIME + "import executorch.kernels.quantized\n" + REGISTER,
        "import deuteron.executorch\n" + RUNTIME + REGISTER + "deuteron.eiq.register()",
    ],
    ids=["eiq first", "runtime first", "twice"],
)
def test_neutron_backend_in_the_runtime(imports):
    """Programs of ExecuTorch's NXP flow compute what PyTorch does, in every element."""
    result = in_process(NEUTRON.format(imports=imports), ROOT / "test/data/eiq", "DTRN")
    assert result.returncode == 0, result.stderr


def test_microcode_of_nxp_is_refused():
    code = NEUTRON.format(imports=REGISTER + RUNTIME)
    result = in_process(code, ROOT / "test/data/eiq", "nMCx")
    assert result.returncode == 1 and "RuntimeError" in result.stderr
    assert "holds microcode of NXP's converter" in result.stderr


# ---- events


def test_inspector(residual, tmp_path):
    """ETDump events of the delegate have the nodes of the model, and values when they are asked."""
    from executorch.devtools import Inspector
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    model, converted, exported, _ = residual
    edge = to_edge_transform_and_lower(
        exported, partitioner=[PARTITIONER()], generate_etrecord=True
    )
    manager = edge.to_executorch()
    manager.get_etrecord().save(str(tmp_path / "record.bin"))
    program = Runtime.get().load_program(
        bytes(manager.buffer), enable_etdump=True, debug_buffer_size=1 << 22
    )
    (x,) = models.sample(model)
    program.load_method("forward").execute([x])
    program.write_etdump_result_to_file(str(tmp_path / "dump.etdp"), str(tmp_path / "debug.bin"))
    inspector = Inspector(
        etdump_path=str(tmp_path / "dump.etdp"),
        etrecord=str(tmp_path / "record.bin"),
        debug_buffer_path=str(tmp_path / "debug.bin"),
    )
    events = [
        event
        for block in inspector.event_blocks
        for event in block.events
        if event.is_delegated_op and event.delegate_backend_name == "DeuteronBackend"
    ]
    named = {operator for event in events for operator in event.op_types}
    assert any("convolution" in name for name in named), named
    assert any("addmm" in name or "linear" in name for name in named), named
    assert sum(sum(event.perf_data.raw) for event in events if event.perf_data) > 0
    assert any(event.debug_data for event in events)


# ---- bad input


@pytest.mark.parametrize(
    "settings", [{"boundary": "int4"}, {"schedule": "none"}, {"constants": "eeprom"}]
)
def test_wrong_settings(settings):
    with pytest.raises(deuteron.Error) as caught:
        backend.DeuteronCompileSpec(**settings)
    assert caught.value.id == "python-argument"


def test_wrong_target():
    _, _, exported = ready(models.Layers)
    with pytest.raises(deuteron.Error) as caught:
        models.Lowered(exported, [PARTITIONER(backend.DeuteronCompileSpec(target="abacus"))])
    assert caught.value.id == "target-unknown"


def test_no_compile_spec():
    with pytest.raises(deuteron.Error, match="DeuteronCompileSpec"):
        PARTITIONER("imxrt700")


def test_other_versions():
    code = """
import importlib.metadata
known = importlib.metadata.version
importlib.metadata.version = lambda name: "1.9.0" if name == "executorch" else known(name)
import deuteron.executorch
"""
    result = in_process(code)
    assert result.returncode == 1
    assert "deuteron.executorch works with ExecuTorch 1.4, 1.9.0 is installed" in result.stderr


def test_executorch_is_missing():
    code = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "executorch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
import deuteron
import deuteron.executorch
"""
    result = in_process(code)
    assert result.returncode == 1
    assert "pip install 'executorch==1.4.*'" in result.stderr


# ---- C++

HEADERS = pathlib.Path(backend._folder) / "include"


def tool(*arguments):
    result = subprocess.run([*map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def configure(folder, *settings):
    """Builds the project of test/executorch, which finds the package of CMake."""
    c10 = HEADERS / "executorch/runtime/core/portable_type/c10"
    tool(
        *("cmake", "-G", "Ninja", "-S", ROOT / "test/executorch", "-B", folder),
        f"-Ddeuteron_DIR={ROOT}/cmake",
        f"-DEXECUTORCH_INCLUDE_DIRS={HEADERS};{c10}",
        "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache" if shutil.which("ccache") else "-DNO_CCACHE=1",
        *settings,
    )
    tool("cmake", "--build", folder)


@pytest.fixture(scope="module")
def built(residual, tmp_path_factory):
    if not shutil.which("cmake") or not shutil.which("ninja") or not shutil.which("flatc"):
        pytest.skip("cmake, ninja or flatc is not installed")
    folder = tmp_path_factory.mktemp("board")
    *_, lowered = residual
    (folder / "payload").write_bytes(lowered.payloads()[0])
    deuteron.load(folder / "payload").firmware(folder / "firmware")
    sources = "".join(path.read_text() for path in (folder / "firmware").rglob("model.cpp"))
    numbers = re.search(r"npu::Target kNpu({.*?});", sources, re.DOTALL)
    configure(folder / "build", f"-DNPU={numbers[1]}", "-DCMAKE_BUILD_TYPE=Release")
    return folder


@pytest.mark.plain
def test_binary_interface(built):
    """Our declarations of ExecuTorch's classes have the layout of its headers."""
    tool(built / "build/abi")


@pytest.mark.plain
def test_cmake_package(built, residual):
    """The backend built against ExecuTorch's headers computes what the wheel's does."""
    model, _, _, lowered = residual
    (x,) = models.sample(model)
    (expected,) = models.run(lowered.bytes, [x])
    (built / "input").write_bytes(x.numpy().tobytes())
    size = expected.numel() * 4
    tool(built / "build/board", built / "payload", built / "input", built / "output", size)
    assert (built / "output").read_bytes() == expected.numpy().tobytes()


@pytest.mark.plain
def test_cross_compiler(tmp_path):
    """It compiles for a Cortex-M33, freestanding."""
    if not shutil.which("arm-none-eabi-g++"):
        pytest.skip("arm-none-eabi-g++ is not installed")
    configure(tmp_path, f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/cortex_m33.cmake")
