// Reading PyTorch exports: accepted programs against PyTorch's own outputs, refused ones by id,
// place and reason. Bad files are made from good ones by editing the JSON inside.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "compiler/executors/executor.h"
#include "compiler/frontends/pt2/describe.h"
#include "compiler/frontends/pt2/inline_regions.h"
#include "compiler/frontends/pt2/pt2.h"
#include "compiler/frontends/pt2/remedies.h"
#include "compiler/frontends/pt2/trace.h"
#include "compiler/ir/npz.h"
#include "compiler/ir/verifier.h"
#include "compiler/support/zip_writer.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using pt2::parse_pt2;
using pt2::read_pt2;
using test::error_id;
using test::error_text;
using Bytes = std::vector<std::byte>;

std::string digits(const std::string& name) {
  return test::source_path("models/digits_cnn/" + name).string();
}

// The operator that an op comes from.
std::vector<std::string> op_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const OpId op : graph.ops()) names.emplace_back(graph.op(op).def->name);
  return names;
}

// Infinite if an element is not finite on one side alone.
double max_difference(std::span<const float> a, std::span<const float> b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  return worst;
}

// --- accepted
// ----------------------------------------------------------------------------------------------------------------------

// The strides of an output are those that the file states: one of this model is a transposed view.
TEST(Pt2, LayoutsOfOutputs) {
  const auto program =
      read_pt2(test::source_path("test/data/conformance/own_matmul/float.pt2").string());
  ASSERT_TRUE(program) << error_text(program);
  const Graph& graph = program->forward();
  ASSERT_GT(graph.outputs().size(), 4U);
  EXPECT_EQ(graph.output_layout(0), Layout::kContiguous);
  EXPECT_EQ(graph.output_layout(4), Layout::kChannelsLast);
}

// What to change in the source: of iterations, of operators of others.
TEST(Pt2, RefusedOperatorsHaveRemedies) {
  const auto remedy = [](const char* target) { return pt2::remedy_of_missing(target, {}); };
  EXPECT_NE(remedy("aten.linalg_eig.default").find("when the model is built"), std::string::npos);
  EXPECT_NE(remedy("aten.linalg_lstsq.default").find("torch.linalg.pinv(A) @ B"),
            std::string::npos);
  EXPECT_NE(remedy("aten.bincount.default").find("torch.arange(bins)"), std::string::npos);
  for (const char* target : {"aten.nonzero.default", "aten.unique_dim.default"})
    EXPECT_EQ(remedy(target).find("run_decompositions()"), std::string::npos) << target;
  EXPECT_NE(remedy("mine.op.default").find("mine.op.default is not PyTorch's own"),
            std::string::npos);
  EXPECT_NE(remedy("aten._sparse_mm.default").find("keep the tensor dense"), std::string::npos);
  EXPECT_NE(pt2::remedy_of_random("aten.multinomial.default").find("p.topk(k)"), std::string::npos);
  EXPECT_NE(pt2::remedy_of_random("aten.randn.default").find("make the noise an input"),
            std::string::npos);
  EXPECT_NE(remedy("aten.bessel_j0.default").find("run_decompositions()"), std::string::npos);
}

TEST(Pt2, ComputesWhatPyTorchComputes) {
  for (const std::string name : {"leftovers",
                                 "tied",
                                 "channels_last",
                                 "in_place",
                                 "matrices",
                                 "one_dimension",
                                 "reshapes",
                                 "convolutions",
                                 "products",
                                 "attention",
                                 "norms",
                                 "indices",
                                 "added_along",
                                 "masked_order",
                                 "shifted_right",
                                 "shifted_far",
                                 "reduced_by_index",
                                 "inverse_functions",
                                 "reduced_parts",
                                 "causal",
                                 "fake_quantized",
                                 "unsigned",
                                 "trained_prepared",
                                 "trained_converted",
                                 "numbers",
                                 "constants",
                                 "recurrent",
                                 "equations",
                                 "eigen",
                                 "windows",
                                 "picked",
                                 "searched",
                                 "small_matrices",
                                 "complex_functions",
                                 "spectra",
                                 "statistics",
                                 "stacks",
                                 "definitions",
                                 "losses",
                                 "rare_functions",
                                 "places",
                                 "masks",
                                 "narrowed",
                                 "written_input",
                                 "written_input_core",
                                 "decomposed",
                                 "ordered_checks",
                                 "number_indices",
                                 "out_arguments",
                                 "many_extremes",
                                 "running_logarithms",
                                 "branches",
                                 "loops",
                                 "regions",
                                 "bags",
                                 "small_functions",
                                 "transposed_volumes",
                                 "shifts",
                                 "repeats",
                                 "norms_and_diagonals",
                                 "distances",
                                 "other_names",
                                 "moved_taps",
                                 "box_parts",
                                 "volumes_at_places",
                                 "spectral_convolution",
                                 "complex_moves",
                                 "complex_layers",
                                 "complex_powers",
                                 "constant_numbers",
                                 "linear_algebra",
                                 "signs",
                                 "singular",
                                 "whole_products",
                                 "experts",
                                 "grouped_products",
                                 "integer_powers",
                                 "far_order",
                                 "counted_from_end",
                                 "ranks_and_segments",
                                 "special_functions",
                                 "complex_inverses",
                                 "bounded_parts"}) {
    const auto program = read_pt2(test::export_path(name + ".pt2"));
    ASSERT_TRUE(program.has_value()) << error_text(program);
    ASSERT_TRUE(verify(*program).has_value()) << name;
    const auto data = read_npz(test::export_path(name + ".npz"));
    ASSERT_TRUE(data.has_value());
    std::vector<TensorView> inputs;
    for (size_t i = 0; i < program->forward().inputs().size(); ++i)
      inputs.push_back(test::find_array(*data, fmt::format("input_{}", i))->view());
    const auto outputs = make_reference_executor(*program, program->forward())->run(inputs);
    ASSERT_TRUE(outputs.has_value()) << error_text(outputs);
    for (size_t i = 0; i < outputs->size(); ++i) {
      const Tensor& expected = *test::find_array(*data, fmt::format("output_{}", i));
      EXPECT_EQ((*outputs)[i].shape(), expected.shape()) << name << i;
      if (!is_float(expected.dtype())) {
        EXPECT_EQ((*outputs)[i].dtype(), expected.dtype()) << name << " output " << i;
        EXPECT_TRUE(std::ranges::equal((*outputs)[i].bytes(), expected.bytes()))
            << name << " output " << i;
        continue;
      }
      EXPECT_LT(max_difference((*outputs)[i].values<float>(), expected.values<float>()), 2e-6)
          << name << " output " << i;
    }
  }
}

