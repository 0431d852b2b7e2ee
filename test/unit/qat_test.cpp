// Quantization-aware training: what qat-prepare writes is read back; what PyTorch trained of it is
// held against PyTorch's own outputs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/executors/executor.h"
#include "compiler/frontends/pt2/archive.h"
#include "compiler/frontends/pt2/node_reads.h"
#include "compiler/frontends/pt2/pt2.h"
#include "compiler/ir/npz.h"
#include "compiler/ir/parser.h"
#include "compiler/ir/verifier.h"
#include "compiler/ops/ops.h"
#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/qat_prepare.h"
#include "host/accuracy/compare.h"
#include "host/session/session.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using pt2::parse_pt2;
using test::error_id;
using test::error_text;
using Bytes = std::vector<std::byte>;

CompileSettings settings() { return {.target = find_target("imxrt700")}; }

std::filesystem::path digits(const std::string& name) {
  return test::source_path("models/digits_cnn/" + name);
}
std::filesystem::path trained(const std::string& name) {
  return test::source_path("test/data/qat/" + name);
}

// The model prepared, with its ranges from the arrays in `data`.
Result<QatPrepared> prepare(const std::filesystem::path& model, const std::filesystem::path& data,
                            const CompileSettings& chosen = settings()) {
  const Bytes bytes = test::read_bytes(model);
  DTR_ASSIGN(Module module, parse_pt2(bytes, model.string()));
  DTR_ASSIGN(const std::vector<NamedTensor> arrays, read_npz(data.string()));
  DTR_ASSIGN(const Samples samples, Samples::bind(module.forward(), arrays, data.string()));
  return qat_prepare(std::move(module), bytes, chosen, &samples);
}

struct Figures {
  double sqnr = 0, same_class = 0, accuracy = 0;
};

// Of a graph with one input and one output over images one by one.
Figures run_over(const Module& module, const std::vector<NamedTensor>& data,
                 const Tensor& expected) {
  const std::unique_ptr<Executor> executor = make_reference_executor(module, module.forward());
  const Tensor& images = *test::find_array(data, "input");
  const auto labels = test::find_array(data, "label")->values<int64_t>();
  const Shape shape = module.forward().type(module.forward().inputs()[0]).shape;
  const auto size = static_cast<size_t>(element_count(shape));
  double signal = 0, noise = 0;
  size_t same = 0, right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    Tensor image(DType::kFloat32, shape);
    std::ranges::copy(images.values<float>().subspan(i * size, size),
                      image.values<float>().begin());
    const auto outputs = executor->run({{image.view()}});
    EXPECT_TRUE(outputs.has_value()) << error_text(outputs);
    const auto got = outputs->front().values<float>();
    const auto wanted = expected.values<float>().subspan(i * got.size(), got.size());
    const auto argmax = [](auto values) {
      return std::max_element(values.begin(), values.end()) - values.begin();
    };
    same += argmax(got) == argmax(wanted) ? 1 : 0;
    right += argmax(got) == labels[i] ? 1 : 0;
    for (size_t k = 0; k < got.size(); ++k) {
      signal += std::pow(static_cast<double>(wanted[k]), 2);
      noise += std::pow(static_cast<double>(got[k]) - static_cast<double>(wanted[k]), 2);
    }
  }
  const auto count = static_cast<double>(labels.size());
  return {.sqnr = 10 * std::log10(signal / noise),
          .same_class = static_cast<double>(same) / count,
          .accuracy = static_cast<double>(right) / count};
}

// Ops that compute in float: what training left out.
std::vector<std::string> float_ops(const Graph& graph) {
  std::vector<std::string> names;
  for (const OpId op : graph.ops())
    if (graph.op(op).def != &ops::kQuantize && graph.op(op).def != &ops::kDequantize &&
        !graph.type(graph.op(op).results[0]).quantized())
      names.emplace_back(graph.op(op).def->name);
  return names;
}

