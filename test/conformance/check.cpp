#include "test/conformance/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/compare.h"
#include "compiler/read_model.h"
#include "compiler/recorder.h"
#include "ir/npz.h"
#include "ops/executor.h"
#include "profiler/report.h"
#include "test/conformance/build.h"
#include "test/conformance/placement.h"

namespace dtr::conformance {
namespace {

constexpr double kMaxLoss = 1;        // dB below upstream
constexpr double kPoorUpstream = 25;  // dB; where its post-training quantization is below …
constexpr double kGood = 30;          // … ours must reach this
constexpr double kMeanSteps = 0.05;
constexpr double kMeanStepsOfMeans = 0.2;  // PyTorch rounds ties to even, the integer specification away from zero

// Sample `index` of an array [samples, …].
TensorView sample_of(const Tensor& array, size_t index) {
  TensorView view = array.view();
  view.shape.erase(view.shape.begin());
  view.data += index * view.bytes();
  return view;
}

const Tensor* find(const std::vector<NamedTensor>& arrays, const std::string& name) {
  const auto at = std::find_if(arrays.begin(), arrays.end(), [&](const NamedTensor& array) { return array.name == name; });
  return at == arrays.end() ? nullptr : &at->tensor;
}

// Steps of an output: the scale of the last quantized value before it, 1 for integers; 0 if there is none.
double step_of(const Graph& graph, ValueId output) {
  for (ValueId value = output;;) {
    if (graph.type(value).quantized()) return value == output ? 1 : static_cast<double>(graph.type(value).quantization->scale());
    const OpId op = graph.producer(value);
    if (!op.valid() || graph.op(op).operands.empty()) return 0;
    value = graph.op(op).operands[0];
  }
}

struct Path {
  int arithmetic = 0;  // operators that compute, on the longest path from an input or a constant
  bool mean = false;   // one of the operators before the output averages
};

// For each value the longest path to it. Operators that move data or change its type compute nothing.
std::vector<Path> paths(const Graph& graph) {
  std::vector<Path> paths(graph.value_slots());
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    Path longest;
    for (const ValueId operand : op.operands)
      if (operand.valid()) {
        longest.arithmetic = std::max(longest.arithmetic, paths[operand.index].arithmetic);
        longest.mean |= paths[operand.index].mean;
      }
    const std::string_view name = op.def->name;
    const bool computes = !op.def->has_trait(kMovesData) && name != "quantize" && name != "dequantize";
    longest.arithmetic += computes ? 1 : 0;
    longest.mean |= name == "aten.mean.dim" || name == "aten.avg_pool2d";
    for (const ValueId result : op.results) paths[result.index] = longest;
  }
  return paths;
}

class Case {
 public:
  Case(const std::filesystem::path& folder, const Sink& sink) : folder_(folder), sink_(sink) {}

  void run() {
    if (const Status read = read_arrays(); !read) return failed("data", to_text(read.error()));
    post_training_ = std::filesystem::exists(folder_ / "quantized.pt2");
    const char* quantized = post_training_ ? "quantized.pt2" : "qat.pt2";
    own_ = !std::filesystem::exists(folder_ / quantized);
    float_model();
    layouts("float.pt2");
    if (!own_) {
      quantized_model(quantized);
      layouts(quantized);
    }
    for (int part = 0; std::filesystem::exists(folder_ / fmt::format("neutron_ir_{}.tflite", part)); ++part) neutron_ir(part);
    Check placed{.name = "placement"};
    const std::filesystem::path kept = folder_ / "upstream.json";
    const Status judged = judge_placement(own_ && !std::filesystem::exists(kept) ? std::filesystem::path() : kept, reports_, placed);
    if (!judged) return failed("placement", to_text(judged.error()));
    sink_(placed);
    sink_({.name = "operators", .passed = true, .figures = {{"names", operators_}}});
  }

 private:
  void note_operators(const Graph& graph) {
    for (const OpId op : graph.ops()) operators_.emplace(graph.op(op).def->name);
  }

