// JSON that people write: what is wrong in it is said with its line.
#pragma once

#include <string>
#include <string_view>

namespace dtr {

// Nothing, or what is wrong: "line 3, column 7: syntax error …", "line 5: `name` stands twice in its object". Comments are no error.
std::string json_fault(std::string_view text);

}  // namespace dtr
