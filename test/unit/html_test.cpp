// The page of a profile: all data in it, and nothing of a model that a browser would take for more
// than text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compiler/support/output_file.h"
#include "host/profiler/html.h"
#include "host/profiler/report.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using Json = nlohmann::json;

// A model whose author is no friend: elements, ends of the script, line ends of scripts, and bytes
// that are no UTF-8.
constexpr std::string_view kHostile =
    "<img src=x onerror=alert(1)></script><!--<script>{{verify}}\xe2\x80\xa8\xe2\x80\xa9\"'&";

Profile profile_of(const std::string& name) {
  Profile profile{.program = "example.pte",
                  .id = TraceSource{.checksum = 7, .target = "imxrt700", .clock_hz = 1'000'000}};
  profile.sources.push_back({.name = name,
                             .target = "aten.conv2d.default",
                             .module_path = "stem." + name,
                             .source_line = name});
  profile.rows.push_back({.sources = {0},
                          .name = name,
                          .op = "aten.conv2d.default",
                          .backend = "NPU",
                          .kernels = name,
                          .spent = {.npu = 42}});
  profile.spans.push_back(
      {.track = ProfileSpan::Track::kNpu, .kernel = name, .start = 0, .end = 42});
  profile.total = 42;
  return profile;
}

// Text of the element with this id.
std::string element(const std::string& page, std::string_view id) {
  const size_t open = page.find(fmt::format("id=\"{}\">", id));
  if (open == std::string::npos) return "";
  const size_t begin = page.find('>', open) + 1;
  return page.substr(begin, page.find("</script>", begin) - begin);
}

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    ++found;
  return found;
}

TEST(Html, HoldsWhatJsonHolds) {
  const Profile profile = profile_of("conv");
  const Result<std::string> page = to_html(profile, nullptr);
  ASSERT_TRUE(page);
  EXPECT_EQ(Json::parse(element(*page, "profile-data")), Json::parse(to_json(profile, nullptr)));
  EXPECT_EQ(element(*page, "compile-data"), "");
  EXPECT_EQ(element(*page, "verify-data"), "");
  EXPECT_EQ(page->find("{{"), page->find("{{…}}"));  // in a comment; every other place is filled
  EXPECT_EQ(count(*page, "{{"), 1u);
}

TEST(Html, LoadsNothing) {
  const Result<std::string> page = to_html(profile_of("conv"), nullptr);
  ASSERT_TRUE(page);
  EXPECT_NE(page->find("default-src 'none'"), std::string::npos);
  for (const std::string_view reference :
       {"http:", "https:", "//cdn", "@import", "url(", "fetch(", "XMLHttpRequest", "<script src",
        "innerHTML", "insertAdjacentHTML", "document.write", "eval("})
    EXPECT_EQ(page->find(reference), std::string::npos) << reference;
}

TEST(Html, NamesAreText) {
  const Profile profile = profile_of(std::string(kHostile));
  const Result<std::string> page = to_html(profile, nullptr);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->find("<img"), std::string::npos);
  EXPECT_EQ(page->find("\xe2\x80\xa8"), std::string::npos);
  EXPECT_EQ(page->find("\xe2\x80\xa9"), std::string::npos);
  const Result<std::string> friendly = to_html(profile_of("conv"), nullptr);
  ASSERT_TRUE(friendly);
  EXPECT_EQ(count(*page, "<script"), count(*friendly, "<script"));
  EXPECT_EQ(count(*page, "</script"), count(*friendly, "</script"));
  EXPECT_EQ(count(*page, "<!--"), count(*friendly, "<!--"));
  const Json data = Json::parse(element(*page, "profile-data"));
  EXPECT_EQ(data["rows"][0]["name"], kHostile);
  EXPECT_EQ(data["rows"][0]["kernels"], kHostile);
}

TEST(Html, BytesThatAreNoTextAreReplaced) {
  const Result<std::string> page = to_html(profile_of("conv\xff\xc3"), nullptr);
  ASSERT_TRUE(page);
  EXPECT_EQ(Json::parse(element(*page, "profile-data"))["rows"][0]["name"],
            "conv\xef\xbf\xbd\xef\xbf\xbd");
}

