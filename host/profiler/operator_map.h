// Maps calls of a program and commands of its delegates to source operators.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/program/reader.h"

namespace dtr {

struct MappedStep {
  std::string kernel;  // "Conv2d", "aten::add.out", "Copy"
  Origin origin;
  int64_t macs = 0;
  uint64_t bytes = 0;      // of a copy: read from flash; else read and written in SRAM
  std::string limit;       // "array", "weight port", …
  std::string rearranges;  // the name of the value, if the step only changes its layout
};

class OperatorMap {
 public:
  OperatorMap() = default;
  explicit OperatorMap(const pte::DebugMap& map);

  const std::vector<SourceOp>& sources() const { return sources_; }
  // The step of a command, or of the call itself for `command` −1. Null if it is unknown. Waits are
  // not in the map; the next call is.
  const MappedStep* find(int32_t instruction, int32_t command) const;
  // The step that a call or command serves: itself, or the kernel call that waits for it.
  const MappedStep* served(int32_t instruction, int32_t command) const;

  // By instruction and command.
  const std::map<std::pair<int32_t, int32_t>, MappedStep>& steps() const { return steps_; }

  uint32_t add_source(SourceOp source);
  void add(int32_t instruction, int32_t command, MappedStep step) {
    steps_[{instruction, command}] = std::move(step);
  }

 private:
  std::vector<SourceOp> sources_;
  std::map<std::pair<int32_t, int32_t>, MappedStep> steps_;
};

}  // namespace dtr
