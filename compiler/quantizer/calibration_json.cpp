// Writes and reads calibration results as JSON, so that a slow data set is observed only once.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/quantizer/calibration.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/json.h"
#include "compiler/support/output_file.h"

namespace dtr {
namespace {

constexpr std::string_view kFormat = "deuteron-calibration";
constexpr int64_t kVersion = 1;

template <class T>
bool read_number(const nlohmann::json& object, const char* key, T& value) {
  const auto at = object.find(key);
  if (at == object.end()) return false;
  if constexpr (std::is_integral_v<T>) {
    if (!at->is_number_integer()) return false;
    const auto wide = at->template get<int64_t>();
    value = static_cast<T>(wide);
    return static_cast<int64_t>(value) == wide && (std::is_signed_v<T> || wide >= 0);
  } else {
    if (!at->is_number()) return false;
    const auto wide = at->template get<double>();
    if (std::abs(wide) > std::numeric_limits<T>::max()) return false;
    value = static_cast<T>(wide);
    return true;
  }
}

template <class T>
bool read_numbers(const nlohmann::json& object, const char* key, std::vector<T>& values) {
  const auto list = object.find(key);
  if (list == object.end() || !list->is_array()) return false;
  for (const nlohmann::json& entry : *list) {
    if (std::is_integral_v<T> ? !entry.is_number_integer() : !entry.is_number()) return false;
    if constexpr (std::is_integral_v<T>) {
      values.push_back(entry.get<T>());
    } else {
      const auto wide = entry.get<double>();
      if (std::abs(wide) > static_cast<double>(std::numeric_limits<T>::max())) return false;
      values.push_back(static_cast<T>(wide));
    }
  }
  return true;
}

std::optional<ValueStatistics> read_elements(const nlohmann::json& entry) {
  std::vector<float> values;
  std::vector<int64_t> counts;
  if (!read_numbers(entry, "elements", values) || !read_numbers(entry, "counts", counts) ||
      values.size() != counts.size())
    return std::nullopt;
  std::vector<ValueStatistics::Element> elements;
  for (size_t i = 0; i < values.size(); ++i) elements.push_back({values[i], counts[i]});
  ValueStatistics statistics;
  if (!statistics.restore(elements)) return std::nullopt;
  return statistics;
}

std::optional<ValueStatistics> read_statistics(const nlohmann::json& entry) {
  if (entry.is_object() && entry.contains("elements")) return read_elements(entry);
  Range range;
  int64_t zeros = 0, count = 0;
  if (!entry.is_object() || !read_number(entry, "min", range.min) ||
      !read_number(entry, "max", range.max))
    return std::nullopt;
  if (!read_number(entry, "zeros", zeros) || !read_number(entry, "count", count))
    return std::nullopt;
  const bool with_histogram = entry.contains("bins");
  Histogram histogram;
  if (with_histogram && (!read_number(entry, "exponent", histogram.exponent) ||
                         !read_number(entry, "first_bin", histogram.first_bin) ||
                         !read_numbers(entry, "bins", histogram.bins)))
    return std::nullopt;
  ValueStatistics statistics(with_histogram);
  if (!statistics.restore(range, zeros, count, std::move(histogram))) return std::nullopt;
  return statistics;
}

std::optional<ChannelStatistics> read_channels(const nlohmann::json& entry) {
  ChannelStatistics channels;
  if (!entry.is_object() || !read_number(entry, "axis", channels.axis) ||
      !read_numbers(entry, "min", channels.min) || !read_numbers(entry, "max", channels.max) ||
      !read_numbers(entry, "mean", channels.mean))
    return std::nullopt;
  if (channels.min.size() != channels.mean.size() || channels.max.size() != channels.mean.size())
    return std::nullopt;
  return channels;
}

std::optional<uint64_t> read_hash(std::string_view digits) {
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (digits.size() != 16 || error != std::errc() || end != digits.data() + digits.size())
    return std::nullopt;
  return number;
}

}  // namespace

std::string to_json(const CalibrationResult& calibration) {
  fmt::memory_buffer out;
  const auto at = std::back_inserter(out);
  fmt::format_to(at, R"({{"format": "{}", "version": {}, "samples": {},{})", kFormat, kVersion,
                 calibration.samples, calibration.on_noise ? R"( "on_noise": true,)" : "");
  if (calibration.weights != 0)
    fmt::format_to(at, R"( "weights": "{:016x}",)", calibration.weights);
  fmt::format_to(at, R"( "values": {{)");
  const char* separator = "\n";
  for (const auto& [name, statistics] : calibration.values) {
    if (const auto& distinct = statistics.distinct()) {
      std::vector<float> values;
      std::vector<int64_t> counts;
      for (const auto& [value, count] : *distinct) {
        values.push_back(value);
        counts.push_back(count);
      }
      fmt::format_to(at, R"({}{}: {{"elements": [{}], "counts": [{}]}})", separator,
                     json_quote(name), fmt::join(values, ","), fmt::join(counts, ","));
      separator = ",\n";
      continue;
    }
    fmt::format_to(at, R"({}{}: {{"min": {}, "max": {}, "zeros": {}, "count": {})", separator,
                   json_quote(name), static_cast<double>(statistics.range().min),
                   static_cast<double>(statistics.range().max), statistics.zeros(),
                   statistics.count());
    if (statistics.with_histogram()) {
      const Histogram histogram = statistics.histogram();
      fmt::format_to(at, R"(, "exponent": {}, "first_bin": {}, "bins": [{}])", histogram.exponent,
                     histogram.first_bin, fmt::join(histogram.bins, ","));
    }
    fmt::format_to(at, "}}");
    separator = ",\n";
  }
  fmt::format_to(at, "\n}}, \"channels\": {{");
  separator = "\n";
  for (const auto& [name, channels] : calibration.channels) {
    fmt::format_to(at, R"({}{}: {{"axis": {}, "min": [{}], "max": [{}], "mean": [{}]}})", separator,
                   json_quote(name), channels.axis, fmt::join(channels.min, ","),
                   fmt::join(channels.max, ","), fmt::join(channels.mean, ","));
    separator = ",\n";
  }
  const auto add_numbers = [&](std::string_view member, const auto& by_name) {
    if (by_name.empty()) return;
    fmt::format_to(at, "\n}}, \"{}\": {{", member);
    separator = "\n";
    for (const auto& [name, number] : by_name) {
      fmt::format_to(at, "{}{}: {}", separator, json_quote(name), number);
      separator = ",\n";
    }
  };
  add_numbers("not_finite", calibration.not_finite);
  add_numbers("steep", calibration.steep);
  fmt::format_to(at, "\n}}}}\n");
  return fmt::to_string(out);
}

Result<void> save_calibration(const std::string& path, const CalibrationResult& calibration) {
  return write_file(path, to_json(calibration));
}

Result<CalibrationResult> parse_calibration(std::string_view text, const std::string& file) {
  const auto invalid = [&](std::string reason, std::string node = {}) {
    return fail(DiagnosticId::kCalibrationInvalid, std::move(reason), "calibrate again",
                {.file = file, .node = std::move(node)});
  };
  if (std::string fault = json_error(text); !fault.empty()) return invalid(std::move(fault));
  const nlohmann::json document =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/true);
  if (document.is_discarded() || !document.is_object()) return invalid("not a JSON object");
  const auto format = document.find("format");
  if (format == document.end() || *format != kFormat)
    return invalid("not a calibration result of Deuteron");
  int64_t version = 0;
  if (!read_number(document, "version", version) || version != kVersion)
    return invalid(fmt::format("version {} of the format, expected {}", version, kVersion));
  CalibrationResult result;
  const auto values = document.find("values");
  if (!read_number(document, "samples", result.samples) || values == document.end() ||
      !values->is_object())
    return invalid("`samples` or `values` is missing or of the wrong kind");
  if (const auto noise = document.find("on_noise"); noise != document.end()) {
    if (!noise->is_boolean()) return invalid("`on_noise` is neither true nor false");
    result.on_noise = noise->get<bool>();
  }
  if (const auto weights = document.find("weights"); weights != document.end()) {
    const auto number = weights->is_string() ? read_hash(weights->get_ref<const std::string&>())
                                             : std::optional<uint64_t>();
    if (!number) return invalid("`weights` are not 16 hexadecimal digits");
    result.weights = *number;
  }
  for (const auto& [name, entry] : values->items()) {
    std::optional<ValueStatistics> statistics = read_statistics(entry);
    if (!statistics) return invalid("range and counts are missing or do not fit together", name);
    result.values.emplace(name, std::move(*statistics));
  }
  const auto channels = document.find("channels");
  if (channels == document.end() || !channels->is_object())
    return invalid("`channels` is missing or of the wrong kind");
  for (const auto& [name, entry] : channels->items()) {
    std::optional<ChannelStatistics> statistics = read_channels(entry);
    if (!statistics)
      return invalid("ranges and means of its channels are missing or do not fit together", name);
    result.channels.emplace(name, std::move(*statistics));
  }
  if (const auto not_finite = document.find("not_finite"); not_finite != document.end()) {
    if (!not_finite->is_object()) return invalid("`not_finite` is of the wrong kind");
    for (const auto& [name, entry] : not_finite->items())
      if (!read_number(*not_finite, name.c_str(), result.not_finite[name]))
        return invalid("the number of a sample is missing", name);
  }
  if (const auto steep = document.find("steep"); steep != document.end()) {
    if (!steep->is_object()) return invalid("`steep` is of the wrong kind");
    for (const auto& [name, entry] : steep->items())
      if (!read_number(*steep, name.c_str(), result.steep[name]))
        return invalid("a signal-to-noise ratio is missing", name);
  }
  return result;
}

Result<CalibrationResult> load_calibration(const std::string& path) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  const std::span<const std::byte> bytes = file.bytes();
  return parse_calibration({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace dtr
