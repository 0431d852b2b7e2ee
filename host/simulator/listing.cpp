#include "host/simulator/listing.h"

#include <fmt/format.h>

#include <iterator>

#include "device/npu/cycles.h"
#include "device/simulator/decoder.h"

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

std::string at(Address address) {
  if (address.region == kScratch) return fmt::format("scratch+{}", address.offset);
  if (address.region == kConstants) return fmt::format("constants+{}", address.offset);
  return fmt::format("operand{}+{}", address.region - kFirstOperand, address.offset);
}

std::string shapes(const Window& w) {
  return fmt::format("{}x{}x{}x{} -> {}x{}x{}x{}", w.batch, w.in_height, w.in_width, w.in_channels,
                     w.batch, w.out_height, w.out_width, w.out_channels);
}

std::string strides(const Strides& s) { return fmt::format("={},{},{}", s.pixel, s.row, s.batch); }

// What differs from a 1×1 kernel without stride, dilation or padding over dense tensors.
std::string window(const Window& w) {
  std::string out = fmt::format(" kernel={}x{}", w.kernel_height, w.kernel_width);
  if (w.stride_height != 1 || w.stride_width != 1)
    out += fmt::format(" stride={}x{}", w.stride_height, w.stride_width);
  if (w.dilation_height != 1 || w.dilation_width != 1)
    out += fmt::format(" dilation={}x{}", w.dilation_height, w.dilation_width);
  if (w.pad_top != 0 || w.pad_left != 0) out += fmt::format(" pad={},{}", w.pad_top, w.pad_left);
  const Window tight = dense(w);
  if (w.in != tight.in) out += " in" + strides(w.in);
  if (w.out != tight.out) out += " out" + strides(w.out);
  return out;
}

std::string epilogue(const Window& w, const Epilogue& e) {
  std::string out =
      fmt::format(" zero_point={} clamp=[{},{}]", e.zero_point_out, e.clamp_low, e.clamp_high);
  if ((e.flags & kWithTable) != 0) out += " table=" + at(e.table);
  if ((e.flags & kWithAdd) != 0) out += " addend=" + at(e.addend);
  if ((e.flags & kWithAdd) != 0 && e.addend_strides != w.out)
    out += " addend_strides" + strides(e.addend_strides);
  if ((e.flags & kOneRounding) != 0) out += " one_rounding";
  if ((e.flags & kFromSums) != 0) out += " from_sums=" + at(e.sums);
  if ((e.flags & kToSums) != 0) out += " to_sums";
  return out;
}

template <class T, uint32_t kCount>
std::string list(const T (&values)[kCount]) {
  return fmt::format("{}", fmt::join(std::begin(values), std::end(values), ","));
}

std::string rescale(const Rescale& r) { return fmt::format("{}*2^{}", r.multiplier, r.shift - 31); }

// One line a command: name, arguments, cycles on the unit that does the work.
class Lines {
 public:
  Lines(const Target& target, std::string& out) : target_(target), out_(out) {}

