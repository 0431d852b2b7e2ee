// Any text as the report of a compilation and as the table of `verify`, which `profile --html`
// reads: refused, or in a page in which nothing of it ends the script that holds it.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "compiler/support/temporary_folder.h"
#include "host/profiler/html.h"
#include "host/session/recorder.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"
#include "test/fuzz/sample.h"

namespace {

enum : size_t { kShown };
constexpr dtr::fuzz::Stage kStages[] = {{"shown", 0.4}};

struct Shown {
  dtr::PteFile pte_file;
  dtr::Profile profile;
  size_t scripts;  // of its page
};

size_t count_ends(const std::string& page) {
  size_t count = 0;
  for (size_t at = page.find("</script"); at != std::string::npos;
       at = page.find("</script", at + 1))
    ++count;
  return count;
}

Shown show() {
  const std::vector<std::byte> pte = dtr::fuzz::compile_sample("image", "imxrt700").written.bytes;
  auto pte_file = dtr::PteFile::parse(pte, "image.pte");
  auto session = dtr::Session::load(pte, "image.pte");
  DTR_CHECK(pte_file.has_value() && session.has_value());
  const auto trace = dtr::record_zeros(**session);
  DTR_CHECK(trace.has_value());
  dtr::Profile profile =
      dtr::make_profile(*trace, dtr::OperatorMap(*pte_file->debug_map()), "image.pte");
  const auto page = dtr::to_html(profile, &*pte_file);
  DTR_CHECK(page.has_value());
  return {std::move(*pte_file), std::move(profile), count_ends(*page)};
}

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  using namespace dtr;
  fuzz::Depth depth;
  static const Shown shown = show();
  static const auto temporary = TemporaryFolder::create();
  DTR_CHECK(temporary.has_value());
  const std::string path = (std::filesystem::path(temporary->path()) / "report.json").string();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  for (const HtmlAdditions& additions :
       {HtmlAdditions{.compile_report = path}, HtmlAdditions{.verify = path}}) {
    const auto page = to_html(shown.profile, &shown.pte_file, additions);
    if (!page) continue;
    DTR_CHECK(count_ends(*page) == shown.scripts);
    depth.reach(kShown);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  return dtr::fuzz::mutate_json(data, size, max_size, seed);
}
