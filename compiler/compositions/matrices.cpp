#include "compiler/compositions/matrices.h"

#include <fmt/format.h>

#include <utility>

namespace dtr::compositions {
namespace {

// The elements of matrices (…, n, n), each of shape (…, 1, 1).
class Elements {
 public:
  static Result<Elements> of(GraphBuilder& builder, ValueId matrix) {
    const Shape& shape = builder.type(matrix).shape;
    const int64_t n = shape.size() < 2 ? 0 : shape.back();
    if (n < 1 || shape[shape.size() - 2] != n || n > 4)
      return builder.unsupported(
          fmt::format("matrices of {}: up to 4 × 4 are inverted, by their cofactors",
                      to_string(shape)),
          "compute the inverse of a larger matrix outside of the model, and make it a buffer");
    Elements made{builder, n, {}};
    const auto rank = static_cast<int64_t>(shape.size());
    for (int64_t row = 0; row < n; ++row) {
      DTR_ASSIGN(const ValueId line, builder.slice(matrix, rank - 2, row, row + 1));
      for (int64_t column = 0; column < n; ++column) {
        DTR_ASSIGN(const ValueId element, builder.slice(line, rank - 1, column, column + 1));
        made.all_.push_back(element);
      }
    }
    return made;
  }

  // The determinant without a row and a column, with its sign.
  Result<ValueId> cofactor(int64_t row, int64_t column) const {
    if (n_ == 1) return builder_.constant(builder_.type(all_[0]).dtype, {}, 1, "one");
    if (n_ == 2) {
      const ValueId other = at(1 - row, 1 - column);
      return (row + column) % 2 == 0 ? Result<ValueId>(other) : builder_.emit("aten.neg", {other});
    }
    if (n_ == 4) {
      std::vector<ValueId> rest;
      for (int64_t i = 0; i < n_; ++i)
        for (int64_t j = 0; j < n_; ++j)
          if (i != row && j != column) rest.push_back(at(i, j));
      DTR_ASSIGN(const ValueId minor, Elements(builder_, 3, std::move(rest)).determinant());
      return (row + column) % 2 == 0 ? Result<ValueId>(minor) : builder_.emit("aten.neg", {minor});
    }
    // Counted in a circle, the sign comes of itself.
    return difference(at(row + 1, column + 1), at(row + 2, column + 2), at(row + 1, column + 2),
                      at(row + 2, column + 1));
  }

  Result<ValueId> determinant() const {
    ValueId sum;
    for (int64_t column = 0; column < n_; ++column) {
      DTR_ASSIGN(const ValueId other, cofactor(0, column));
      DTR_ASSIGN(const ValueId product, builder_.emit("aten.mul.Tensor", {at(0, column), other}));
      if (!sum.valid()) {
        sum = product;
      } else {
        DTR_ASSIGN(sum, builder_.emit("aten.add.Tensor", {sum, product}));
      }
    }
    return sum;
  }

  Result<ValueId> inverse() const {
    const auto rank = static_cast<int64_t>(builder_.type(all_[0]).rank());
    DTR_ASSIGN(const ValueId whole, determinant());
    std::vector<ValueId> rows;
    for (int64_t row = 0; row < n_; ++row) {
      std::vector<ValueId> line;
      for (int64_t column = 0; column < n_; ++column) {
        DTR_ASSIGN(ValueId element, cofactor(column, row));
        DTR_ASSIGN(element, builder_.expand(element, builder_.type(all_[0]).shape));
        line.push_back(element);
      }
      DTR_ASSIGN(const ValueId joined, builder_.concatenate(line, rank - 1));
      rows.push_back(joined);
    }
    DTR_ASSIGN(const ValueId adjugate, builder_.concatenate(rows, rank - 2));
    return builder_.emit("aten.div.Tensor", {adjugate, whole});
  }

 private:
  Elements(GraphBuilder& builder, int64_t n, std::vector<ValueId> all)
      : builder_(builder), n_(n), all_(std::move(all)) {}
  ValueId at(int64_t row, int64_t column) const {
    return all_[static_cast<size_t>(row % n_ * n_ + column % n_)];
  }
  Result<ValueId> difference(ValueId a, ValueId b, ValueId c, ValueId d) const {
    DTR_ASSIGN(const ValueId first, builder_.emit("aten.mul.Tensor", {a, b}));
    DTR_ASSIGN(const ValueId second, builder_.emit("aten.mul.Tensor", {c, d}));
    return builder_.emit("aten.sub.Tensor", {first, second});
  }

  GraphBuilder& builder_;
  int64_t n_;
  std::vector<ValueId> all_;
};

}  // namespace

Result<ValueId> determinant(GraphBuilder& builder, ValueId matrices) {
  const GraphBuilder::KeepsFloat exact(builder);
  DTR_ASSIGN(const Elements elements, Elements::of(builder, matrices));
  DTR_ASSIGN(const ValueId result, elements.determinant());
  Shape shape = builder.type(matrices).shape;
  shape.resize(shape.size() - 2);
  return builder.view(result, shape);
}

Result<ValueId> inverse(GraphBuilder& builder, ValueId matrices) {
  const GraphBuilder::KeepsFloat exact(builder);
  DTR_ASSIGN(const Elements elements, Elements::of(builder, matrices));
  return elements.inverse();
}

}  // namespace dtr::compositions
