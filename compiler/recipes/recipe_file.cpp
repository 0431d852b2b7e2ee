#include "compiler/recipes/recipe_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/recipes/recipe.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/json.h"

namespace dtr {
namespace {

using Json = nlohmann::json;

class Reader {
 public:
  Reader(const std::string& path, const TargetDescription& target) : path_(path), target_(target) {}

  Result<RecipeSpec> read(const Json& document) {
    DTR_TRY(check_keys(document, "the recipe",
                       {"backends", "constants", "constraints", "optimize", "sram"}));
    const auto backends = document.find("backends");
    if (backends == document.end() || !backends->is_array() || backends->empty())
      return invalid("`backends` is not a list of names",
                     "write \"backends\": [\"neutron\", \"cortex_m\", \"portable\"]");
    for (const Json& entry : *backends) DTR_TRY(read_backend(entry));
    const std::vector<std::string_view> last = backend_names(target_, true);
    if (std::ranges::find(last, spec_.backends.back()) == last.end())
      return invalid(fmt::format("the last backend must run every operator; `{}` does not",
                                 spec_.backends.back()),
                     fmt::format("end the list with one of: {}", fmt::join(last, ", ")));
    if (const auto constants = document.find("constants"); constants != document.end()) {
      if (*constants != "sram" && *constants != "flash")
        return invalid(fmt::format("`constants` is {}", constants->dump()),
                       "write \"constants\": \"sram\", or \"flash\"");
      spec_.options.constants =
          *constants == "sram" ? ConstantMemory::kSram : ConstantMemory::kFlash;
    }
    DTR_TRY(read_sram(document));
    if (const auto constraints = document.find("constraints"); constraints != document.end()) {
      if (!constraints->is_array()) return invalid("`constraints` is not a list", kConstraintForm);
      for (const Json& entry : *constraints) DTR_TRY(read_constraint(entry));
    }
    return std::move(spec_);
  }

 private:
  static constexpr const char* kConstraintForm =
      R"(write {"module": "encoder", "keep_off": "neutron"})";

  tl::unexpected<Diagnostic> invalid(std::string reason, std::string fix) const {
    return fail(DiagnosticId::kRecipeInvalid, std::move(reason), std::move(fix), {.file = path_});
  }

  Result<void> check_keys(const Json& object, std::string_view what,
                          std::initializer_list<std::string_view> known) const {
    if (!object.is_object())
      return invalid(fmt::format("{} is not an object", what), "see docs/recipes.md");
    for (const auto& [key, value] : object.items())
      if (std::ranges::find(known, key) == known.end())
        return invalid(fmt::format("{} has no entry `{}`", what, key),
                       fmt::format("it has: {}", fmt::join(known, ", ")));
    return {};
  }

  // "sram" is a number of bytes, or a text as for --sram.
  Result<void> read_sram(const Json& document) {
    if (const auto sram = document.find("sram"); sram != document.end()) {
      const std::string text = sram->is_string()           ? sram->get<std::string>()
                               : sram->is_number_integer() ? sram->dump()
                                                           : std::string();
      const Result<uint64_t> bytes = parse_sram_bytes(text);
      if (!bytes)
        return invalid(fmt::format("`sram` is {}", sram->dump()),
                       R"(write "sram": 65536, or "sram": "64K")");
      spec_.options.sram_bytes = *bytes;
    }
    if (const auto optimize = document.find("optimize"); optimize != document.end()) {
      spec_.options.optimize =
          optimize->is_string() ? optimize_of(optimize->get<std::string>()) : std::nullopt;
      if (!spec_.options.optimize)
        return invalid(fmt::format("`optimize` is {}", optimize->dump()),
                       R"(write "optimize": "speed", "balance" or "size")");
    }
    return {};
  }

  Result<std::string> read_name(const Json& entry) const {
    const std::vector<std::string_view> known = backend_names(target_);
    if (!entry.is_string() || std::ranges::find(known, entry.get<std::string>()) == known.end())
      return invalid(fmt::format("{} is no backend for `{}`", entry.dump(), target_.name),
                     fmt::format("choose from: {}", fmt::join(known, ", ")));
    return entry.get<std::string>();
  }

  Result<void> read_backend(const Json& entry) {
    Json name = entry;
    if (entry.is_object()) {
      DTR_TRY(check_keys(entry, "a backend", {"name", "row_packing"}));
      name = entry.value("name", Json());
      if (const auto packing = entry.find("row_packing"); packing != entry.end()) {
        if (!packing->is_boolean() || !name.is_string() ||
            !has_option(name.get<std::string>(), "row_packing"))
          return invalid("`row_packing` is true or false, and an option of backends of the NPU",
                         "see docs/npu.md");
        spec_.options.row_packing = packing->get<bool>();
      }
    }
    DTR_ASSIGN(std::string backend, read_name(name));
    if (std::ranges::find(spec_.backends, backend) != spec_.backends.end())
      return invalid(fmt::format("`{}` occurs twice in the recipe", backend),
                     "name each backend once");
    spec_.backends.push_back(std::move(backend));
    return {};
  }

