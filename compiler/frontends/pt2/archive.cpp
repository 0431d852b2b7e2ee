#include "compiler/frontends/pt2/archive.h"

#include <fmt/format.h>

#include <cstring>

#include "compiler/support/half.h"

namespace dtr::pt2 {
namespace {

constexpr std::string_view kModelPath = "models/model.json";
constexpr std::string_view kWeightsFolder = "data/weights/";
constexpr std::string_view kConstantsFolder = "data/constants/";
constexpr uint64_t kMaxMaterializedBytes =
    uint64_t{1} << 28;  // of a strided view that is larger than its storage

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

// One past the last element of the storage that a tensor touches; nullopt if that overflows or a
// stride is negative.
std::optional<uint64_t> storage_end(const TensorMeta& meta) {
  if (meta.storage_offset < 0) return std::nullopt;
  auto end = static_cast<uint64_t>(meta.storage_offset);
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    if (meta.sizes[i] == 0) return 0;
    if (meta.strides[i] < 0) return std::nullopt;
    uint64_t reach = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(meta.sizes[i] - 1),
                               static_cast<uint64_t>(meta.strides[i]), &reach) ||
        __builtin_add_overflow(end, reach, &end) || end > uint64_t{1} << 56)
      return std::nullopt;
  }
  return end + 1;
}

bool is_contiguous(const TensorMeta& meta) {
  int64_t expected = 1;
  for (size_t i = meta.sizes.size(); i-- > 0;) {
    if (meta.sizes[i] != 1 && meta.strides[i] != expected) return false;
    expected *= meta.sizes[i];
  }
  return true;
}

// Copies a strided view of `from` to dense memory in logical order.
void gather(const TensorMeta& meta, size_t size, const std::byte* from, std::byte* to) {
  const size_t rank = meta.sizes.size();
  std::vector<int64_t> index(rank, 0);
  int64_t source = meta.storage_offset;
  const int64_t count = element_count(meta.sizes);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + static_cast<size_t>(i) * size, from + static_cast<size_t>(source) * size,
                size);
    for (size_t d = rank; d-- > 0;) {
      source += meta.strides[d];
      if (++index[d] < meta.sizes[d]) break;
      source -= meta.strides[d] * index[d];
      index[d] = 0;
    }
  }
}

// Floats of sixteen bits as float32.
void widen(float (*to_float)(uint16_t), Archive::Elements& elements) {
  const size_t count = elements.bytes.size() / 2;
  auto wide = std::make_unique_for_overwrite<std::byte[]>(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, elements.bytes.data() + 2 * i, sizeof bits);
    const float value = to_float(bits);
    std::memcpy(wide.get() + sizeof value * i, &value, sizeof value);
  }
  elements.owned = std::move(wide);
  elements.bytes = {elements.owned.get(), count * sizeof(float)};
}

}  // namespace

Result<Archive> Archive::open(std::span<const std::byte> bytes, const std::string& file,
                              ZipLimits limits, std::span<const DetachedBytes> detached,
                              const DimensionSizes* sizes) {
  DTR_ASSIGN(ZipArchive zip, ZipArchive::open(bytes, file, limits, detached));
  Archive archive(std::move(zip), file);
  DTR_TRY(archive.read_tables(sizes));
  return archive;
}

Result<ZipData> Archive::member(std::string_view path) const {
  const ZipEntry* entry = zip_.find(root_ + std::string(path));
  if (entry == nullptr)
    return fail(DiagnosticId::kPt2Invalid,
                "the archive has no such member; it is not what torch.export.save writes",
                "export the model with PyTorch 2.13: torch.export.save(torch.export.export(model, "
                "example_inputs), \"model.pt2\")",
                {.file = file_, .node = std::string(path)});
  return zip_.read_text(*entry);
}

Result<void> Archive::read_tables(const DimensionSizes* sizes) {
  const std::string& first = zip_.entries().front().name;
  root_ = first.substr(0, first.find('/') + 1);
  DTR_ASSIGN(model_json_, member(kModelPath));
  if (zip_.find(root_ + "byteorder") != nullptr) {
    DTR_ASSIGN(const ZipData order, member("byteorder"));
    if (trim(order.text()) != "little")
      return fail(
          DiagnosticId::kPt2Invalid,
          fmt::format("byte order `{}`, only `little` is read", trim(order.text()).substr(0, 16)),
          "export the model on a little-endian machine", {.file = file_, .node = "byteorder"});
  }
  DTR_ASSIGN(program_,
             parse_exported_program(model_json_.text(),
                                    {.file = file_, .node = std::string(kModelPath)}, sizes));
  const auto table = [&](std::string path) -> Result<PayloadTable> {
    DTR_ASSIGN(const ZipData json, member(path));
    return parse_payloads(json.text(), {.file = file_, .node = std::move(path)});
  };
  DTR_ASSIGN(weights_, table(std::string(kWeightsFolder) + "model_weights_config.json"));
  DTR_ASSIGN(constants_, table(std::string(kConstantsFolder) + "model_constants_config.json"));
  return {};
}

