// Values of images between their pixels.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/compositions/sampling.h"
#include "compiler/frontends/onnx/operators.h"

namespace dtr::onnx {
namespace {

Result<Values> affine_grid(NodeImport& node) {
  DTR_ASSIGN(const ValueId theta, node.value(0));
  DTR_ASSIGN(const Shape size, node.integers(1));
  DTR_ASSIGN(const bool aligned, node.flag("align_corners"));
  return only(compositions::affine_grid(node, theta, size, aligned));
}

Result<Values> grid_sample(NodeImport& node) {
  using compositions::Between;
  using compositions::Outside;
  compositions::Sampling how;
  DTR_ASSIGN(const std::string mode, node.string("mode", "linear"));
  DTR_ASSIGN(const std::string padding, node.string("padding_mode", "zeros"));
  DTR_ASSIGN(how.aligned, node.flag("align_corners"));
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId grid, node.value(1));
  how.between = mode == "nearest"                      ? Between::kNearest
                : mode == "cubic" || mode == "bicubic" ? Between::kCubic
                                                       : Between::kLinear;
  how.outside = padding == "border"       ? Outside::kBorder
                : padding == "reflection" ? Outside::kReflection
                                          : Outside::kZeros;
  if (how.between == Between::kLinear && mode != "linear" && mode != "bilinear")
    return node.invalid(fmt::format("mode is `{}`", mode));
  if (how.outside == Outside::kZeros && padding != "zeros")
    return node.invalid(fmt::format("padding_mode is `{}`", padding));
  return only(compositions::sample_grid(node, x, grid, how));
}

Result<Values> roi_align(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId boxes, node.value(1));
  DTR_ASSIGN(const ValueId images, node.value(2));
  compositions::BoxParts of;
  DTR_ASSIGN(of.scale, node.number("spatial_scale", 1.0));
  DTR_ASSIGN(of.height, node.integer("output_height", int64_t{1}));
  DTR_ASSIGN(of.width, node.integer("output_width", int64_t{1}));
  DTR_ASSIGN(of.samples, node.integer("sampling_ratio", int64_t{0}));
  DTR_ASSIGN(const std::string mode, node.word("mode", "avg", {"avg", "max"}));
  DTR_ASSIGN(const std::string counted,
             node.string("coordinate_transformation_mode",
                         std::string(node.version() < 16 ? "output_half_pixel" : "half_pixel")));
  of.centered = counted == "half_pixel";
  if (!of.centered && counted != "output_half_pixel")
    return node.invalid(fmt::format("coordinate_transformation_mode is `{}`", counted));
  if (mode != "avg") return node.unsupported(fmt::format("mode `{}`", mode));
  if (of.samples < 1)
    return node.unsupported("sampling_ratio 0: as many samples as each box needs",
                            "export the model with a sampling_ratio, for example 2");
  return only(compositions::box_parts(node, x, boxes, images, of));
}

Result<Values> deform_conv(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  compositions::MovedConvolution of;
  DTR_ASSIGN(of.weight, node.value(1));
  DTR_ASSIGN(of.offset, node.value(2));
  DTR_ASSIGN(of.bias, node.optional_value(3));
  DTR_ASSIGN(of.mask, node.optional_value(4));
  const Shape kernel = node.shape(of.weight);
  if (kernel.size() != 4 || node.type(x).rank() != 4)
    return node.unsupported(fmt::format("a weight of {}", to_string(kernel)));
  DTR_ASSIGN(const Ints stated, node.ints("kernel_shape", Ints(kernel.begin() + 2, kernel.end())));
  if (!std::ranges::equal(stated, std::span(kernel).subspan(2)))
    return node.invalid("its kernel_shape is not that of its weight");
  DTR_ASSIGN(of.stride, node.ints("strides", Ints{1, 1}));
  DTR_ASSIGN(of.dilation, node.ints("dilations", Ints{1, 1}));
  DTR_ASSIGN(const Ints pads, node.ints("pads", Ints(4, 0)));
  DTR_ASSIGN(of.groups, node.integer("group", int64_t{1}));
  DTR_ASSIGN(of.offset_groups, node.integer("offset_group", int64_t{1}));
  if (pads.size() != 4) return node.invalid(fmt::format("{} pads for 2 dimensions", pads.size()));
  of.padding = {pads[0], pads[1]};  // those at the end are in the extents of the offsets
  return only(compositions::moved_convolution(node, x, of));
}

}  // namespace

std::vector<Operator> sampling_operators() {
  return {
      row("AffineGrid", 2, 2, affine_grid),
      row("DeformConv", 3, 5, deform_conv),
      row("GridSample", 2, 2, grid_sample),
      row("RoiAlign", 3, 3, roi_align),
  };
}

}  // namespace dtr::onnx
