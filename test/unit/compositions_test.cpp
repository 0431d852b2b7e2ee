// The graph builder and the compositions, called without an importer as a new front end would: each
// is evaluated by the reference and held against loops over indices, or against values worked out
// by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "compiler/compositions/attention.h"
#include "compiler/compositions/factorizations.h"
#include "compiler/compositions/indices.h"
#include "compiler/compositions/masks.h"
#include "compiler/compositions/norms.h"
#include "compiler/compositions/pixels.h"
#include "compiler/compositions/rotations.h"
#include "compiler/compositions/slices.h"
#include "compiler/compositions/tiling.h"
#include "compiler/executors/executor.h"
#include "compiler/ir/verifier.h"
#include "compiler/ops/ops.h"

namespace dtr::compositions {
namespace {

// A graph with one builder that makes all of it.
class Built {
 public:
  Built() { module_.graphs.emplace_back(); }
  // An input with the values first, first + step, ….
  ValueId input(const Shape& shape, double first = 0, double step = 1) {
    Tensor tensor(DType::kFloat32, shape);
    for (size_t i = 0; i < tensor.values<float>().size(); ++i)
      tensor.values<float>()[i] = static_cast<float>(first + step * static_cast<double>(i));
    inputs_.push_back(std::move(tensor));
    return Rewriter(module_.forward()).add_input({.dtype = DType::kFloat32, .shape = shape}, "x");
  }
  GraphBuilder& builder() {
    return builder_.has_value() ? *builder_
                                : builder_.emplace(module_, module_.forward(), Origin{});
  }
  // The shape and the elements of a value.
  std::pair<Shape, std::vector<float>> values(const Result<ValueId>& result) {
    if (!result) {
      ADD_FAILURE() << result.error().reason;
      return {};
    }
    Rewriter(module_.forward()).set_outputs({*result});
    EXPECT_TRUE(verify(module_));
    std::vector<TensorView> views;
    for (const Tensor& tensor : inputs_) views.push_back(tensor.view());
    const auto outputs = make_reference_executor(module_, module_.forward())->run(views);
    if (!outputs) {
      ADD_FAILURE() << outputs.error().reason;
      return {};
    }
    const auto elements = outputs->front().values<float>();
    return {outputs->front().shape(), {elements.begin(), elements.end()}};
  }
  size_t ops() { return module_.forward().op_count(); }

 private:
  Module module_;
  std::vector<Tensor> inputs_;
  std::optional<GraphBuilder> builder_;
};

using Values = std::pair<Shape, std::vector<float>>;

TEST(GraphBuilder, AddsNoOpWithoutEffect) {
  Built built;
  const ValueId x = built.input({2, 3});
  GraphBuilder& builder = built.builder();
  EXPECT_EQ(*builder.view(x, {2, 3}), x);
  EXPECT_EQ(*builder.permute(x, {0, 1}), x);
  EXPECT_EQ(*builder.expand(x, {2, 3}), x);
  EXPECT_EQ(*builder.slice(x, 1, 0, 3), x);
  EXPECT_EQ(*builder.flip(x, {}), x);
  EXPECT_EQ(*builder.pad(x, {0, 0}, 1.0), x);
  EXPECT_EQ(*builder.concatenate({ValueId{}, x}, 0), x);
  EXPECT_EQ(built.ops(), 0u);
}

TEST(GraphBuilder, ClipsBoundsAsPython) {
  Built built;
  const ValueId x = built.input({5});
  EXPECT_EQ(built.values(built.builder().slice(x, 0, -3, 100, 2)), (Values{{2}, {2, 4}}));
}

TEST(GraphBuilder, GivesAnAttributeTheKindThatTheOpDeclares) {
  Built built;
  const ValueId x = built.input({3});
  EXPECT_EQ(
      built.values(built.builder().emit("aten.pow.Tensor_Scalar", {x}, {{"exponent", int64_t{2}}})),
      (Values{{3}, {0, 1, 4}}));
}

TEST(GraphBuilder, SaysWhatIsWrong) {
  Built built;
  const ValueId x = built.input({2, 3});
  const auto refused = built.builder().emit("aten.matmul", {x, x});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().id, DiagnosticId::kIrInvalid);
  const auto huge = built.builder().constant(DType::kFloat32, {1 << 15, 1 << 15}, 1, "huge");
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().reason, "it makes a constant of shape 32768x32768");
}

