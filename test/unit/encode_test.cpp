// Names and texts for the places where they are shown or stored: what each encoding lets through,
// and what it must not.
#include "compiler/support/encode.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "compiler/support/process.h"
#include "compiler/support/result.h"
#include "compiler/support/text.h"

namespace dtr {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kWord = "stem.conv2d_1 größe 中 🙂 \\ \"'";

TEST(Encode, KnowsUtf8) {
  const auto code = [](std::string_view text) {
    return first_character(text).length == text.size() ? first_character(text).code : 0;
  };
  EXPECT_EQ(code("a"), U'a');
  EXPECT_EQ(code("\u00e4"), 0xE4U);
  EXPECT_EQ(code("\u0800"), 0x800U);
  EXPECT_EQ(code("\uffff"), 0xFFFFU);
  EXPECT_EQ(code("\U00010000"), 0x10000U);
  EXPECT_EQ(code("\U0010FFFF"), 0x10FFFFU);
  // Continuation alone, overlong forms, surrogates, beyond U+10FFFF, cut off.
  for (const std::string_view bad :
       {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE4\xB8",
        "\xF0\x9F\x99", "\xC3("})
    EXPECT_EQ(first_character(bad).length, 0U) << as_terminal(bad);
}

TEST(Encode, ForATerminal) {
  EXPECT_EQ(as_terminal(kWord), kWord);
  EXPECT_EQ(as_terminal("a\x1b[31mb\nc\r\t\x7f\0d"sv), "a\\x1b[31mb\\x0ac\\x0d\\x09\\x7f\\x00d");
  EXPECT_EQ(as_terminal("\u009b31m \u202e \u2028 \u200b \ufeff \U000e0041"),
            "\\u009b31m \\u202e \\u2028 \\u200b \\ufeff \\U000e0041");
  EXPECT_EQ(as_terminal("\xED\xA0\x80 \xC0\xAF \xFF"), "\\xed\\xa0\\x80 \\xc0\\xaf \\xff");
  EXPECT_EQ(as_terminal_lines("a\nb\x1b\r\n"), "a\nb\\x1b\\x0d\n");
  const std::string once = as_terminal("x\x1b\\x1b\n");
  EXPECT_EQ(as_terminal(once), once);
}

TEST(Encode, Formats) {
  const std::string name = "a\nb";
  EXPECT_EQ(terminal_format("{}\n{:>6}|{}|{}\n", name, name.c_str(), 3, std::string_view("\x1b")),
            "a\\x0ab\na\\x0ab|3|\\x1b\n");
  EXPECT_EQ(terminal_format("{}", fmt::join(std::vector<std::string>{"a\n", "b"}, ", ")),
            "a\\x0a, b");
  EXPECT_EQ(terminal_format("{}", fmt::join(std::vector<int>{1, 2}, ", ")), "1, 2");
  EXPECT_EQ(terminal_format("{}|{:.2f}", EncodedLines{"a\nb\x1b"}, 0.5), "a\nb\\x1b|0.50");
}

TEST(Encode, ForCode) {
  EXPECT_EQ(as_c_string("forward"), "\"forward\"");
  EXPECT_EQ(as_c_string("a\"b\\c?\?/\n\x1b\0e\xff"sv),
            "\"a\\042b\\134c\\077\\077/\\012\\033\\000e\\377\"");
  EXPECT_EQ(as_c_comment(kWord), "stem.conv2d_1 größe 中 🙂 \\x5c \"'");
  EXPECT_EQ(as_c_comment("*/ /* a\\\n?\?/ //"), "*\\x2f /\\x2a a\\x5c\\x0a?\\x3f/ //");
  // A few characters in all orders: nothing ends the comment, begins another or continues the line.
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (int n = 0; n < 6; ++n) text += "*/\\?\n\ra x"[random() % 9];
    const std::string comment = as_c_comment(text), string = as_c_string(text);
    for (const std::string_view bad : {"*/", "/*", "\?\?/", "\n", "\r"}) {
      EXPECT_EQ(comment.find(bad), std::string::npos) << comment;
      EXPECT_EQ(bad.size() == 2 ? std::string::npos : string.find(bad), std::string::npos)
          << string;
    }
    EXPECT_NE(comment.back(), '\\');
    EXPECT_EQ(string.find("\?\?"), std::string::npos);
  }
}

TEST(Encode, HtmlHasNoTags) {
  EXPECT_EQ(as_html("digits \"1\""), "digits \"1\"");
  EXPECT_EQ(as_html("</title><script>&amp;"), "&lt;/title&gt;&lt;script&gt;&amp;amp;");
  EXPECT_EQ(as_html("a\nb"), "a\\x0ab");
}

TEST(Encode, ForMarkdown) {
  EXPECT_EQ(as_markdown("digits"), "`digits`");
  EXPECT_EQ(as_markdown("a`b"), "``a`b``");
  EXPECT_EQ(as_markdown("``a"), "``` ``a ```");
  EXPECT_EQ(as_markdown("`"), "`` ` ``");
  EXPECT_EQ(as_markdown("x\n\n# <b>"), "`x\\x0a\\x0a# <b>`");
}

TEST(Encode, ForJson) {
  EXPECT_EQ(json_quote(kWord), "\"stem.conv2d_1 größe 中 🙂 \\\\ \\\"'\"");
  EXPECT_EQ(json_quote("\x1b\n\0\x7f"sv), R"("\u001b\u000a\u0000\u007f")");
  EXPECT_EQ(json_quote("\u202e\u2028\U000e0041"), R"("\u202e\u2028\udb40\udc41")");
  EXPECT_EQ(json_quote("\xED\xA0\x80"), R"("\ufffd\ufffd\ufffd")");
  EXPECT_EQ(json_quote("\xC0\xAF|\xE4\xB8"), R"("\ufffd\ufffd|\ufffd\ufffd")");
}

TEST(Encode, DiagnosticsAreALineAPart) {
  const Diagnostic bad{
      DiagnosticId::kNodeUnknown,
      "there is no `a\n  fix: run this`",
      "leave `\x1b[2J` out",
      {.file = "f\ng", .node = "n\r", .module_path = "m\n", .source_line = "s\x1b"}};
  EXPECT_EQ(to_text(bad),
            "error[node-unknown]: f\\x0ag: `n\\x0d`: there is no `a\\x0a  fix: run this`\n  at: "
            "m\\x0a, s\\x1b\n  fix: leave `\\x1b[2J` out");
  const Diagnostic listed{
      DiagnosticId::kFirmwareRun, "it failed" + end_of_output("one\n\x1b[1mtwo\n\n"), "look", {}};
  EXPECT_EQ(to_text(listed),
            "error[firmware-run]: it failed:\n  | one\n  | \\x1b[1mtwo\n  fix: look");
  EXPECT_EQ(end_of_output(""), "");
}

TEST(Encode, TablesTakeAnything) {
  TextTable table({"name", "n"}, {false, true});
  table.add({"a\nb\x1b", "1"});
  EXPECT_EQ(table.text(40), "name        n\na\\x0ab\\x1b  1\n");
}

}  // namespace
}  // namespace dtr
