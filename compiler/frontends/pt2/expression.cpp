// A recursive descent over Python's expression grammar, which srepr is a part of.
#include "compiler/frontends/pt2/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

namespace dtr::pt2 {
namespace {

using Value = std::optional<Number>;

constexpr int kMaxDepth = 200;

bool is_whole(const Number& number) { return std::holds_alternative<int64_t>(number); }

Value checked(bool overflows, int64_t result) { return overflows ? Value() : Value(result); }

template <class Whole, class Real>
Value arithmetic(const Value& a, const Value& b, Whole whole, Real real) {
  if (!a || !b) return std::nullopt;
  if (is_whole(*a) && is_whole(*b)) {
    int64_t result = 0;
    const bool overflows = whole(std::get<int64_t>(*a), std::get<int64_t>(*b), &result);
    return checked(overflows, result);
  }
  return real(as_double(*a), as_double(*b));
}

Value add(const Value& a, const Value& b) {
  return arithmetic(
      a, b,
      [](int64_t x, int64_t y, int64_t* to) -> bool { return __builtin_add_overflow(x, y, to); },
      [](double x, double y) { return x + y; });
}

Value multiply(const Value& a, const Value& b) {
  return arithmetic(
      a, b,
      [](int64_t x, int64_t y, int64_t* to) -> bool { return __builtin_mul_overflow(x, y, to); },
      [](double x, double y) { return x * y; });
}

Value subtract(const Value& a, const Value& b) { return add(a, multiply(b, Number(int64_t{-1}))); }

// Towards negative infinity, as Python divides.
Value floor_divide(const Value& a, const Value& b) {
  return arithmetic(
      a, b,
      [](int64_t x, int64_t y, int64_t* to) {
        if (y == 0 || (x == INT64_MIN && y == -1)) return true;
        *to = x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
        return false;
      },
      [](double x, double y) { return std::floor(x / y); });
}

Value modulo(const Value& a, const Value& b) {
  return subtract(a, multiply(floor_divide(a, b), b));
}

Value divide(const Value& a, const Value& b) {
  if (!a || !b || as_double(*b) == 0) return std::nullopt;
  return as_double(*a) / as_double(*b);
}

Value power(const Value& a, const Value& b) {
  if (!a || !b) return std::nullopt;
  if (!is_whole(*a) || !is_whole(*b) || std::get<int64_t>(*b) < 0)
    return std::pow(as_double(*a), as_double(*b));
  if (std::get<int64_t>(*b) > 64) return std::nullopt;
  Value result = Number(int64_t{1});
  for (int64_t i = 0; i < std::get<int64_t>(*b); ++i) result = multiply(result, a);
  return result;
}

Value truth(bool holds) { return Number(int64_t{holds}); }

bool holds(const Value& value) { return as_double(*value) != 0; }

Value compare(std::string_view op, const Value& a, const Value& b) {
  if (!a || !b) return std::nullopt;
  const double x = as_double(*a), y = as_double(*b);
  if (op == "==") return truth(x == y);
  if (op == "!=") return truth(x != y);
  if (op == "<=") return truth(x <= y);
  if (op == ">=") return truth(x >= y);
  return truth(op == "<" ? x < y : x > y);
}

Value rounded(const Value& value, double (*round)(double)) {
  if (!value) return std::nullopt;
  const double result = round(as_double(*value));
  if (!(std::abs(result) < 0x1p62)) return std::nullopt;
  return Number(static_cast<int64_t>(result));
}

Value fold(const std::vector<Value>& values, Value (*join)(const Value&, const Value&)) {
  if (values.empty()) return std::nullopt;
  Value result = values[0];
  for (size_t i = 1; i < values.size(); ++i) result = join(result, values[i]);
  return result;
}

Value smaller(const Value& a, const Value& b) {
  if (!a || !b) return std::nullopt;
  return as_double(*b) < as_double(*a) ? b : a;
}
Value larger(const Value& a, const Value& b) {
  if (!a || !b) return std::nullopt;
  return as_double(*b) > as_double(*a) ? b : a;
}
Value both(const Value& a, const Value& b) {
  return a && b ? truth(holds(a) && holds(b)) : Value();
}
Value either(const Value& a, const Value& b) {
  return a && b ? truth(holds(a) || holds(b)) : Value();
}

// Functions of sympy and of torch.utils._sympy.functions.
Value call(std::string_view name, const std::vector<Value>& a) {
  if (name == "Add") return fold(a, add);
  if (name == "Mul") return fold(a, multiply);
  if (name == "Max") return fold(a, larger);
  if (name == "Min") return fold(a, smaller);
  if (name == "And") return fold(a, both);
  if (name == "Or") return fold(a, either);
  if (a.size() == 1) {
    if (name == "Integer" || name == "Float" || name == "Identity") return a[0];
    if (name == "Not") return a[0] ? truth(!holds(a[0])) : Value();
    if (name == "ToFloat") return a[0] ? Value(as_double(*a[0])) : Value();
    if (name == "FloorToInt" || name == "floor") return rounded(a[0], std::floor);
    if (name == "CeilToInt" || name == "ceiling") return rounded(a[0], std::ceil);
    if (name == "TruncToInt") return rounded(a[0], std::trunc);
    if (name == "RoundToInt") return rounded(a[0], std::nearbyint);
    if (name == "Abs" && a[0])
      return as_double(*a[0]) < 0 ? multiply(a[0], Number(int64_t{-1})) : a[0];
    if (name == "OpaqueUnaryFn_sqrt" && a[0]) return std::sqrt(as_double(*a[0]));
    if (name == "OpaqueUnaryFn_log2" && a[0]) return std::log2(as_double(*a[0]));
  }
  if (a.size() == 2) {
    if (name == "Rational" || name == "IntTrueDiv" || name == "FloatTrueDiv")
      return divide(a[0], a[1]);
    if (name == "FloorDiv" || name == "CleanDiv") return floor_divide(a[0], a[1]);
    if (name == "CeilDiv") return floor_divide(add(a[0], subtract(a[1], Number(int64_t{1}))), a[1]);
    if (name == "Mod" || name == "PythonMod") return modulo(a[0], a[1]);
    if (name == "Pow" || name == "PowByNatural" || name == "FloatPow") return power(a[0], a[1]);
    if (name == "Equality" || name == "Eq") return compare("==", a[0], a[1]);
    if (name == "Unequality" || name == "Ne") return compare("!=", a[0], a[1]);
    if (name == "LessThan" || name == "Le") return compare("<=", a[0], a[1]);
    if (name == "GreaterThan" || name == "Ge") return compare(">=", a[0], a[1]);
    if (name == "StrictLessThan" || name == "Lt") return compare("<", a[0], a[1]);
    if (name == "StrictGreaterThan" || name == "Gt") return compare(">", a[0], a[1]);
  }
  if (a.size() == 3) {
    if (name == "ModularIndexing") return modulo(floor_divide(a[0], a[1]), a[2]);
    if (name == "Where" && a[0]) return holds(a[0]) ? a[1] : a[2];
  }
  return std::nullopt;
}

class Evaluator {
 public:
  Evaluator(std::string_view text, const Lookup& lookup) : text_(text), lookup_(lookup) {}