TEST(Compositions, RepeatsWholesAndElements) {
  Built built;
  const ValueId x = built.input({2});
  EXPECT_EQ(built.values(repeat(built.builder(), x, {2, 2}, Repetition::kWhole)),
            (Values{{2, 4}, {0, 1, 0, 1, 0, 1, 0, 1}}));
  EXPECT_EQ(built.values(repeat(built.builder(), x, {3}, Repetition::kEach)),
            (Values{{6}, {0, 0, 0, 1, 1, 1}}));
}

TEST(Compositions, Meshgrid) {
  Built built;
  const ValueId x = built.input({2}), y = built.input({3}, 10);
  const auto grid = meshgrid(built.builder(), {x, y}, false);
  ASSERT_TRUE(grid);
  EXPECT_EQ(built.values((*grid)[0]), (Values{{2, 3}, {0, 0, 0, 1, 1, 1}}));
  EXPECT_EQ(built.values((*grid)[1]), (Values{{2, 3}, {10, 11, 12, 10, 11, 12}}));
  const auto exchanged = meshgrid(built.builder(), {x, y}, true);
  ASSERT_TRUE(exchanged);
  EXPECT_EQ(built.values((*exchanged)[0]), (Values{{3, 2}, {0, 1, 0, 1, 0, 1}}));
}

TEST(Compositions, RotatesAndRolls) {
  Built built;
  const ValueId x = built.input({2, 3});
  EXPECT_EQ(built.values(rotate_quarters(built.builder(), x, 1, {0, 1})),
            (Values{{3, 2}, {2, 5, 1, 4, 0, 3}}));
  EXPECT_EQ(built.values(rotate_quarters(built.builder(), x, -2, {0, -1})),
            (Values{{2, 3}, {5, 4, 3, 2, 1, 0}}));
  EXPECT_EQ(built.values(roll(built.builder(), x, {1}, {1})), (Values{{2, 3}, {2, 0, 1, 5, 3, 4}}));
  EXPECT_EQ(built.values(roll(built.builder(), x, {-1}, {})), (Values{{2, 3}, {1, 2, 3, 4, 5, 0}}));
}

TEST(Compositions, PadsWithOwnElements) {
  Built built;
  const ValueId x = built.input({1, 4});
  EXPECT_EQ(built.values(pad_with_own_elements(built.builder(), x, {2, 1}, Border::kReflect)),
            (Values{{1, 7}, {2, 1, 0, 1, 2, 3, 2}}));
  EXPECT_EQ(built.values(pad_with_own_elements(built.builder(), x, {2, 1}, Border::kReplicate)),
            (Values{{1, 7}, {0, 0, 0, 1, 2, 3, 3}}));
  EXPECT_EQ(built.values(pad_with_own_elements(built.builder(), x, {2, 1}, Border::kCircular)),
            (Values{{1, 7}, {2, 3, 0, 1, 2, 3, 0}}));
  const auto refused = pad_with_own_elements(built.builder(), x, {4, 0}, Border::kReflect);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason,
            "mode reflect adds at most 3 elements to an extent of 4, here 4");
}

TEST(Compositions, ShufflesPixelsThereAndBack) {
  Built built;
  const ValueId x = built.input({1, 8, 1, 3});
  const auto wide = pixel_shuffle(built.builder(), x, 2, false);
  const auto [shape, elements] = built.values(wide);
  ASSERT_EQ(shape, (Shape{1, 2, 2, 6}));
  for (int64_t c = 0; c < 2; ++c)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t w = 0; w < 6; ++w) {
        const int64_t from = (c * 4 + h * 2 + w % 2) * 3 + w / 2;
        EXPECT_EQ(elements[static_cast<size_t>((c * 2 + h) * 6 + w)], static_cast<float>(from));
      }
  ASSERT_TRUE(wide);
  std::vector<float> all(24);
  std::iota(all.begin(), all.end(), 0.0F);
  EXPECT_EQ(built.values(pixel_shuffle(built.builder(), *wide, 2, true)),
            (Values{{1, 8, 1, 3}, all}));
  EXPECT_EQ(built.values(channel_shuffle(built.builder(), built.input({1, 6, 1}), 2)),
            (Values{{1, 6, 1}, {0, 3, 1, 4, 2, 5}}));
  EXPECT_FALSE(pixel_shuffle(built.builder(), x, 3, false));
}