  Status operator()(uint32_t index, const End&) { return line(index, Opcode::kEnd, "", ""); }
  Status operator()(uint32_t index, const Copy& c) {
    return line(index, Opcode::kCopy,
                fmt::format("{} <- {} bytes={} ticket={}", at(c.destination), at(c.source), c.bytes,
                            c.ticket),
                fmt::format("{} copy cycles", copy_cycles(target_, c)));
  }
  Status operator()(uint32_t index, const Wait& c) {
    return line(index, Opcode::kWait, fmt::format("ticket={}", c.ticket), "");
  }
  Status operator()(uint32_t index, const Conv2d& c) {
    return call(index, c,
                fmt::format("{}{} {} <- {} weights={} parameters={} pad_value={} packing={}{}",
                            shapes(c.window), window(c.window), at(c.output), at(c.input),
                            at(c.weights), at(c.parameters), c.pad_value,
                            c.packing == Packing::kRows ? "rows" : "channels",
                            epilogue(c.window, c.epilogue)));
  }
  Status operator()(uint32_t index, const Depthwise& c) {
    return call(
        index, c,
        fmt::format("{}{} {} <- {} weights={} parameters={} pad_value={}{}", shapes(c.window),
                    window(c.window), at(c.output), at(c.input), at(c.weights), at(c.parameters),
                    c.pad_value, epilogue(c.window, c.epilogue)));
  }
  Status operator()(uint32_t index, const Pool& c) {
    constexpr const char* kKinds[] = {"max", "average", "mean"};
    std::string text = fmt::format(
        "{}{} {} <- {} kind={} clamp=[{},{}]", shapes(c.window), window(c.window), at(c.output),
        at(c.input), kKinds[static_cast<uint32_t>(c.kind)], c.clamp_low, c.clamp_high);
    if (c.kind == PoolKind::kMean)
      text += fmt::format(" pad_value={} zero_points={},{} rescale={}", c.pad_value,
                          c.zero_point_in, c.zero_point_out, rescale(c.rescale));
    return call(index, c, text);
  }
  Status operator()(uint32_t index, const Binary& c) {
    constexpr const char* kKinds[] = {"add", "subtract", "multiply", "maximum", "minimum", "prelu"};
    const BinaryArguments& a = c.arguments;
    return call(index, c,
                fmt::format("{} <- {}, {} kind={} extent={} strides={};{};{} zero_points={},{},{} "
                            "rescale={},{},{} clamp=[{},{}]",
                            at(c.output), at(c.input_0), at(c.input_1),
                            kKinds[static_cast<uint32_t>(c.kind)], list(c.extent), list(c.stride_0),
                            list(c.stride_1), list(c.output_stride), a.zero_point_0, a.zero_point_1,
                            a.zero_point_out, rescale(a.input_0), rescale(a.input_1),
                            rescale(a.output), a.clamp_low, a.clamp_high));
  }
  Status operator()(uint32_t index, const Lookup& c) {
    return call(index, c,
                fmt::format("{} <- {} table={} extent={} input_stride={} output_stride={}",
                            at(c.output), at(c.input), at(c.table), list(c.extent),
                            list(c.input_stride), list(c.output_stride)));
  }
  Status operator()(uint32_t index, const Softmax& c) {
    return call(
        index, c,
        fmt::format(
            "{} <- {} outer={} columns={} inner={} kind={} rescale={} diff_min={} zero_point={}",
            at(c.output), at(c.input), c.outer, c.columns, c.inner,
            c.kind == SoftmaxKind::kLogarithm ? "logarithm" : "probability",
            rescale(c.input_rescale), c.diff_min, c.zero_point_out) +
            (c.mask_rows == 0 ? std::string()
                              : fmt::format(" mask={}x{}", at(c.mask), c.mask_rows)));
  }
  Status operator()(uint32_t index, const Matmul& c) {
    std::string text = fmt::format("{}: {}x{}x{} {} <- {}, {} ", list(c.batch), c.rows, c.inner,
                                   c.columns, at(c.output), at(c.left), at(c.right));
    text += fmt::format(
        "strides={},{},{};{},{},{};{},{},{} zero_points={},{},{} rescale={} clamp=[{},{}]",
        list(c.left_batch_stride), c.left_row_stride, c.left_inner_stride,
        list(c.right_batch_stride), c.right_inner_stride, c.right_column_stride,
        list(c.output_batch_stride), c.output_row_stride, c.output_column_stride, c.zero_point_left,
        c.zero_point_right, c.zero_point_out, rescale(c.rescale), c.clamp_low, c.clamp_high);
    if ((c.flags & kWithTable) != 0) text += " table=" + at(c.table);
    return call(index, c, text);
  }
  Status operator()(uint32_t index, const Normalize& c) {
    return call(index, c,
                fmt::format("{} <- {} parameters={} extent={} stride={} parameter_stride={} "
                            "center={} zero_points={},{} clamp=[{},{}]",
                            at(c.output), at(c.input), at(c.parameters), list(c.extent),
                            list(c.stride), list(c.parameter_stride), c.center, c.zero_point_in,
                            c.zero_point_out, c.clamp_low, c.clamp_high));
  }
  Status operator()(uint32_t index, const Move& c) {
    return call(
        index, c,
        fmt::format("{} <- {} extent={} input_stride={} output_stride={}", at(c.output),
                    at(c.input), list(c.extent), list(c.input_stride), list(c.output_stride)));
  }
  Status operator()(uint32_t index, const Fill& c) {
    return call(index, c, fmt::format("{} bytes={} value={}", at(c.output), c.bytes, c.value));
  }
  Status operator()(uint32_t index, const Reduce& c) {
    constexpr const char* kKinds[] = {"sum",          "maximum",          "minimum",
                                      "sum-of-bytes", "index-of-maximum", "index-of-minimum"};
    std::string text = fmt::format(
        "{} <- {} kind={} extent={} input_stride={} output_stride={} reduced={} reduced_stride={} "
        "clamp=[{},{}]",
        at(c.output), at(c.input), kKinds[static_cast<uint32_t>(c.kind)], list(c.extent),
        list(c.input_stride), list(c.output_stride), list(c.reduced_extent), list(c.reduced_stride),
        c.clamp_low, c.clamp_high);
    if (c.kind == ReduceKind::kSum || c.kind == ReduceKind::kSumOfBytes)
      text += fmt::format(" zero_points={},{} rescale={}", c.zero_point_in, c.zero_point_out,
                          rescale(c.rescale));
    if (returns_index(c.kind)) text += fmt::format(" index_bytes={}", c.index_bytes);
    return call(index, c, text);
  }
  Status operator()(uint32_t index, const Gather& c) {
    return call(index, c,
                fmt::format("{0}x{1}x{2} -> {0}x{3}x{2} {4} <- {5} indices={6} index_bytes={7}",
                            c.outer, c.rows, c.inner, c.count, at(c.output), at(c.input),
                            at(c.indices), c.index_bytes));
  }
  Status operator()(uint32_t index, const Resize& c) {
    const auto axis = [](const ResizeAxis& a) {
      return fmt::format("({}*o+{})/2^{}", a.step, a.start, a.fraction_bits);
    };
    return call(
        index, c,
        fmt::format("{0}x{1}x{2}x{3} -> {0}x{4}x{5}x{3} {6} <- {7} kind={8} rows={9} columns={10}",
                    c.batch, c.height.in, c.width.in, c.channels, c.height.out, c.width.out,
                    at(c.output), at(c.input),
                    c.kind == ResizeKind::kBilinear ? "bilinear" : "nearest", axis(c.height),
                    axis(c.width)));
  }

