// Samples from folders, picked ones, and the warnings about them.
#include <fmt/format.h>

#include <filesystem>
#include <numeric>

#include "compiler/ir/sample_files.h"
#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/sample_warnings.h"
#include "host/accuracy/labels.h"
#include "test/unit/quantizer_kit.h"

namespace dtr {
namespace {

using test::parse;
using test::ramp;

// A folder that is removed with the test.
struct Folder {
  std::string path = testing::TempDir() + "/deuteron_sample_files";
  Folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return path + "/" + name; }
};

constexpr char kThree[] = "graph @forward(%x: f32[1,3]) {\n  return %x\n}\n";

// The first elements of the samples; sample i of the tests has 3·i, 3·i + 1, 3·i + 2.
std::vector<float> numbers(const Samples& samples) {
  std::vector<float> first;
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::span<const float> x = samples.inputs(i)[0].values<float>();
    EXPECT_EQ(x[2], x[0] + 2);
    first.push_back(x[0] / 3);
  }
  return first;
}

std::vector<NamedTensor> rows(size_t from, size_t count) {
  return ramp("x", {static_cast<int64_t>(count), 3}, static_cast<float>(3 * from),
              static_cast<float>(3 * (from + count) - 1));
}

// 100 samples in files of 9 and one of 1, without an axis of samples: names in order are c00, c09,
// … c99.
void write_hundred(const Folder& folder) {
  for (size_t i = 0; i < 99; i += 9)
    ASSERT_TRUE(write_npz(folder.file(fmt::format("c{:02}.npz", i)), rows(i, 9)));
  Tensor last(DType::kFloat32, {3});
  std::iota(last.values<float>().begin(), last.values<float>().end(), 297.0F);
  ASSERT_TRUE(write_npy(folder.file("c99.npy"), last.view()));
  ASSERT_TRUE(write_npz(folder.file("notes.txt"), rows(0, 1)));
}

TEST(SampleFiles, AFolderIsReadInTheOrderOfNames) {
  const Folder folder;
  write_hundred(folder);
  const Module module = parse(kThree);
  const auto all = pick_samples(module.forward(), folder.path, 100);
  ASSERT_TRUE(all) << to_text(all.error());
  EXPECT_EQ(all->there, 100U);
  EXPECT_EQ(all->every, 1U);
  std::vector<float> wanted(100);
  std::iota(wanted.begin(), wanted.end(), 0.0F);
  EXPECT_EQ(numbers(all->samples), wanted);
  EXPECT_EQ(*first_sample_file(folder.path), folder.file("c00.npz"));
}

TEST(SampleFiles, EvenlySpacedSamplesAreKept) {
  const Folder folder;
  write_hundred(folder);
  const Module module = parse(kThree);
  for (const auto& [most, every] : {std::pair<size_t, size_t>{99, 2},
                                    {50, 2},
                                    {49, 4},
                                    {25, 4},
                                    {7, 16},
                                    {6, 32},
                                    {3, 64},
                                    {2, 64},
                                    {1, 128}}) {
    const auto picked = pick_samples(module.forward(), folder.path, most);
    ASSERT_TRUE(picked) << to_text(picked.error());
    EXPECT_EQ(picked->there, 100U);
    EXPECT_EQ(picked->every, every);
    std::vector<float> wanted;
    for (size_t i = 0; i < 100; i += every) wanted.push_back(static_cast<float>(i));
    EXPECT_EQ(numbers(picked->samples), wanted) << most;
  }
  // One file with all of them gives the same.
  ASSERT_TRUE(write_npz(folder.file("all.npz"), rows(0, 100)));
  const auto picked = pick_samples(module.forward(), folder.file("all.npz"), 7);
  ASSERT_TRUE(picked);
  EXPECT_EQ(numbers(picked->samples), (std::vector<float>{0, 16, 32, 48, 64, 80, 96}));
}

TEST(SampleFiles, OfArraysInMemoryTheSameAreKept) {
  const Folder folder;
  const Module module = parse(kThree);
  for (const size_t there : {1U, 2U, 3U, 7U, 16U, 100U}) {
    const std::vector<NamedTensor> arrays = rows(0, there);
    ASSERT_TRUE(write_npz(folder.file("all.npz"), arrays));
    const auto all = Samples::bind(module.forward(), arrays, "arrays");
    ASSERT_TRUE(all) << to_text(all.error());
    for (const size_t most : {1U, 2U, 3U, 6U, 7U, 50U, 99U, 100U, 1000U}) {
      const auto read = pick_samples(module.forward(), folder.file("all.npz"), most);
      ASSERT_TRUE(read) << to_text(read.error());
      const PickedSamples picked = pick_samples(module.forward(), *all, most);
      EXPECT_EQ(picked.there, there);
      EXPECT_EQ(picked.every, read->every);
      EXPECT_EQ(numbers(picked.samples), numbers(read->samples)) << most << " of " << there;
    }
  }
}

