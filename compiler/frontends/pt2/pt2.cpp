#include "compiler/frontends/pt2/pt2.h"

#include "compiler/frontends/pt2/archive.h"
#include "compiler/frontends/pt2/importer.h"

namespace dtr::pt2 {
namespace {

// Elements of constants that are sizes or numbers of other operators. A number that is computed
// with another one is found in the next round.
Result<void> bind_numbers(Archive& archive, const std::string& file, const DimensionSizes& sizes) {
  constexpr int kMostRounds = 16;
  KnownNumbers numbers;
  for (int round = 0; round < kMostRounds; ++round) {
    Module scratch;
    scratch.file = file;
    scratch.graphs.emplace_back();
    const size_t before = numbers.size();
    Importer(archive, scratch).find_known_numbers(numbers);
    if (numbers.size() == before) break;
    DTR_TRY(archive.bind(sizes, numbers));
  }
  return {};
}

Result<Module> import(const Archive& archive, bool trainable) {
  Module module;
  module.file = archive.file();
  module.graphs.emplace_back();
  Importer importer(archive, module);
  if (trainable) importer.keep_parameters();
  DTR_TRY(importer.run());
  return module;
}

}  // namespace

Result<Module> parse_pt2(std::span<const std::byte> bytes, const std::string& file,
                         ZipLimits limits, std::span<const DetachedBytes> detached,
                         const DimensionSizes& sizes) {
  DTR_ASSIGN(Archive archive, Archive::open(bytes, file, limits, detached, &sizes));
  DTR_TRY(bind_numbers(archive, file, sizes));
  return import(archive, false);
}

Result<Module> parse_trainable_pt2(std::span<const std::byte> bytes, const std::string& file) {
  DTR_ASSIGN(Archive archive, Archive::open(bytes, file));
  DTR_TRY(bind_numbers(archive, file, {}));
  return import(archive, true);
}

Result<Module> read_pt2(const std::string& path, const DimensionSizes& sizes) {
  DTR_ASSIGN(FileContents file, FileContents::read(path));
  return read_pt2(std::move(file), path, sizes);
}

Result<Module> read_pt2(FileContents file, const std::string& path, const DimensionSizes& sizes) {
  DTR_ASSIGN(Module module, parse_pt2(file.bytes(), path, {}, {}, sizes));
  module.constants.keep(std::move(file));
  return module;
}

}  // namespace dtr::pt2