TEST(Pt2, DropsWhatTrainingLeaves) {
  const auto program = read_pt2(test::export_path("leftovers.pt2"));
  ASSERT_TRUE(program.has_value()) << error_text(program);
  EXPECT_EQ(op_names(program->forward()),
            (std::vector<std::string>{"aten.batch_norm", "aten.add.Tensor"}));
  EXPECT_GT(program->sources.size(), 4U);  // every node of the file is a source operator
}

TEST(Pt2, TiedWeightsAreOneConstant) {
  const auto program = read_pt2(test::export_path("tied.pt2"));
  ASSERT_TRUE(program.has_value()) << error_text(program);
  EXPECT_EQ(program->constants.size(), 4U);  // shared weight, bias, two views
}

TEST(Pt2, KeepsTheLayoutOfInputs) {
  const auto last = read_pt2(test::export_path("channels_last.pt2"));
  ASSERT_TRUE(last.has_value()) << error_text(last);
  const Graph& graph = last->forward();
  EXPECT_EQ(graph.type(graph.inputs()[0]).layout, Layout::kChannelsLast);
  EXPECT_EQ(graph.type(graph.inputs()[0]).shape, (Shape{1, 5, 6, 7}));
  const auto first = read_pt2(digits("float.pt2"));
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->forward().type(first->forward().inputs()[0]).layout, Layout::kContiguous);
}

TEST(Pt2, KnowsWhereOperatorsComeFrom) {
  const auto program = read_pt2(digits("float.pt2"));
  ASSERT_TRUE(program.has_value()) << error_text(program);
  EXPECT_EQ(program->sources.size(), 19U);
  EXPECT_EQ(program->sources[4],
            (SourceOp{"conv2d_1",
                      "aten.conv2d.default",
                      "depthwise.0",
                      "make_models.py:209",
                      {"__main__.DigitsCnn", "torch.nn.modules.container.Sequential",
                       "torch.nn.modules.conv.Conv2d"}}));
  EXPECT_EQ(program->sources[9].module_path, "");
  size_t index = 0;
  for (const OpId op : program->forward().ops())
    EXPECT_EQ(program->forward().op(op).origin.sources,
              std::vector<uint32_t>{static_cast<uint32_t>(index++)});
}

TEST(Pt2, RefersToWeightsInTheFile) {
  const Bytes bytes = test::read_bytes(digits("float.pt2"));
  const auto program = parse_pt2(bytes, "float.pt2");
  ASSERT_TRUE(program.has_value()) << error_text(program);
  size_t inside = 0;
  for (uint32_t i = 0; i < program->constants.size(); ++i) {
    const std::byte* at = program->constants.bytes({i}).data();
    inside += at >= bytes.data() && at < bytes.data() + bytes.size() ? 1 : 0;
  }
  EXPECT_EQ(inside, program->constants.size());
}