  Status read_arrays() {
    DTR_ASSIGN(calibration_, read_npz(folder_ / "calibration.npz"));
    DTR_ASSIGN(expected_, read_npz(folder_ / "expected.npz"));
    return {};
  }

  void failed(const std::string& name, std::string text) { sink_({.name = name, .passed = false, .text = std::move(text)}); }

  // Builds a model of the case and runs all samples; the outputs of the program and of the integer reference by sample.
  struct Run {
    std::unique_ptr<Built> built;
    std::vector<std::vector<Tensor>> outputs, reference;
  };
  Result<Run> build_and_run(const std::string& file) {
    DTR_ASSIGN(Program program, read_model(folder_ / file));
    const Graph signature = program.forward();
    DTR_ASSIGN(const Samples samples, Samples::bind(signature, calibration_, folder_ / "calibration.npz"));
    note_operators(signature);
    Run run;
    DTR_ASSIGN(run.built, build(std::move(program), &samples));
    note_operators(run.built->quantized);
    note_operators(run.built->program.forward());
    const auto reference = make_reference_executor(run.built->program, run.built->quantized);
    for (size_t i = 0; i < samples.size(); ++i) {
      DTR_ASSIGN(std::vector<Tensor> out, run.built->session->run(samples.inputs(i)));
      DTR_ASSIGN(std::vector<Tensor> wanted, reference->run(samples.inputs(i)));
      run.outputs.push_back(std::move(out));
      run.reference.push_back(std::move(wanted));
    }
    return run;
  }

  // Integers equal to the last one; floats that come from floating-point operators but for the order of sums.
  void equal(const std::string& name, const Run& run) {
    Check check{.name = name, .passed = true};
    for (size_t sample = 0; sample < run.outputs.size() && check.passed; ++sample)
      for (size_t k = 0; k < run.outputs[sample].size() && check.passed; ++k) {
        Comparison comparison;
        comparison.add(run.reference[sample][k].view(), run.outputs[sample][k].view());
        check.passed = comparison.max_absolute() <= comparison.largest_expected() * 0x1p-20;
        if (!check.passed)
          check.text =
              fmt::format("output {} of sample {}: {} of {} elements differ, element {} is {} instead of {}", k, sample,
                          comparison.different(), comparison.elements(), comparison.index(), comparison.actual(), comparison.expected());
      }
    sink_(check);
  }

  // Where the cycles of a run are: of 100 at least 99 on operators of the model, unless nothing is left of it, and none twice or nowhere.
  void cycles(const std::string& name, const Run& run) {
    Check check{.name = name};
    const Result<Trace> trace = record_zeros(*run.built->session);
    if (!trace) return failed(name, to_text(trace.error()));
    const Profile profile = make_profile(*trace, OperatorMap(*run.built->session->image().debug_map()), name);
    const Graph& placed = run.built->program.forward();
    bool left = false;
    for (const OpId op : placed.ops()) left |= !placed.op(op).origin.sources.empty();
    std::map<std::string, uint64_t> rest;
    for (const ProfileRow& row : profile.rows)
      if (row.sources.empty() && row.spent.total() > 0) rest[row.name] += row.spent.total();
    const bool conserved = spent(profile).total() == profile.total;
    check.passed = conserved && (!left || profile.on_operators() * 100 >= profile.total * 99);
    check.figures = {{"cycles", profile.total}, {"on_operators", profile.on_operators()}, {"rest", rest}};
    if (!check.passed)
      check.text = fmt::format("{} of {} cycles are on operators, the rest: {}{}", profile.on_operators(), profile.total,
                               check.figures["rest"].dump(), conserved ? "" : "; the sum is another one");
    sink_(check);
  }