TEST(SampleFiles, OfAStreamTheFirstAreKept) {
  const Folder folder;
  write_hundred(folder);
  const Module module = parse(
      "graph @forward(%x: f32[1,3], state %s: f32[1,3] = splat<0>) {\n"
      "  %y: f32[1,3] = aten.add.Tensor(%x, %s)\n"
      "  return %y, next %y\n}\n");
  const auto picked = pick_samples(module.forward(), folder.path, 11);
  ASSERT_TRUE(picked) << to_text(picked.error());
  EXPECT_EQ(picked->there, 100U);
  const std::vector<float> first = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(numbers(picked->samples), first);
  const std::vector<NamedTensor> arrays = rows(0, 100);
  const auto all = Samples::bind(module.forward(), arrays, "arrays");
  ASSERT_TRUE(all);
  EXPECT_EQ(numbers(pick_samples(module.forward(), *all, 11).samples), first);
}

TEST(SampleFiles, NameTheFileThatIsBad) {
  const Folder folder;
  const Module module = parse(kThree);
  EXPECT_EQ(pick_samples(module.forward(), folder.path, 9).error().id, DiagnosticId::kDataEmpty);
  EXPECT_EQ(first_sample_file(folder.path).error().id, DiagnosticId::kDataEmpty);
  write_hundred(folder);
  std::vector<NamedTensor> bad = rows(9, 9);
  bad[0].tensor.values<float>()[13] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(write_npz(folder.file("c09.npz"), bad));
  const auto picked = pick_samples(module.forward(), folder.path, 2);
  ASSERT_FALSE(picked);
  EXPECT_EQ(picked.error().id, DiagnosticId::kDataNotFinite);
  EXPECT_EQ(picked.error().place.file, folder.file("c09.npz"));
  EXPECT_EQ(picked.error().place.node, "x");
  EXPECT_EQ(picked.error().reason, "element 1 of sample 4 is NaN or infinite");
}

// ---- warnings

// Uniform elements of 0 to 1 have mean 1/2 and variance 1/12: so the batch norm stored.
constexpr char kNorm[] =
    "graph @forward(%x: f32[1,2,8]) {\n"
    "  %m: f32[2] = constant dense<0.5, 0.5>\n"
    "  %v: f32[2] = constant dense<0.0833, 0.0833>\n"
    "  %w: f32[2] = constant dense<1, 2>\n"
    "  %b: f32[2] = constant dense<0, 1>\n"
    "  %y: f32[1,2,8] = aten.batch_norm(%x, %w, %b, %m, %v) {eps = 1e-05}\n"
    "  %z: f32[1,2,8] = aten.relu(%y)\n"
    "  return %z\n}\n";

std::vector<Diagnostic> warnings_of(const char* text, const std::vector<NamedTensor>& arrays) {
  Module module = parse(text);
  const auto samples = Samples::bind(module.forward(), arrays, "data.npz");
  EXPECT_TRUE(samples);
  const auto compiled =
      quantize_model(std::move(module), {.target = find_target("imxrt700"), .samples = &*samples});
  EXPECT_TRUE(compiled) << to_text(compiled.error());
  const auto warnings = sample_warnings(*compiled);
  EXPECT_TRUE(warnings);
  return *warnings;
}

std::vector<DiagnosticId> ids_of(const char* text, const std::vector<NamedTensor>& arrays) {
  std::vector<DiagnosticId> ids;
  for (const Diagnostic& each : warnings_of(text, arrays)) ids.push_back(each.id);
  return ids;
}

// Elements of 0 to 1 in an order that gives all samples and channels the same distribution.
std::vector<NamedTensor> mixed(float scale, float offset, int64_t samples = 16) {
  auto arrays = ramp("x", {samples, 1, 2, 8}, 0, 1);
  const std::span<float> x = arrays[0].tensor.values<float>();
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = scale * static_cast<float>(i * 37 % x.size()) / static_cast<float>(x.size()) + offset;
  return arrays;
}

TEST(SampleWarnings, ComparePreprocessingWithTheFirstBatchNorm) {
  using enum DiagnosticId;
  EXPECT_EQ(ids_of(kNorm, mixed(1, 0)), std::vector<DiagnosticId>());
  EXPECT_EQ(ids_of(kNorm, mixed(2, -0.5)), std::vector<DiagnosticId>());  // of 2 deviations
  EXPECT_EQ(ids_of(kNorm, mixed(255, 0)), std::vector{kCalibrationUnprepared});
  EXPECT_EQ(ids_of(kNorm, mixed(1.0F / 255, 0)), std::vector{kCalibrationUnprepared});
  EXPECT_EQ(ids_of(kNorm, mixed(1, 3)), std::vector{kCalibrationUnprepared});  // 10 deviations
  // A batch norm as it was initialized tells nothing.
  std::string untrained(kNorm);
  for (const auto& [from, to] : {std::pair("<0.5, 0.5>", "<0, 0>"), {"<0.0833, 0.0833>", "<1, 1>"}})
    untrained.replace(untrained.find(from), std::string_view(from).size(), to);
  EXPECT_EQ(ids_of(untrained.c_str(), mixed(255, 0)), std::vector<DiagnosticId>());
}

