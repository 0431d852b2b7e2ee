// Values of images and volumes between their pixels, and what torchvision makes of them.
#include <fmt/format.h>

#include "compiler/compositions/sampling.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

Result<Values> grid_sampler(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const ValueId grid, node.tensor("grid"));
  DTR_ASSIGN(const int64_t mode, node.integer("interpolation_mode"));
  DTR_ASSIGN(const int64_t padding, node.integer("padding_mode"));
  DTR_ASSIGN(const bool aligned, node.boolean("align_corners"));
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
    return node.unsupported(fmt::format("mode {}, padding {}", mode, padding));
  using compositions::Between;
  constexpr Between kModes[] = {Between::kLinear, Between::kNearest, Between::kCubic};
  return one(compositions::sample_grid(node, x, grid,
                                       {.between = kModes[mode],
                                        .outside = static_cast<compositions::Outside>(padding),
                                        .aligned = aligned}));
}

Result<Values> affine_grid(NodeImport& node) {
  DTR_ASSIGN(const ValueId theta, node.tensor("theta"));
  DTR_ASSIGN(const Ints size, node.ints("size"));
  DTR_ASSIGN(const bool aligned, node.boolean("align_corners"));
  return one(compositions::affine_grid(node, theta, size, aligned));
}

// Boxes (R, 5), whose first element is the number of the image.
Result<Values> roi_align(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const ValueId boxes, node.tensor("rois"));
  compositions::BoxParts of;
  DTR_ASSIGN(of.scale, node.number("spatial_scale"));
  DTR_ASSIGN(of.height, node.integer("pooled_height"));
  DTR_ASSIGN(of.width, node.integer("pooled_width"));
  DTR_ASSIGN(of.samples, node.integer("sampling_ratio"));
  DTR_ASSIGN(of.centered, node.boolean("aligned"));
  if (of.samples < 1)
    return node.unsupported("sampling_ratio <= 0: as many samples as each box needs",
                            "give roi_align a sampling_ratio, for example 2");
  if (node.type(boxes).rank() != 2 || node.type(boxes).shape[1] != 5)
    return node.unsupported(fmt::format("boxes of {}", to_string(node.type(boxes).shape)));
  DTR_ASSIGN(const ValueId images, node.slice(boxes, 1, 0, 1));
  DTR_ASSIGN(const ValueId edges, node.slice(boxes, 1, 1, 5));
  return one(compositions::box_parts(node, x, edges, images, of));
}

Result<Values> deform_conv2d(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  compositions::MovedConvolution of;
  DTR_ASSIGN(of.weight, node.tensor("weight"));
  DTR_ASSIGN(of.offset, node.tensor("offset"));
  DTR_ASSIGN(of.mask, node.tensor("mask"));
  DTR_ASSIGN(of.bias, node.tensor("bias"));
  const auto both = [&](const char* of_height, const char* of_width) -> Result<Ints> {
    DTR_ASSIGN(const int64_t h, node.integer(of_height));
    DTR_ASSIGN(const int64_t w, node.integer(of_width));
    return Ints{h, w};
  };
  DTR_ASSIGN(of.stride, both("stride_h", "stride_w"));
  DTR_ASSIGN(of.padding, both("pad_h", "pad_w"));
  DTR_ASSIGN(of.dilation, both("dilation_h", "dilation_w"));
  DTR_ASSIGN(of.groups, node.integer("groups"));
  DTR_ASSIGN(of.offset_groups, node.integer("offset_groups"));
  DTR_ASSIGN(const bool use_mask, node.boolean("use_mask"));
  if (!use_mask) of.mask = {};
  return one(compositions::moved_convolution(node, x, of));
}

}  // namespace

std::vector<Operator> sampling_operators() {
  return {
      tensor_row("aten.affine_grid_generator.default", "aten.linear", affine_grid),
      tensor_row("aten.grid_sampler.default", "aten.grid_sampler_2d", grid_sampler),
      tensor_row("aten.grid_sampler_2d.default", "aten.grid_sampler_2d", grid_sampler),
      tensor_row("aten.grid_sampler_3d.default", "aten.index_select", grid_sampler),
      tensor_row("torchvision.deform_conv2d.default", "aten.convolution", deform_conv2d),
      tensor_row("torchvision.roi_align.default", "aten.index_select", roi_align),
  };
}

}  // namespace dtr::pt2