  // int8 has no infinity: where PyTorch's result is infinite, nothing is compared.
  static void add_finite(Comparison& comparison, const TensorView& expected, const TensorView& actual) {
    if (expected.dtype != DType::kFloat32) return comparison.add(expected, actual);
    Tensor wanted = Tensor::copy_of(expected.dtype, expected.shape, {expected.data, expected.bytes()});
    Tensor got = Tensor::copy_of(actual.dtype, actual.shape, {actual.data, actual.bytes()});
    for (size_t i = 0; i < wanted.values<float>().size(); ++i)
      if (std::isinf(wanted.values<float>()[i])) wanted.values<float>()[i] = got.values<float>()[i] = 0;
    comparison.add(wanted.view(), got.view());
  }

  // Output k of all samples against an array of expected.npz.
  std::optional<Comparison> compare_output(const Run& run, size_t k, const std::string& array, double step, Check& check) const {
    const Tensor* expected = find(expected_, fmt::format("{}_{}", array, k));
    if (expected == nullptr) {
      check.text = fmt::format("expected.npz has no {}_{}", array, k);
      return std::nullopt;
    }
    Comparison comparison(step);
    for (size_t sample = 0; sample < run.outputs.size(); ++sample) {
      const TensorView wanted = sample_of(*expected, sample), got = run.outputs[sample][k].view();
      if (wanted.shape != got.shape || wanted.dtype != got.dtype) {
        check.text = fmt::format("output {} is {} {}, PyTorch's {} {}", k, name(got.dtype), to_string(got.shape), name(wanted.dtype),
                                 to_string(wanted.shape));
        return std::nullopt;
      }
      add_finite(comparison, wanted, got);
    }
    return comparison;
  }

  // Whether TFLite's results on these samples are stored, and ours equal them.
  bool same_as_tflite(const Run& run, size_t k) const {
    const auto stored = read_npz(DTR_SOURCE "/test/conformance/exceptions.npz");
    const Tensor* results = stored ? find(*stored, fmt::format("{}_{}", folder_.filename().string(), k)) : nullptr;
    if (results == nullptr) return false;
    Comparison comparison;
    for (size_t sample = 0; sample < run.outputs.size(); ++sample) {
      const TensorView wanted = sample_of(*results, sample), got = run.outputs[sample][k].view();
      if (wanted.shape != got.shape) return false;
      comparison.add(wanted, got);
    }
    return comparison.max_absolute() <= comparison.largest_expected() * 0x1p-20;
  }

  // What upstream's own quantized output is worth.
  double upstream_decibels(size_t k) const {
    Comparison comparison;
    const Tensor* ideal = find(expected_, fmt::format("float_output_{}", k));
    const Tensor* quantized = find(expected_, fmt::format("quantized_output_{}", k));
    if (ideal != nullptr && quantized != nullptr) add_finite(comparison, ideal->view(), quantized->view());
    return comparison.decibels();
  }

  void float_model() {
    const Result<Run> run = build_and_run("float.pt2");
    if (!run) return failed("float", to_text(run.error()));
    Check check{.name = "float", .passed = true};
    check.figures["outputs"] = nlohmann::json::array();
    for (size_t k = 0; k < run->outputs[0].size(); ++k) {
      const double step = step_of(run->built->quantized, run->built->quantized.outputs()[k]);
      const std::optional<Comparison> comparison = compare_output(*run, k, "float_output", step, check);
      if (!comparison) {
        check.passed = false;
        break;
      }
      const double upstream = own_ ? kGood : upstream_decibels(k), ours = comparison->decibels();
      check.figures["outputs"].push_back({{"sqnr_db", ours}, {"upstream_sqnr_db", upstream}});
      std::string wrong;
      const bool poor = own_ || (post_training_ && upstream < kPoorUpstream);
      if (comparison->largest_expected() == 0) {
        if (comparison->max_steps() > 1)
          wrong = fmt::format("output {} is zero everywhere, ours up to {:.2f} steps", k, comparison->max_steps());
      } else if (ours < upstream - kMaxLoss || (poor && ours < kGood)) {
        wrong = fmt::format("output {}: {:.1f} dB{}{}", k, ours, own_ ? "" : fmt::format(", upstream {:.1f} dB", upstream),
                            poor ? ", 30 dB wanted" : "");
      }
      check.passed &= wrong.empty();
      if (!wrong.empty()) check.text += (check.text.empty() ? "" : "; ") + wrong;
    }
    sink_(check);
    equal("equal float", *run);
    cycles("cycles float", *run);
    reports_.push_back({"float", run->built->compiled.report});
  }

