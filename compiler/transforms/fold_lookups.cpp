// Replaces float operators that compute a function of one byte by the table of its results:
//
//   quantize(f(dequantize(x)))   lookup(x), x int8
//   convert(f(dequantize(x)))    the same, to bytes
//   quantize(f(convert(x)))      lookup(x), x plain int8, uint8 or bool
//
// f is elementwise, of x and of constants of one element. The table is what the operators give for
// all 256 bytes in float32, so that results are equal. An NPU call or one load an element replaces
// several operators in float on the CPU.
//
// Of a constant the result is one.
//
// What other operators read of the values in between stays, and so does everything that it is
// computed from: then nothing is replaced.
#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/ops/vectors.h"
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

constexpr size_t kMostOps = 64;  // of one function

class FoldLookups : public EachOpPass<FoldLookups> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    if (!ends_in_bytes(id)) return {};
    Function function;
    const Op& op = graph_.op(id);
    if (!collect(op.operands[0], graph_.type(op.results[0]).shape, function) ||
        !replaces_something(id, function) || !read_here_alone(id, function))
      return {};
    const Type type = graph_.type(op.results[0]);
    if (graph_.is_constant(function.source)) {
      put_constant(id, function);
      return {};
    }
    DTR_TRY(replace_op(rewriter_, id,
                       {.def = &ops::kLookup,
                        .operands = {function.source},
                        .attributes = {{"codes", codes_of(id, function)},
                                       {"dtype", std::string(name(type.dtype))}},
                        .origin = origin_back_to(graph_, function.source, id)}));
    ++changes_;
    return {};
  }

 private:
  struct Function {
    ValueId source;         // a byte of it decides
    std::vector<OpId> ops;  // in an order in which they can be evaluated
  };

  static bool is_byte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUint8; }
  bool is_per_tensor(ValueId value) const { return ops::per_tensor(graph_.type(value)); }

  bool ends_in_bytes(OpId id) const {
    const Op& op = graph_.op(id);
    const DType dtype = graph_.type(op.results[0]).dtype;
    return op.def == &ops::kQuantize ? dtype == DType::kInt8 && is_per_tensor(op.results[0])
                                     : op.def == &ops::kConvert && is_byte(dtype);
  }

  // The first operator of a function: from bytes to float32.
  bool begins_with_bytes(const Op& op) const {
    const Type& from = graph_.type(op.operands[0]);
    if (op.def == &ops::kDequantize)
      return from.dtype == DType::kInt8 && is_per_tensor(op.operands[0]);
    return op.def == &ops::kConvert && (is_byte(from.dtype) || from.dtype == DType::kBool);
  }

  bool collect(ValueId value, const Shape& shape, Function& function) const {
    const Type& type = graph_.type(value);
    if (graph_.is_constant(value)) return type.dtype == DType::kFloat32 && type.elements() == 1;
    const OpId id = graph_.producer(value);
    if (!id.valid() || type.dtype != DType::kFloat32 || type.shape != shape) return false;
    if (std::ranges::find(function.ops, id) != function.ops.end()) return true;
    const Op& op = graph_.op(id);
    if (begins_with_bytes(op)) {
      const bool first = !function.source.valid();
      if (first) function.source = op.operands[0];
      if (op.operands[0] != function.source) return false;
    } else {
      if (!op.def->has_trait(kElementwise) || op.def->evaluate_float == nullptr ||
          op.results.size() != 1)
        return false;
      for (const ValueId operand : op.operands)
        if (!operand.valid() || !collect(operand, shape, function)) return false;
    }
    function.ops.push_back(id);
    return function.ops.size() <= kMostOps;
  }

  // A function of constants alone has no source. A quantization of codes is a requantization.
  bool replaces_something(OpId end, const Function& function) const {
    const bool only_rescales = graph_.op(end).def == &ops::kQuantize && function.ops.size() == 1 &&
                               graph_.op(function.ops[0]).def == &ops::kDequantize;
    return function.source.valid() && !only_rescales;
  }

  bool read_here_alone(OpId end, const Function& function) const {
    return std::ranges::all_of(function.ops, [&](OpId id) {
      if (begins_with_bytes(graph_.op(id))) return true;
      const Value& value = graph_.value(graph_.op(id).results[0]);
      return value.output_uses == 0 && std::ranges::all_of(value.uses, [&](const Use& use) {
               return use.op == end ||
                      std::ranges::find(function.ops, use.op) != function.ops.end();
             });
    });
  }

  Tensor evaluate(OpId id, const std::map<ValueId, Tensor>& known) const {
    std::vector<const TensorView*> vectors;
    for (const ValueId operand : graph_.op(id).operands) {
      const auto at = known.find(operand);
      vectors.push_back(at == known.end() ? nullptr : &at->second.view());
    }
    return ops::evaluate_on_vectors(module_, graph_, id, vectors);
  }

  // What the function gives for these bytes.
  Tensor results_of(OpId end, const Function& function, std::span<const std::byte> bytes) const {
    std::map<ValueId, Tensor> known;
    known.emplace(function.source, Tensor::copy_of(graph_.type(function.source).dtype,
                                                   {static_cast<int64_t>(bytes.size())}, bytes));
    for (const OpId id : function.ops) known.emplace(graph_.op(id).results[0], evaluate(id, known));
    return evaluate(end, known);
  }

  void put_constant(OpId end, const Function& function) {
    const Value& source = graph_.value(function.source);
    const ValueId old = graph_.op(end).results[0];
    const Tensor result = results_of(end, function, module_.constants.bytes(source.constant));
    const ValueId constant = rewriter_.add_constant(
        graph_.type(old), module_.constants.add(result.dtype(), result.bytes()),
        graph_.value(old).name);
    rewriter_.replace(end, constant);
    ++changes_;
  }

  Ints codes_of(OpId end, const Function& function) const {
    const DType dtype = graph_.type(function.source).dtype;
    std::vector<std::byte> bytes(256);
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(dtype == DType::kInt8   ? i ^ 0x80
                                        : dtype == DType::kBool ? std::min<size_t>(i, 1)
                                                                : i);
    const Tensor result = results_of(end, function, bytes);
    Ints codes;
    if (result.dtype() == DType::kInt8)
      std::ranges::copy(result.values<int8_t>(), std::back_inserter(codes));
    else
      std::ranges::copy(result.values<uint8_t>(), std::back_inserter(codes));
    return codes;
  }
};

}  // namespace

constinit const PassDef kFoldLookups{
    .name = "fold_lookups",
    .summary = "float operators that compute a function of one byte become its table",
    .exactness = Exactness::kQuantization,
    .run = run_pass<FoldLookups>};

}  // namespace dtr::passes