  Value run() {
    Value value = disjunction();
    skip_spaces();
    return at_ == text_.size() && !failed_ ? value : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view symbol) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  bool take_word(std::string_view word) {
    skip_spaces();
    const std::string_view rest = text_.substr(at_);
    if (!rest.starts_with(word) || (rest.size() > word.size() && is_name(rest[word.size()])))
      return false;
    at_ += word.size();
    return true;
  }
  static bool is_name(char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  }
  // Marks the text as no expression.
  Value none() {
    failed_ = true;
    at_ = text_.size();
    return std::nullopt;
  }

  Value disjunction() {
    Value value = conjunction();
    while (take_word("or")) value = either(value, conjunction());
    return value;
  }
  Value conjunction() {
    Value value = negation();
    while (take_word("and")) value = both(value, negation());
    return value;
  }
  Value negation() {
    if (!take_word("not")) return comparison();
    if (++depth_ > kMaxDepth) return none();
    const Value value = negation();
    --depth_;
    return value ? truth(!holds(value)) : Value();
  }
  Value comparison() {
    Value left = sum();
    Value result;
    for (bool first = true;; first = false) {
      std::string_view op;
      for (const std::string_view each : {"==", "!=", "<=", ">=", "<", ">"})
        if (op.empty() && take(each)) op = each;
      if (op.empty()) return first ? left : result;
      const Value right = sum();
      const Value holds_here = compare(op, left, right);
      result = first ? holds_here : both(result, holds_here);
      left = right;
    }
  }
  Value sum() {
    Value value = product();
    for (;;) {
      if (take("+")) {
        value = add(value, product());
      } else if (take("-")) {
        value = subtract(value, product());
      } else {
        return value;
      }
    }
  }
  Value product() {
    Value value = sign();
    for (;;) {
      if (take("//")) {
        value = floor_divide(value, sign());
      } else if (take("/")) {
        value = divide(value, sign());
      } else if (take("%")) {
        value = modulo(value, sign());
      } else if (take("*")) {
        value = multiply(value, sign());
      } else {
        return value;
      }
    }
  }
  Value sign() {
    if (!take("-")) return raised();
    if (++depth_ > kMaxDepth) return none();
    const Value value = sign();
    --depth_;
    return multiply(value, Number(int64_t{-1}));
  }
  Value raised() {
    const Value base = primary();
    if (!take("**")) return base;
    return power(base, sign());
  }