 private:
  template <class Command>
  Status call(uint32_t index, const Command& command, const std::string& arguments) {
    constexpr const char* kLimits[] = {"array", "weight port", "activation port", "write port",
                                       "start"};
    const Cycles cycles = npu::cycles(target_, command);
    return line(
        index, Command::kOpcode, arguments,
        fmt::format("{} cycles, {}", cycles.total, kLimits[static_cast<uint32_t>(cycles.limit)]));
  }
  Status line(uint32_t index, Opcode command, const std::string& arguments,
              const std::string& remark) {
    std::string text = fmt::format("{:4}  {:<10}{}", index, mnemonic(command), arguments);
    if (!remark.empty()) text += "  ; " + remark;
    text.erase(text.find_last_not_of(' ') + 1);
    out_ += text + '\n';
    return Status::kOk;
  }

  const Target& target_;
  std::string& out_;
};

}  // namespace

std::string list_payload(const Target& target, std::span<const std::byte> bytes) {
  Payload payload;
  const Fault fault = decode(target, bytes, payload);
  if (fault.status != Status::kOk)
    return fmt::format("; refused at command {}: {}\n", fault.command, text(fault.status));
  const Header& header = payload.header;
  std::string out = fmt::format(
      "; microcode {}.{} target={:08x} commands={} constants={} bytes{} scratch={} bytes, {} "
      "used\n",
      header.version >> 16, header.version & 0xFFFFu, header.target_hash, header.command_count,
      header.constants_bytes, payload.constants_in_sram() ? " in SRAM" : "", header.scratch_bytes,
      payload.peak_scratch_bytes);
  for (uint32_t i = 0; i < header.operand_count; ++i)
    out += fmt::format("; operand{} {} bytes={}\n", i,
                       payload.operand(i).kind == OperandKind::kInput ? "input" : "output",
                       payload.operand(i).bytes);
  visit(payload, Lines(target, out));
  return out;
}

}  // namespace dtr::simulator