TEST(Qat, PreparedModelIsWhollyInt8AndCloseToTheFloatOne) {
  const auto prepared = prepare(digits("float.pt2"), digits("calibration.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_EQ(prepared->weights, 6U);
  EXPECT_EQ(prepared->batch_norms, 5U);
  EXPECT_TRUE(prepared->notes.empty()) << prepared->notes.front();
  auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
  ASSERT_TRUE(model.has_value()) << error_text(model);
  const Module& module = model->module;
  ASSERT_TRUE(verify(module).has_value());
  EXPECT_EQ(float_ops(module.forward()), std::vector<std::string>{});
  const auto data = test::read_arrays(digits("test.npz"));
  const Figures figures = run_over(module, data, *test::find_array(data, "float_output"));
  EXPECT_GE(figures.same_class, 0.99);
  EXPECT_GE(figures.accuracy, 0.9925);
}

TEST(Qat, SameBytesEveryTime) {
  const auto a = prepare(digits("float.pt2"), digits("calibration.npz"));
  const auto b = prepare(digits("float.pt2"), digits("calibration.npz"));
  ASSERT_TRUE(a.has_value() && b.has_value());
  EXPECT_EQ(a->archive, b->archive);
}

// test/data/qat/make_qat_model.py loads what qat-prepare writes, trains it and exports it again:
// PyTorch has kept every node.
TEST(Qat, TrainedGraphIsThePreparedOne) {
  const auto prepared = prepare(digits("float.pt2"), digits("calibration.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  const Bytes bytes = test::read_bytes(trained("digits_cnn.pt2"));
  const auto ours = pt2::Archive::open(prepared->archive, "prepared.pt2");
  const auto theirs = pt2::Archive::open(bytes, "trained.pt2");
  ASSERT_TRUE(ours.has_value() && theirs.has_value());
  const auto targets = [](const pt2::Archive& archive) {
    std::vector<std::string_view> names;
    for (const pt2::Node& node : archive.program().nodes) names.push_back(node.target);
    return names;
  };
  EXPECT_EQ(targets(*ours), targets(*theirs));
}

TEST(Qat, TrainedProgramComputesWhatPyTorchTrained) {
  const Bytes bytes = test::read_bytes(trained("digits_cnn.pt2"));
  auto model = quantize_model(ModelBytes{bytes, "trained.pt2"}, settings());
  ASSERT_TRUE(model.has_value()) << error_text(model);
  const Module& module = model->module;
  EXPECT_EQ(float_ops(module.forward()), std::vector<std::string>{});
  const auto expected = test::read_arrays(trained("digits_cnn.npz"));
  const Figures figures = run_over(module, test::read_arrays(digits("test.npz")),
                                   *test::find_array(expected, "output"));
  EXPECT_GE(figures.sqnr, 35);
  EXPECT_GE(figures.same_class, 0.99);
  EXPECT_GE(figures.accuracy, 0.9925);
}

// Of a graph with one input and one output over the 16 samples of test/data/qat: each output held
// against `wanted`, an array of that file, from element `first` on.
double decibels(const Module& module, const std::string& name, const std::string& wanted,
                size_t first = 0) {
  const auto data = test::read_arrays(trained(name + ".npz"));
  const auto executor = make_reference_executor(module, module.forward());
  const auto input = test::find_array(data, "input")->values<float>(),
             expected = test::find_array(data, wanted)->values<float>();
  constexpr size_t kSamples = 16;
  Sqnr sqnr;
  for (size_t i = 0; i < kSamples; ++i) {
    const size_t values = input.size() / kSamples, results = expected.size() / kSamples;
    Tensor sample(DType::kFloat32, module.forward().type(module.forward().inputs()[0]).shape);
    std::ranges::copy(input.subspan(i * values, values), sample.values<float>().begin());
    const auto outputs = executor->run({{sample.view()}});
    EXPECT_TRUE(outputs.has_value()) << error_text(outputs);
    const Shape rest{static_cast<int64_t>(results - first)};
    Tensor a(DType::kFloat32, rest), b(DType::kFloat32, rest);
    std::ranges::copy(expected.subspan(i * results + first, results - first),
                      a.values<float>().begin());
    std::ranges::copy(outputs->front().values<float>().subspan(first), b.values<float>().begin());
    sqnr.add(a.view(), b.view());
  }
  return sqnr.decibels();
}

// The model `name` is trained in int8 as a whole and compiled so: make_operator_cases.py stores
// what PyTorch computes of it.
void expect_as_pytorch(const std::string& name, size_t weights, size_t notes = 0) {
  const auto prepared = prepare(trained(name + ".pt2"), trained(name + ".npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_EQ(prepared->weights, weights);
  EXPECT_EQ(prepared->notes.size(), notes) << fmt::format("{}", fmt::join(prepared->notes, "\n"));
  auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
  ASSERT_TRUE(model.has_value()) << error_text(model);
  EXPECT_EQ(float_ops(model->module.forward()), std::vector<std::string>{});
  EXPECT_GE(decibels(model->module, name, "output"), 40);
}

// Attention is one node, prelu reads a view of its weights, a division becomes a product, numbers
// are no tensors.
TEST(Qat, OperatorsWithoutTensorsOfTheirOwnAreInt8) { expect_as_pytorch("operators", 5); }

// Nodes over one dimension or without a batch are operators between views; addmm with a matrix is
// a product and a sum.
TEST(Qat, OperatorsBetweenViewsAreInt8) { expect_as_pytorch("one_dimension", 4); }

// Gates and recurrences are one node each: their operators take its place. Each weight is quantized
// once, whatever the number of steps: five linear layers, of two directions each of the LSTM.
TEST(Qat, GatesAndRecurrencesAreInt8) { expect_as_pytorch("gates", 10); }

// A buffer of zeros for each sample could not be read by an export for another number of samples.
TEST(Qat, FirstStatesAreNoBuffers) {
  const auto prepared = prepare(trained("gates.pt2"), trained("gates.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  const std::string text(reinterpret_cast<const char*>(prepared->archive.data()),
                         prepared->archive.size());
  EXPECT_NE(text.find("aten.full.default"), std::string::npos);
  EXPECT_EQ(text.find(".constant0"), std::string::npos);
}

// Masks stand directly before their softmaxes, which exclude scores without a range for the mask.
TEST(Qat, MaskedAttentionIsInt8) { expect_as_pytorch("masks", 2); }

// addcmul with a value is a product and a sum with a factor, which PyTorch takes by name; a product
// with a mask converts it first. Nothing but the comparison stays float.
TEST(Qat, FactorsAndMasksInsideOfNodesAreWritten) {
  const auto prepared = prepare(trained("factors.pt2"), trained("factors.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_EQ(prepared->notes, std::vector<std::string>{});
  auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
  ASSERT_TRUE(model.has_value()) << error_text(model);
  EXPECT_EQ(float_ops(model->module.forward()), std::vector<std::string>{"aten.gt.Tensor"});
  EXPECT_GE(decibels(model->module, "factors", "output"), 40);
}

// One value for two nodes, which `compile` merges, has two fake quantizations.
TEST(Qat, WhatStaysFloatIsToldOnce) {
  const auto prepared = prepare(test::source_path("test/data/pt2/one_dimension.pt2"),
                                test::source_path("test/data/pt2/one_dimension.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  ASSERT_EQ(prepared->notes.size(), 2U) << fmt::format("{}", fmt::join(prepared->notes, "\n"));
  EXPECT_EQ(prepared->notes[0],
            "`conv1d` (aten.conv1d.default): it stays float during training, as a value that it "
            "reads or computes inside has no fake quantization");
  EXPECT_TRUE(prepared->notes[1].starts_with("`conv1d_1` "));
}

// What makes zeros of rows without a score goes with the mask that the softmax gets.
TEST(Qat, DecomposedAttentionIsInt8) { expect_as_pytorch("decomposed", 2); }

// With a mask of the input's, which excludes every score of some rows: what makes zeros of these in
// the file would stay float behind the mask that qat-prepare writes.
TEST(Qat, PaddedAttentionIsInt8) {
  const auto prepared = prepare(trained("padded.pt2"), trained("padded.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_TRUE(prepared->notes.empty());
  auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
  ASSERT_TRUE(model.has_value()) << error_text(model);
  const Graph& graph = model->module.forward();
  size_t softmaxes = 0;
  for (const OpId op : graph.ops()) {
    const Type& type = graph.type(graph.op(op).results[0]);
    const bool makes_mask = type.dtype == DType::kBool || type.elements() == 5;
    EXPECT_TRUE(makes_mask || type.quantized() || graph.op(op).def == &ops::kDequantize)
        << graph.op(op).def->name;
    softmaxes += graph.op(op).def == &ops::kSoftmax && type.quantized() ? 1 : 0;
  }
  EXPECT_EQ(softmaxes, 1U);
  EXPECT_GE(decibels(model->module, "padded", "output"), 40);
}

// Weight and bias of normalizations are in the layers behind them, as compile folds them: one large
// weight takes no codes from the other channels.
TEST(Qat, NormalizationsHaveNoWeights) {
  expect_as_pytorch("norms", 4);
  const auto prepared = prepare(trained("norms.pt2"), trained("norms.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
  ASSERT_TRUE(model.has_value()) << error_text(model);
  EXPECT_GE(decibels(model->module, "norms", "float_output"), 30);
}

// The same before convolutions over one dimension, of groups and with padding, before recurrences,
// and of batch norms, which the layer behind them takes.
TEST(Qat, NormalizationsAreInLayersOfEveryKind) {
  expect_as_pytorch("more_norms", 8);
  const auto prepared = prepare(trained("more_norms.pt2"), trained("more_norms.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_EQ(prepared->batch_norms, 2U);
  auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
  ASSERT_TRUE(model.has_value()) << error_text(model);
  EXPECT_GE(decibels(model->module, "more_norms", "float_output"), 30);
}

// A layer over one dimension that only linear layers of the others would not miss.
TEST(Qat, NormalizationsAreInConvolutionsOverOneDimension) {
  expect_as_pytorch("norm_conv1d", 2);
  const auto prepared = prepare(trained("norm_conv1d.pt2"), trained("norm_conv1d.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
  ASSERT_TRUE(model.has_value()) << error_text(model);
  EXPECT_GE(decibels(model->module, "norm_conv1d", "float_output"), 35);
}

// Normalizations and a softmax that are written step by step are one operator each, products with
// parameters are linear layers: norms are in them, and batch norms behind them.
TEST(Qat, StepsAreOneOperator) {
  expect_as_pytorch("steps", 7);
  const auto prepared = prepare(trained("steps.pt2"), trained("steps.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_EQ(prepared->batch_norms, 1U);
  auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
  ASSERT_TRUE(model.has_value()) << error_text(model);
  const Graph& graph = model->module.forward();
  size_t norms = 0, softmaxes = 0;
  for (const OpId op : graph.ops()) {
    const OpDef* const def = graph.op(op).def;
    norms += def == &ops::kLayerNorm || def == &ops::kRmsNorm ? 1 : 0;
    softmaxes += def == &ops::kSoftmax ? 1 : 0;
  }
  EXPECT_EQ(norms, 4U);
  EXPECT_EQ(softmaxes, 1U);
}

// Nodes whose weight is another order of their parameter, of which einsum has several: what is no
// batch of matrices has a scale for each channel, of which some are far smaller.
TEST(Qat, ProductsAreLayers) {
  expect_as_pytorch("products", 8);
  const auto prepared = prepare(trained("products.pt2"), trained("products.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_EQ(prepared->batch_norms, 1U);
}

// Both results of a node have their own fake quantization; the steps of a softsign have none
// inside, so that they become its table; a mask is quantized, too.
TEST(Qat, ResultsOfOneNodeAreKeptApart) { expect_as_pytorch("results", 2); }

// Channels that are decades apart are brought together before training, through a batch norm,
// groups, a transposed convolution, a residual group, a concatenation and an input; what PyTorch
// computes of the file is what it was.
TEST(Qat, ChannelsAreEqualized) {
  CompileSettings equalizing = settings();
  for (const bool equalizes : {false, true}) {
    equalizing.equalize = equalizes;
    const auto prepared = prepare(trained("equalized.pt2"), trained("equalized.npz"), equalizing);
    ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
    EXPECT_EQ(prepared->notes, std::vector<std::string>());
    EXPECT_EQ(prepared->equalization.groups, equalizes ? 4U : 0U);
    auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
    ASSERT_TRUE(model.has_value()) << error_text(model);
    const double reached = decibels(model->module, "equalized", "float_output");
    if (!equalizes) {
      EXPECT_LE(reached, 10);
      continue;
    }
    EXPECT_GE(reached, 32);
    EXPECT_GE(decibels(model->module, "equalized", "output"), 40);  // PyTorch's
    // The product that scales the input is float.
    EXPECT_EQ(float_ops(model->module.forward()).size(), 1U)
        << fmt::format("{}", fmt::join(float_ops(model->module.forward()), " "));
  }
}

TEST(Qat, EqualizationNeedsSamples) {
  const Bytes bytes = test::read_bytes(trained("equalized.pt2"));
  auto module = parse_pt2(bytes, "equalized.pt2");
  ASSERT_TRUE(module.has_value()) << error_text(module);
  CompileSettings equalizing = settings();
  equalizing.equalize = true;
  EXPECT_EQ(error_id(qat_prepare(std::move(*module), bytes, equalizing, nullptr)),
            "accuracy-options");
}

// PyTorch has no normalization whose epsilon is trained.
TEST(Qat, NormalizationsInStepsAreTold) {
  const auto prepared = prepare(trained("learned_eps.pt2"), trained("learned_eps.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_EQ(prepared->notes,
            std::vector<std::string>{
                "`mul` (aten.mul.Tensor): the rms_norm that ends here is trained step by step, "
                "each step in int8 for itself, where compile --calibrate finds one operator; write "
                "it as torch.nn.functional.rms_norm"});
}

// Weights and activations have scales as small as after calibration; those of activations that
// PyTorch's observer would enlarge are fixed, and told.
TEST(Qat, SmallValuesKeepTheirCodes) {
  expect_as_pytorch("small", 3, 3);
  const auto prepared = prepare(trained("small.pt2"), trained("small.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
  ASSERT_TRUE(model.has_value()) << error_text(model);
  EXPECT_GE(decibels(model->module, "small", "float_output"), 35);
  EXPECT_EQ(prepared->notes.front(),
            "`relu`: its range stays that of the samples, as PyTorch observes none so small");
}

// What is small keeps its codes as after calibration: it has a scale of its own for its other
// reader, and the output joins in float.
TEST(Qat, UnlikeRangesAreKeptApart) {
  const auto prepared = prepare(trained("unlike.pt2"), trained("unlike.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
  ASSERT_TRUE(model.has_value()) << error_text(model);
  EXPECT_EQ(float_ops(model->module.forward()), std::vector<std::string>{"aten.cat"});
  EXPECT_GE(decibels(model->module, "unlike", "output"), 40);
  constexpr size_t kBoxes = size_t{4} * 4 * 3;
  EXPECT_GE(decibels(model->module, "unlike", "float_output", kBoxes), 30);  // of the scores
}

std::filesystem::path with_states(const std::string& name) {
  return test::source_path("test/data/states/" + name);
}

// Which states of a program are int8, and what its first output has against PyTorch's float one,
// run by run.
struct Stream {
  std::vector<DType> states;
  double decibels = 0;
};
Result<Stream> stream_of(ModelSource source, const CompileSettings& taken,
                         const std::vector<NamedTensor>& arrays) {
  DTR_ASSIGN(const Compilation program, compile_model(std::move(source), taken));
  Stream stream;
  const Graph& graph = program.module.forward();
  for (size_t i = 0; i < graph.state_count(); ++i)
    stream.states.push_back(graph.type(graph.state(i)).dtype);
  DTR_ASSIGN(const std::unique_ptr<Session> session, Session::load(program.pte(), "program"));
  const Tensor& wanted = *test::find_array(arrays, "output_0");
  const auto step_of = [](const Tensor& all, size_t step) {
    TensorView view = all.view();
    view.shape.erase(view.shape.begin());
    view.data += step * view.bytes();
    return view;
  };
  Sqnr sqnr;
  for (size_t step = 0; step < static_cast<size_t>(wanted.shape()[0]); ++step) {
    std::vector<TensorView> inputs;
    for (const NamedTensor& array : arrays)
      if (array.name.starts_with("input_")) inputs.push_back(step_of(array.tensor, step));
    DTR_ASSIGN(const std::vector<Tensor> outputs, session->run(inputs));
    sqnr.add(step_of(wanted, step), outputs[0].view());
  }
  stream.decibels = sqnr.decibels();
  return stream;
}

// What a run writes to a state is quantized as what the next one reads, of exports that write in
// place and of those that name the next state among their outputs.
TEST(Qat, StatesAreThoseAfterCalibration) {
  constexpr double kOfWeights = 2;  // calibration widens their scales where that errs less
  int64_t whole = 0;
  for (const std::string name : {"ring", "cell", "cache", "keywords", "parts"}) {
    const auto data = with_states(name + ".npz");
    const std::vector<NamedTensor> arrays = test::read_arrays(data);
    for (const std::string form : {"", "_core"}) {
      const auto model = with_states(name + form + ".pt2");
      CompileSettings calibrated = settings();
      calibrated.samples = SampleFile{data.string()};
      calibrated.weigh_costs = false;  // small states of the CPU alone would be float
      const auto before = stream_of(model.string(), calibrated, arrays);
      ASSERT_TRUE(before.has_value()) << error_text(before);
      whole += std::ranges::count(before->states, DType::kInt8);
      const auto prepared = prepare(model, data);
      ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
      EXPECT_EQ(prepared->notes, std::vector<std::string>{});
      const auto after =
          stream_of(ModelBytes{prepared->archive, "prepared.pt2"}, settings(), arrays);
      ASSERT_TRUE(after.has_value()) << error_text(after);
      EXPECT_EQ(after->states, before->states) << model;
      EXPECT_GE(after->decibels, before->decibels - kOfWeights) << model;
    }
  }
  EXPECT_EQ(whole, 2 * (1 + 0 + 2 + 3 + 1));
}

// Slices, elements, diagonals and turned views of states are written, in one step or several, and
// the states are read again by their names.
TEST(Qat, StatesOfPartsAreInt8) {
  const auto prepared = prepare(with_states("views.pt2"), with_states("views.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_EQ(prepared->notes, std::vector<std::string>{});
  const auto stream = stream_of(ModelBytes{prepared->archive, "prepared.pt2"}, settings(),
                                test::read_arrays(with_states("views.npz")));
  ASSERT_TRUE(stream.has_value()) << error_text(stream);
  EXPECT_EQ(stream->states, std::vector<DType>(4, DType::kInt8));
  EXPECT_GE(stream->decibels, 30);
}

// make_stream.py trains on short runs that begin with an empty state; the program keeps the ranges
// that long runs reach.
TEST(Qat, RangesOfStatesDoNotShrink) {
  const Bytes bytes = test::read_bytes(trained("stream_trained.pt2"));
  const auto stream = stream_of(ModelBytes{bytes, "trained.pt2"}, settings(),
                                test::read_arrays(trained("stream.npz")));
  ASSERT_TRUE(stream.has_value()) << error_text(stream);
  EXPECT_EQ(stream->states, std::vector<DType>{DType::kInt8});
  EXPECT_GE(stream->decibels, 25);
  const auto prepared = prepare(with_states("views.pt2"), with_states("views.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  const auto archive = pt2::Archive::open(prepared->archive, "prepared.pt2");
  ASSERT_TRUE(archive.has_value()) << error_text(archive);
  const auto widens = [&](std::string_view value) {
    const auto& nodes = archive->program().nodes;
    return std::ranges::find(nodes, fmt::format("{}_observed", value), &pt2::Node::name) !=
           nodes.end();
  };
  EXPECT_TRUE(widens("b_table") && widens("b_ring_next") && widens("cat"));
  EXPECT_FALSE(widens("x"));
}

// Fake quantization of fixed ranges is behind the same switch: whatever fakes a quantization of an
// activation is read by a `where` alone, or has a switch as an argument.
TEST(Qat, EveryFakeQuantizationHasASwitch) {
  for (const std::string name : {"operators", "gates", "small"}) {
    const auto prepared = prepare(trained(name + ".pt2"), trained(name + ".npz"));
    ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
    const auto archive = pt2::Archive::open(prepared->archive, "prepared.pt2");
    ASSERT_TRUE(archive.has_value()) << error_text(archive);
    size_t fixed = 0;
    for (const pt2::Node& node : archive->program().nodes) {
      if (!node.target.starts_with("torch.ops.aten.fake_quantize_")) continue;
      ++fixed;
      for (const pt2::Node& reader : archive->program().nodes)
        pt2::for_each_read(reader, [&](std::string_view read) {
          EXPECT_TRUE(read != node.outputs[0] || reader.target == "torch.ops.aten.where.self")
              << name << ": " << reader.name;
        });
    }
    EXPECT_GT(fixed, prepared->weights) << name;
  }
}

// Models whose nodes are complex, of float64 or integers, or select by arrays of indices, which
// PyTorch's index_select does not take: what is prepared is read back.
TEST(Qat, OtherTypesAndArraysOfIndicesAreReadBack) {
  for (const std::string name :
       {"complex_moves", "complex_powers", "constants", "narrowed", "bounded_parts", "losses"}) {
    const auto model = test::source_path("test/data/pt2/" + name + ".pt2");
    const auto prepared = prepare(model, test::source_path("test/data/pt2/" + name + ".npz"));
    ASSERT_TRUE(prepared.has_value()) << name << ": " << error_text(prepared);
    const auto read = parse_pt2(prepared->archive, "prepared.pt2");
    EXPECT_TRUE(read.has_value()) << name << ": " << error_text(read);
    const bool of_other_type = name != "bounded_parts" && name != "losses";
    const auto told = std::ranges::count_if(prepared->notes, [](const std::string& note) {
      return note.find("no tensor of float32") != std::string::npos;
    });
    EXPECT_EQ(told > 0, of_other_type) << name;
  }
}

// A division that stays float by its ranges reads all of what only a clamp read before: `separate`
// observes that too.
TEST(Qat, RangesOfWhatDivisionsLeaveFloatAreKnown) {
  const auto prepared = prepare(test::source_path("test/data/pt2/spectra.pt2"),
                                test::source_path("test/data/pt2/spectra.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  const auto model = quantize_model(ModelBytes{prepared->archive, "prepared.pt2"}, settings());
  EXPECT_TRUE(model.has_value()) << error_text(model);
}

TEST(Qat, JoinsWithoutRangesAreTold) {
  const Bytes bytes = test::read_bytes(trained("unlike.pt2"));
  auto module = parse_pt2(bytes, "unlike.pt2");
  ASSERT_TRUE(module.has_value()) << error_text(module);
  const auto prepared = qat_prepare(std::move(*module), bytes, settings(), nullptr);
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_EQ(prepared->notes,
            std::vector<std::string>{
                "`cat` (aten.cat.default): without --calibrate all that it joins shares one "
                "quantization, and parts of much smaller ranges lose their codes; give samples to "
                "find such parts"});
}

TEST(Qat, NeedsDataBeforeItCompiles) {
  const Bytes bytes = test::read_bytes(digits("float.pt2"));
  auto module = parse_pt2(bytes, "float.pt2");
  ASSERT_TRUE(module.has_value()) << error_text(module);
  const auto prepared = qat_prepare(std::move(*module), bytes, settings(), nullptr);
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  const auto again = parse_pt2(prepared->archive, "prepared.pt2");
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(to_text(again.error()),
            "error[pt2-not-calibrated]: prepared.pt2: `x_fake_quantized`: the model is prepared "
            "for training, but this fake quantization has "
            "seen "
            "no data\n  at: stem.0, make_models.py:208\n  fix: run the prepared model on training "
            "data before the export, with its observers on");
}

// Nothing of fake quantization that is off is in the graph; the file tells of it.
TEST(Qat, FakeQuantizationThatIsOffIsTold) {
  auto module = parse_module(
      "sources {\n  0: \"fake\" \"aten.fused_moving_avg_obs_fake_quant.default\" \"\" \"\"\n}\n"
      "graph @forward(%x: f32[2]) {\n  %y: f32[2] = aten.relu(%x)\n  return %y\n}\n",
      "off.pt2");
  ASSERT_TRUE(module.has_value()) << error_text(module);
  const auto quantized = quantize_model(std::move(*module), settings());
  ASSERT_FALSE(quantized.has_value());
  EXPECT_EQ(to_text(quantized.error()),
            "error[calibration-missing]: off.pt2: the model is float, because its fake "
            "quantization is switched off, and there are no "
            "calibration "
            "data to choose ranges from\n  fix: switch it on before the export, for example "
            "model.quantization.fake_quant_on.fill_(1)");
}

TEST(Qat, RefusesQuantizedModels) {
  const Bytes bytes = test::read_bytes(digits("quantized.pt2"));
  auto module = parse_pt2(bytes, "quantized.pt2");
  ASSERT_TRUE(module.has_value()) << error_text(module);
  const auto prepared = qat_prepare(std::move(*module), bytes, settings(), nullptr);
  ASSERT_FALSE(prepared.has_value());
  EXPECT_EQ(to_text(prepared.error()),
            "error[qat-quantized]: quantized.pt2: the model has quantized values already\n  fix: "
            "prepare the float model, before quantization");
}

TEST(Qat, RefusesControlFlow) {
  const Bytes bytes = test::read_bytes(test::source_path("test/data/pt2/branches.pt2"));
  auto module = parse_pt2(bytes, "branches.pt2");
  ASSERT_TRUE(module.has_value()) << error_text(module);
  const auto prepared = qat_prepare(std::move(*module), bytes, settings(), nullptr);
  ASSERT_FALSE(prepared.has_value());
  EXPECT_EQ(prepared.error().id, DiagnosticId::kPt2ControlFlow) << error_text(prepared);
}

// The division by a factor of 0 is left out: the channel is its bias.
TEST(Qat, ChannelsWithoutAFactorAreTheirBias) { expect_as_pytorch("pruned", 1); }

// PyTorch's observer makes scale and zero point anew from the ends of a range, in the first step of
// the training already.
TEST(Qat, EndsOfRangesGiveTheirScalesInPyTorch) {
  const auto prepared = prepare(digits("float.pt2"), digits("calibration.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  const auto archive = pt2::Archive::open(prepared->archive, "prepared.pt2");
  ASSERT_TRUE(archive.has_value()) << error_text(archive);
  const auto element = [&]<class T>(const std::string& name, T) {
    const auto read = archive->read(name);
    EXPECT_TRUE(read.has_value()) << error_text(read);
    T value{};
    std::memcpy(&value, read->bytes.data(), sizeof value);
    return value;
  };
  size_t ranges = 0;
  for (const pt2::InputSpec& input : archive->program().inputs) {
    constexpr std::string_view kEnd = ".running_min";
    if (!input.target.ends_with(kEnd)) continue;
    const std::string of(input.target.substr(0, input.target.size() - kEnd.size()));
    const float low = element(of + ".running_min", float()),
                high = element(of + ".running_max", float()),
                scale = element(of + ".scale", float());
    const float anew = (std::max(high, 0.F) - std::min(low, 0.F)) / 255;
    EXPECT_NEAR(anew, scale, 1e-5F * scale) << of;
    EXPECT_EQ(std::lround(-128 - std::min(low, 0.F) / anew), element(of + ".zero_point", int32_t()))
        << of;
    ++ranges;
  }
  EXPECT_GT(ranges, 5U);
}

// The fusion is simulated behind permutes and views and for groups of a transposed convolution, and
// for two batch norms of one layer.
TEST(Qat, BatchNormsAreInTheirLayers) {
  expect_as_pytorch("batch_norms", 6);
  const auto prepared = prepare(trained("batch_norms.pt2"), trained("batch_norms.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_EQ(prepared->batch_norms, 5U);
}

// Operators of regions are those of the graph around them; batch norms find their layers there.
TEST(Qat, RegionsAreInt8) {
  expect_as_pytorch("regions", 2);
  const auto prepared = prepare(trained("regions.pt2"), trained("regions.npz"));
  ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
  EXPECT_EQ(prepared->batch_norms, 1U);
  const std::string text(reinterpret_cast<const char*>(prepared->archive.data()),
                         prepared->archive.size());
  EXPECT_EQ(text.find("higher_order"), std::string::npos);
  EXPECT_NE(text.find("torch.ops.aten.detach.default"), std::string::npos);
}

// Every float export of the full set can be prepared, and is read back quantized with what the
// notes do not except.
TEST(Qat, PreparesTheFullSet) {
  const std::filesystem::path cases = test::shared_path("conformance");
  if (cases.empty()) GTEST_SKIP() << "the full set is not there";
  size_t count = 0, whole = 0;
  std::string silent;  // float without a note: elementwise operators with constants that training
                       // does not quantize
  for (const auto& folder : std::filesystem::directory_iterator(cases)) {
    const auto model = folder.path() / "float.pt2", data = folder.path() / "calibration.npz";
    if (!std::filesystem::exists(model) || !std::filesystem::exists(data)) continue;
    const auto prepared = prepare(model, data);
    ASSERT_TRUE(prepared.has_value()) << error_text(prepared);
    CompileSettings taken = settings();
    if (prepared->activations == 0 && prepared->weights == 0)
      taken.ranges = AsItIs{};  // nothing to train, nothing to quantize
    const auto quantized = quantize_model(ModelBytes{prepared->archive, model.string()}, taken);
    ASSERT_TRUE(quantized.has_value()) << error_text(quantized);
    ASSERT_TRUE(verify(quantized->module).has_value()) << model;
    ++count;
    const auto left = float_ops(quantized->quantized);
    whole += left.empty() ? 1 : 0;
    if (!left.empty() && prepared->notes.empty())
      silent += fmt::format("{}: {}\n", folder.path().filename().string(), fmt::join(left, " "));
  }
  EXPECT_GT(count, 500U);
  EXPECT_GE(whole, 526U) << silent;
}

}  // namespace
}  // namespace dtr
