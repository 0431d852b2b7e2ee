// Checks hand-written JSON (comments are allowed); errors carry a line number.
#pragma once

#include <string>
#include <string_view>

namespace dtr {

// Empty if the text is valid, else the error: "line 3, column 7: syntax error …", "line 5: `name`
// occurs twice in its object".
std::string json_error(std::string_view text);

// True if arrays and objects of a text without comments are nested deeper than any file of ours, so
// that recursive code, such as copying an nlohmann::json, could exhaust the stack. json_error
// reports this too.
bool json_is_too_deep(std::string_view text);

}  // namespace dtr