  Result<void> read_list(const Json& object, const char* key,
                         std::vector<std::string>& list) const {
    const auto at = object.find(key);
    if (at == object.end()) return {};
    const Json entries = at->is_array() ? *at : Json::array({*at});
    for (const Json& entry : entries) {
      if (!entry.is_string())
        return invalid(fmt::format("`{}` is not a name or a list of names", key), kConstraintForm);
      list.push_back(entry.get<std::string>());
    }
    return {};
  }

  Result<void> read_selector(const Json& object, Selector& selector) const {
    DTR_TRY(read_list(object, "name", selector.names));
    DTR_TRY(read_list(object, "module", selector.modules));
    DTR_TRY(read_list(object, "module_type", selector.module_types));
    DTR_TRY(read_list(object, "operator", selector.operators));
    DTR_TRY(read_list(object, "input", selector.inputs));
    return read_list(object, "output", selector.outputs);
  }

  // Who is named with `on` shares what is selected with the last backend alone.
  Result<void> read_constraint(const Json& entry) {
    DTR_TRY(check_keys(entry, "a constraint",
                       {"name", "module", "module_type", "operator", "input", "output", "except",
                        "keep_off", "on"}));
    Constraint constraint;
    DTR_TRY(read_selector(entry, constraint.where));
    if (const auto except = entry.find("except"); except != entry.end()) {
      DTR_TRY(check_keys(*except, "`except`",
                         {"name", "module", "module_type", "operator", "input", "output"}));
      DTR_TRY(read_selector(*except, constraint.except));
    }
    DTR_TRY(read_list(entry, "keep_off", constraint.keep_off));
    std::vector<std::string> on;
    DTR_TRY(read_list(entry, "on", on));
    if (on.size() + constraint.keep_off.size() == 0 ||
        (!on.empty() && !constraint.keep_off.empty()))
      return invalid("a constraint needs either `keep_off` or `on`", kConstraintForm);
    for (const std::vector<std::string>* names : {&on, &constraint.keep_off})
      for (const std::string& name : *names)
        if (std::ranges::find(spec_.backends, name) == spec_.backends.end())
          return invalid(
              fmt::format("a constraint names the backend `{}`, which the recipe does not have",
                          name),
              fmt::format("choose from: {}", fmt::join(spec_.backends, ", ")));
    if (std::ranges::find(constraint.keep_off, spec_.backends.back()) != constraint.keep_off.end())
      return invalid(
          fmt::format("operators cannot be kept off `{}`, the last backend", spec_.backends.back()),
          kConstraintForm);
    for (size_t i = 0; !on.empty() && i + 1 < spec_.backends.size(); ++i)
      if (std::ranges::find(on, spec_.backends[i]) == on.end())
        constraint.keep_off.push_back(spec_.backends[i]);
    spec_.constraints.push_back(std::move(constraint));
    return {};
  }

  const std::string& path_;
  const TargetDescription& target_;
  RecipeSpec spec_;
};

}  // namespace

Result<void> check_target_recipe(const TargetDescription& target, const std::string& file) {
  const std::vector<std::string_view> known = backend_names(target),
                                      last = backend_names(target, true);
  const auto invalid = [&](std::string_view name, std::string_view fault, std::string fix) {
    return fail(DiagnosticId::kTargetInvalid,
                fmt::format("`recipe` names {}, {}", json_quote(name), fault), std::move(fix),
                {.file = file});
  };
  for (auto each = target.recipe.begin(); each != target.recipe.end(); ++each) {
    if (std::ranges::find(known, *each) == known.end())
      return invalid(*each, has_npu(target) ? "which is no backend" : "no backend without an NPU",
                     fmt::format("choose from: {}", fmt::join(known, ", ")));
    if (std::find(target.recipe.begin(), each, *each) != each)
      return invalid(*each, "twice", "name each backend once");
  }
  if (std::ranges::find(last, target.recipe.back()) == last.end())
    return invalid(target.recipe.back(), "which does not run every operator, as the last backend",
                   fmt::format("end the list with one of: {}", fmt::join(last, ", ")));
  return {};
}

Result<RecipeSpec> read_recipe(const std::string& path, const TargetDescription& target) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  return parse_recipe({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                      path, target);
}

Result<RecipeSpec> parse_recipe(std::string_view text, const std::string& file,
                                const TargetDescription& target) {
  if (std::string fault = json_error(text); !fault.empty())
    return fail(DiagnosticId::kRecipeInvalid, std::move(fault), "see docs/recipes.md",
                {.file = file});
  return Reader(file, target)
      .read(Json::parse(text, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/true));
}

}  // namespace dtr