Result<void> Archive::bind(const DimensionSizes& sizes, const KnownNumbers& numbers) {
  DTR_ASSIGN(program_, parse_exported_program(model_json_.text(),
                                              {.file = file_, .node = std::string(kModelPath)},
                                              &sizes, numbers));
  return {};
}

const Payload* Archive::find_payload(std::string_view target) const {
  for (const PayloadTable* table : {&weights_, &constants_}) {
    const auto at = table->entries.find(target);
    if (at != table->entries.end()) return &at->second;
  }
  return nullptr;
}

Result<Archive::Elements> Archive::read(std::string_view target) const {
  const Place place{.file = file_, .node = std::string(target)};
  const auto refuse = [&](DiagnosticId id, std::string reason,
                          const char* fix = "export the model again") {
    return fail(id, std::move(reason), fix, place);
  };
  const Payload* payload = find_payload(target);
  if (payload == nullptr)
    return refuse(DiagnosticId::kPt2MissingWeight, "the file has no data for this parameter");
  if (payload->pickled)
    return refuse(
        DiagnosticId::kPt2PickledWeight, "the parameter is stored as a Python pickle",
        "replace the tensor subclass or custom object by a plain tensor before the export");
  const TensorMeta& meta = payload->meta;
  if (!meta.symbol.empty())
    return refuse(DiagnosticId::kPt2SymbolicShape,
                  fmt::format("the parameter has the symbolic size {}", meta.symbol));
  const bool complex = is_complex(meta.scalar_type);
  const auto dtype = complex ? part_dtype_of(meta.scalar_type) : dtype_of(meta.scalar_type);
  if (!dtype || meta.layout != kStridedLayout)
    return refuse(DiagnosticId::kPt2UnsupportedDtype,
                  meta.layout != kStridedLayout ? "the parameter is a sparse tensor"
                                                : fmt::format("the parameter has dtype {}",
                                                              scalar_type_name(meta.scalar_type)),
                  "convert the model with model.float() before the export");
  const bool is_constant =
      constants_.entries.contains(target) && !weights_.entries.contains(target);
  const std::string path = root_ + std::string(is_constant ? kConstantsFolder : kWeightsFolder) +
                           std::string(payload->path_name);
  const ZipEntry* entry = zip_.find(path);
  if (entry == nullptr)
    return refuse(DiagnosticId::kPt2MissingWeight,
                  fmt::format("the archive member `{}` is missing", payload->path_name));
  DTR_ASSIGN(ZipData data, zip_.read(*entry));

  const bool half = meta.scalar_type == kHalfType || meta.scalar_type == kHalfComplexType;
  const bool sixteen_bits = half || has_sixteen_bits(meta.scalar_type);
  const size_t size = (sixteen_bits ? 2 : byte_size(*dtype)) * (complex ? 2 : 1);
  const auto end = storage_end(meta);
  if (data.bytes.empty() && element_count(meta.sizes) > 0)
    return refuse(DiagnosticId::kPt2WeightSize,
                  fmt::format("the file has no element of shape {}: it may have been on PyTorch's "
                              "device `meta`",
                              to_string(meta.sizes)),
                  "load the weights before the export: model.to_empty(device=\"cpu\") and "
                  "load_state_dict, or build the model without device=\"meta\"");
  if (!end || data.bytes.size() % size != 0 || *end > data.bytes.size() / size)
    return refuse(DiagnosticId::kPt2WeightSize,
                  fmt::format("{} bytes of {} do not hold shape {} at offset {}", data.bytes.size(),
                              name(*dtype), to_string(meta.sizes), meta.storage_offset));
  const size_t bytes = static_cast<size_t>(element_count(meta.sizes)) * size;
  Elements elements{.dtype = *dtype, .bytes = {}, .owned = nullptr};
  if (bytes == 0) return elements;
  if (is_contiguous(meta)) {
    elements.bytes = data.bytes.subspan(static_cast<size_t>(meta.storage_offset) * size, bytes);
    elements.owned = std::move(data.owned);
  } else {
    if (bytes > kMaxMaterializedBytes && bytes > data.bytes.size())
      return refuse(DiagnosticId::kPt2WeightSize,
                    fmt::format("shape {} repeats {} bytes too often", to_string(meta.sizes),
                                data.bytes.size()));
    elements.owned = std::make_unique_for_overwrite<std::byte[]>(bytes);
    gather(meta, size, data.bytes.data(), elements.owned.get());
    elements.bytes = {elements.owned.get(), bytes};
  }
  if (sixteen_bits) widen(half ? from_half : from_bfloat, elements);
  return elements;
}

}  // namespace dtr::pt2
