// Opens a .pt2 file: a zip with one top-level folder that contains models/model.json, data/weights
// and data/constants.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compiler/frontends/pt2/schema.h"
#include "compiler/support/zip_archive.h"

namespace dtr::pt2 {

class Archive {
 public:
  // `bytes` must outlive the archive, and so must weights that are not in them (`detached`).
  // Errors: those of ZipArchive; kPt2Invalid (a member is missing, big-endian), kPt2Version.
  // `sizes`: of symbolic sizes (parse_exported_program, with its errors).
  static Result<Archive> open(std::span<const std::byte> bytes, const std::string& file,
                              ZipLimits limits = {}, std::span<const DetachedBytes> detached = {},
                              const DimensionSizes* sizes = nullptr);
  // Reads the program again, with these numbers. Errors: the same.
  Result<void> bind(const DimensionSizes& sizes, const KnownNumbers& numbers);

  const ExportedProgram& program() const { return program_; }
  const std::string& file() const { return file_; }

  // The entry of a parameter, buffer or constant by its name in the module; nullptr if there is
  // none.
  const Payload* find_payload(std::string_view target) const;

  // Reads the elements of a payload in logical order, complex numbers as two floats each. `bytes`
  // refer to the archive if they are stored and contiguous (`in_place`), else to `owned`. Errors:
  // kPt2MissingWeight, kPt2PickledWeight, kPt2WeightSize, kPt2UnsupportedDtype, those of
  // ZipArchive.
  struct Elements {
    DType dtype;
    std::span<const std::byte> bytes;
    std::unique_ptr<std::byte[]> owned;
    bool in_place() const { return owned == nullptr; }
  };
  Result<Elements> read(std::string_view target) const;

 private:
  Archive(ZipArchive zip, std::string file) : zip_(std::move(zip)), file_(std::move(file)) {}
  Result<ZipData> member(std::string_view path) const;
  Result<void> read_tables(const DimensionSizes* sizes);

  ZipArchive zip_;
  std::string file_;
  std::string root_;  // "float/"
  ZipData model_json_;
  ExportedProgram program_;
  PayloadTable weights_;
  PayloadTable constants_;
};

}  // namespace dtr::pt2
