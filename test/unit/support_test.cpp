// Small parts of compiler/support: depth of JSON, words of a command, parallel loops, progress.
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/check_handler.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/json.h"
#include "compiler/support/progress.h"
#include "compiler/support/text.h"
#include "compiler/support/thread_pool.h"

namespace dtr {
namespace {

TEST(Json, DepthIsLimited) {
  const auto nested = [](size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(json_error(nested(1000)), "");
  EXPECT_FALSE(json_is_too_deep(nested(1000)));
  EXPECT_EQ(json_error("{\n\"a\": " + nested(300000) + "}"),
            "line 2: arrays and objects are nested deeper than 1000 levels");
  EXPECT_EQ(json_error("// \"\n" + nested(300000)),
            "line 2: arrays and objects are nested deeper than 1000 levels");
  EXPECT_TRUE(json_is_too_deep(nested(1001)));
  EXPECT_TRUE(json_is_too_deep("[\"\\\"\"," + nested(1000) + "]"));
  EXPECT_FALSE(json_is_too_deep("[\"" + std::string(5000, '[') + "\"]"));
}

TEST(Check, EndsTheProcessOrDoesWhatItsHostAskedFor) {
  const auto check = [](bool good) { DTR_CHECK(good); };
  EXPECT_EXIT(check(false), testing::ExitedWithCode(3),
              "internal error: .*support_test.cpp:.*: check `good` failed; this is a bug");
  EXPECT_EXIT(
      {
        set_check_handler([](const char*, const char*, int) {});  // which does not throw
        check(false);
      },
      testing::ExitedWithCode(3), "internal error");
  set_check_handler([](const char* condition, const char*, int) -> void { throw condition; });
  EXPECT_THROW(check(false), const char*);
  // From the threads of a loop too.
  EXPECT_THROW(parallel_for(100, 4, [&](size_t i) { check(i != 50); }), const char*);
  EXPECT_NO_THROW(check(true));
  set_check_handler(nullptr);
}

TEST(Text, WordsOfACommand) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(shell_words(""), Words());
  EXPECT_EQ(shell_words(" \t\n"), Words());
  EXPECT_EQ(shell_words("  a  b\tc "), (Words{"a", "b", "c"}));
  EXPECT_EQ(shell_words("'/opt/eiq 2/neutron' --a=\"b c\"d"),
            (Words{"/opt/eiq 2/neutron", "--a=b cd"}));
  EXPECT_EQ(shell_words(R"(a\ b "\"\\\n" '\"' '' "")"), (Words{"a b", R"("\\n)", R"(\")", "", ""}));
  EXPECT_EQ(shell_words("$HOME *.c"), (Words{"$HOME", "*.c"}));
  for (const char* open : {"'", "a \"b", "a\\", "\"a\\\""})
    EXPECT_EQ(shell_words(open), std::nullopt) << open;
}

TEST(ParallelFor, RunsEachPieceOnce) {
  for (const unsigned threads : {0U, 1U, 3U, 8U}) {
    std::vector<std::atomic<int>> counts(1000);
    parallel_for(counts.size(), threads, [&](size_t i) { ++counts[i]; });
    for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
  }
  parallel_for(0, 4, [](size_t) { FAIL(); });
  // What the standard library throws in a helper's thread arrives in the caller's.
  for (const unsigned threads : {1U, 4U})
    EXPECT_THROW(
        parallel_for(100, threads, [](size_t i) { i % 2 == 1 ? throw std::bad_alloc() : void(); }),
        std::bad_alloc);
  EXPECT_GE(default_threads(), 1U);
}

TEST(Progress, IsSilentWithoutTerminal) {
  testing::internal::CaptureStderr();
  {
    TerminalProgress progress("calibrate");
    progress.function()(1, 2);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace dtr