TEST(Compositions, EinsumSumsOverTheLettersThatAreGone) {
  Built built;
  const ValueId a = built.input({2, 3, 5}, 1, 0.25), b = built.input({5, 2, 7}, -2, 0.5);
  const auto [shape, elements] = built.values(einsum(built.builder(), "bik, kbj -> jbi", {a, b}));
  ASSERT_EQ(shape, (Shape{7, 2, 3}));
  for (int64_t j = 0; j < 7; ++j)
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t i = 0; i < 3; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < 5; ++k)
          sum += (1 + 0.25 * static_cast<double>((n * 3 + i) * 5 + k)) *
                 (-2 + 0.5 * static_cast<double>((k * 2 + n) * 7 + j));
        EXPECT_NEAR(elements[static_cast<size_t>((j * 2 + n) * 3 + i)], sum, std::abs(sum) * 1e-6);
      }
  EXPECT_FALSE(einsum(built.builder(), "ij,jk->i", {a, b}));
}

TEST(Compositions, CausalAttentionReadsNoLaterKey) {
  constexpr int64_t kCount = 3, kDepth = 5;
  Built built;
  const ValueId query = built.input({1, kCount, kDepth}, -1, 0.125),
                key = built.input({1, kCount, kDepth}, 0.5, -0.0625),
                value = built.input({1, kCount, kDepth}, 3, 0.25);
  const auto [shape, elements] = built.values(
      attention(built.builder(), {.query = query, .key = key, .value = value, .causal = true}));
  ASSERT_EQ(shape, (Shape{1, kCount, kDepth}));
  const auto at = [](double first, double step, int64_t row, int64_t column) {
    return first + step * static_cast<double>(row * kDepth + column);
  };
  for (int64_t i = 0; i < kCount; ++i) {
    std::vector<double> weights;
    double total = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (int64_t d = 0; d < kDepth; ++d) score += at(-1, 0.125, i, d) * at(0.5, -0.0625, j, d);
      weights.push_back(std::exp(score / std::sqrt(double{kDepth})));
      total += weights.back();
    }
    for (int64_t d = 0; d < kDepth; ++d) {
      double expected = 0;
      for (size_t j = 0; j < weights.size(); ++j)
        expected += weights[j] / total * at(3, 0.25, static_cast<int64_t>(j), d);
      EXPECT_NEAR(elements[static_cast<size_t>(i * kDepth + d)], expected, 1e-5);
    }
  }
}

TEST(Compositions, NormsAndSums) {
  Built built;
  GraphBuilder& builder = built.builder();
  const ValueId x = built.input({2, 2}, -3, 2);  // -3 -1 / 1 3
  EXPECT_EQ(built.values(vector_norm(builder, x, 1, {1}, false)), (Values{{2}, {4, 4}}));
  EXPECT_EQ(built.values(vector_norm(builder, x, INFINITY, {0}, true)), (Values{{1, 2}, {3, 3}}));
  EXPECT_EQ(built.values(cumulative_sum(builder, x, 0)), (Values{{2, 2}, {-3, -1, -2, 2}}));
  const auto mean = builder.emit("aten.mean.dim", {x}, {{"dim", Ints{1}}, {"keepdim", true}});
  ASSERT_TRUE(mean);
  EXPECT_EQ(built.values(variance(builder, x, {.mean = *mean, .dims = {1}, .correction = 1})),
            (Values{{2}, {2, 2}}));
  EXPECT_EQ(built.values(
                variance(builder, x, {.mean = *mean, .dims = {1}, .correction = 0, .root = true})),
            (Values{{2}, {1, 1}}));
  EXPECT_FALSE(variance(builder, x, {.mean = *mean, .dims = {1}, .correction = 2}));
  EXPECT_FALSE(vector_norm(builder, x, -1, {1}, false));
}