  void quantized_model(const std::string& file) {
    const Result<Run> run = build_and_run(file);
    if (!run) return failed("quantized", to_text(run.error()));
    const Graph& graph = run->built->quantized;
    const std::vector<Path> path = paths(graph);
    Check check{.name = "quantized", .passed = true};
    check.figures["outputs"] = nlohmann::json::array();
    for (size_t k = 0; k < run->outputs[0].size() && check.passed; ++k) {
      const Path& way = path[graph.outputs()[k].index];
      const double step = step_of(graph, graph.outputs()[k]);
      const std::optional<Comparison> comparison = compare_output(*run, k, "quantized_output", step, check);
      if (!comparison) {
        check.passed = false;
        break;
      }
      const double most = comparison->max_steps(), mean = comparison->mean_steps();
      const double share =
          static_cast<double>(comparison->different()) / static_cast<double>(std::max<uint64_t>(comparison->elements(), 1));
      const double mean_allowed = way.mean ? kMeanStepsOfMeans : kMeanSteps;
      check.figures["outputs"].push_back({{"step", step},
                                          {"arithmetic", way.arithmetic},
                                          {"max_steps", most},
                                          {"mean_steps", mean},
                                          {"mean_allowed", mean_allowed},
                                          {"different_share", share},
                                          {"elements", comparison->elements()},
                                          {"different", comparison->different()}});
      // Without a quantized value on the way, both evaluate in float.
      check.passed = step == 0 ? comparison->max_absolute() <= comparison->largest_expected() * 0x1p-20
                               : most <= way.arithmetic && mean <= mean_allowed;
      if (!check.passed)
        check.text = fmt::format(
            "output {}: up to {:.2f} steps for {} operators, mean {:.4f} of {}, {:.1f} % of elements differ; element {} "
            "of sample {} is {} instead of {}",
            k, most, way.arithmetic, mean, mean_allowed, share * 100, comparison->index(), comparison->sample(), comparison->actual(),
            comparison->expected());
      if (!check.passed && same_as_tflite(*run, k)) check.text += "; TFLite's reference kernels give the same";
    }
    sink_(check);
    equal("equal quantized", *run);
    cycles("cycles quantized", *run);
    reports_.push_back({"quantized", run->built->compiled.report});
  }

  void layouts(const char* model) {
    Check check{.name = fmt::format("layout {}", model)};
    const Status judged = layouts(folder_ / model, check);
    if (!judged) check.text = to_text(judged.error());
    sink_(check);
  }

  Status layouts(const std::filesystem::path& model, Check& check) const {
    DTR_ASSIGN(const Program program, read_model(model));
    DTR_ASSIGN(const Samples samples, Samples::bind(program.forward(), calibration_, folder_ / "calibration.npz"));
    DTR_ASSIGN(const LayoutProof proof, prove_layouts(model, samples, 2));
    check.passed = proof.equal && proof.same_cycles();
    check.figures = {{"cycles", proof.cycles}, {"conversions", proof.conversions}, {"conversion_cycles", proof.conversion_cycles}};
    if (!proof.equal) check.text = "the results differ";
    if (!proof.same_cycles())
      check.text += fmt::format("{} cycles as exported, {} with the other layout", proof.cycles[0], proof.cycles[1]);
    return {};
  }

  void neutron_ir(int part) {
    Check check{.name = fmt::format("neutron_ir_{}", part)};
    const Status status = neutron_ir(folder_ / (check.name + ".tflite"), check);
    if (!status) check.text = to_text(status.error());
    sink_(check);
  }