TEST(Pt2, ReadsQuantizedPrograms) {
  const auto program = read_pt2(digits("quantized.pt2"));
  ASSERT_TRUE(program.has_value()) << error_text(program);
  ASSERT_TRUE(verify(*program).has_value());
  const Graph& graph = program->forward();
  size_t quantized_weights = 0;
  for (const OpId op : graph.ops()) {
    if (graph.op(op).def->name != "aten.convolution") continue;
    const ValueId weight = graph.op(op).operands[1];
    const Op& dequantize = graph.op(graph.producer(weight));
    ASSERT_EQ(dequantize.def->name, "dequantize");
    const Type& type = graph.type(dequantize.operands[0]);
    EXPECT_EQ(type.dtype, DType::kInt8);
    EXPECT_EQ(type.quantization->axis, 0);
    EXPECT_EQ(type.quantization->qmin, -127);
    EXPECT_EQ(static_cast<int64_t>(type.quantization->scales.size()), type.shape[0]);
    ++quantized_weights;
  }
  EXPECT_EQ(quantized_weights, 4U);
  const Type& input = graph.type(graph.op(graph.value(graph.inputs()[0]).uses[0].op).results[0]);
  EXPECT_EQ(*input.quantization, Quantization::per_tensor(0.00390625F, -128));
}

TEST(Pt2, ModulePathAndSourceLine) {
  EXPECT_EQ(
      pt2::module_path(
          "L__self__,,__main__.Net;1399,stem,torch.nn.Sequential;1398,stem.0,torch.nn.Conv2d"),
      "stem.0");
  EXPECT_EQ(pt2::module_path("L__self__,,__main__.Net"), "");
  EXPECT_EQ(pt2::module_path("L__self___a,L['self'].a.b,m.Block"), "a.b");
  EXPECT_EQ(pt2::module_path(""), "");
}

TEST(Pt2, ModuleTypes) {
  using Types = std::vector<std::string>;
  EXPECT_EQ(
      pt2::module_types(
          "L__self__,,__main__.Net;1399,stem,torch.nn.Sequential;1398,stem.0,torch.nn.Conv2d"),
      (Types{"__main__.Net", "torch.nn.Sequential", "torch.nn.Conv2d"}));
  EXPECT_EQ(pt2::module_types("L__self__,,m.Outer.<locals>.Net"), Types{"m.Outer.<locals>.Net"});
  EXPECT_EQ(pt2::module_types(""), Types{});
  EXPECT_EQ(pt2::module_types(";,;a,b;a,b,;"), Types{});
  const std::string frame =
      "  File \"/somewhere/site-packages/torch/nn/functional.py\", line 10, in relu\n    return "
      "x\n";
  EXPECT_EQ(pt2::source_line("  File \"src/net.py\", line 7, in forward\n    y = f(x)\n" + frame),
            "net.py:7");
  EXPECT_EQ(pt2::source_line("  File \"a.py\", line 1, in f\n  File \"b.py\", line 22, in g\n"),
            "b.py:22");
  EXPECT_EQ(pt2::source_line(frame), "functional.py:10");
  EXPECT_EQ(pt2::source_line("  File \"<eval_with_key>.43\", line 30, in forward\n"), "");
  EXPECT_EQ(pt2::source_line("File \"broken"), "");
}

TEST(Pt2, DescribesAlsoWhatDoesNotCompile) {
  const auto good = pt2::describe_pt2(digits("float.pt2"));
  ASSERT_TRUE(good.has_value()) << error_text(good);
  for (const char* part : {"PyTorch 2.13", "1x1x16x16", "stem.0.weight", "16x1x3x3", "576 bytes",
                           "5 × aten.batch_norm.default", "linear_1"})
    EXPECT_NE(good->find(part), std::string::npos) << part << "\n" << *good;
  EXPECT_EQ(good->find("not supported"), std::string::npos);
  const auto bad = pt2::describe_pt2(test::export_path("unsupported.pt2"));
  ASSERT_TRUE(bad.has_value()) << error_text(bad);
  EXPECT_NE(bad->find("2 × aten.special_bessel_y0.default  (not supported)"), std::string::npos)
      << *bad;
  EXPECT_NE(pt2::describe_pt2(test::export_path("symbolic.pt2"))->find("symbolic (s"),
            std::string::npos);
}

TEST(Pt2, WarnsOfAnInputThatTheModelWrites) {
  for (const std::string name : {"written_input", "written_input_core"}) {
    const auto module = read_pt2(test::export_path(name + ".pt2"));
    ASSERT_TRUE(module) << error_text(module);
    ASSERT_EQ(module->notes.size(), 1u) << name;
    EXPECT_EQ(module->notes[0].id, DiagnosticId::kPt2MutatedState);
    EXPECT_EQ(module->notes[0].severity, Severity::kWarning);
    EXPECT_EQ(module->notes[0].place.node, "x");
  }
}

TEST(Pt2, SaysThatComplexNumbersAreTwoFloats) {
  const auto module = read_pt2(test::export_path("complex_powers.pt2"));
  ASSERT_TRUE(module) << error_text(module);
  const Graph& graph = module->forward();
  EXPECT_EQ(graph.type(graph.inputs()[0]).shape, Shape({3, 5, 2}));
  std::vector<std::string> names;
  for (const Diagnostic& note : module->notes) {
    EXPECT_EQ(note.id, DiagnosticId::kPt2UnsupportedDtype);
    EXPECT_EQ(note.severity, Severity::kNote);
    EXPECT_NE(note.reason.find("torch.view_as_real(" + note.place.node + ")"), std::string::npos);
    names.push_back(note.place.node);
  }
  ASSERT_GT(names.size(), 2U);
  EXPECT_EQ(names[0], "x");
  EXPECT_EQ(names[1], "y");
}

