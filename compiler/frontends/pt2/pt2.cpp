#include "compiler/frontends/pt2/pt2.h"

#include "compiler/frontends/pt2/archive.h"
#include "compiler/frontends/pt2/importer.h"

namespace dtr::pt2 {

Result<Module> parse_pt2(std::span<const std::byte> bytes, const std::string& file,
                         ZipLimits limits, std::span<const DetachedBytes> detached,
                         const DimensionSizes& sizes) {
  DTR_ASSIGN(const Archive archive, Archive::open(bytes, file, limits, detached, &sizes));
  Module module;
  module.file = file;
  module.graphs.emplace_back();
  DTR_TRY(Importer(archive, module).run());
  return module;
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