std::string message_of(const HtmlAdditions& additions) {
  const Result<std::string> page = to_html(profile_of("conv"), nullptr, additions);
  return page ? "" : page.error().reason;
}

TEST(Html, TakesReportsOfOtherCommands) {
  const std::string path = testing::TempDir() + "html_addition.json";
  const std::string layer =
      R"({"checksum": "00000007", "target": "imxrt700", "layers": [{"name": "conv", "op": "o", "module_path": "", "source_line": "", "fused": false, "where": "npu", "dtype": "i8", "sqnr_db": 31.5, "max_error": 0.25, "steps": 1, "differing": 0.5}]})";
  const std::string report =
      R"({"checksum": "00000007", "target": "imxrt700", "operators": [{"name": "conv + relu"}], "refusals": [{"name": "conv", "module_path": "<b>", "source_line": "", "reason": "r", "remedy": "", "cycles_lost": 5}], "transposes": []})";
  ASSERT_TRUE(write_file(path, layer));
  Result<std::string> page = to_html(profile_of("conv"), nullptr, {.verify = path});
  ASSERT_TRUE(page);
  EXPECT_EQ(Json::parse(element(*page, "verify-data")), Json::parse(layer));
  EXPECT_EQ(message_of({.compile_report = path}),
            "the file is not an output of `deuteron compile --report-json`");
  ASSERT_TRUE(write_file(path, report));
  page = to_html(profile_of("conv"), nullptr, {.compile_report = path});
  ASSERT_TRUE(page);
  EXPECT_EQ(Json::parse(element(*page, "compile-data")), Json::parse(report));
  EXPECT_EQ(page->find("<b>"), std::string::npos);
  EXPECT_EQ(message_of({.verify = path}), "the file is not an output of `deuteron verify --json`");
}

TEST(Html, RefusesOtherFiles) {
  const std::string path = testing::TempDir() + "html_refused.json";
  for (
      const std::string_view text :
      {"", "[", "3", "{}", "[1]", R"([{"name": 3}])", R"({"operators": 1, "refusals": []})",
       "[{\"name\": \"conv\"}]",
       R"({"operators": [], "refusals": [], "transposes": [], "layers": []})",
       R"({"checksum": 7, "target": "imxrt700", "operators": [], "refusals": [], "transposes": [], "layers": []})"}) {
    ASSERT_TRUE(write_file(path, text));
    EXPECT_EQ(message_of({.compile_report = path}),
              "the file is not an output of `deuteron compile --report-json`")
        << text;
    EXPECT_EQ(message_of({.verify = path}), "the file is not an output of `deuteron verify --json`")
        << text;
  }
  for (const auto& [checksum, target] :
       {std::pair{"00000008", "imxrt700"}, {"00000007", "imxrt700cm"}}) {
    ASSERT_TRUE(write_file(
        path,
        fmt::format(
            R"({{"checksum": "{}", "target": "{}", "operators": [], "refusals": [], "transposes": [], "layers": []}})",
            checksum, target)));
    const std::string reason = fmt::format(
        "it is of program {} for `{}`, example.pte is 00000007 for `imxrt700`", checksum, target);
    EXPECT_EQ(message_of({.compile_report = path}), reason);
    EXPECT_EQ(message_of({.verify = path}), reason);
  }
  Profile nameless = profile_of("conv");
  nameless.id.reset();
  ASSERT_TRUE(write_file(
      path,
      R"({"checksum": "00000007", "target": "imxrt700", "operators": [{"name": "pool + relu"}], "refusals": [], "transposes": []})"));
  const Result<std::string> page = to_html(nameless, nullptr, {.compile_report = path});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().reason, "none of its operators is in example.pte");
  EXPECT_NE(message_of({.verify = testing::TempDir() + "html_missing.json"}), "");
}

}  // namespace
}  // namespace dtr
