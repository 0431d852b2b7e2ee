// Models that keep states between runs, against what PyTorch and LiteRT compute step by step
// (test/data/states/make_states.py): the graph, the program of kernels, the int8 program, and the
// programs that ExecuTorch writes for the same modules.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compiler/executors/stream.h"
#include "compiler/ir/reorder.h"
#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/read_model.h"
#include "compiler/support/file_contents.h"
#include "device/pte/program_generated.h"
#include "host/accuracy/check.h"
#include "host/accuracy/compare.h"
#include "host/accuracy/verify.h"
#include "host/session/session.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

constexpr double kRounding = 1e-5;  // of float32, relative to the largest magnitude

struct Steps {
  std::vector<NamedTensor> arrays;
  size_t count = 0;

  explicit Steps(const std::string& name)
      : arrays(test::read_arrays(test::source_path("test/data/states/" + name + ".npz"))) {
    if (const Tensor* first = test::find_array(arrays, "input_0"))
      count = static_cast<size_t>(first->shape()[0]);
  }
  std::vector<TensorView> at(size_t step, const std::string& kind) const {
    std::vector<TensorView> views;
    for (size_t i = 0;; ++i) {
      const Tensor* all = test::find_array(arrays, kind + "_" + std::to_string(i));
      if (all == nullptr) return views;
      TensorView view = all->view();
      view.shape.erase(view.shape.begin());
      view.data += step * view.bytes();
      views.push_back(view);
    }
  }
};

// Floats up to rounding, integers exactly.
void expect_outputs(const std::vector<Tensor>& got, const std::vector<TensorView>& wanted,
                    const std::string& where) {
  ASSERT_EQ(got.size(), wanted.size()) << where;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), wanted[i].shape) << where;
    ASSERT_EQ(got[i].dtype(), wanted[i].dtype) << where;
    if (got[i].dtype() != DType::kFloat32) {
      EXPECT_TRUE(std::ranges::equal(got[i].bytes(),
                                     std::span<const std::byte>(wanted[i].data, wanted[i].bytes())))
          << where;
      continue;
    }
    double most = 1, apart = 0;
    for (int64_t k = 0; k < got[i].elements(); ++k) {
      const auto at = static_cast<size_t>(k);
      const auto expected = static_cast<double>(wanted[i].values<float>()[at]);
      most = std::max(most, std::abs(expected));
      apart = std::max(apart, std::abs(static_cast<double>(got[i].values<float>()[at]) - expected));
    }
    EXPECT_LE(apart, kRounding * most) << where << ", output " << i;
  }
}

std::string model_path(const std::string& file) {
  return test::source_path("test/data/states/" + file).string();
}

void expect_stream(Session& session, const Steps& steps, const std::string& name) {
  for (size_t step = 0; step < steps.count; ++step) {
    const auto outputs = session.run(steps.at(step, "input"));
    ASSERT_TRUE(outputs) << to_text(outputs.error());
    expect_outputs(*outputs, steps.at(step, "output"), name + " at step " + std::to_string(step));
  }
}

// Every name of a module, as it is exported and after run_decompositions.
std::vector<std::string> exports() {
  std::vector<std::string> names;
  for (const std::string name : {"ring", "cell", "cache", "delays", "parts", "keywords", "views"})
    for (const std::string form : {"", "_core"}) names.push_back(name + form);
  return names;
}

Steps steps_of(const std::string& name) { return Steps(name.substr(0, name.find('_'))); }

TEST(States, GraphsRunAsTheModulesDo) {
  for (const std::string& name : exports()) {
    const auto module = read_model(model_path(name + ".pt2"));
    ASSERT_TRUE(module) << to_text(module.error());
    const Graph& graph = module->forward();
    EXPECT_GT(graph.state_count(), 0u) << name;
    const auto stream = make_stream(*module, graph, make_reference_executor(*module, graph));
    const Steps steps = steps_of(name);
    ASSERT_GT(steps.count, 0u);
    for (size_t step = 0; step < steps.count; ++step) {
      const auto outputs = stream->run(steps.at(step, "input"));
      ASSERT_TRUE(outputs) << to_text(outputs.error());
      expect_outputs(*outputs, steps.at(step, "output"), name + " at step " + std::to_string(step));
    }
  }
}

// Kernels of the CPU alone; and a second stream after a reset.
TEST(States, FloatProgramsRunAsTheModulesDo) {
  for (const std::string& name : exports()) {
    const auto program =
        compile_model(model_path(name + ".pt2"), {.target = find_target("executorch")});
    ASSERT_TRUE(program) << name << ": " << to_text(program.error());
    EXPECT_GT(program->emitted.plan.state_bytes, 0);
    auto session = Session::load(program->pte(), name);
    ASSERT_TRUE(session) << to_text(session.error());
    EXPECT_TRUE((*session)->has_states());
    const Steps steps = steps_of(name);
    expect_stream(**session, steps, name);
    (*session)->reset();
    expect_stream(**session, steps, name + " after a reset");
  }
}

