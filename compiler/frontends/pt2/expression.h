// Evaluates the expressions over symbolic sizes that torch.export writes: sizes as sympy's srepr
// ("Add(Mul(Integer(2), Symbol('s44', positive=True)), Integer(1))"), ranges and guards as Python
// ("(L['x'].size()[0] - 1) // 2 != 1").
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <variant>

namespace dtr::pt2 {

using Number = std::variant<int64_t, double>;  // a bool is 0 or 1

// The value of a symbol ("s44"), or of a size of an input ("L['x'].size()[0]", without spaces);
// std::nullopt if it is not known.
using Lookup = std::function<std::optional<Number>(std::string_view name)>;

// std::nullopt if a name is not known, a function is not supported, an integer exceeds 64 bits, or
// the text is no expression.
std::optional<Number> evaluate(std::string_view expression, const Lookup& lookup);

double as_double(const Number& number);
// std::nullopt if it is no integer.
std::optional<int64_t> as_integer(const std::optional<Number>& number);

}  // namespace dtr::pt2
