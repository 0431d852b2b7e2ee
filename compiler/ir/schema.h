// The schema of an operator: its operands and attributes in PyTorch's order with types and
// defaults, in PyTorch's notation. Importers, kernel calls and the verifier use it.
//
//   "(Tensor self, Scalar negative_slope=0.01 | bool two_roundings=False)"
//
// Parameters in front of the bar are those of PyTorch's operator, parameters behind it exist in the
// IR alone.
//
// clang-format off
//   Tensor, Tensor?, Tensor[]     an operand; one that may be absent; any number of operands
//   bool, int, float, Scalar, str, int[], float[]
//                                 an attribute; with a default, or with `?` behind the type, it may
//                                 be absent
//   ScalarType?                   an argument that is always None: neither operand nor attribute
// clang-format on
//
// A `*` in front of arguments that PyTorch takes by name only is allowed and changes nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "compiler/ir/attributes.h"

namespace dtr {

// A parameter of a schema.
struct Param {
  enum class Role : uint8_t { kOperand, kAttribute, kNone };

  std::string_view name;
  Role role = Role::kOperand;
  AttributeKind kind = AttributeKind::kBool;  // of an attribute
  bool optional = false;                      // may be absent
  bool variadic = false;                      // Tensor[]
  bool own = false;                           // exists in the IR only: it follows the bar
  bool has_default = false;
  double number = 0;           // the default of a bool, an int or a float
  std::string_view text = {};  // the default of a str

  constexpr bool is_operand() const { return role == Role::kOperand; }
  constexpr bool is_attribute() const { return role == Role::kAttribute; }
  // The default as an attribute; nullopt if there is none.
  std::optional<AttributeValue> default_value() const;
};

class Schema {
 public:
  // Parses at compile time. A malformed schema does not compile; the compiler's message points to
  // the call of `invalid_schema`.
  consteval Schema(
      const char* text);  // NOLINT(google-explicit-constructor): `.schema = "(Tensor self)"`

  constexpr std::span<const Param> params() const { return {params_.data(), count_}; }
  // The attribute of that name; nullptr if there is none.
  constexpr const Param* attribute(std::string_view name) const {
    for (const Param& param : params())
      if (param.is_attribute() && param.name == name) return &param;
    return nullptr;
  }
  constexpr uint8_t min_operands() const { return min_operands_; }
  constexpr uint8_t max_operands() const { return max_operands_; }
  static constexpr uint8_t kAnyNumber = 255;  // of max_operands

 private:
  static constexpr size_t kMaxParams = 12;

  std::array<Param, kMaxParams> params_;
  uint8_t count_ = 0;
  uint8_t min_operands_ = 0;
  uint8_t max_operands_ = 0;
};

namespace schema_detail {

// not constexpr and without a body, so that calling it is a compile-time error
void invalid_schema(const char* reason);

// Reads a schema from left to right.
struct Reader {
  std::string_view rest;

  constexpr void skip_spaces() {
    while (rest.starts_with(' ')) rest.remove_prefix(1);
  }
  constexpr bool take(std::string_view token) {
    skip_spaces();
    if (!rest.starts_with(token)) return false;
    rest.remove_prefix(token.size());
    return true;
  }
  constexpr void expect(std::string_view token, const char* reason) {
    if (!take(token)) invalid_schema(reason);
  }
  constexpr std::string_view word() {
    skip_spaces();
    size_t size = 0;
    const auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    while (size < rest.size() && is_letter(rest[size])) ++size;
    const std::string_view taken = rest.substr(0, size);
    if (taken.empty()) invalid_schema("expected a word");
    rest.remove_prefix(size);
    return taken;
  }
  // Computes digits / power of ten. Both are exact, so that the quotient is the nearest double.
  constexpr double number() {
    const double sign = take("-") ? -1 : 1;
    double digits = 0, power = 1;
    bool fraction = false, any = false;
    for (; !rest.empty(); rest.remove_prefix(1)) {
      const char c = rest.front();
      if (c == '.' && !fraction) {
        fraction = true;
      } else if (c >= '0' && c <= '9') {
        digits = digits * 10 + (c - '0');
        if (fraction) power *= 10;
        any = true;
      } else {
        break;
      }
    }
    if (!any || digits >= 0x1p53 || power > 1e22)
      invalid_schema("expected a number of at most 15 digits");
    return sign * digits / power;
  }
};

constexpr void read_type(Reader& reader, Param& param) {
  const std::string_view type = reader.word();
  const bool list = reader.take("[]");
  param.optional = reader.take("?");
  if (type == "Tensor") {
    param.variadic = list;
    return;
  }
  param.role = type == "ScalarType" ? Param::Role::kNone : Param::Role::kAttribute;
  if (type == "bool" && !list) {
    param.kind = AttributeKind::kBool;
  } else if (type == "int") {
    param.kind = list ? AttributeKind::kInts : AttributeKind::kInt;
  } else if (type == "float" || (type == "Scalar" && !list)) {
    param.kind = list ? AttributeKind::kFloats : AttributeKind::kFloat;
  } else if (type == "str" && !list) {
    param.kind = AttributeKind::kString;
  } else if (type != "ScalarType") {
    invalid_schema("unknown type");
  }
}

constexpr void read_default(Reader& reader, Param& param) {
  if (!reader.take("=")) return;
  if (reader.take("None")) {
    if (!param.optional) invalid_schema("only `?` may be None");
    return;
  }
  param.has_default = true;
  param.optional = true;
  if (param.kind == AttributeKind::kString) {
    reader.expect("'", "expected a string");
    const size_t end = reader.rest.find('\'');
    if (end == std::string_view::npos) invalid_schema("expected the end of a string");
    param.text = reader.rest.substr(0, end);
    reader.rest.remove_prefix(end + 1);
  } else if (param.kind == AttributeKind::kBool) {
    param.number = reader.take("True") ? 1 : 0;
    if (param.number == 0) reader.expect("False", "expected True or False");
  } else if (param.is_attribute() && param.kind != AttributeKind::kInts &&
             param.kind != AttributeKind::kFloats) {
    param.number = reader.number();
  } else {
    invalid_schema("operands and lists have no default");
  }
}

}  // namespace schema_detail

consteval Schema::Schema(const char* text) {
  schema_detail::Reader reader{text};
  reader.expect("(", "expected `(`");
  bool own = false, all_given = true;
  while (!reader.take(")")) {
    if (reader.take("|")) {
      own = true;
    } else if (count_ > 0) {
      reader.expect(",", "expected `,`, `|` or `)`");
    }
    if (reader.take("*")) reader.expect(",", "expected `,` behind `*`");
    if (count_ == kMaxParams) schema_detail::invalid_schema("too many parameters");
    Param& param = params_[count_++];
    param.own = own;
    schema_detail::read_type(reader, param);
    param.name = reader.word();
    schema_detail::read_default(reader, param);
    if (!param.is_operand()) continue;
    max_operands_ = param.variadic ? kAnyNumber : static_cast<uint8_t>(max_operands_ + 1);
    all_given = all_given && !param.optional;
    if (all_given) ++min_operands_;
  }
  if (!reader.rest.empty()) schema_detail::invalid_schema("expected the end behind `)`");
}

}  // namespace dtr
