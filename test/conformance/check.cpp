#include "test/conformance/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/executors/executor.h"
#include "compiler/ir/npz.h"
#include "compiler/pipeline/read_model.h"
#include "host/accuracy/compare.h"
#include "host/profiler/report.h"
#include "host/session/recorder.h"
#include "test/conformance/attribution.h"
#include "test/conformance/build.h"
#include "test/conformance/placement.h"
#include "test/conformance/ties.h"

namespace dtr::conformance {
namespace {

constexpr double kMaxLoss = 1;        // dB below upstream
constexpr double kPoorUpstream = 25;  // dB; where its post-training quantization is below …
constexpr double kGood = 30;          // … ours must reach this

// Sample `index` of an array [samples, …].
TensorView sample_of(const Tensor& array, size_t index) {
  TensorView view = array.view();
  view.shape.erase(view.shape.begin());
  view.data += index * view.bytes();
  return view;
}

const Tensor* find(const std::vector<NamedTensor>& arrays, const std::string& name) {
  const auto at = std::find_if(arrays.begin(), arrays.end(),
                               [&](const NamedTensor& array) { return array.name == name; });
  return at == arrays.end() ? nullptr : &at->tensor;
}

// Steps of an output: the scale of the last quantized value before it, 1 for integers; 0 if there
// is none.
double step_of(const Graph& graph, ValueId output) {
  for (ValueId value = output;;) {
    if (graph.type(value).quantized())
      return value == output ? 1 : static_cast<double>(graph.type(value).quantization->scale());
    const OpId op = graph.producer(value);
    if (!op.valid() || graph.op(op).operands.empty()) return 0;
    value = graph.op(op).operands[0];
  }
}

// The compiler's answer to a model: an error is a refusal of it.
template <class T>
Result<T> taken(Result<T> answer, Check& check) {
  if (!answer) check.state = State::kRefused;
  return answer;
}

// Whether values that are floats agree but for the order of sums, and integers to the last one.
bool same(const Comparison& comparison) {
  return comparison.max_absolute() <= comparison.largest_expected() * 0x1p-20;
}

// For each value the operators that compute, on the longest path to it from an input or a constant.
// Operators that move data or change its type compute nothing.
std::vector<int> arithmetic_before(const Graph& graph) {
  std::vector<int> before(graph.value_slots());
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    int longest = 0;
    for (const ValueId operand : op.operands)
      if (operand.valid()) longest = std::max(longest, before[operand.index]);
    const std::string_view name = op.def->name;
    if (!op.def->has_trait(kMovesData) && name != "quantize" && name != "dequantize") ++longest;
    for (const ValueId result : op.results) before[result.index] = longest;
  }
  return before;
}

class Case {
 public:
  Case(const std::filesystem::path& folder, const TargetDescription& target, const Sink& sink)
      : folder_(folder), target_(target), sink_(sink) {}

  void run() {
    if (const Result<void> read = read_arrays(); !read)
      return failed({.name = "data"}, read.error());
    post_training_ = std::filesystem::exists(folder_ / "quantized.pt2");
    const char* quantized = post_training_ ? "quantized.pt2" : "qat.pt2";
    own_ = !std::filesystem::exists(folder_ / quantized);
    float_model();
    layouts("float.pt2");
    if (!own_) {
      quantized_model(quantized);
      layouts(quantized);
    }
    for (int part = 0; std::filesystem::exists(folder_ / fmt::format("neutron_ir_{}.tflite", part));
         ++part)
      neutron_ir(part);
    Check placed{.name = "placement"};
    const std::filesystem::path kept = folder_ / "upstream.json";
    const Result<void> judged = judge_placement(
        own_ && !std::filesystem::exists(kept) ? std::filesystem::path() : kept, reports_, placed);
    if (!judged) return failed(placed, judged.error());
    sink_(placed);
    sink_({.name = "operators", .state = State::kPassed, .figures = {{"names", operators_}}});
  }

 private:
  void note_operators(const Graph& graph) {
    for (const OpId op : graph.ops()) operators_.emplace(graph.op(op).def->name);
  }

  Result<void> read_arrays() {
    DTR_ASSIGN(calibration_, read_npz(folder_ / "calibration.npz"));
    DTR_ASSIGN(expected_, read_npz(folder_ / "expected.npz"));
    return {};
  }