// 1e-10 -1 / -2 -3: the greater absolute value is below zero.
TEST(Compositions, PivotsHaveTheGreatestAbsoluteValue) {
  Built built;
  const ValueId x = built.input({2, 2}, 1e-10, -1);
  const auto found = eliminate(built.builder(), x, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(built.values(found->pivots), (Values{{2}, {-2, -1}}));
}

// Indices that join themselves again and again have exponentially many ways back to their extremes:
// not all of them are followed.
TEST(Compositions, PlacesOfExtremesCountFromTheFront) {
  Built built;
  GraphBuilder& builder = built.builder();
  const ValueId x = built.input({2, 3});
  auto index = builder.emit("aten.argmax", {x}, {{"dim", int64_t{1}}, {"keepdim", false}});
  ASSERT_TRUE(index);
  const auto join = [&] {
    const auto both = builder.concatenate({*index, *index}, 0);
    ASSERT_TRUE(both);
    index = builder.slice(*both, 0, 1, 3);
    ASSERT_TRUE(index);
  };
  join();
  const auto known = from_front(builder, *index, 3);
  ASSERT_TRUE(known);
  EXPECT_EQ(*known, *index);
  for (int i = 0; i < 40; ++i) join();
  const auto far = from_front(builder, *index, 3);
  ASSERT_TRUE(far);
  EXPECT_NE(*far, *index);
}

// 1 2 / 3 4, of which a triangle is read: 1 2 / 2 4 has the eigenvalues 0 and 5, 1 3 / 3 4 others.
TEST(Compositions, EigenvaluesAreOfTheTriangleThatIsRead) {
  Built built;
  const ValueId x = built.input({2, 2}, 1);
  const auto [shape, found] = built.values(eigen(built.builder(), x, true, false)->values);
  ASSERT_EQ(shape, (Shape{2}));
  EXPECT_NEAR(found[0], 0, 1e-6);
  EXPECT_NEAR(found[1], 5, 1e-6);
  const auto below = built.values(eigen(built.builder(), x, false, false)->values).second;
  EXPECT_NEAR(below[0] * below[1], 1 * 4 - 3 * 3, 1e-5);
}

// Columns that are ordered before they are scaled: each is there once.
TEST(Compositions, LargeMatricesHaveOrthogonalEigenvectors) {
  Built built;
  const ValueId x = built.input({2, 2}, 1e9, 1e9);
  const auto made = eigen(built.builder(), x, true, true);
  ASSERT_TRUE(made);
  EXPECT_NEAR(built.values(made->values).second[1], 5e9, 1e3);
  const auto vectors = built.values(made->vectors).second;  // by rows: 2 1 / -1 2, over √5
  EXPECT_NEAR(std::abs(vectors[0]), 2 / std::sqrt(5), 1e-6);
  EXPECT_NEAR(vectors[0] * vectors[1] + vectors[2] * vectors[3], 0, 1e-6);
}

// Ten elements of 3: one singular value, √10 · 3.
TEST(Compositions, SingularValuesOfRankOne) {
  Built built;
  const ValueId x = built.input({5, 2}, 3, 0);
  const auto [shape, found] = built.values(singular(built.builder(), x, false, false)->values);
  ASSERT_EQ(shape, (Shape{2}));
  EXPECT_NEAR(found[0], 3 * std::sqrt(10), 1e-5);
  EXPECT_NEAR(found[1], 0, 1e-5);
}

TEST(Compositions, LargerMatricesHaveNoEigenvalues) {
  Built built;
  const auto reason = [](const auto& result) { return result ? "" : result.error().reason; };
  EXPECT_EQ(reason(eigen(built.builder(), built.input({33, 33}), false, false)),
            "matrices of 33x33: symmetric ones up to 32 × 32 are decomposed");
  EXPECT_EQ(reason(eigen(built.builder(), built.input({3, 4}), false, false)),
            "matrices of 3x4: symmetric ones up to 32 × 32 are decomposed");
  EXPECT_EQ(reason(singular(built.builder(), built.input({40, 33}), false, false)),
            "matrices of 40x33: those with up to 32 rows or columns are decomposed");
  EXPECT_TRUE(singular(built.builder(), built.input({40, 2}), false, false));
}

TEST(Compositions, SelectsByAKnownMask) {
  Built built;
  GraphBuilder& builder = built.builder();
  const ValueId x = built.input({2, 2}, 5);
  Known mask{{2, 2}, {1, 1, 1, 1}};
  keep_triangle(mask, false, 0);
  EXPECT_EQ(mask.values, (std::vector<double>{1, 0, 1, 1}));
  EXPECT_EQ(built.values(select_by_constant(builder, mask, x, true, {{}, {-1}})),
            (Values{{2, 2}, {5, -1, 7, 8}}));
  EXPECT_EQ(built.values(select_by_constant(builder, mask, x, false, {{}, {-1}})),
            (Values{{2, 2}, {-1, 6, -1, -1}}));
  EXPECT_FALSE(paired(builder, mask, {{3}, {0, 0, 0}}, [](double a, double) { return a; }));
}

TEST(Compositions, ReplacesASlice) {
  Built built;
  const ValueId x = built.input({5}), part = built.input({2}, 10);
  EXPECT_EQ(built.values(replace_slice(built.builder(), x, part, 0, 1, 1)),
            (Values{{5}, {0, 10, 11, 3, 4}}));
  EXPECT_EQ(built.values(replace_slice(built.builder(), x, part, 0, 0, 3)),
            (Values{{5}, {10, 1, 2, 11, 4}}));
}

}  // namespace
}  // namespace dtr::compositions