// --- refused
// -----------------------------------------------------------------------------------------------------------------------

TEST(Pt2, RefusesWhatCannotCompile) {
  struct Case {
    std::string name;
    std::string_view id;
    std::string_view node;
    std::string_view reason;
    bool has_line;
  };
  const Case cases[] = {
      {"changing_number", "pt2-symbolic-shape", "mul", "an element of a tensor", true},
      {"odd_strides", "pt2-unsupported-strides", "x", "[12, 2]", false},
      {"open_loop", "pt2-control-flow", "while_loop", "depends on an input", true},
      {"overwritten_view", "pt2-mutated-state", "relu_", "`view`", true},
      {"sampling", "pt2-unsupported-operator", "randn_like", "random numbers", true},
      {"symbolic", "pt2-symbolic-shape", "x", "(x.0; from 1 on)", false},
      {"training_norm", "pt2-unsupported-argument", "batch_norm", "training mode", true},
      {"unsupported", "pt2-unsupported-operator", "special_bessel_y0",
       "aten.special_bessel_y0.default (2×)", true},
  };
  for (const Case& bad : cases) {
    const auto program = read_pt2(test::export_path(bad.name + ".pt2"));
    ASSERT_FALSE(program.has_value()) << bad.name;
    const Diagnostic& problem = program.error();
    EXPECT_EQ(info(problem.id).name, bad.id) << error_text(program);
    EXPECT_EQ(problem.place.node, bad.node) << error_text(program);
    EXPECT_NE(problem.reason.find(bad.reason), std::string::npos) << problem.reason;
    EXPECT_EQ(problem.place.source_line.starts_with("make_"), bad.has_line) << error_text(program);
    EXPECT_FALSE(problem.fix.empty());
    if (bad.name == "changing_number") {
      EXPECT_NE(problem.fix.find("keep the number a tensor"), std::string::npos) << problem.fix;
    }
    EXPECT_EQ(problem.place.file, test::export_path(bad.name + ".pt2"));
  }
}

TEST(Pt2, RefusesUnfinishedQuantization) {
  const std::pair<std::string, std::string> cases[] = {
      {"never_calibrated",
       "error[pt2-not-calibrated]: {}: `fused_moving_avg_obs_fake_quant`: the model is prepared "
       "for training, but this fake quantization "
       "has "
       "seen no data\n  at: make_quantization_cases.py:104\n  fix: run the prepared model on "
       "training data before the export, with its "
       "observers on"},
      {"not_converted",
       "error[pt2-not-calibrated]: {}: `min_1`: the model is prepared for quantization, but not "
       "converted: it has the observer "
       "`activation_post_process_0.min_val`\n  at: activation_post_process_0, "
       "make_quantization_cases.py:114\n  fix: run calibration data "
       "through the prepared model, call convert_pt2e, then export"},
      {"wide_codes",
       "error[pt2-unsupported-argument]: {}: `fake_quantize_per_tensor_affine`: "
       "aten.fake_quantize_per_tensor_affine.default: codes in "
       "-32768…32767\n  at: make_quantization_cases.py:120\n  fix: train with quantization to "
       "int8"},
  };
  for (const auto& [name, text] : cases) {
    const auto program = read_pt2(test::export_path(name + ".pt2"));
    ASSERT_FALSE(program.has_value()) << name;
    EXPECT_EQ(to_text(program.error()),
              fmt::format(fmt::runtime(text), test::export_path(name + ".pt2")));
  }
}

// An archive with some members changed: `edit` gets the name without the top folder and the
// content, and says whether to keep it.
Bytes edited(const std::string& path,
             const std::function<bool(std::string_view, std::string&)>& edit) {
  const Bytes bytes = test::read_bytes(path);
  const auto zip = ZipArchive::open(bytes, path);
  EXPECT_TRUE(zip.has_value());
  ZipWriter writer;
  for (const ZipEntry& entry : zip->entries()) {
    std::string content(zip->read(entry)->text());
    if (edit(std::string_view(entry.name).substr(entry.name.find('/') + 1), content))
      writer.add(entry.name, std::as_bytes(std::span(content)));
  }
  return writer.finish();
}