  void failed(Check check, const Diagnostic& error) {
    check.text = to_text(error);
    sink_(check);
  }

  void nothing(Check check) {
    check.state = State::kNotCompared;
    check.text = "no outputs or no samples";
    sink_(check);
  }

  // Builds a model of the case and runs all samples; the outputs of the program and of the integer
  // reference by sample.
  struct Run {
    std::unique_ptr<Built> built;
    std::vector<std::vector<Tensor>> outputs, reference;
  };
  Result<Run> build_and_run(const std::string& file, Check& check) {
    DTR_ASSIGN(Module module, taken(read_model(folder_ / file), check));
    const Graph signature = module.forward();
    DTR_ASSIGN(const Samples samples,
               Samples::bind(signature, calibration_, folder_ / "calibration.npz"));
    note_operators(signature);
    Run run;
    DTR_ASSIGN(run.built, taken(build(std::move(module), &samples, target_), check));
    note_operators(run.built->compiled.quantized);
    note_operators(run.built->compiled.module.forward());
    const auto reference =
        make_reference_executor(run.built->compiled.module, run.built->compiled.quantized);
    for (size_t i = 0; i < samples.size(); ++i) {
      DTR_ASSIGN(std::vector<Tensor> out, run.built->session->run(samples.inputs(i)));
      DTR_ASSIGN(std::vector<Tensor> wanted, reference->run(samples.inputs(i)));
      run.outputs.push_back(std::move(out));
      run.reference.push_back(std::move(wanted));
    }
    return run;
  }

  // Integers equal to the last one; floats that come from floating-point operators but for the
  // order of sums.
  void equal(const std::string& name, const Run& run) {
    Check check{.name = name};
    uint64_t elements = 0;
    for (size_t sample = 0; sample < run.outputs.size() && check.text.empty(); ++sample)
      for (size_t k = 0; k < run.outputs[sample].size() && check.text.empty(); ++k) {
        Comparison comparison;
        comparison.add(run.reference[sample][k].view(), run.outputs[sample][k].view());
        elements += comparison.elements();
        if (!same(comparison))
          check.text = fmt::format(
              "output {} of sample {}: {} of {} elements differ, element {} is {} instead of {}", k,
              sample, comparison.different(), comparison.elements(), comparison.index(),
              comparison.actual(), comparison.expected());
      }
    if (elements == 0) return nothing(check);
    check.judge(check.text.empty());
    sink_(check);
  }

  // What a profile of a run says.
  void profile(const std::string& name, const std::string& file, const Run& run) {
    const Result<Trace> trace = record_zeros(*run.built->session);
    if (!trace) return failed({.name = "cycles " + name}, trace.error());
    const Profile profile =
        make_profile(*trace, OperatorMap(*run.built->session->pte_file().debug_map()), name);
    cycles("cycles " + name, run, profile);
    Check check{.name = "attribution " + name};
    if (const Result<void> judged =
            judge_attribution(folder_ / file, *run.built->session, profile, check);
        !judged)
      return failed(check, judged.error());
    sink_(check);
  }

  // Where the cycles of a run are: of 100 at least 99 on operators of the model, unless nothing is
  // left of it, and none twice or nowhere.
  void cycles(const std::string& name, const Run& run, const Profile& profile) {
    Check check{.name = name};
    const Graph& placed = run.built->compiled.module.forward();
    bool left = false;
    for (const OpId op : placed.ops()) left |= !placed.op(op).origin.sources.empty();
    std::map<std::string, uint64_t> rest;
    for (const ProfileRow& row : profile.rows)
      if (row.sources.empty() && row.spent.total() > 0) rest[row.name] += row.spent.total();
    const bool conserved = spent(profile).total() == profile.total;
    check.judge(conserved && (!left || profile.on_operators() * 100 >= profile.total * 99));
    check.figures = {
        {"cycles", profile.total}, {"on_operators", profile.on_operators()}, {"rest", rest}};
    if (!check.passed())
      check.text = fmt::format("{} of {} cycles are on operators, the rest: {}{}",
                               profile.on_operators(), profile.total, check.figures["rest"].dump(),
                               conserved ? "" : "; the sum is another one");
    sink_(check);
  }

