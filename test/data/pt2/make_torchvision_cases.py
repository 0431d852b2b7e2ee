"""Makes the small .pt2 files of this folder that read images at computed places, some of them with
operators of torchvision 0.29, with PyTorch 2.14. NAME.npz holds input_I and output_I as they compute
them.

    python make_torchvision_cases.py [NAME...]
"""
import torch
from make_pt2_cases import CASES, case, make, rand
from torch import nn
from torch.nn import functional as F
from torchvision.ops import deform_conv2d, roi_align

CASES.clear()


@case(rand(2, 4, 9, 11), rand(2, 24, 10, 10), rand(2, 12, 5, 7).abs(), rand(2, 24, 5, 7))
class moved_taps(nn.Module):
    """deform_conv2d with groups of channels and of offsets, strides, gaps, mask and bias."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(31)
        self.wide, self.narrow = nn.Conv2d(4, 6, (3, 2)), nn.Conv2d(4, 4, (2, 3), groups=2)

    def forward(self, x, near, mask, far):
        wide, narrow = self.wide.weight, self.narrow.weight
        return (
            deform_conv2d(x, 2 * near[:, :12, :9], wide, padding=(1, 0)),
            deform_conv2d(
                x,
                4 * far,
                narrow,
                self.narrow.bias,
                stride=2,
                padding=(1, 2),
                dilation=(2, 1),
                mask=mask,
            ),
            deform_conv2d(x, near[:, :, :7], wide, self.wide.bias),
        )


BOXES = torch.tensor([[0.0, 1, 1, 6, 5], [1, -2, 0.5, 3.25, 12], [1, 4, 4, 4.5, 4.25]])


@case(rand(2, 3, 8, 9), BOXES)
class box_parts(nn.Module):
    """roi_align on boxes with parts outside of the image, and smaller than a pixel."""

    def forward(self, x, boxes):
        return (
            roi_align(x, boxes, (2, 3), sampling_ratio=2),
            roi_align(x, boxes, 2, spatial_scale=0.5, sampling_ratio=1, aligned=True),
            roi_align(x, [boxes[:1, 1:], boxes[1:, 1:]], (1, 4), sampling_ratio=3, aligned=True),
        )


@case(rand(2, 3, 4, 5, 6), rand(2, 2, 3, 4, 3), rand(2, 3, 4))
class volumes_at_places(nn.Module):
    """grid_sample of volumes, and grids of an affine function."""

    def forward(self, x, grid, theta):
        sample = F.grid_sample
        return (
            sample(x, grid, align_corners=True),
            sample(x, 1.3 * grid, padding_mode="border", align_corners=False),
            sample(x, 1.7 * grid, padding_mode="reflection", align_corners=False),
            sample(x, 1.7 * grid, padding_mode="reflection", align_corners=True),
            sample(x, 1.2 * grid, mode="nearest", align_corners=False),
            F.affine_grid(theta, (2, 3, 3, 2, 4), align_corners=False),
            F.affine_grid(theta, (2, 1, 1, 2, 3), align_corners=True),
            sample(x, F.affine_grid(theta / 2, x.shape, align_corners=False), align_corners=False),
        )


if __name__ == "__main__":
    make(CASES, list(CASES))