// Replaces the first `from` after `anchor`.
void replace(std::string& text, std::string_view anchor, std::string_view from,
             std::string_view to) {
  const size_t start = text.find(anchor);
  ASSERT_NE(start, std::string::npos) << anchor;
  const size_t at = text.find(from, start);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

struct Edit {
  std::string_view what;
  std::string_view file;    // of models/digits_cnn
  std::string_view member;  // to change; `to` "-": to leave out
  std::string_view anchor;
  std::string_view from;
  std::string_view to;
  std::string_view id;
  std::string_view node;    // of the place
  std::string_view reason;  // part of it
};

constexpr std::string_view kModel = "models/model.json";
constexpr std::string_view kWeights = "data/weights/model_weights_config.json";
constexpr std::string_view kConstants = "data/constants/model_constants_config.json";

constexpr Edit kEdits[] = {
    {"no graph", "float", kModel, "", "", "-", "pt2-invalid", kModel, "no such member"},
    {"no weights table", "float", kWeights, "", "", "-", "pt2-invalid", kWeights, "no such member"},
    {"no constants table", "float", kConstants, "", "", "-", "pt2-invalid", kConstants,
     "no such member"},
    {"corrupt JSON", "float", kModel, "", "{\"graph_module\"", "{\"graph_module", "pt2-invalid",
     kModel, "not valid JSON"},
    {"corrupt table", "float", kWeights, "", "{", "[", "pt2-invalid", kWeights, "not valid JSON"},
    {"big-endian", "float", "byteorder", "", "little", "big   ", "pt2-invalid", "byteorder",
     "`big`"},
    {"newer schema", "float", kModel, "schema_version", "\"major\": 8", "\"major\": 9",
     "pt2-version", kModel, "version 9."},
    {"field missing", "float", kModel, "", "\"tensor_values\"", "\"tensor_value\"", "pt2-invalid",
     kModel, "`tensor_values`"},
    {"field of another kind", "float", kModel, "\"target\"", "\"torch.ops.aten.conv2d.default\"",
     "17", "pt2-invalid", kModel, "`target` is not a string"},
    {"integer beyond 64 bits", "float", kModel, "\"stride\"", "[1, 1]", "[1, 99999999999999999999]",
     "pt2-invalid", kModel, "not"},
    {"negative size", "float", kModel, "\"tensor_values\"", "{\"as_int\": 16}", "{\"as_int\": -16}",
     "pt2-invalid", kModel, "impossible shape"},
    {"size overflows", "float", kModel, "\"tensor_values\"", "{\"as_int\": 16}",
     "{\"as_int\": 4611686018427387904}", "pt2-invalid", kModel, "impossible shape"},
    {"size of two kinds", "float", kModel, "\"tensor_values\"", "{\"as_int\": 16}",
     "{\"as_int\": 16, \"as_float\": 16.0}", "pt2-invalid", kModel, "`size` has several kinds"},
    {"weight not listed", "float", kWeights, "", "\"stem.0.weight\"", "\"stem.0.weigh\"",
     "pt2-missing-weight", "stem.0.weight", "no data"},
    {"weight not in the archive", "float", "data/weights/weight_0", "", "", "-",
     "pt2-missing-weight", "stem.0.weight", "weight_0"},
    {"weight too short", "float", "data/weights/weight_0", "", "", "short", "pt2-weight-size",
     "stem.0.weight", "do not hold shape 16x1x3x3"},
    {"weight without elements", "float", "data/weights/weight_0", "", "", "", "pt2-weight-size",
     "stem.0.weight", "device `meta`"},
    {"offset beyond the weight", "float", kWeights, "\"storage_offset\"", "{\"as_int\": 0}",
     "{\"as_int\": 1}", "pt2-weight-size", "stem.0.weight", "offset 1"},
    {"negative stride", "float", kWeights, "\"strides\"", "{\"as_int\": 9}", "{\"as_int\": -9}",
     "pt2-weight-size", "stem.0.weight", "do not hold"},
    {"stride overflows", "float", kWeights, "\"strides\"", "{\"as_int\": 9}",
     "{\"as_int\": 9223372036854775807}", "pt2-weight-size", "stem.0.weight", "do not hold"},
    {"pickled weight", "float", kWeights, "", "\"use_pickle\": false", "\"use_pickle\": true",
     "pt2-pickled-weight", "stem.0.weight", "pickle"},
    {"bfloat16 weight", "float", kWeights, "", "\"dtype\": 7", "\"dtype\": 13", "pt2-type-mismatch",
     "conv2d", "of bfloat16"},
    {"sparse weight", "float", kWeights, "", "\"layout\": 7", "\"layout\": 1",
     "pt2-unsupported-dtype", "stem.0.weight", "sparse"},
    {"weight of another shape", "float", kWeights, "\"sizes\"", "{\"as_int\": 16}",
     "{\"as_int\": 15}", "pt2-type-mismatch", "conv2d", "15x1x3x3"},
    {"result of another shape", "float", kModel, "\"conv2d\": {\"dtype\"", "{\"as_int\": 16}",
     "{\"as_int\": 17}", "pt2-type-mismatch", "conv2d", "1x16x16x16"},
    {"result of complex32", "float", kModel, "\"relu\": {\"dtype\"", "7", "9",
     "pt2-unsupported-operator", "relu", "aten.relu.default"},
    {"undefined value", "float", kModel, "\"target\": \"torch.ops.aten.relu.default\"",
     "\"batch_norm\"", "\"nothing\"", "pt2-undefined-name", "relu", "no node makes `nothing`"},
    {"cycle", "float", kModel, "\"target\": \"torch.ops.aten.relu.default\"", "\"batch_norm\"",
     "\"max_pool2d\"", "pt2-undefined-name", "relu", "cycle"},
    {"name used twice", "float", kModel, "\"input_specs\"", "\"p_stem_1_bias\"",
     "\"p_stem_1_weight\"", "pt2-duplicate-name", "p_stem_1_weight", "two values"},
    {"output of nothing", "float", kModel, "\"user_output\"", "\"linear_1\"", "\"linear_9\"",
     "pt2-undefined-name", "linear_9", "no node"},
    {"output is a mutation", "float", kModel, "\"output_specs\"", "\"user_output\"",
     "\"user_input_mutation\"", "pt2-mutated-state", "linear_1", "returns nothing"},
    {"input is an object", "float", kModel, "\"input_specs\"", "\"user_input\"", "\"custom_obj\"",
     "pt2-unsupported-argument", "custom_obj", "no tensor"},
    {"argument missing", "float", kModel, "torch.ops.aten.linear.default", "\"weight\"",
     "\"weigh\"", "pt2-invalid", "linear", "argument `weight`"},
    {"argument of another kind", "float", kModel, "torch.ops.aten.max_pool2d.default",
     "{\"as_ints\": [2, 2]}", "{\"as_string\": \"2\"}", "pt2-invalid", "max_pool2d",
     "argument `kernel_size`"},
    {"symbolic argument", "float", kModel, "torch.ops.aten.max_pool2d.default",
     "{\"as_ints\": [2, 2]}", "{\"as_sym_ints\": [{\"as_name\": \"s0\"}]}", "pt2-symbolic-shape",
     "max_pool2d", "s0"},
    {"stride of zero", "float", kModel, "torch.ops.aten.max_pool2d.default", "[2, 2]", "[0, 2]",
     "pt2-unsupported-argument", "max_pool2d", ""},
    {"absurd padding", "float", kModel, "torch.ops.aten.conv2d.default",
     "\"padding\", \"arg\": {\"as_ints\": [1, 1]",
     "\"padding\", \"arg\": {\"as_ints\": [1, 9007199254740993]", "pt2-unsupported-argument",
     "conv2d", "9007199254740993"},
    {"absurd groups", "float", kModel, "\"groups\"", "16", "0", "pt2-unsupported-argument",
     "conv2d_1", ""},
    {"wrong dtype of input", "float", kModel, "\"x\": {\"dtype\"", "7", "4",
     "pt2-unsupported-argument", "conv2d", ""},
    {"scales contradict", "quantized", kModel,
     "\"name\": \"quantize_per_tensor_1\"}}, \"kind\": 1}, {\"name\": \"scale\"", "0.0158",
     "0.5158", "pt2-quantization-conflict", "dequantize_per_tensor_5", "0.0158"},
    {"scale of zero", "quantized", kModel,
     "torch.ops.quantized_decomposed.quantize_per_tensor.default", "0.00390625", "0.0",
     "pt2-unsupported-argument", "quantize_per_tensor", "not positive"},
    {"zero point out of range", "quantized", kModel,
     "torch.ops.quantized_decomposed.quantize_per_tensor.default", "{\"as_int\": -128}",
     "{\"as_int\": -129}", "pt2-unsupported-argument", "quantize_per_tensor", "-129"},
    {"axis out of range", "quantized", kModel, "\"axis\"", "{\"as_int\": 0}", "{\"as_int\": 4}",
     "pt2-unsupported-argument", "dequantize_per_channel",
     "quantization per channel of axis 4, of shape 16x1x3x3"},
    {"quantized to uint8", "quantized", kModel,
     "torch.ops.quantized_decomposed.quantize_per_tensor.default", "{\"as_scalar_type\": 2}",
     "{\"as_scalar_type\": 1}", "pt2-unsupported-argument", "quantize_per_tensor", "u8"},
    {"too few scales", "quantized", kModel, "\"axis\"", "{\"as_int\": 0}", "{\"as_int\": 1}",
     "pt2-unsupported-argument", "dequantize_per_channel", "16 scales"},
};

TEST(Pt2, RefusesEditedFiles) {
  for (const Edit& edit : kEdits) {
    SCOPED_TRACE(edit.what);
    const Bytes bytes = edited(digits(std::string(edit.file) + ".pt2"),
                               [&](std::string_view member, std::string& content) {
                                 if (member != edit.member) return true;
                                 if (edit.to == "-") return false;
                                 if (edit.from.empty()) {
                                   content = edit.to;
                                 } else {
                                   replace(content, edit.anchor, edit.from, edit.to);
                                 }
                                 return true;
                               });
    const auto program = parse_pt2(bytes, "bad.pt2");
    if (program.has_value()) {
      ADD_FAILURE() << "was accepted";
      continue;
    }
    const Diagnostic& problem = program.error();
    EXPECT_EQ(info(problem.id).name, edit.id) << error_text(program);
    EXPECT_EQ(problem.place.node, edit.node) << error_text(program);
    EXPECT_EQ(problem.place.file, "bad.pt2");
    EXPECT_NE(problem.reason.find(edit.reason), std::string::npos) << error_text(program);
    EXPECT_FALSE(problem.fix.empty()) << error_text(program);
  }
}

TEST(Pt2, AnyTopFolder) {
  const Bytes bytes = test::read_bytes(digits("float.pt2"));
  const auto zip = ZipArchive::open(bytes, "");
  ZipWriter writer;
  for (const ZipEntry& entry : zip->entries())
    writer.add("my model" + entry.name.substr(entry.name.find('/')), zip->read(entry)->bytes, true);
  const Bytes renamed = writer.finish();
  const auto program = parse_pt2(renamed, "renamed.pt2");
  ASSERT_TRUE(program.has_value()) << error_text(program);
  EXPECT_EQ(program->forward().op_count(), 19U);
}

TEST(Pt2, RefusesOtherFiles) {
  EXPECT_EQ(error_id(read_pt2("/nowhere/model.pt2")), "file-not-found");
  EXPECT_EQ(error_id(read_pt2(test::source_path("CMakeLists.txt").string())), "zip-invalid");
  EXPECT_EQ(error_id(read_pt2(digits("calibration.npz"))), "pt2-invalid");
}

TEST(Pt2, TruncationsAreRefused) {
  const Bytes good = test::read_bytes(digits("float.pt2"));
  for (size_t length = 0; length < good.size();
       length += length < 2000 || length > good.size() - 5000 ? 7 : 997)
    EXPECT_EQ(error_id(parse_pt2(std::span(good).first(length), "cut.pt2")), "zip-invalid")
        << length;
}

TEST(Pt2, EveryDamagedByteIsFoundOrHarmless) {
  const Bytes good = test::read_bytes(test::export_path("tied.pt2"));
  const auto expected = parse_pt2(good, "a.pt2");
  ASSERT_TRUE(expected.has_value());
  size_t accepted = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= std::byte{0x11};
    const auto program = parse_pt2(bad, "a.pt2");
    if (!program) continue;
    ++accepted;  // bytes that no reader looks at: times and attributes in headers, members that are
                 // not used
    ASSERT_EQ(program->constants.size(), expected->constants.size()) << i;
    for (uint32_t c = 0; c < program->constants.size(); ++c)
      EXPECT_EQ(program->constants.hash({c}), expected->constants.hash({c})) << i;
  }
  EXPECT_LT(accepted, good.size() / 4);
}

