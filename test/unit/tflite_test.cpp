// The .tflite reader, and with it the integer reference: every tensor that LiteRT's reference
// kernels computed must be equal.
#include "compiler/frontends/tflite/tflite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "compiler/executors/executor.h"
#include "compiler/support/file_contents.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

// Sample `index` of an array [samples, …] as a view.
TensorView sample_of(const Tensor& array, int64_t index) {
  Shape shape(array.shape().begin() + 1, array.shape().end());
  const size_t size = static_cast<size_t>(element_count(shape)) * byte_size(array.dtype());
  return {array.dtype(), std::move(shape), array.view().data + static_cast<size_t>(index) * size};
}

// Rank 4 from NHWC to NCHW (or, `back`, the other way); other ranks as they are.
Tensor reordered(const TensorView& from, bool back) {
  if (from.shape.size() != 4)
    return Tensor::copy_of(from.dtype, from.shape, {from.data, from.bytes()});
  const auto to_nchw = [](const Shape& s) { return Shape{s[0], s[3], s[1], s[2]}; };
  const auto to_nhwc = [](const Shape& s) { return Shape{s[0], s[2], s[3], s[1]}; };
  const Shape nchw = back ? from.shape : to_nchw(from.shape);
  Tensor result(from.dtype, back ? to_nhwc(from.shape) : nchw);
  const size_t size = byte_size(from.dtype);
  int64_t at = 0;
  for (int64_t n = 0; n < nchw[0]; ++n)
    for (int64_t c = 0; c < nchw[1]; ++c)
      for (int64_t h = 0; h < nchw[2]; ++h)
        for (int64_t w = 0; w < nchw[3]; ++w, ++at) {
          const int64_t nhwc = ((n * nchw[2] + h) * nchw[3] + w) * nchw[1] + c;
          std::memcpy(result.view().data + static_cast<size_t>(back ? nhwc : at) * size,
                      from.data + static_cast<size_t>(back ? at : nhwc) * size, size);
        }
  return result;
}

struct Compared {
  int tensors = 0;
  int64_t elements = 0;
};

// How much an element may differ from LiteRT's. Nothing: bit by bit. Operators that LiteRT computes
// in integers of its own and the IR in float may differ by one step of the result's scale;
// functions of the C library by a few units in the last place.
struct Rule {
  int codes = 0;
  double relative = 0;
};

// `greatest`: of the absolute values of b, at least 1.
bool agrees(const TensorView& a, const TensorView& b, size_t index, const Rule& rule,
            double greatest) {
  const size_t size = byte_size(a.dtype);
  if (std::memcmp(a.data + index * size, b.data + index * size, size) == 0) return true;
  if (a.dtype == DType::kInt8)
    return std::abs(a.values<int8_t>()[index] - b.values<int8_t>()[index]) <= rule.codes;
  if (a.dtype != DType::kFloat32 || rule.relative == 0) return false;
  const double x = static_cast<double>(a.values<float>()[index]);
  const double y = static_cast<double>(b.values<float>()[index]);
  return std::abs(x - y) <= rule.relative * greatest;
}

// The value of an element, to print it.
double number_at(const TensorView& view, size_t index) {
  switch (view.dtype) {
    case DType::kFloat32:
      return static_cast<double>(view.values<float>()[index]);
    case DType::kInt32:
      return view.values<int32_t>()[index];
    case DType::kInt64:
      return static_cast<double>(view.values<int64_t>()[index]);
    case DType::kInt8:
      return view.values<int8_t>()[index];
    default:
      return view.values<uint8_t>()[index];
  }
}

