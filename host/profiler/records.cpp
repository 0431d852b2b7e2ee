#include "host/profiler/records.h"

#include <fmt/format.h>

#include <cstring>

#include "compiler/support/file_contents.h"

namespace dtr {
namespace {

using npu::ProfileHeader;
using npu::ProfileRecord;

Result<void> check(const ProfileHeader& header, size_t bytes_behind, size_t at,
                   const std::string& file) {
  const auto damaged = [&](std::string reason) {
    return fail(DiagnosticId::kTraceDamaged, fmt::format("at byte {}: {}", at, reason),
                "take it from the device again, whole", {.file = file});
  };
  if (header.magic != npu::kProfileMagic) return damaged("there is no header of records");
  if (header.version != npu::kProfileVersion)
    return damaged(fmt::format("the records have version {}, this tool reads {}", header.version,
                               npu::kProfileVersion));
  if (header.unit > npu::ProfileUnit::kCycles ||
      header.error > static_cast<uint8_t>(pte::kLastError))
    return damaged("the header is damaged");
  if (header.records > bytes_behind / sizeof(ProfileRecord))
    return damaged(fmt::format("{} records are announced, {} follow", header.records,
                               bytes_behind / sizeof(ProfileRecord)));
  return {};
}

}  // namespace

Result<std::vector<ProfileBlock>> parse_blocks(std::span<const std::byte> bytes,
                                               const std::string& file) {
  std::vector<ProfileBlock> blocks;
  for (size_t at = 0; at < bytes.size();) {
    ProfileBlock block;
    if (bytes.size() - at < sizeof block.header)
      return fail(DiagnosticId::kTraceDamaged,
                  fmt::format("at byte {}: the file ends in a header", at),
                  "take it from the device again, whole", {.file = file});
    std::memcpy(&block.header, bytes.data() + at, sizeof block.header);
    const size_t begin = at + sizeof block.header;
    DTR_TRY(check(block.header, bytes.size() - begin, at, file));
    block.records.resize(block.header.records);
    if (!block.records.empty())
      std::memcpy(block.records.data(), bytes.data() + begin,
                  block.records.size() * sizeof(ProfileRecord));
    at = begin + block.records.size() * sizeof(ProfileRecord);
    blocks.push_back(std::move(block));
  }
  return blocks;
}

Result<Trace> read_records(const std::string& path, const PteFile& pte_file) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  DTR_ASSIGN(const std::vector<ProfileBlock> blocks, parse_blocks(file.bytes(), path));
  Trace trace;
  trace.program = trace_source(pte_file);
  uint32_t other = 0;
  for (const ProfileBlock& block : blocks) {
    if (block.header.program == trace.program->checksum) {
      add_records(trace, block.header, block.records, pte_file);
    } else {
      other = block.header.program;
    }
  }
  if (!trace.runs.empty()) return trace;
  if (other != 0)
    return fail(DiagnosticId::kTraceProgram,
                fmt::format("the records are of program {:08x}, {} is {:08x}", other,
                            pte_file.path(), trace.program->checksum),
                "give the program that is in the image", {.file = path});
  return fail(DiagnosticId::kTraceDamaged, "the file has no run",
              "let the device finish one, then take it again", {.file = path});
}

}  // namespace dtr
