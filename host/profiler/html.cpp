#include "host/profiler/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "compiler/support/file_contents.h"
#include "compiler/support/json.h"
#include "host/profiler/html_sources.h"
#include "host/profiler/report.h"

namespace dtr {
namespace {

using Json = nlohmann::json;

// JSON for a script element. In JSON `<` occurs only within strings: escaped, nothing in it can end
// the element; U+2028 and U+2029 are ends of line to some readers of scripts.
std::string script_json(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i);
    if (json[i] == '<') {
      text += "\\u003c";
    } else if (rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9")) {
      text += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      text += json[i];
    }
  }
  return text;
}

// The template with each {{name}} replaced; what is put in is not looked at again.
std::string fill(std::string_view page,
                 std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  std::string text;
  while (true) {
    const size_t open = page.find("{{");
    text += page.substr(0, open);
    if (open == std::string_view::npos) return text;
    page.remove_prefix(open);
    const auto found = std::ranges::find_if(values, [&](const auto& value) {
      return page.substr(2).starts_with(fmt::format("{}}}}}", value.first));
    });
    text += found == values.end() ? page.substr(0, 2) : found->second;
    page.remove_prefix(found == values.end() ? 2 : found->first.size() + 4);
  }
}

// Names of source operators in a file of compile or verify: fused ones are written as
// "conv2d_1 + relu_1".
bool names_one(const Json& rows, const std::set<std::string_view>& sources) {
  for (const Json& row : rows) {
    std::string_view names = row["name"].get_ref<const std::string&>();
    while (true) {
      const size_t end = names.find(" + ");
      if (sources.contains(names.substr(0, end))) return true;
      if (end == std::string_view::npos) break;
      names.remove_prefix(end + 3);
    }
  }
  return rows.empty();
}

bool has_fields(const Json& rows, std::initializer_list<const char*> texts,
                std::initializer_list<const char*> numbers) {
  return rows.is_array() && std::ranges::all_of(rows, [&](const Json& row) {
           return row.is_object() &&
                  std::ranges::all_of(
                      texts,
                      [&](const char* key) { return row.contains(key) && row[key].is_string(); }) &&
                  std::ranges::all_of(numbers, [&](const char* key) {
                    return row.contains(key) && row[key].is_number();
                  });
         });
}

bool names_program(const Json& document) {
  return document.is_object() && document.value("checksum", Json()).is_string() &&
         document.value("target", Json()).is_string();
}

bool is_compile_report(const Json& document) {
  return names_program(document) && document.contains("operators") &&
         has_fields(document["operators"], {"name"}, {}) && document.contains("refusals") &&
         has_fields(document["refusals"],
                    {"name", "module_path", "source_line", "reason", "remedy"}, {"cycles_lost"}) &&
         document.contains("transposes") &&
         has_fields(document["transposes"], {"value", "to"}, {"bytes", "cycles"}) &&
         (!document.contains("check_sqnr_db") || document["check_sqnr_db"].is_number());
}

bool is_verify_table(const Json& document) {
  return names_program(document) && document.contains("layers") &&
         has_fields(document["layers"], {"name", "op", "module_path", "where", "dtype"},
                    {"sqnr_db", "max_error", "differing"}) &&
         std::ranges::all_of(document["layers"], [](const Json& row) {
           return row.contains("fused") && row["fused"].is_boolean() && row.contains("steps") &&
                  (row["steps"].is_number() || row["steps"].is_null());  // floats have none
         });
}

// `text`, which `command` wrote about the program of the profile into the file `path`.
Result<std::string> check_addition(std::string_view text, const std::string& path,
                                   const char* command, bool (*is_valid)(const Json&),
                                   const Profile& profile) {
  const Json document = json_is_too_deep(text)
                            ? Json(Json::value_t::discarded)
                            : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded() || !is_valid(document))
    return fail(DiagnosticId::kTraceDamaged,
                fmt::format("the file is not an output of `{}`", command),
                "write it again for the program of the profile", {.file = path});
  const std::string fix = fmt::format("give what `{}` wrote for this program", command);
  if (profile.id) {
    const std::string id = fmt::format("{:08x} for `{}`", profile.id->checksum, profile.id->target);
    const std::string other =
        fmt::format("{} for `{}`", document["checksum"].get_ref<const std::string&>(),
                    document["target"].get_ref<const std::string&>());
    if (id == other) return std::string(text);
    return fail(DiagnosticId::kReportProgram,
                fmt::format("it is of program {}, {} is {}", other, profile.program, id), fix,
                {.file = path});
  }
  std::set<std::string_view> sources;
  for (const SourceOp& source : profile.sources) sources.insert(source.name);
  if (!sources.empty() &&
      !names_one(document[document.contains("layers") ? "layers" : "operators"], sources))
    return fail(DiagnosticId::kReportProgram,
                fmt::format("none of its operators is in {}", profile.program), fix,
                {.file = path});
  return std::string(text);
}

// Text of a file that `command` wrote, or that is in memory; empty for none.
Result<std::string> read_addition(const std::string& path, const std::string& in_memory,
                                  const char* command, bool (*is_valid)(const Json&),
                                  const Profile& profile) {
  if (!in_memory.empty()) return check_addition(in_memory, command, command, is_valid, profile);
  if (path.empty()) return std::string();
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  return check_addition(text, path, command, is_valid, profile);
}

}  // namespace

Result<std::string> to_html(const Profile& profile, const PteFile* pte_file,
                            const HtmlAdditions& additions) {
  DTR_ASSIGN(const std::string compile_report,
             read_addition(additions.compile_report, additions.compile_report_text,
                           "deuteron compile --report-json", is_compile_report, profile));
  DTR_ASSIGN(const std::string verify,
             read_addition(additions.verify, additions.verify_text, "deuteron verify --json",
                           is_verify_table, profile));
  const std::span<const EmbeddedFile> sources = html_sources();
  std::string scripts;
  for (const EmbeddedFile& script : sources.subspan(2)) scripts += script.text;
  return fill(sources[0].text, {{"css", sources[1].text},
                                {"scripts", scripts},
                                {"profile", script_json(to_json(profile, pte_file))},
                                {"compile_report", script_json(compile_report)},
                                {"verify", script_json(verify)}});
}

}  // namespace dtr
