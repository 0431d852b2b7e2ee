// ExecuTorch's records ("ETRecord"): a zip that tells its Inspector which nodes of the edge program
// an event of an ETDump stands for. The debug handle of a source operator is its index + 1. Ours
// have a member more, with what we know of a step beyond that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/frontends/pt2/edge_program.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"
#include "compiler/support/zip_archive.h"
#include "host/profiler/operator_map.h"
#include "host/profiler/trace.h"

namespace dtr {

// By name of a node.
std::map<std::string, uint32_t, std::less<>> debug_handles(const pte::DebugMap& map);

// `inputs`: one sample, on which the Inspector evaluates the model to compare a run with; empty: it
// has none. Errors: kNoDebugMap.
Result<std::vector<std::byte>> to_etrecord(const PteFile& pte_file, const pt2::EdgeProgram& edge,
                                           std::span<const TensorView> inputs = {});

class EtRecord {
 public:
  // Any ETRecord, ours or ExecuTorch's. Errors: kFileNotFound, kTraceDamaged, those of ZipArchive.
  static Result<EtRecord> open(const std::string& path);
  static Result<EtRecord> parse(std::span<const std::byte> bytes, const std::string& file,
                                ZipLimits limits = {});

  // Of the program that it was made with; ExecuTorch's do not say.
  const std::optional<TraceSource>& program() const { return program_; }
  // What the events of `trace` stand for: ExecuTorch's delegates may name their events, and the
  // trace says which number has which name.
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