  // Tensors of rank 4 are NHWC in the file and in the arrays, NCHW in the program.
  static Tensor logical(const TensorView& stored) {
    if (stored.shape.size() != 4) return Tensor::copy_of(stored.dtype, stored.shape, {stored.data, stored.bytes()});
    const Shape shape = {stored.shape[0], stored.shape[3], stored.shape[1], stored.shape[2]};
    Tensor tensor(stored.dtype, shape);
    const size_t size = byte_size(stored.dtype);
    const std::vector<int64_t> from = strides(shape, Layout::kChannelsLast), to = strides(shape, Layout::kContiguous);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      int64_t source = 0;
      for (size_t dim = 0; dim < 4; ++dim) source += i / to[dim] % shape[dim] * from[dim];
      std::copy_n(stored.data + static_cast<size_t>(source) * size, size, tensor.view().data + static_cast<size_t>(i) * size);
    }
    return tensor;
  }

  static Status neutron_ir(const std::filesystem::path& model, Check& check) {
    const std::filesystem::path data = std::filesystem::path(model).replace_extension(".npz");
    if (!std::filesystem::exists(data)) {
      check.passed = true;
      check.text = "no stored outputs: TFLite's reference does not run it";
      DTR_ASSIGN(Program program, read_model(model));
      return build(std::move(program), nullptr).map([](const auto&) {});
    }
    DTR_ASSIGN(const std::vector<NamedTensor> arrays, read_npz(data));
    DTR_ASSIGN(Program program, read_model(model));
    DTR_ASSIGN(const std::unique_ptr<Built> built, build(std::move(program), nullptr));
    const size_t inputs = built->session->signature().inputs().size();
    const Tensor* first = find(arrays, "output_0");
    const size_t samples = first == nullptr ? 0 : static_cast<size_t>(first->shape()[0]);
    Comparison all;
    for (size_t sample = 0; sample < samples; ++sample) {
      std::vector<Tensor> tensors;
      std::vector<TensorView> views;
      for (size_t i = 0; i < inputs; ++i) {
        const Tensor* array = find(arrays, fmt::format("input_{}", i));
        if (array == nullptr) return fail(DiagnosticId::kDataMissingArray, fmt::format("no input_{}", i), {}, {.file = data});
        tensors.push_back(logical(sample_of(*array, sample)));
      }
      for (const Tensor& tensor : tensors) views.push_back(tensor.view());
      DTR_ASSIGN(const std::vector<Tensor> outputs, built->session->run(views));
      for (size_t k = 0; k < outputs.size(); ++k) {
        const Tensor* array = find(arrays, fmt::format("output_{}", k));
        if (array == nullptr) return fail(DiagnosticId::kDataMissingArray, fmt::format("no output_{}", k), {}, {.file = data});
        const Tensor wanted = logical(sample_of(*array, sample));
        if (wanted.shape() != outputs[k].shape() || wanted.dtype() != outputs[k].dtype()) {
          check.text = fmt::format("output {} is {} {}, TFLite's {} {}", k, name(outputs[k].dtype()), to_string(outputs[k].shape()),
                                   name(wanted.dtype()), to_string(wanted.shape()));
          return {};
        }
        const uint64_t before = all.different();
        all.add(wanted.view(), outputs[k].view());
        if (all.different() > before && check.text.empty())
          check.text =
              fmt::format("output {} of sample {}: element {} is {} instead of {}", k, sample, all.index(), all.actual(), all.expected());
      }
    }
    check.passed = all.elements() > 0 && all.different() == 0;
    check.figures = {{"elements", all.elements()}, {"different", all.different()}};
    if (!check.passed) check.text += fmt::format(" ({} of {} elements differ)", all.different(), all.elements());
    return {};
  }

  std::filesystem::path folder_;
  const Sink& sink_;
  bool post_training_ = false;
  bool own_ = false;  // without anything of upstream's
  std::vector<NamedTensor> calibration_, expected_;
  std::vector<PlacementReport> reports_;
  std::set<std::string> operators_;  // that occur in the imported, the quantized or the placed graphs
};

}  // namespace

void run_case(const std::filesystem::path& folder, const Sink& sink) { Case(folder, sink).run(); }

}  // namespace dtr::conformance
