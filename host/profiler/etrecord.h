// Reads and writes ExecuTorch's ETRecords: a zip that maps events of an ETDump to nodes of the edge
// program, for ExecuTorch's Inspector. The debug handle of a source operator is its index + 1.
// Deuteron's records have an additional member with details of each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/frontends/pt2/edge_export.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"
#include "compiler/support/zip_archive.h"
#include "host/profiler/operator_map.h"
#include "host/profiler/trace.h"

namespace dtr {

// The debug handle of each node, by name.
std::map<std::string, uint32_t, std::less<>> debug_handles(const pte::DebugMap& map);

// Writes a record. `inputs`: one sample on which the Inspector evaluates the model for comparison
// with a run; may be empty. Error: kNoDebugMap.
Result<std::vector<std::byte>> to_etrecord(const PteFile& pte_file, const pt2::EdgeExport& edge,
                                           std::span<const TensorView> inputs = {});

class EtRecord {
 public:
  // Reads a record of Deuteron or ExecuTorch. Errors: kFileNotFound, kTraceDamaged, those of
  // ZipArchive.
  static Result<EtRecord> open(const std::string& path);
  static Result<EtRecord> parse(std::span<const std::byte> bytes, const std::string& file,
                                ZipLimits limits = {});

  // The program of the record; std::nullopt for ExecuTorch's records, which do not name it.
  const std::optional<TraceSource>& program() const { return program_; }
  // The source operators of the events of `trace`. ExecuTorch's delegates may name their events;
  // the trace maps numbers to names.
  OperatorMap operators(const Trace& trace) const;

 private:
  friend class EtRecordReader;
  // Sources by the id of an event: "5", "Convolution #1".
  using Delegate = std::map<std::string, std::vector<uint32_t>, std::less<>>;

  std::optional<TraceSource> program_;
  std::optional<OperatorMap> ours_;
  std::vector<SourceOp> sources_;
  std::map<int32_t, std::vector<uint32_t>> calls_;  // sources by instruction
  std::map<int32_t, Delegate> delegates_;           // by instruction
};

}  // namespace dtr