  // int8 has no infinity: where PyTorch's result is infinite, nothing is compared.
  static void add_finite(Comparison& comparison, const TensorView& expected,
                         const TensorView& actual) {
    if (expected.dtype != DType::kFloat32) return comparison.add(expected, actual);
    Tensor wanted =
        Tensor::copy_of(expected.dtype, expected.shape, {expected.data, expected.bytes()});
    Tensor got = Tensor::copy_of(actual.dtype, actual.shape, {actual.data, actual.bytes()});
    for (size_t i = 0; i < wanted.values<float>().size(); ++i)
      if (std::isinf(wanted.values<float>()[i]))
        wanted.values<float>()[i] = got.values<float>()[i] = 0;
    comparison.add(wanted.view(), got.view());
  }

  // Output k of all samples against an array of expected.npz. `unrounded`, by sample: differences
  // at ties are counted in `ties` instead.
  std::optional<Comparison> compare_output(const Run& run, size_t k, const std::string& array,
                                           double step, Check& check,
                                           const std::vector<RealSteps>& real = {},
                                           uint64_t* ties = nullptr) const {
    const Tensor* expected = find(expected_, fmt::format("{}_{}", array, k));
    if (expected == nullptr) {
      check.text = fmt::format("expected.npz has no {}_{}", array, k);
      return std::nullopt;
    }
    Comparison comparison(step);
    for (size_t sample = 0; sample < run.outputs.size(); ++sample) {
      const TensorView wanted = sample_of(*expected, sample), got = run.outputs[sample][k].view();
      if (wanted.shape != got.shape || wanted.dtype != got.dtype) {
        check.text = fmt::format("output {} is {} {}, PyTorch's {} {}", k, name(got.dtype),
                                 to_string(got.shape), name(wanted.dtype), to_string(wanted.shape));
        return std::nullopt;
      }
      if (sample < real.size()) {
        const Tensor rest = without_ties(wanted, got, real[sample], step, *ties);
        add_finite(comparison, wanted, rest.view());
      } else {
        add_finite(comparison, wanted, got);
      }
    }
    return comparison;
  }

  // Of the model as it was read.
  Result<std::vector<RealSteps>> real_results(const std::string& file, size_t k) const {
    DTR_ASSIGN(const Module module, read_model(folder_ / file));
    const Graph& graph = module.forward();
    DTR_ASSIGN(const Samples samples,
               Samples::bind(graph, calibration_, folder_ / "calibration.npz"));
    return real_steps(module, graph, k, samples);
  }

  // What upstream's own quantized output is worth.
  double upstream_decibels(size_t k) const {
    Comparison comparison;
    const Tensor* ideal = find(expected_, fmt::format("float_output_{}", k));
    const Tensor* quantized = find(expected_, fmt::format("quantized_output_{}", k));
    if (ideal != nullptr && quantized != nullptr)
      add_finite(comparison, ideal->view(), quantized->view());
    return comparison.decibels();
  }

  void float_model() {
    Check check{.name = "float"};
    const Result<Run> run = build_and_run("float.pt2", check);
    if (!run) return failed(check, run.error());
    if (run->outputs.empty() || run->outputs[0].empty()) return nothing(check);
    check.figures["outputs"] = nlohmann::json::array();
    for (size_t k = 0; k < run->outputs[0].size(); ++k) {
      const double step =
          step_of(run->built->compiled.quantized, run->built->compiled.quantized.outputs()[k]);
      const std::optional<Comparison> comparison =
          compare_output(*run, k, "float_output", step, check);
      if (!comparison) break;
      const double upstream = own_ ? kGood : upstream_decibels(k), ours = comparison->decibels();
      check.figures["outputs"].push_back({{"sqnr_db", ours}, {"upstream_sqnr_db", upstream}});
      std::string wrong;
      const bool poor = own_ || (post_training_ && upstream < kPoorUpstream);
      if (comparison->largest_expected() == 0) {
        if (comparison->max_steps() > 1)
          wrong = fmt::format("output {} is zero everywhere, ours up to {:.2f} steps", k,
                              comparison->max_steps());
      } else if (ours < upstream - kMaxLoss || (poor && ours < kGood)) {
        wrong = fmt::format("output {}: {:.1f} dB{}{}", k, ours,
                            own_ ? "" : fmt::format(", upstream {:.1f} dB", upstream),
                            poor ? ", 30 dB wanted" : "");
      }
      if (!wrong.empty()) check.text += (check.text.empty() ? "" : "; ") + wrong;
    }
    check.judge(check.text.empty());
    sink_(check);
    equal("equal float", *run);
    profile("float", "float.pt2", *run);
    reports_.push_back({"float", compile_report(run->built->compiled)});
  }