TEST(SampleWarnings, NameIndicesOutside) {
  constexpr char kPicked[] =
      "graph @forward(%x: f32[4,2], %i: i64[3]) {\n"
      "  %y: f32[3,2] = aten.index_select(%x, %i) {dim = 0}\n"
      "  %z: f32[4,2] = aten.index_put(%x, %i, %y)\n"
      "  return %y, %z\n}\n";
  auto arrays = ramp("x", {16, 4, 2}, 0, 1);
  Tensor list(DType::kInt64, {16, 3});
  arrays.push_back({"i", std::move(list)});
  const std::span<int64_t> indices = arrays[1].tensor.values<int64_t>();
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i % 4);
  EXPECT_EQ(ids_of(kPicked, arrays), std::vector<DiagnosticId>());
  indices[3 * 9 + 1] = -1;  // index_put counts it from the end
  auto warnings = warnings_of(kPicked, arrays);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].id, DiagnosticId::kCalibrationIndex);
  EXPECT_NE(warnings[0].reason.find("sample 9 has index -1 of 4 elements"), std::string::npos)
      << warnings[0].reason;
  EXPECT_NE(warnings[0].fix.find("clamp"), std::string::npos);
  indices[3 * 9 + 1] = 4;
  warnings = warnings_of(kPicked, arrays);
  ASSERT_FALSE(warnings.empty());
  EXPECT_NE(warnings[0].reason.find("index 4 of 4"), std::string::npos) << warnings[0].reason;
}

TEST(SampleWarnings, SayFewAndConstant) {
  using enum DiagnosticId;
  constexpr char kRelu[] =
      "graph @forward(%x: f32[1,2,8]) {\n  %z: f32[1,2,8] = aten.relu(%x)\n  return %z\n}\n";
  EXPECT_EQ(ids_of(kRelu, mixed(1, 0, 7)), std::vector{kCalibrationFew});
  EXPECT_EQ(ids_of(kRelu, mixed(1, 0, 8)), std::vector<DiagnosticId>());
  const auto constant = warnings_of(kRelu, mixed(0, 3));
  ASSERT_EQ(constant.size(), 1U);
  EXPECT_EQ(constant[0].id, kCalibrationConstant);
  EXPECT_EQ(constant[0].reason, "every element of every calibration sample is 3");
  EXPECT_EQ(constant[0].place.node, "x");
  auto same = mixed(1, 0);
  const std::span<float> x = same[0].tensor.values<float>();
  for (size_t i = 16; i < x.size(); ++i) x[i] = x[i - 16];
  EXPECT_EQ(ids_of(kRelu, same), std::vector{kCalibrationConstant});
  x[20] = 0.125F;
  EXPECT_EQ(ids_of(kRelu, same), std::vector<DiagnosticId>());
}

TEST(SampleWarnings, TellUnlikeSamples) {
  const Module module = parse("graph @forward(%x: f32[1,2,8]) {\n  return %x\n}\n");
  const auto unlike = [&](const std::vector<NamedTensor>& calibrated,
                          const std::vector<NamedTensor>& others) {
    return warn_of_unlike_samples(module.forward(),
                                  *Samples::bind(module.forward(), calibrated, "c.npz"),
                                  *Samples::bind(module.forward(), others, "d.npz"), "d.npz");
  };
  EXPECT_FALSE(unlike(mixed(1, 0), mixed(1, 0, 50)));
  EXPECT_FALSE(unlike(mixed(1, 0), mixed(0.5F, 0.2F)));
  const auto outside = unlike(mixed(1, 0, 200), mixed(1, 0.5F, 200));
  ASSERT_TRUE(outside);
  EXPECT_EQ(outside->id, DiagnosticId::kCalibrationUnlike);
  EXPECT_NE(outside->reason.find(": 50.0 % of the elements are outside"), std::string::npos)
      << outside->reason;
  EXPECT_TRUE(unlike(mixed(255, 0), mixed(1, 0)));  // nothing is outside, but few codes are left
  EXPECT_TRUE(unlike(mixed(1, 0), mixed(255, 0)));
}

// Labels from 1 on become classes by a subtraction only if none is above the number of classes.
TEST(Labels, RemedyIsOneForAllOfThem) {
  const auto fix = [](const std::vector<int64_t>& labels) {
    const Result<void> checked = check_labels(labels, 4, {});
    return checked ? std::string() : checked.error().fix;
  };
  EXPECT_EQ(fix({0, 3, 1}), "");
  EXPECT_EQ(fix({1, 4, 2}), "subtract 1: classes are counted from 0");
  const std::string other =
      "leave samples without a class out, or name the right array with --labels";
  EXPECT_EQ(fix({1, 5, 4}), other);
  EXPECT_EQ(fix({0, 4, 1}), other);
  EXPECT_EQ(fix({-1, 3}), other);
}

}  // namespace
}  // namespace dtr
