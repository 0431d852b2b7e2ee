// The proof of the passes: every pipeline on every model, every conformance case and random graphs, each pass evaluated before and after in
// double. Under sanitizers, what has more than 20 million multiply-accumulates is evaluated once a pipeline instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "frontends/pt2/pt2.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "ops/ops.h"
#include "test/random/random_graph.h"
#include "test/unit/test_files.h"
#include "transforms/pass_manager.h"

namespace dtr {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kMacsEachPass = 20'000'000;
#else
constexpr int64_t kMacsEachPass = INT64_MAX;
#endif

int64_t macs_of(const Graph& graph) {
  int64_t macs = 0;
  for (const OpId id : graph.ops())
    if (const auto count = graph.op(id).def->macs) macs += count(BoundOpView(graph, id));
  return macs;
}

bool has_quantization(const Graph& graph) {
  for (const OpId id : graph.ops())
    if (graph.op(id).def == &ops::kQuantize || graph.op(id).def == &ops::kDequantize) return true;
  return false;
}

class Proven {
 public:
  // Which passes changed something, over all graphs.
  std::set<std::string_view> seen;

  Status prove(Program& program, const Pipeline& pipeline, uint64_t seed = 1) {
    Graph& graph = program.forward();
    const Proof proof = macs_of(graph) > kMacsEachPass ? Proof::kOnce : Proof::kEachPass;
    DTR_ASSIGN(const std::vector<PassRun> runs,
               run_pipeline(program, graph, pipeline, {.verify_each = true, .prove = proof, .seed = seed}));
    for (const PassRun& run : runs)
      if (run.changes != 0) seen.insert(run.pass->name);
    return {};
  }

  // The pipelines that a compilation runs.
  Status prove_all(Program& program, bool quantized, uint64_t seed = 1) {
    if (!quantized) return prove(program, float_pipeline(), seed);
    DTR_TRY(prove(program, quantized_pipeline(), seed));
    return prove(program, int8_io_pipeline(), seed);
  }

  void prove_file(const std::filesystem::path& path) {
    Result<Program> program = pt2::read_pt2(path.string());
    if (!program) return;  // refused with a reason: the business of other tests
    const Status status = prove_all(*program, has_quantization(program->forward()));
    EXPECT_TRUE(status) << path << ": " << to_text(status.error());
    ++files_;
  }
  void prove_folder(const std::filesystem::path& folder) {
    for (const char* name : {"float.pt2", "quantized.pt2", "qat.pt2"})
      if (std::filesystem::exists(folder / name)) prove_file(folder / name);
  }
  int files() const { return files_; }

 private:
  int files_ = 0;
};

std::vector<std::filesystem::path> folders_in(const std::string& shared, const std::string& committed) {
  const std::filesystem::path full = test::shared_path(shared);
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(full.empty() ? test::source_path(committed) : full))
    if (entry.is_directory()) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

TEST(Proof, Models) {
  Proven proven;
  for (const auto& folder : folders_in("models", "models")) proven.prove_folder(folder);
  std::printf("%d models\n", proven.files());
  EXPECT_GE(proven.files(), 2);
}

TEST(Proof, ConformanceCases) {
  Proven proven;
  for (const auto& folder : folders_in("conformance", "test/data/conformance")) proven.prove_folder(folder);
  std::printf("%d models of conformance cases\n", proven.files());
  EXPECT_GE(proven.files(), 40);
}

// Where a function is not a number, float gives the zero point and a table the value beside it: these are not compared.
bool defined_everywhere(const Graph& graph) {
  for (const OpId id : graph.ops())
    for (const OpDef* partial : {&ops::kLog, &ops::kSqrt, &ops::kRsqrt, &ops::kPowTensorScalar})
      if (graph.op(id).def == partial) return false;
  return true;
}

TEST(Proof, RandomQuantizedGraphs) {
  Proven proven;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Program program = test::RandomGraph(seed, {.floats = seed % 2 == 0}).make(static_cast<int>(1 + seed % 20));
    if (seed % 2 == 0 && !defined_everywhere(program.forward())) continue;
    const std::string text = print(program, {.elide_constants = true});
    const Status status = proven.prove_all(program, true, seed);
    EXPECT_TRUE(status) << "seed " << seed << ": " << to_text(status.error()) << "\n" << text;
  }
}

