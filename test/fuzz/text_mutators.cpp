// Mutations of what is written as text: JSON, and words in lines.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "test/fuzz/mutators.h"

namespace dtr::fuzz {
namespace {

using Json = nlohmann::ordered_json;
using Random = std::minstd_rand;

constexpr int kMostLevels = 64;  // of JSON that is taken apart: what is below is damaged as bytes

template <class Items>
auto& pick(Random& random, Items& items) {
  return items[random() % items.size()];
}

// Levels of brackets, those in strings counted too.
int levels(std::string_view text) {
  int level = 0, most = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') most = std::max(most, ++level);
    if (c == ']' || c == '}') --level;
  }
  return most;
}

void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (value.is_structured())
    for (Json& item : value) collect(item, all);
}

double hostile_number(Random& random) {
  constexpr std::array<double, 12> kEdges{0.0,    -0.0, 0.5,   -1.5,  1e-12,        1e-38,
                                          1e-300, 1e30, -1e20, 1e300, 2147483648.0, 1e19};
  return pick(random, kEdges);
}

std::string hostile_string(Random& random, const std::string& old) {
  std::string text = old;
  text.resize(old.size() + 16);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), old.size(), text.size()));
  return random() % 16 == 0 ? std::string() : text;
}

Json of_another_kind(Random& random) {
  const std::array<Json, 9> kinds{nullptr,       true,          0, -1, 0.5, "", "x",
                                  Json::array(), Json::object()};
  return pick(random, kinds);
}

void change_value(Random& random, Json& value) {
  if (random() % 8 == 0) {
    value = of_another_kind(random);
  } else if (value.is_boolean()) {
    value = !value.get<bool>();
  } else if (value.is_number_integer() && random() % 4 != 0) {
    value = hostile_integer(random, value.get<int64_t>());
  } else if (value.is_number()) {
    value = random() % 2 == 0 ? value.get<double>() * 1.5 : hostile_number(random);
  } else if (value.is_string()) {
    value = hostile_string(random, value.get<std::string>());
  } else {
    value = of_another_kind(random);
  }
}

// A member or item goes, comes twice, trades places with another, or takes its name.
void change_members(Random& random, Json& value) {
  if (value.empty()) return;
  const size_t at = random() % value.size(), other = random() % value.size();
  if (value.is_array()) {
    switch (random() % 3) {
      case 0:
        value.erase(at);
        break;
      case 1:
        value.insert(value.begin() + static_cast<ptrdiff_t>(at), Json(value[other]));
        break;
      default:
        std::swap(value[at], value[other]);
    }
    return;
  }
  const auto member = std::next(value.begin(), static_cast<ptrdiff_t>(at)),
             second = std::next(value.begin(), static_cast<ptrdiff_t>(other));
  switch (random() % 3) {
    case 0:
      value.erase(member);
      break;
    case 1:
      value[hostile_string(random, member.key())] = Json(member.value());
      break;
    default:
      std::swap(member.value(), second.value());
  }
}

struct Token {
  enum Kind : uint8_t { kWord, kNumber, kOther } kind;
  std::string_view text;
};

std::vector<Token> tokens_of(std::string_view text) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  std::vector<Token> tokens;
  while (!text.empty()) {
    size_t length = 1;
    if (is_word(text[0]))
      length =
          static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_word) - text.begin());
    const std::string_view token = text.substr(0, length);
    const bool digits = std::ranges::all_of(token, [](char c) { return c >= '0' && c <= '9'; });
    tokens.push_back({digits              ? Token::kNumber
                      : is_word(token[0]) ? Token::kWord
                                          : Token::kOther,
                      token});
    text.remove_prefix(length);
  }
  return tokens;
}

std::string change_token(Random& random, std::string_view text) {
  const std::vector<Token> tokens = tokens_of(text);
  const Token& chosen = pick(random, tokens);
  std::string replacement;
  if (chosen.kind == Token::kNumber && random() % 2 == 0) {
    replacement = std::to_string(
        hostile_integer(random, std::strtoll(std::string(chosen.text).c_str(), nullptr, 10)));
  } else {
    // Another one of its kind: there is one, itself.
    const Token* other = &chosen;
    for (int tries = 0; tries < 16; ++tries)
      if (const Token& token = pick(random, tokens); token.kind == chosen.kind) other = &token;
    replacement = other->text;
  }
  const auto at = static_cast<size_t>(chosen.text.data() - text.data());
  return std::string(text.substr(0, at)) + replacement +
         std::string(text.substr(at + chosen.text.size()));
}

std::string change_lines(Random& random, std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t end = 0; !text.empty(); text.remove_prefix(end)) {
    end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
  }
  const auto at = lines.begin() + static_cast<ptrdiff_t>(random() % lines.size());
  switch (random() % 3) {
    case 0:
      lines.erase(at);
      break;
    case 1:
      lines.insert(at, std::string_view(pick(random, lines)));
      break;
    default:
      std::swap(*at, pick(random, lines));
  }
  std::string result;
  for (const std::string_view line : lines) result += line;
  return result;
}

// `text` in place of the input, if there is room.
size_t store(std::string_view text, uint8_t* data, size_t size, size_t max_size) {
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace

size_t mutate_json(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (random() % 8 == 0 || levels(text) > kMostLevels)
    return LLVMFuzzerMutate(data, size, max_size);
  Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<Json*> all;
  collect(root, all);
  Json& chosen = *pick(random, all);
  if (random() % 8 == 0) {
    chosen = Json(*pick(random, all));  // a value from another place
  } else if (chosen.is_structured() && !chosen.empty()) {
    change_members(random, chosen);
  } else {
    change_value(random, chosen);
  }
  return store(root.dump(-1, ' ', false, Json::error_handler_t::replace), data, size, max_size);
}

size_t mutate_text(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (random() % 8 == 0 || text.empty()) return LLVMFuzzerMutate(data, size, max_size);
  return store(random() % 4 == 0 ? change_lines(random, text) : change_token(random, text), data,
               size, max_size);
}

}  // namespace dtr::fuzz