TEST(States, ProgramsOfExecuTorchRunAsTheModulesDo) {
  for (const std::string name : {"ring", "cell", "cache"}) {
    auto session = Session::open(model_path(name + ".pte"));
    ASSERT_TRUE(session) << to_text(session.error());
    EXPECT_TRUE((*session)->has_states());
    const Steps steps(name);
    expect_stream(**session, steps, name);
    (*session)->reset();
    expect_stream(**session, steps, name + " after a reset");
  }
}

// 20 ms a run give what the model computes of the whole clip, in int8 too; between runs the frames
// are int8, and no operator leaves the NPU for them.
TEST(States, KeywordsInInt8EqualTheWholeClip) {
  const Steps steps("keywords");
  const TargetDescription* target = find_target("imxrt700");
  const auto program =
      compile_model(model_path("keywords.pt2"),
                    {.target = target, .samples = SampleFile{model_path("keywords.npz")}});
  ASSERT_TRUE(program) << to_text(program.error());
  const Graph& graph = program->module.forward();
  ASSERT_EQ(graph.state_count(), 3u);
  for (size_t i = 0; i < graph.state_count(); ++i)
    EXPECT_EQ(graph.type(graph.state(i)).dtype, DType::kInt8) << i;
  EXPECT_EQ(program->emitted.plan.state_bytes, 48 + 128 + 128);
  size_t delegates = 0;
  for (const PlanCall& call : program->emitted.plan.calls)
    delegates += std::holds_alternative<DelegateCallPlan>(call) ? 1 : 0;
  EXPECT_EQ(delegates, 1u);

  const auto check = check_program(*program, 10);
  ASSERT_TRUE(check) << to_text(check.error());
  auto session = Session::load(program->pte(), "keywords");
  ASSERT_TRUE(session) << to_text(session.error());
  const Tensor* whole = test::find_array(steps.arrays, "whole");
  ASSERT_NE(whole, nullptr);
  Sqnr sqnr;
  for (size_t step = 0; step < steps.count; ++step) {
    const auto outputs = (*session)->run(steps.at(step, "input"));
    ASSERT_TRUE(outputs) << to_text(outputs.error());
    TensorView expected = whole->view();
    expected.shape.erase(expected.shape.begin());
    expected.data += step * expected.bytes();
    sqnr.add(expected, outputs->front().view());
  }
  EXPECT_GT(sqnr.decibels(), 28);
}

// The layers of a stream against those of the model, each with its own states.
TEST(States, VerifyRunsBothAsStreams) {
  const auto program = compile_model(
      model_path("keywords.pt2"),
      {.target = find_target("imxrt700"), .samples = SampleFile{model_path("keywords.npz")}});
  ASSERT_TRUE(program) << to_text(program.error());
  auto session = Session::load(program->pte(), "keywords");
  const auto model = read_model(model_path("keywords.pt2"));
  ASSERT_TRUE(session && model);
  const auto samples = Samples::read(model->forward(), model_path("keywords.npz"));
  ASSERT_TRUE(samples) << to_text(samples.error());
  const auto layers =
      verify_layers(**session, *model, *samples, samples->size(), *make_thread_executor(3));
  ASSERT_TRUE(layers) << to_text(layers.error());
  EXPECT_EQ(first_bad(*layers, 20), nullptr);
}

// Recurrent layers of a .tflite file, whose state is in variable tensors, run by run.
TEST(States, RecurrentLayersAreThoseOfLiteRt) {
  const Steps steps("recurrent");
  ASSERT_EQ(steps.at(0, "output").size(), 23u);
  const auto module = read_model(model_path("recurrent.tflite"));
  ASSERT_TRUE(module) << to_text(module.error());
  const Graph& graph = module->forward();
  const auto reference = make_stream(*module, graph, make_reference_executor(*module, graph));
  for (size_t step = 0; step < steps.count; ++step) {
    const auto outputs = reference->run(steps.at(step, "input"));
    ASSERT_TRUE(outputs) << to_text(outputs.error());
    expect_outputs(*outputs, steps.at(step, "output"), "run " + std::to_string(step));
  }
}