// --- the full set
// ------------------------------------------------------------------------------------------------------------------

TEST(Pt2, ReadsTheFullSet) {
  if (test::shared_path("conformance").empty()) GTEST_SKIP() << "no full set (DEUTERON_SHARED)";
  size_t count = 0;
  size_t imported = 0;
  for (const char* folder : {"conformance", "models"}) {
    const std::filesystem::path path = test::shared_path(folder);
    if (path.empty()) continue;
    test::for_each_export(path, [&](const std::filesystem::path& file) {
      ++count;
      const auto program = read_pt2(file.string());
      if (program) {
        ++imported;
        EXPECT_TRUE(verify(*program).has_value()) << file;
      } else {
        EXPECT_EQ(error_id(program), "pt2-unsupported-operator") << error_text(program);
      }
    });
  }
  fmt::print("{} of {} exports are read, {} use operators that are not supported\n", imported,
             count, count - imported);
}

// Float programs on the reference executor against PyTorch's outputs, first sample of each case.
// Returns their number.
size_t compute_cases(const std::filesystem::path& folder) {
  size_t count = 0;
  test::for_each_export(folder, [&](const std::filesystem::path& file) {
    if (file.filename() != "float.pt2") return;
    const auto program = read_pt2(file.string());
    if (!program) return;
    const Graph& graph = program->forward();
    const auto calibration = read_npz((file.parent_path() / "calibration.npz").string());
    const auto expected = read_npz((file.parent_path() / "expected.npz").string());
    ASSERT_TRUE(calibration && expected) << file;
    std::vector<Tensor> samples;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const Tensor* all = test::find_array(*calibration, fmt::format("input_{}", i));
      ASSERT_NE(all, nullptr) << file;
      const Type& type = graph.type(graph.inputs()[i]);
      ASSERT_EQ(all->dtype(), type.dtype) << file;
      samples.push_back(Tensor::copy_of(type.dtype, type.shape,
                                        all->bytes().first(static_cast<size_t>(type.bytes()))));
    }
    std::vector<TensorView> inputs;
    inputs.reserve(samples.size());
    for (const Tensor& sample : samples) inputs.push_back(sample.view());
    auto outputs = make_reference_executor(*program, graph)->run(inputs);
    ASSERT_TRUE(outputs.has_value()) << file << error_text(outputs);
    if (file.parent_path().filename() == "tanh_002") {  // overwrites its input; the stored output
                                                        // was computed on what an earlier run left
      inputs.front() = outputs->front().view();
      auto again = make_reference_executor(*program, graph)->run(inputs);
      outputs = std::move(again);
    }
    for (size_t i = 0; i < outputs->size(); ++i) {
      const Tensor* all = test::find_array(*expected, fmt::format("float_output_{}", i));
      ASSERT_NE(all, nullptr) << file;
      if (all->dtype() != DType::kFloat32) {  // codes and indices are equal
        EXPECT_TRUE(std::ranges::equal((*outputs)[i].bytes(),
                                       all->bytes().first((*outputs)[i].bytes().size())))
            << file << " output " << i;
        continue;
      }
      const std::span<const float> want =
          all->values<float>().first((*outputs)[i].values<float>().size());
      double scale = 1e-3;
      for (const float value : want)
        if (std::isfinite(value)) scale = std::max(scale, std::abs(static_cast<double>(value)));
      EXPECT_LT(max_difference((*outputs)[i].values<float>(), want), 1e-5 * scale)
          << file << " output " << i;
    }
    ++count;
  });
  fmt::print("{} float programs compute what PyTorch computes\n", count);
  return count;
}