// Requires that `actual`, in logical order, equals `wanted`, in the file's order. Codes of UINT8
// tensors are those of int8 plus 128.
void expect_same(const TensorView& actual, const TensorView& wanted, const std::string& what,
                 Compared& compared, const Rule& rule = {}) {
  Tensor expected = reordered(wanted, false);
  if (actual.dtype == DType::kInt8 && expected.dtype() == DType::kUint8) {
    for (uint8_t& code : expected.values<uint8_t>()) code ^= 0x80u;
    expected = Tensor::copy_of(DType::kInt8, expected.shape(),
                               {expected.view().data, expected.view().bytes()});
  }
  ASSERT_EQ(actual.shape, expected.shape()) << what;
  ASSERT_EQ(actual.dtype, expected.dtype()) << what;
  int64_t different = 0;
  size_t first = 0;
  double greatest = 1;
  if (actual.dtype == DType::kFloat32)
    for (const float y : expected.values<float>())
      greatest = std::max(greatest, std::abs(static_cast<double>(y)));
  for (size_t i = static_cast<size_t>(actual.elements()); i-- > 0;) {
    if (agrees(actual, expected.view(), i, rule, greatest)) continue;
    ++different;
    first = i;
  }
  if (different > 0)
    ADD_FAILURE() << what << ": " << different << " of " << actual.elements()
                  << " elements differ; element " << first << " is " << number_at(actual, first)
                  << ", expected " << number_at(expected.view(), first);
  ++compared.tensors;
  compared.elements += actual.elements();
}

// The operator of the file that makes a value.
std::string target_of(const Module& module, const Graph& graph, ValueId id) {
  const Origin& origin = graph.op(graph.producer(id)).origin;
  return origin.sources.empty() ? "?" : module.sources[origin.sources.front()].target;
}

// What an operator of the file makes, for all samples.
struct Wanted {
  ValueId value;
  const Tensor* array;  // [samples, …] of this tensor alone, or [samples, total] of several
  int64_t offset = 0;   // into a sample of the latter
};

// The arrays of an .npz that belong to values: tensor_T, and `tensors`, the int8 tensors one after
// the other.
std::vector<Wanted> wanted_values(const tflite::Import& import,
                                  const std::vector<NamedTensor>& arrays) {
  const Graph& graph = import.module.forward();
  const Tensor* joined = test::find_array(arrays, "tensors");
  std::vector<Wanted> wanted;
  int64_t offset = 0;
  for (size_t i = 0; i < import.values.size(); ++i) {
    const ValueId id = import.values[i];
    if (!id.valid() || graph.value(id).kind != ValueKind::kResult) continue;
    if (target_of(import.module, graph, id) == "UINT8") continue;  // an input of bytes
    if (const Tensor* array = test::find_array(arrays, "tensor_" + std::to_string(i));
        array != nullptr) {
      wanted.push_back({id, array});
    } else if (joined != nullptr) {
      wanted.push_back({id, joined, offset});
      offset += graph.type(id).elements();
    }
  }
  EXPECT_TRUE(joined == nullptr || offset == joined->shape()[1]);
  return wanted;
}

// Runs MODEL.tflite on the inputs of MODEL.npz and compares everything that is stored there.
Compared judge(const std::filesystem::path& model, const Rule& rule = {}) {
  Compared compared;
  auto import = tflite::import_tflite(model.string());
  if (!import) {
    ADD_FAILURE() << to_text(import.error());
    return compared;
  }
  const Module& module = import->module;
  const Graph& graph = module.forward();
  const auto arrays = test::read_arrays(std::filesystem::path(model).replace_extension(".npz"));
  const auto executor = make_reference_executor(module, graph);
  const std::vector<Wanted> wanted = wanted_values(*import, arrays);
  for (size_t i = 0; i < import->values.size(); ++i) {
    const ValueId id = import->values[i];
    const Tensor* array = test::find_array(arrays, "tensor_" + std::to_string(i));
    if (array == nullptr || !graph.is_constant(id)) continue;
    const std::span<const std::byte> bytes = module.constants.bytes(graph.value(id).constant);
    const Tensor known = Tensor::copy_of(graph.type(id).dtype, graph.type(id).shape, bytes);
    expect_same(known.view(), sample_of(*array, 0),
                model.stem().string() + " `" + graph.value(id).name + "`", compared);
  }
  const int64_t samples = test::find_array(arrays, "input_0")->shape()[0];
  for (int64_t sample = 0; sample < samples; ++sample) {
    std::vector<Tensor> inputs;
    std::vector<TensorView> views;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      inputs.push_back(reordered(
          sample_of(*test::find_array(arrays, "input_" + std::to_string(i)), sample), false));
      views.push_back(inputs.back().view());
    }
    const auto observe = [&](ValueId id, const TensorView& view) {
      for (const Wanted& of : wanted) {
        if (of.value != id || sample >= of.array->shape()[0]) continue;
        TensorView stored = sample_of(*of.array, sample);
        stored.data += of.offset;
        if (stored.shape.size() != view.shape.size() || of.array->shape().size() == 2) {
          stored.shape = view.shape;
          if (view.shape.size() == 4)
            stored.shape = {view.shape[0], view.shape[2], view.shape[3], view.shape[1]};
        }
        expect_same(view, stored,
                    model.stem().string() + " `" + graph.value(id).name + "` of " +
                        target_of(module, graph, id),
                    compared, rule);
      }
    };
    const auto outputs = executor->run(views, observe);
    if (!outputs) {
      ADD_FAILURE() << model << ": " << to_text(outputs.error());
      return compared;
    }
    for (size_t i = 0; i < outputs->size(); ++i)
      if (const Tensor* stored = test::find_array(arrays, "output_" + std::to_string(i));
          stored != nullptr)
        expect_same((*outputs)[i].view(), sample_of(*stored, sample),
                    model.stem().string() + " output " + std::to_string(i), compared);
  }
  return compared;
}

