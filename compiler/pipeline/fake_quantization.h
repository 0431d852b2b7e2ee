// The nodes and buffers of fake quantization that qat-prepare adds to an export.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/frontends/pt2/export_editor.h"
#include "compiler/ir/type.h"
#include "compiler/pipeline/qat_prepare.h"
#include "compiler/quantizer/annotate.h"

namespace dtr {

class FakeQuantization {
 public:
  // `ranges`: of the groups of `annotation`, after calibration; nullptr: there are none. Counts and
  // notes go into `result`. All must outlive it.
  FakeQuantization(pt2::ExportEditor& editor, const Annotation& annotation,
                   const std::vector<Quantization>* ranges, QatPrepared& result)
      : editor_(editor), annotation_(annotation), ranges_(ranges), result_(result) {}

  // The range of this group will be the widest that was observed, in place of a moving average.
  void only_widen(int group) { widening_.insert(group); }

  // Fake quantization of tensor `name` in that group, before node `before` of the file, with the
  // traces of node `like`. Returns the name of what is quantized.
  std::string add(int group, const std::string& name, size_t before, size_t like);

  // Fake quantization of a weight of node `layer` around zero, from its largest element at the
  // time: of each index of `axis` (`by_channel`) or of all. Returns the name of what is quantized.
  std::string add_to_weight(uint32_t layer, const std::string& weight, const Shape& shape,
                            bool by_channel, size_t axis);

 private:
  struct Buffers {
    std::string low, high, scale, zero_point;  // names in the graph
  };
  const Buffers& buffers_of(int group, const std::string& name);
  const Buffers& fixed_buffers_of(int group, const std::string& name);
  std::string widened(const std::string& name, const Buffers& buffers, size_t before, size_t like);
  const std::string& observer_on();
  const std::string& observer_off();  // of ranges that another node observes
  const std::string& fake_quant_on();
  const std::string& is_on();  // the same switch as a boolean
  const std::string& weight_quant_on();

  pt2::ExportEditor& editor_;
  const Annotation& annotation_;
  const std::vector<Quantization>* ranges_;
  QatPrepared& result_;
  std::map<int, Buffers> buffers_;  // by group
  std::set<int> widening_;
  std::string observer_on_, observer_off_, fake_quant_on_, is_on_, weight_quant_on_;
};

}  // namespace dtr
