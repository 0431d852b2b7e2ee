"""PyTorch's models and tensors: what torch.export gives goes in, tensors come back."""
import io
import pickle
import subprocess
import sys

import numpy
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import deuteron  # noqa: E402
from deuteron import _model  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from test_bad_input import Broken, refused  # noqa: E402


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(8, 5),
        )

    def forward(self, image):
        return self.body(image)


class TwoInputs(torch.nn.Module):
    # Positions and names disagree on purpose: input_1 is the first input.
    def forward(self, input_1, input_0):
        return input_1 + 2 * input_0, input_1 * input_0


@pytest.fixture(scope="module")
def exported():
    torch.manual_seed(1)
    return torch.export.export(Classifier().eval(), (torch.randn(1, 3, 9, 7),))


@pytest.fixture(scope="module")
def samples():
    torch.manual_seed(2)
    return torch.randn(24, 3, 9, 7)


@pytest.fixture(scope="module")
def classifier(exported, samples):
    return deuteron.compile(exported, calibration=samples)


def test_exported_programs_become_methods(exported, samples, classifier):
    torch.manual_seed(1)
    model = Classifier().eval()
    large = torch.randn(24, 3, 16, 12)
    models = {"small": exported, "large": torch.export.export(model, (large[:1],))}
    program = deuteron.compile(
        models, calibration={"small": samples, "large": (each[None] for each in large)}
    )
    alone = {"small": classifier, "large": deuteron.compile(models["large"], calibration=large)}
    for name, x in {"small": samples, "large": large}.items():
        each = program.methods[name]
        assert torch.equal(each(x), alone[name](x))
        # Each method knows the export it was made of.
        assert each.verify(x[:4])
        expected = model(x)
        error = (each(x) - expected).pow(2).sum() / expected.pow(2).sum()
        assert error < 10**-2.5, error
    assert len(program.pte) < len(alone["small"].pte) + len(alone["large"].pte)


def test_an_exported_program_is_its_file(exported, samples, classifier, command, tmp_path):
    torch.export.save(exported, tmp_path / "m.pt2")
    numpy.savez(tmp_path / "c.npz", image=samples.numpy())
    command("compile", tmp_path / "m.pt2", "--calibrate", tmp_path / "c.npz", "-o", tmp_path / "m")
    theirs = deuteron.load(tmp_path / "m")
    x = samples[:5]
    assert torch.equal(theirs(x), classifier(x))
    assert theirs.profile().total_cycles == classifier.profile().total_cycles
    # The archive in memory has another name inside, and with it another hash, than the file.
    file = io.BytesIO()
    torch.export.save(exported, file)
    (tmp_path / "memory.pt2").write_bytes(file.getvalue())
    command(
        "compile", tmp_path / "memory.pt2", "--calibrate", tmp_path / "c.npz", "-o", tmp_path / "n"
    )
    assert (tmp_path / "n").read_bytes() == classifier.pte


class Shared(torch.nn.Module):
    """Weights of every kind that PyTorch stores: shared, a view, strided, small, constant."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.second = torch.nn.Linear(64, 64, bias=False)
        self.second.weight = self.first.weight
        self.part = torch.nn.Parameter(torch.randn(96, 64)[16:80])
        self.turned = torch.nn.Parameter(torch.randn(64, 64).t())
        self.table = torch.arange(64.0)

    def forward(self, x):
        x = torch.nn.functional.linear(self.second(self.first(x)), self.part)
        return torch.nn.functional.linear(x, self.turned) + self.table


@pytest.fixture(scope="module")
def shared():
    torch.manual_seed(4)
    return torch.export.export(Shared().eval(), (torch.randn(1, 64),))


@pytest.mark.filterwarnings("ignore:No complete tensor")
def test_weights_are_read_where_pytorch_has_them(shared):
    file = io.BytesIO()
    torch.export.save(shared, file)
    name, archive, parts = _model.model_source(shared, whole=False)
    assert _model.in_one_piece((name, archive, parts))[1] == file.getvalue()
    pointers = {each.untyped_storage().data_ptr() for each in shared.state_dict.values()}
    held = {part.ctypes.data for _, part in parts}
    assert len(held) >= 2 and held <= pointers
    data = [torch.randn(8, 64)]
    program = deuteron.compile(shared, calibration=data)
    assert program.pte == deuteron.compile(file.getvalue(), calibration=data).pte
    assert program.verify(data[0])
    assert pickle.loads(pickle.dumps(program)).verify(data[0])


def test_weights_are_not_copied():
    """Four weights of 32 MiB: beyond them there is one at most, while PyTorch writes it."""
    source = """