  void quantized_model(const std::string& file) {
    Check check{.name = "quantized"};
    const Result<Run> run = build_and_run(file, check);
    if (!run) return failed(check, run.error());
    if (run->outputs.empty() || run->outputs[0].empty()) return nothing(check);
    const Graph& graph = run->built->compiled.quantized;
    const std::vector<int> arithmetic = arithmetic_before(graph);
    check.figures["outputs"] = nlohmann::json::array();
    for (size_t k = 0; k < run->outputs[0].size() && check.text.empty(); ++k) {
      const int operators = arithmetic[graph.outputs()[k].index];
      const double step = step_of(graph, graph.outputs()[k]);
      std::optional<Comparison> comparison =
          compare_output(*run, k, "quantized_output", step, check);
      if (!comparison) break;
      const uint64_t different = comparison->different();
      uint64_t ties = 0;
      if (different > 0 && step != 0) {
        const auto real = real_results(file, k);
        if (!real) return failed(check, real.error());
        comparison = compare_output(*run, k, "quantized_output", step, check, *real, &ties);
      }
      const double most = comparison->max_steps(), mean = comparison->mean_steps();
      const double share = static_cast<double>(different) /
                           static_cast<double>(std::max<uint64_t>(comparison->elements(), 1));
      check.figures["outputs"].push_back({{"step", step},
                                          {"arithmetic", operators},
                                          {"max_steps", most},
                                          {"mean_steps", mean},
                                          {"ties", ties},
                                          {"different_share", share},
                                          {"elements", comparison->elements()},
                                          {"different", different}});
      // Without a quantized value on the way, both evaluate in float.
      if (step == 0 ? !same(*comparison) : most > operators || mean > kMeanSteps)
        check.text = fmt::format(
            "output {}: up to {:.2f} steps for {} operators, mean {:.4f}, {:.1f} % of elements "
            "differ, {} of {} at ties; element {} of sample {} is {} instead of {}",
            k, most, operators, mean, share * 100, ties, different, comparison->index(),
            comparison->sample(), comparison->actual(), comparison->expected());
    }
    check.judge(check.text.empty());
    sink_(check);
    equal("equal quantized", *run);
    profile("quantized", file, *run);
    reports_.push_back({"quantized", compile_report(run->built->compiled)});
  }

  void layouts(const char* model) {
    Check check{.name = fmt::format("layout {}", model)};
    const Result<void> judged = layouts(folder_ / model, check);
    if (!judged) check.text = to_text(judged.error());
    sink_(check);
  }

  Result<void> layouts(const std::filesystem::path& model, Check& check) const {
    DTR_ASSIGN(const Module module, taken(read_model(model), check));
    DTR_ASSIGN(const Samples samples,
               Samples::bind(module.forward(), calibration_, folder_ / "calibration.npz"));
    DTR_ASSIGN(const LayoutComparison proof, compare_layouts(model, samples, 2));
    if (proof.compared == 0) {
      check.state = State::kNotCompared;
      check.text = "no outputs or no samples";
      return {};
    }
    check.judge(proof.equal && proof.same_cycles());
    check.figures = {{"cycles", proof.cycles},
                     {"conversions", proof.conversions},
                     {"conversion_cycles", proof.conversion_cycles}};
    if (!proof.equal) check.text = "the results differ";
    if (!proof.same_cycles())
      check.text += fmt::format("{} cycles as exported, {} with the other layout", proof.cycles[0],
                                proof.cycles[1]);
    return {};
  }

  void neutron_ir(int part) {
    Check check{.name = fmt::format("neutron_ir_{}", part)};
    const Result<void> status = neutron_ir(folder_ / (check.name + ".tflite"), check);
    if (!status) check.text = to_text(status.error());
    sink_(check);
  }