// Those on codes are computed in float here, in int16 there: one step of the output apart.
TEST(States, RecurrentLayersOnCodesAreNearThoseOfLiteRt) {
  const Steps steps("recurrent_int8");
  const auto module = read_model(model_path("recurrent_int8.tflite"));
  ASSERT_TRUE(module) << to_text(module.error());
  ASSERT_EQ(module->notes.size(), 1u);
  EXPECT_EQ(module->notes[0].reason,
            "4 recurrent operators compute in float between int8 inputs and outputs, where TFLite "
            "rounds states and products to int16");
  const Graph& graph = module->forward();
  const auto reference = make_stream(*module, graph, make_reference_executor(*module, graph));
  int64_t elements = 0, differing = 0;
  for (size_t step = 0; step < steps.count; ++step) {
    const auto outputs = reference->run(steps.at(step, "input"));
    ASSERT_TRUE(outputs) << to_text(outputs.error());
    const std::vector<TensorView> wanted = steps.at(step, "output");
    ASSERT_EQ(outputs->size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const std::span<const std::byte> got = (*outputs)[i].bytes();
      ASSERT_EQ((*outputs)[i].shape(), wanted[i].shape);
      ASSERT_EQ((*outputs)[i].dtype(), DType::kInt8);
      for (size_t e = 0; e < got.size(); ++e) {
        const int difference = static_cast<int8_t>(got[e]) - static_cast<int8_t>(wanted[i].data[e]);
        EXPECT_LE(std::abs(difference), 1) << "output " << i << " of run " << step;
        differing += difference != 0 ? 1 : 0;
        ++elements;
      }
    }
  }
  EXPECT_LE(differing * 10, elements) << differing;
}

// Variables of a .tflite file, whose elements are in NHWC: the integers are those of LiteRT.
TEST(States, VariablesAreThoseOfLiteRt) {
  const Steps steps("spotter");
  const auto module = read_model(model_path("spotter.tflite"));
  ASSERT_TRUE(module) << to_text(module.error());
  const Graph& graph = module->forward();
  ASSERT_EQ(graph.state_count(), 2u);
  const auto reference = make_stream(*module, graph, make_reference_executor(*module, graph));
  const auto program =
      compile_model(model_path("spotter.tflite"), {.target = find_target("imxrt700")});
  ASSERT_TRUE(program) << to_text(program.error());
  auto session = Session::load(program->pte(), "spotter");
  ASSERT_TRUE(session) << to_text(session.error());
  Type type = graph.type(graph.inputs()[0]);
  ASSERT_EQ(type.layout, Layout::kChannelsLast);
  for (size_t step = 0; step < steps.count; ++step) {
    Tensor input(type.dtype, type.shape);
    to_logical(type, steps.at(step, "input")[0].data, input.view().data);
    const std::string where = "spotter at step " + std::to_string(step);
    for (const auto& outputs :
         {reference->run({{input.view()}}), (*session)->run({{input.view()}})}) {
      ASSERT_TRUE(outputs) << to_text(outputs.error());
      expect_outputs(*outputs, steps.at(step, "output"), where);
    }
  }
}

// The initial values of a file that was tampered with.
TEST(States, InitialValuesOutsideOfTheFileAreRefused) {
  for (const uint64_t wrong : {uint64_t{9}, uint64_t{40}, UINT64_MAX}) {
    auto contents = FileContents::read(model_path("cell.pte"));
    ASSERT_TRUE(contents);
    std::vector<std::byte> bytes(contents->bytes().begin(), contents->bytes().end());
    const pte::Program& program = *pte::GetProgram(bytes.data());
    const auto& offsets = *program.mutable_data_segments()->Get(0)->offsets();
    ASSERT_EQ(offsets.size(), 3u);  // reserved, 32 bytes, 8 bytes
    const auto at =
        static_cast<size_t>(reinterpret_cast<const std::byte*>(offsets.data()) - bytes.data());
    std::memcpy(bytes.data() + at + sizeof wrong, &wrong, sizeof wrong);
    const auto session = Session::load(bytes, "cell");
    ASSERT_FALSE(session) << wrong;
    EXPECT_EQ(session.error().id, DiagnosticId::kPteMalformed) << to_text(session.error());
  }
}

// The memory map of a program: states have a memory of their own, others stay what they were.
TEST(States, HaveAMemoryOfTheirOwn) {
  const auto program = compile_model(model_path("cell.pt2"), {.target = find_target("executorch")});
  ASSERT_TRUE(program) << to_text(program.error());
  const auto file = PteFile::parse(program->pte(), "cell");
  ASSERT_TRUE(file) << to_text(file.error());
  const pte::ExecutionPlan& plan = *file->file().program().execution_plan()->Get(0);
  ASSERT_EQ(plan.non_const_buffer_sizes()->size(), 3u);
  EXPECT_EQ(plan.non_const_buffer_sizes()->Get(2), 32 + 16);
  const std::vector<uint32_t> states = state_values(plan);
  ASSERT_EQ(states.size(), 2u);
  size_t with_initial_value = 0;
  for (const uint32_t state : states) {
    const pte::Tensor& tensor = *plan.values()->Get(state)->val_as_Tensor();
    EXPECT_EQ(tensor.allocation_info()->memory_id(), 2u);
    with_initial_value += tensor.data_buffer_idx() > 0 ? 1 : 0;
  }
  EXPECT_EQ(with_initial_value, 1u);  // the other one begins as zeros
}

}  // namespace
}  // namespace dtr