import resource, torch, numpy, deuteron
from deuteron import _model
layers = torch.nn.Sequential(*(torch.nn.Linear(2896, 2896, bias=False) for _ in range(4))).eval()
exported = torch.export.export(layers, (torch.randn(1, 2896),))
_model.model_source(torch.export.export(layers[0], (torch.randn(1, 2896),)), whole=False)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
source = _model.model_source(exported, whole=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, len(source[2]))
"""
    out = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    ).stdout
    kilobytes, parts = map(int, out.split())
    assert parts == 4
    assert kilobytes < 48 * 1024, "more than one weight and a half"


def test_weights_that_changed_are_noticed(samples):
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 9 * 7, 32)).eval()
    program = deuteron.compile(torch.export.export(model, (samples[:1],)), calibration=samples)
    assert program.verify(samples[:1])
    with torch.no_grad():
        model[1].weight.mul_(2)
    refused("python-model-changed", program.verify, samples[:1])


def test_loaders_of_pytorch(exported, samples, classifier):
    labels = torch.arange(24)
    dataset = torch.utils.data.TensorDataset(samples, labels)
    for loader in (
        torch.utils.data.DataLoader(dataset, batch_size=5),
        torch.utils.data.DataLoader(dataset, batch_size=None),
        torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=2),
        [(samples,)],
        samples.clone().requires_grad_(True),
    ):
        assert deuteron.compile(exported, calibration=loader).pte == classifier.pte

    class Breaks(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            raise Broken("no such image")

    with pytest.raises(Broken, match="no such image"):
        deuteron.compile(exported, calibration=torch.utils.data.DataLoader(Breaks()))


def test_tensors_give_tensors(classifier, samples):
    x = samples[:4]
    y = classifier(x)
    assert isinstance(y, torch.Tensor) and y.dtype == torch.float32 and y.shape == (4, 5)
    assert isinstance(classifier(x.numpy()), numpy.ndarray)
    assert numpy.array_equal(classifier(x.numpy()), y.numpy())
    for same in (
        x.contiguous(memory_format=torch.channels_last),
        x.flip(3).flip(3),
        x.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2),
        torch.cat([x, x], dim=3)[..., :7],
        x.clone().requires_grad_(True),
        torch.nn.Parameter(x),
    ):
        assert torch.equal(classifier(same), y)
    half = x.to(torch.bfloat16)
    assert torch.equal(classifier(half), classifier(half.float()))
    with torch.no_grad():
        assert torch.equal(classifier(image=x), y)


def test_tensors_that_no_program_takes(classifier, samples):
    x = samples[:2]
    refused("data-dtype", classifier, x.double())
    refused("data-dtype", classifier, x.to(torch.complex64))
    refused("python-device", classifier, x.to("meta"))
    refused("python-data", classifier, x.to_sparse())
    quantized = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    refused("python-data", classifier, quantized)
    refused("data-shape", classifier, torch.tensor(1.0))
    refused("data-shape", classifier, x[:, :2])
    refused("python-model", deuteron.compile, Classifier())
    # Wrappers and freed tensors have a shape, and no memory that may be read.
    freed = x.clone()
    freed.untyped_storage().resize_(0)
    refused("python-data", classifier, freed)
    cut = torch.cat([x, x])[2:]  # lies in the half of the memory that goes
    cut.untyped_storage().resize_(cut.numel() * cut.element_size())
    refused("python-data", classifier, cut)
    refused("python-data", torch.func.functionalize(classifier), x)
    refused("python-data", torch.vmap(classifier), x)
    with FakeTensorMode() as mode:
        refused("python-data", classifier, mode.from_tensor(x))
    refused("python-data", classifier, torch.nested.nested_tensor([x, x]))


def test_a_tensor_of_another_device_is_fetched(classifier, samples):
    class Elsewhere(torch.Tensor):
        """Says that it is on a GPU, as a tensor would there: numpy() refuses, cpu() fetches it."""

        @property
        def device(self):
            return torch.device("cuda", 0)

        def detach(self):
            return self

        def cpu(self):
            return self.as_subclass(torch.Tensor)

        def numpy(self):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")

    x = samples[:2]
    assert torch.equal(classifier(x.as_subclass(Elsewhere)), classifier(x))


def test_inputs_are_taken_by_their_own_names():
    exported = torch.export.export(TwoInputs(), (torch.ones(1, 4), torch.ones(1, 4)))
    torch.manual_seed(3)
    a, b = torch.randn(16, 4), torch.randn(16, 4) * 3
    program = deuteron.compile(exported, calibration=[(a, b)])
    assert program.pte == deuteron.compile(exported, calibration={"input_1": a, "input_0": b}).pte
    total, product = program(a, b)
    step = 16 / 255
    assert (total - (a + 2 * b)).abs().max() < 2 * step * 2
    assert torch.equal(total, program(input_0=b, input_1=a)[0])
    refused("data-count", program, a, b[:3])
    refused("data-missing-array", program, a)
    refused("data-missing-array", deuteron.compile, exported, calibration=[a])


def test_training_with_fake_quantization(exported, samples):
    prepared = deuteron.qat_prepare(exported, calibration=samples)
    module = prepared.exported_program().module()
    assert torch.isfinite(module(samples[:1])).all()
    assert prepared.activations > 0 and prepared.weights == 2
    equal = deuteron.qat_prepare(exported, calibration=samples, equalize=True, observer="tail")
    assert equal.weights == 2
    assert torch.isfinite(equal.exported_program().module()(samples[:1])).all()
    refused("accuracy-options", deuteron.qat_prepare, exported, equalize=True)
    refused("python-argument", deuteron.qat_prepare, exported, observer="none")


class Normalized(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.depthwise = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.plain = torch.nn.BatchNorm2d(8, affine=False)

    def forward(self, x):
        return torch.relu(self.plain(self.depthwise(torch.relu(self.norm(self.conv(x))))))


def test_batch_norms_train_and_freeze(tmp_path):
    """Without fake quantization the prepared module computes, and learns, what the float one does."""
    torch.manual_seed(0)
    net, x = Normalized().eval(), torch.randn(16, 3, 8, 8)
    for norm in (net.norm, net.plain):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    # Without a bias the second norm takes the scale of the first, whose gradient would be zero.
    torch.nn.init.normal_(net.norm.bias)
    direction = torch.randn(16, 8, 8, 8)
    prepared = deuteron.qat_prepare(torch.export.export(net, (x,)), calibration=[x])
    module = prepared.exported_program().module()
    switches = module.quantization
    with torch.no_grad():
        assert 1e-4 < (module(x) - net(x)).abs().max() < 0.2
        switches.fake_quant_on.zero_()
        with_weights = (module(x) - net(x)).abs().max()
        switches.weight_quant_on.zero_()
        assert (module(x) - net(x)).abs().max() < 1e-5 < with_weights
    assert deuteron.train_batch_norms(module) == 2
    net.train()
    output, expected = module(x), net(x)
    assert (output - expected).abs().max() < 1e-5
    assert torch.allclose(module.norm.running_mean, net.norm.running_mean, atol=1e-6)
    assert torch.allclose(module.plain.running_var, net.plain.running_var, atol=1e-5)
    for tensor, wanted in (
        (module.conv.weight, net.conv.weight),
        (module.norm.weight, net.norm.weight),
    ):
        gradient = torch.autograd.grad((output * direction).sum(), tensor, retain_graph=True)[0]
        right = torch.autograd.grad((expected * direction).sum(), wanted, retain_graph=True)[0]
        assert (gradient - right).abs().max() < 1e-4 * right.abs().max()
    switches.fake_quant_on.fill_(1)
    switches.weight_quant_on.fill_(True)
    refused("pt2-unsupported-argument", deuteron.compile, torch.export.export(module, (x,)))
    assert deuteron.train_batch_norms(module, False) == 2
    switches.weight_quant_on.zero_()
    refused("pt2-not-calibrated", deuteron.compile, torch.export.export(module, (x,)))
    switches.weight_quant_on.fill_(True)
    with torch.no_grad():
        module(x)
        trained = module(x)
    program = deuteron.compile(torch.export.export(module, (x,)))
    error = (program(x) - trained).square().mean()
    assert 10 * torch.log10(trained.square().mean() / error) > 35
    refused("python-argument", deuteron.train_batch_norms, net)


@pytest.mark.parametrize("order", ["torch, deuteron", "deuteron, torch"])
def test_the_order_of_imports_does_not_matter(digits, program, order):
    """Both bring an OpenMP of their own."""
    source = f"""
import {order}, hashlib, numpy, torch
torch.nn.functional.conv2d(torch.ones(4, 16, 64, 64), torch.ones(16, 16, 3, 3))
p = deuteron.compile({str(digits / "float.pt2")!r}, {str(digits / "calibration.npz")!r})
torch.nn.functional.conv2d(torch.ones(4, 16, 64, 64), torch.ones(16, 16, 3, 3))
print(hashlib.sha256(p.pte).hexdigest())
"""
    import hashlib

    out = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == hashlib.sha256(program.pte).hexdigest()