class LitertVectors : public testing::TestWithParam<const char*> {};

TEST_P(LitertVectors, EveryTensorIsEqual) {
  const Compared compared =
      judge(test::source_path(std::string("test/data/litert/") + GetParam() + ".tflite"));
  EXPECT_GT(compared.tensors, 0);
  std::printf("%s: %d tensors, %lld elements\n", GetParam(), compared.tensors,
              static_cast<long long>(compared.elements));
}
INSTANTIATE_TEST_SUITE_P(Committed, LitertVectors,
                         testing::Values("elementwise", "windows", "linear", "several", "indexed"),
                         [](const auto& instance) { return std::string(instance.param); });

// The operators of make_operators.py and make_detections.py: comparisons, integers, bools and moved
// elements are equal, the rest by the rule.
void judge_operators(const std::filesystem::path& folder) {
  for (const char* name :
       {"operators_numbers", "operators_structure", "operators_int8", "operators_uint8",
        "operators_special", "operators_stablehlo", "detections"}) {
    const std::filesystem::path model = folder / (std::string(name) + ".tflite");
    if (!std::filesystem::exists(model)) {
      test::not_run(model.filename().string() + " in test_tflite (not in that folder)");
      continue;
    }
    const Compared compared = judge(model, {.codes = 1, .relative = 0x1p-20});
    EXPECT_GT(compared.tensors, 0);
    std::printf("%s: %d tensors, %lld elements\n", name, compared.tensors,
                static_cast<long long>(compared.elements));
  }
}

// Bytes that CONCATENATION rescales, of make_operators.py: every code is equal.
TEST(Litert, RescaledBytesAreEqual) {
  const Compared compared = judge(test::source_path("test/data/litert/concatenated.tflite"));
  EXPECT_GE(compared.tensors, 10);
}

TEST(Litert, EveryOperatorAgrees) { judge_operators(test::source_path("test/data/litert")); }

// A whole detector, of make_detections.py: codes are equal, boxes but for exp.
TEST(Litert, ADetectorAgrees) {
  const Compared compared =
      judge(test::source_path("test/data/litert/ssd.tflite"), {.relative = 0x1p-20});
  EXPECT_EQ(compared.tensors, 4 * 13);
}

// Branches, loops and composites, of make_control.py. Sums of floats are in another order.
TEST(Litert, EveryCalledSubgraphAgrees) {
  const Compared compared =
      judge(test::source_path("test/data/litert/control.tflite"), {.relative = 0x1p-20});
  EXPECT_EQ(compared.tensors, 40);
}