// A quantized graph as the float graph that it stands for.
class FloatForm {
 public:
  explicit FloatForm(const Program& program) : from_(program), rewriter_(graph()) {}

  // Nothing if an operator has no float form.
  std::optional<Program> make() {
    const Graph& graph = from_.forward();
    for (const ValueId input : graph.inputs()) values_[input] = rewriter_.add_input(float_type(graph.type(input)), graph.value(input).name);
    for (const OpId id : graph.ops())
      if (!copy(graph, graph.op(id))) return std::nullopt;
    std::vector<ValueId> outputs;
    for (const ValueId output : graph.outputs()) outputs.push_back(values_.at(output));
    rewriter_.set_outputs(std::move(outputs));
    return std::move(to_);
  }

 private:
  Graph& graph() {
    to_.graphs.emplace_back();
    return to_.forward();
  }
  static Type float_type(const Type& type) {
    Type real{.dtype = type.quantized() ? DType::kFloat32 : type.dtype, .shape = type.shape};
    real.layout = type.layout;
    return real;
  }
  ValueId value_of(const Graph& graph, ValueId id) {
    const auto at = values_.find(id);
    if (at != values_.end()) return at->second;
    const Type& type = graph.type(id);
    const auto bytes = from_.constants.bytes(graph.value(id).constant);
    if (!type.quantized()) return rewriter_.add_constant(float_type(type), to_.constants.add(type.dtype, bytes), graph.value(id).name);
    const Tensor codes = Tensor::copy_of(type.dtype, type.shape, bytes);
    std::vector<float> reals;
    for (int64_t i = 0; i < type.elements(); ++i) {
      const auto at_index = static_cast<size_t>(i);
      const int code = type.dtype == DType::kInt32 ? codes.values<int32_t>()[at_index] : codes.values<int8_t>()[at_index];
      const Quantization& q = *type.quantization;
      reals.push_back(q.scales[0] * static_cast<float>(code - q.zero_points[0]));
    }
    return rewriter_.add_constant(float_type(type), to_.constants.add_values<float>(DType::kFloat32, reals), graph.value(id).name);
  }
  bool copy(const Graph& graph, const Op& op) {
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) operands.push_back(operand.valid() ? value_of(graph, operand) : ValueId{});
    const bool converts = op.def == &ops::kQuantize || op.def == &ops::kDequantize || op.def == &ops::kRequantize;
    if (converts) {
      values_[op.results[0]] = operands[0];
      return true;
    }
    const auto made = rewriter_.insert({}, {.def = op.def, .operands = std::move(operands), .attributes = op.attributes});
    if (!made) return false;
    for (size_t i = 0; i < op.results.size(); ++i) {
      values_[op.results[i]] = to_.forward().op(*made).results[i];
      rewriter_.set_layout(values_[op.results[i]], graph.type(op.results[i]).layout);
    }
    return true;
  }

  const Program& from_;
  Program to_;
  Rewriter rewriter_;
  std::map<ValueId, ValueId> values_;
};

TEST(Proof, RandomFloatGraphs) {
  Proven proven;
  int graphs = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    const Program quantized = test::RandomGraph(seed).make(static_cast<int>(1 + seed % 20));
    std::optional<Program> program = FloatForm(quantized).make();
    if (!program || !verify(*program)) continue;
    ++graphs;
    const std::string text = print(*program, {.elide_constants = true});
    const Status status = proven.prove_all(*program, false, seed);
    EXPECT_TRUE(status) << "seed " << seed << ": " << to_text(status.error()) << "\n" << text;
  }
  std::printf("%d random float graphs\n", graphs);
  EXPECT_GE(graphs, 300);
}

}  // namespace
}  // namespace dtr
