// deuteron inspect
#include <fmt/format.h>

#include <cstring>

#include "frontends/pt2/describe.h"
#include "frontends/tflite/tflite.h"
#include "ir/npz.h"
#include "program/describe.h"
#include "simulator/host/listing.h"
#include "support/mapped_file.h"
#include "support/zip_archive.h"
#include "tools/verbs.h"

namespace dtr::tools {
namespace {

bool has_magic(std::span<const std::byte> bytes, size_t offset, std::string_view magic) {
  return bytes.size() >= offset + magic.size() && std::memcmp(bytes.data() + offset, magic.data(), magic.size()) == 0;
}

// Shape, dtype and range of every array.
std::string describe_arrays(const std::vector<NamedTensor>& arrays) {
  std::string text;
  for (const NamedTensor& array : arrays) {
    text += fmt::format("{:<20} {:<5} {:<20} {:>10} bytes", array.name, name(array.tensor.dtype()), to_string(array.tensor.shape()),
                        array.tensor.bytes().size());
    if (array.tensor.dtype() == DType::kFloat32 && array.tensor.elements() > 0) {
      const auto values = array.tensor.values<float>();
      float low = values[0], high = values[0];
      for (const float value : values) {
        low = value < low ? value : low;
        high = value > high ? value : high;
      }
      text += fmt::format("  {:.6g} … {:.6g}{}", low, high, find_non_finite(array.tensor.view()) >= 0 ? ", not all finite" : "");
    }
    text += '\n';
  }
  return text;
}

Result<std::string> describe_archive(const std::string& path, std::span<const std::byte> bytes) {
  DTR_ASSIGN(const ZipArchive archive, ZipArchive::open(bytes, path));
  const auto& entries = archive.entries();
  const bool arrays = !entries.empty() && entries.front().name.ends_with(".npy");
  if (!arrays) return pt2::describe_pt2(path);
  DTR_ASSIGN(const std::vector<NamedTensor> tensors, read_npz(path));
  return describe_arrays(tensors);
}

std::string describe_payload(std::string_view delegate, std::span<const std::byte> payload) {
  return delegate == pte::kDelegateId ? simulator::list_payload(npu::Target{}, payload) : std::string();
}

}  // namespace

Status inspect(const CommonOptions&, const InspectOptions& options) {
  DTR_ASSIGN(const MappedFile file, MappedFile::open(options.file));
  const std::span<const std::byte> bytes = file.bytes();
  Result<std::string> text;
  if (has_magic(bytes, 0, "PK")) {
    text = describe_archive(options.file, bytes);
  } else if (has_magic(bytes, 4, "TFL3")) {
    text = tflite::describe_tflite(options.file);
  } else if (has_magic(bytes, 4, "ET")) {
    DTR_ASSIGN(const ProgramImage image, ProgramImage::open(options.file));
    text = describe_program(image, {.describe_payload = describe_payload});
  } else if (has_magic(bytes, 0, "\x93NUMPY")) {
    DTR_ASSIGN(const std::vector<NamedTensor> tensors, read_tensors(options.file));
    text = describe_arrays(tensors);
  } else {
    text = fail(DiagnosticId::kModelUnknown, "the file is none of the kinds that Deuteron reads or writes",
                "give a .pt2, .tflite, .pte, .npz or .npy file", {.file = options.file});
  }
  DTR_TRY(text);
  fmt::print("{}", *text);
  return {};
}

}  // namespace dtr::tools