TEST(Pt2, CasesComputeWhatPyTorchComputes) {
  EXPECT_EQ(compute_cases(test::source_path("test/data/conformance")), 78U);
}

TEST(Pt2, FullSetComputesWhatPyTorchComputes) {
  const std::filesystem::path folder = test::shared_path("conformance");
  if (folder.empty()) GTEST_SKIP() << "no full set (DEUTERON_SHARED)";
  EXPECT_GE(compute_cases(folder), 300U);
}

using Json = nlohmann::json;
using Names = std::vector<const char*>;

Json tensor_json(const char* name) { return {{"as_tensor", {{"name", name}}}}; }

Json node_json(const std::string& target, const Names& from, const char* to) {
  Json made{{"target", "torch.ops." + target},
            {"inputs", Json::array()},
            {"outputs", {tensor_json(to)}},
            {"metadata", Json::object()},
            {"name", to}};
  for (const char* const name : from)
    made["inputs"].push_back({{"name", name}, {"arg", tensor_json(name)}, {"kind", 1}});
  return made;
}

Json graph_json(const char* in, const char* out, const Names& values) {
  Json made{{"inputs", {tensor_json(in)}}, {"outputs", {tensor_json(out)}}, {"nodes", {}}};
  for (const char* const value : values) made["tensor_values"][value] = Json::object();
  return made;
}

