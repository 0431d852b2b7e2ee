// Constants that only lead to other constants are released while a .pt2 is read.
#include <filesystem>

#include "compiler/frontends/pt2/archive.h"
#include "compiler/frontends/pt2/importer.h"
#include "compiler/ir/printer.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

// The same graph with the same constants, whenever they are released: a released one that is read
// fails a check. Loops, branches, views that are written to and states are among the models.
TEST(Pt2Release, ChangesNoModel) {
  size_t compared = 0, smaller = 0;
  for (const char* folder : {"test/data/pt2", "test/data/conformance", "test/data/states"})
    test::for_each_export(test::source_path(folder), [&](const std::filesystem::path& path) {
      const std::vector<std::byte> bytes = test::read_bytes(path);
      const auto archive = pt2::Archive::open(bytes, path.filename().string());
      if (!archive) return;
      Module kept, released;
      for (Module* module : {&kept, &released}) module->graphs.emplace_back();
      const bool reads = pt2::Importer(*archive, kept, SIZE_MAX).run().has_value();
      ASSERT_EQ(pt2::Importer(*archive, released, 0).run().has_value(), reads) << path;
      if (!reads) return;
      EXPECT_EQ(print(released), print(kept)) << path;
      EXPECT_LE(released.constants.owned_bytes(), kept.constants.owned_bytes()) << path;
      smaller += released.constants.owned_bytes() < kept.constants.owned_bytes() ? 1 : 0;
      ++compared;
    });
  EXPECT_GT(compared, 60U);
  EXPECT_GT(smaller, 20U);
}

}  // namespace
}  // namespace dtr
