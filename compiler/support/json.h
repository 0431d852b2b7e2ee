// JSON that people write: what is wrong in it is said with its line.
#pragma once

#include <string>
#include <string_view>

namespace dtr {

// Nothing, or what is wrong: "line 3, column 7: syntax error …", "line 5: `name` stands twice in
// its object". Comments are no error.
std::string json_error(std::string_view text);

// Whether arrays and objects of a text without comments are nested deeper than any file of ours, so
// that code that follows them recursively, as copies of nlohmann::json do, would run out of stack.
// It is a fault for json_error, too.
bool json_is_too_deep(std::string_view text);

}  // namespace dtr