// y = abs(neg(x)) + t, t = exp(x), in which abs(neg(x)) is the region r, with a value `t` of its
// own. `flags` stand before the region's graph.
Json with_region(const std::string& target, const Json& flags) {
  Json inner = graph_json("a", "b", {"a", "t", "b"});
  inner["nodes"] = {node_json("aten.neg.default", {"a"}, "t"),
                    node_json("aten.abs.default", {"t"}, "b")};
  Json region = node_json(target, {}, "r");
  region["inputs"] = flags;
  region["inputs"].push_back(
      {{"name", "f"}, {"arg", {{"as_graph", {{"graph", inner}}}}}, {"kind", 1}});
  region["inputs"].push_back({{"name", "x"}, {"arg", tensor_json("x")}, {"kind", 1}});
  Json graph = graph_json("x", "y", {"x", "t", "r", "y"});
  graph["nodes"] = {node_json("aten.exp.default", {"x"}, "t"), region,
                    node_json("aten.add.Tensor", {"r", "t"}, "y")};
  return graph;
}

TEST(InlineRegions, ValuesOfEqualNamesStayApart) {
  Json graph = with_region("higher_order.wrap", Json::array());
  ASSERT_TRUE(pt2::inline_regions(graph));
  const auto at = [&](size_t i) -> const Json& { return graph["nodes"].at(i); };
  const auto taken = [&](size_t i) { return at(i)["inputs"].at(0)["arg"]["as_tensor"]["name"]; };
  ASSERT_EQ(graph["nodes"].size(), 4U);
  EXPECT_EQ(at(0)["name"], "t");
  EXPECT_NE(at(1)["name"], "t");
  EXPECT_EQ(taken(1), "x");
  EXPECT_EQ(taken(2), at(1)["name"]);
  EXPECT_EQ(at(2)["name"], "r");
  EXPECT_EQ(at(3)["inputs"].at(1)["arg"]["as_tensor"]["name"], "t");
}

// What torch.no_grad() computed has no gradient in the graph around it; in a region of
// torch.enable_grad() it has one.
TEST(InlineRegions, WhatHadNoGradientHasNone) {
  for (const bool enabled : {false, true}) {
    Json graph = with_region("higher_order.wrap_with_set_grad_enabled",
                             {{{"name", "enabled"}, {"arg", {{"as_bool", enabled}}}, {"kind", 1}}});
    ASSERT_TRUE(pt2::inline_regions(graph));
    const Json* makes_r = nullptr;
    for (const Json& node : graph["nodes"])
      if (node["name"] == "r") makes_r = &node;
    ASSERT_NE(makes_r, nullptr);
    EXPECT_EQ(makes_r->at("target"),
              enabled ? "torch.ops.aten.abs.default" : "torch.ops.aten.detach.default");
  }
}

}  // namespace
}  // namespace dtr