// Open extents of the file's own sizes, of given ones, and of those of samples.
TEST(Litert, OpenExtentsAreBound) {
  const auto path = test::source_path("test/data/litert/open.tflite");
  const auto arrays = test::read_arrays(std::filesystem::path(path).replace_extension(".npz"));
  const auto run = [&](const DimensionSizes& sizes, const std::string& name) {
    auto file = FileContents::read(path.string());
    ASSERT_TRUE(file);
    const auto module = tflite::read_tflite(std::move(*file), "open.tflite", sizes);
    ASSERT_TRUE(module) << to_text(module.error());
    const Tensor input = reordered(test::find_array(arrays, "input_" + name)->view(), false);
    const TensorView views[] = {input.view()};
    const auto executor = make_reference_executor(*module, module->forward());
    const auto outputs = executor->run(views);
    ASSERT_TRUE(outputs) << to_text(outputs.error());
    Compared compared;
    expect_same((*outputs)[0].view(), test::find_array(arrays, "output_" + name)->view(), name,
                compared, {.relative = 0x1p-20});
    EXPECT_EQ(module->notes.empty(), name == "other");
  };
  run({}, "same");
  run({.given = {{"batch", 3}, {"image.2", 9}, {"image.3", 7}}}, "other");
  const auto sampled = [](const std::string&, size_t, size_t) -> Result<std::optional<Shape>> {
    return std::optional(Shape{2, 3, 3, 9, 7});
  };
  run({.given = {}, .sampled = sampled}, "other");
  // Samples of other channels are not of this input.
  const auto other = [](const std::string&, size_t, size_t) -> Result<std::optional<Shape>> {
    return std::optional(Shape{2, 3, 9, 7, 3});
  };
  run({.given = {}, .sampled = other}, "same");
}

TEST(Litert, EveryDrawnOperatorAgrees) {
  const char* folder = std::getenv("DEUTERON_LITERT_CASES");
  if (folder == nullptr) GTEST_SKIP() << "no drawn cases (DEUTERON_LITERT_CASES)";
  judge_operators(folder);
}

TEST(Litert, EveryTensorOfEveryModelIsEqual) {
  int models = 0;
  for (const std::string name : {"ad_fcae", "ic_resnet8", "kws_dscnn", "vww_mobilenetv1"}) {
    const std::string relative = "models/mlperf_tiny/" + name + "_int8.tflite";
    const auto committed = test::source_path(relative);
    const auto path = std::filesystem::exists(committed) ? committed : test::shared_path(relative);
    if (path.empty()) {
      test::not_run(name + " in test_tflite (no DEUTERON_SHARED)");
      continue;
    }
    const Compared compared = judge(path);
    ++models;
    std::printf("%s: %d tensors, %lld elements\n", name.c_str(), compared.tensors,
                static_cast<long long>(compared.elements));
  }
  std::printf("%d of 4 models\n", models);
  EXPECT_GE(models, 2);  // those that are committed
}

// The Neutron IR of every conformance case whose operators are imported.
TEST(Litert, EveryConformanceCaseIsEqual) {
  const std::filesystem::path cases = test::shared_path("conformance");
  if (cases.empty()) GTEST_SKIP() << "no full set of cases (DEUTERON_SHARED)";
  int files = 0;
  int equal = 0;
  std::map<std::string, int> refused;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cases)) {
    if (entry.path().extension() != ".tflite" ||
        !std::filesystem::exists(std::filesystem::path(entry.path()).replace_extension(".npz")))
      continue;
    ++files;
    if (const auto import = tflite::import_tflite(entry.path().string()); !import) {
      EXPECT_EQ(import.error().id, DiagnosticId::kTfliteUnsupportedOperator)
          << to_text(import.error());
      ++refused[import.error().reason];
      continue;
    }
    const Compared compared = judge(entry.path());
    if (compared.tensors > 0) ++equal;
  }
  std::printf("%d of %d files of Neutron IR imported\n", equal, files);
  for (const auto& [reason, count] : refused) std::printf("  %3d %s\n", count, reason.c_str());
  EXPECT_EQ(files, 470);  // 9 more have no stored outputs: docs/conformance.md names them
  EXPECT_EQ(equal, 470);
}

}  // namespace
}  // namespace dtr