  Value primary() {
    if (++depth_ > kMaxDepth) return none();
    skip_spaces();
    if (at_ >= text_.size()) return none();
    Value value;
    if (take("(")) {
      value = disjunction();
      if (!take(")")) return none();
    } else if (text_[at_] == '\'') {
      value = quoted();
    } else if (text_[at_] == '.' || (text_[at_] >= '0' && text_[at_] <= '9')) {
      value = number();
    } else if (is_name(text_[at_])) {
      value = name();
    } else {
      return none();
    }
    --depth_;
    return value;
  }

  // A number between quotes: Float('0.5', precision=53).
  Value quoted() {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) return none();
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    double real = 0;
    const auto [stop, error] = std::from_chars(inside.data(), inside.data() + inside.size(), real);
    at_ = end + 1;
    return error == std::errc() && stop == inside.data() + inside.size() ? Value(real) : Value();
  }

  Value number() {
    const std::string_view rest = text_.substr(at_);
    int64_t whole = 0;
    double real = 0;
    const auto as_whole = std::from_chars(rest.data(), rest.data() + rest.size(), whole);
    const auto as_real = std::from_chars(rest.data(), rest.data() + rest.size(), real);
    if (as_real.ec != std::errc()) return none();
    at_ += static_cast<size_t>(as_real.ptr - rest.data());
    if (as_whole.ec == std::errc() && as_whole.ptr == as_real.ptr) return Number(whole);
    return real;
  }

  std::string_view word() {
    const size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  Value name() {
    const size_t start = at_;
    const std::string_view first = word();
    if (first == "True" || first == "true") return truth(true);
    if (first == "False" || first == "false") return truth(false);
    if (first == "L") return path(start);
    if (!take("(")) return lookup_(first);
    if (first == "Symbol") {
      const size_t open = text_.find('\'', at_);
      const size_t close =
          open == std::string_view::npos ? std::string_view::npos : text_.find('\'', open + 1);
      const size_t end = close == std::string_view::npos ? close : text_.find(')', close);
      if (end == std::string_view::npos) return none();
      at_ = end + 1;
      return lookup_(text_.substr(open + 1, close - open - 1));
    }
    std::vector<Value> arguments;
    while (!take(")")) {
      if (!arguments.empty() && !take(",")) return none();
      if (!skip_keyword()) arguments.push_back(disjunction());
      if (at_ >= text_.size()) return none();
    }
    return call(first, arguments);
  }

  // "precision=53"
  bool skip_keyword() {
    const size_t start = at_;
    skip_spaces();
    if (!word().empty() && take("=") && !text_.substr(at_).starts_with('=')) {
      (void)disjunction();
      return true;
    }
    at_ = start;
    return false;
  }

  // "L['x'].size()[0]": up to the last closing bracket.
  Value path(size_t start) {
    int open = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '[' || c == '(') ++open;
      if (c == ']' || c == ')') {
        if (open == 0) break;
        --open;
      }
      if (open == 0 && c != ']' && c != ')' && c != '.' && !is_name(c)) break;
      ++at_;
    }
    return lookup_(text_.substr(start, at_ - start));
  }

  std::string_view text_;
  const Lookup& lookup_;
  size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
};

}  // namespace

double as_double(const Number& number) {
  if (const auto* whole = std::get_if<int64_t>(&number)) return static_cast<double>(*whole);
  return std::get<double>(number);
}

std::optional<int64_t> as_integer(const std::optional<Number>& number) {
  if (!number || !is_whole(*number)) return std::nullopt;
  return std::get<int64_t>(*number);
}

std::optional<Number> evaluate(std::string_view expression, const Lookup& lookup) {
  return Evaluator(expression, lookup).run();
}

}  // namespace dtr::pt2