  // Tensors of rank 4 are NHWC in the file and in the arrays, NCHW in the program.
  static Tensor logical(const TensorView& stored) {
    if (stored.shape.size() != 4)
      return Tensor::copy_of(stored.dtype, stored.shape, {stored.data, stored.bytes()});
    const Shape shape = {stored.shape[0], stored.shape[3], stored.shape[1], stored.shape[2]};
    Tensor tensor(stored.dtype, shape);
    const size_t size = byte_size(stored.dtype);
    const std::vector<int64_t> from = strides(shape, Layout::kChannelsLast),
                               to = strides(shape, Layout::kContiguous);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      int64_t source = 0;
      for (size_t dim = 0; dim < 4; ++dim) source += i / to[dim] % shape[dim] * from[dim];
      std::copy_n(stored.data + static_cast<size_t>(source) * size, size,
                  tensor.view().data + static_cast<size_t>(i) * size);
    }
    return tensor;
  }

  Result<void> neutron_ir(const std::filesystem::path& model, Check& check) {
    const std::filesystem::path data = std::filesystem::path(model).replace_extension(".npz");
    DTR_ASSIGN(Module module, taken(read_model(model), check));
    DTR_ASSIGN(const std::unique_ptr<Built> built,
               taken(build(std::move(module), nullptr, target_), check));
    if (!std::filesystem::exists(data)) {
      check.state = State::kNotCompared;
      check.text = "no stored outputs: TFLite's reference does not run it";
      return {};
    }
    DTR_ASSIGN(const std::vector<NamedTensor> arrays, read_npz(data));
    const size_t inputs = built->session->signature().inputs().size();
    const Tensor* first = find(arrays, "output_0");
    const size_t samples = first == nullptr ? 0 : static_cast<size_t>(first->shape()[0]);
    Comparison all;
    for (size_t sample = 0; sample < samples; ++sample) {
      std::vector<Tensor> tensors;
      std::vector<TensorView> views;
      for (size_t i = 0; i < inputs; ++i) {
        const Tensor* array = find(arrays, fmt::format("input_{}", i));
        if (array == nullptr)
          return fail(DiagnosticId::kDataMissingArray, fmt::format("no input_{}", i), {},
                      {.file = data});
        tensors.push_back(logical(sample_of(*array, sample)));
      }
      for (const Tensor& tensor : tensors) views.push_back(tensor.view());
      DTR_ASSIGN(const std::vector<Tensor> outputs, built->session->run(views));
      for (size_t k = 0; k < outputs.size(); ++k) {
        const Tensor* array = find(arrays, fmt::format("output_{}", k));
        if (array == nullptr)
          return fail(DiagnosticId::kDataMissingArray, fmt::format("no output_{}", k), {},
                      {.file = data});
        const Tensor wanted = logical(sample_of(*array, sample));
        if (wanted.shape() != outputs[k].shape() || wanted.dtype() != outputs[k].dtype()) {
          check.text = fmt::format("output {} is {} {}, TFLite's {} {}", k,
                                   name(outputs[k].dtype()), to_string(outputs[k].shape()),
                                   name(wanted.dtype()), to_string(wanted.shape()));
          return {};
        }
        const uint64_t before = all.different();
        all.add(wanted.view(), outputs[k].view());
        if (all.different() > before && check.text.empty())
          check.text = fmt::format("output {} of sample {}: element {} is {} instead of {}", k,
                                   sample, all.index(), all.actual(), all.expected());
      }
    }
    check.judge(all.elements() > 0 && all.different() == 0);
    check.figures = {{"elements", all.elements()}, {"different", all.different()}};
    if (!check.passed())
      check.text += fmt::format(" ({} of {} elements differ)", all.different(), all.elements());
    return {};
  }

  std::filesystem::path folder_;
  const TargetDescription& target_;
  const Sink& sink_;
  bool post_training_ = false;
  bool own_ = false;  // without anything of upstream's
  std::vector<NamedTensor> calibration_, expected_;
  std::vector<PlacementReport> reports_;
  std::set<std::string>
      operators_;  // that occur in the imported, the quantized or the placed graphs
};

}  // namespace

std::string_view name(State state) {
  switch (state) {
    case State::kFailed:
      return "failed";
    case State::kPassed:
      return "passed";
    case State::kRefused:
      return "refused";
    case State::kNotCompared:
      return "not compared";
  }
  return "failed";
}

void run_case(const std::filesystem::path& folder, const TargetDescription& target,
              const Sink& sink) {
  Case(folder, target, sink).run();
}

}  // namespace dtr::conformance
