// Appends ops to a graph: used by importers, legalizations and the compositions of
// `compiler/compositions/`. Shapes are logical, dimensions are counted from 0. A function whose op
// would have no effect adds none and returns its operand.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/rewriter.h"
#include "compiler/ir/tensor.h"

namespace dtr {

class GraphBuilder {
 public:
  // Inserts ops before `before`, at the end of the graph if it is invalid. Names of new constants
  // begin with `name` if it is not empty.
  GraphBuilder(Module& module, Graph& graph, Origin origin, std::string name = {}, OpId before = {})
      : module_(module),
        rewriter_(graph),
        origin_(std::move(origin)),
        name_(std::move(name)),
        before_(before) {}
  virtual ~GraphBuilder() = default;
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  const Graph& graph() const { return rewriter_.graph(); }
  const Type& type(ValueId value) const { return graph().type(value); }

  // While it lives, quantization leaves float what this builder adds: the steps of a factorization
  // divide by small pivots and cancel, for which int8 has too few codes.
  class KeepsFloat {
   public:
    explicit KeepsFloat(GraphBuilder& builder)
        : builder_(builder), before_(builder.origin_.keeps_float) {
      builder.origin_.keeps_float = true;
    }
    ~KeepsFloat() { builder_.origin_.keeps_float = before_; }
    KeepsFloat(const KeepsFloat&) = delete;
    KeepsFloat& operator=(const KeepsFloat&) = delete;

   private:
    GraphBuilder& builder_;
    bool before_;
  };

  // Adds an op of one result. An integer attribute is converted to the kind that the op declares.
  // Errors, also of the functions below: those of the op's `verify`.
  virtual Result<ValueId> emit(std::string_view op, std::vector<ValueId> operands,
                               const Attributes& attributes = {},
                               const std::optional<Quantization>& quantization = {});

  // Adds an op of several results. Errors: those of the op's `verify`.
  Result<std::vector<ValueId>> emit_several(const OpDef& def, std::vector<ValueId> operands,
                                            Attributes attributes);

  Result<ValueId> view(ValueId value, const Shape& shape);
  Result<ValueId> permute(ValueId value, const Ints& order);
  Result<ValueId> expand(ValueId value, const Shape& size);
  Result<ValueId> flip(ValueId value, const Ints& dims);
  // value[start:end:step] along `dim`; bounds are clipped as Python does.
  Result<ValueId> slice(ValueId value, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
  // Concatenates the parts along `dim`; invalid ones are skipped.
  Result<ValueId> concatenate(std::vector<ValueId> parts, int64_t dim);
  // `pad` as in aten.constant_pad_nd: pairs of counts before and after, the last dimension first.
  // Any dtype.
  Result<ValueId> pad(ValueId value, const Ints& pad, double fill);

  // A constant with all elements equal to `value`. Error: it would exceed 64 MiB.
  Result<ValueId> constant(DType dtype, const Shape& shape, double value, std::string_view name);
  // A constant of these elements, a vector unless `shape` is given. Values of an integer dtype are
  // truncated; NaN becomes 0. Error: it would exceed 64 MiB.
  Result<ValueId> constant(DType dtype, std::span<const double> values,
                           const std::optional<Shape>& shape = {});
  // The elements of a constant; std::nullopt for other values.
  std::optional<Tensor> constant_value(ValueId value) const;
  std::optional<std::vector<double>> constant_elements(ValueId value) const;

  // The error for an operator that cannot be built: the reason, and what to change.
  virtual tl::unexpected<Diagnostic> unsupported(std::string reason, std::string fix = {}) const;

 protected:
  ValueId add_constant(DType dtype, const Shape& shape, std::span<const double> values,
                       std::string_view name);

  Module& module_;
  Rewriter rewriter_;
  Origin origin_;
  std::string name_;
  std::string result_name_;  // name of results; empty: derived from the op's name
  OpId before_;
};

// Every element as a double.
std::vector<double> elements_of(const Tensor& tensor);

}  // namespace dtr
