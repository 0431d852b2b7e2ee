#!/usr/bin/env python3
"""Makes detections.tflite beside this file: operators that choose among boxes, and what LiteRT's
reference kernels compute for them, in the form of make_vectors.py; and of them cases of the runtime's
kernels, ../kernels/boxes.json. ssd.tflite is a whole detector in int8 of random weights,
ssd_input.npz its input as Deuteron takes it.

    make_detections.py [--seed N] [--folder FOLDER] [--draws N]

needs what make_vectors.py needs. Scores and corners are drawn from few values, so that scores tie
and overlaps hit thresholds; boxes without an area, images without a detection and with more than
there is room for are among them. More draws of another seed are judged by
DEUTERON_LITERT_CASES=FOLDER build/release/test/unit/test_tflite.
"""
import argparse
import json
from pathlib import Path

import numpy as np
from flatbuffers import flexbuffers

from make_vectors import B, HERE, NONE, RELU
from operator_cases import F, I, U, Cases, options

SAMPLES = 4
POSTPROCESS = "TFLite_Detection_PostProcess"


class Detections(Cases):
    """Every input has SAMPLES samples."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.data[0] = np.repeat(self.data[0], SAMPLES // 2, axis=0)
        self.unwritten = []  # (operator, options) whose last rows LiteRT leaves as they were
        self.kernel_calls = (
            []
        )  # (kernel, operands, other arguments, bytes of scratch, tensors made)

    def suppress(self, version, boxes, most, iou, score, sigma, steps):
        """NON_MAX_SUPPRESSION of boxes and scores in multiples of 1 / steps, or of any value."""
        corners = self.rng.uniform(-0.2, 1.2, (SAMPLES, boxes, 4))
        corners[0, :, 2:] = corners[0, :, :2] + self.rng.uniform(0, 0.5, (boxes, 2))
        scores = self.rng.uniform(0, 1, (SAMPLES, boxes))
        if steps:
            corners, scores = np.round(corners * steps) / steps, np.round(scores * steps) / steps
            scores[1] = 0.5
        corners[2, ::3, 2] = corners[2, ::3, 0]  # without an area
        scores[3] *= 0.5
        inputs = [self.input(corners, None, F), self.input(scores, None, F), self.ints(most)]
        inputs += [self.constant(np.asarray(x, F), None, F) for x in (iou, score)]
        results = [([most], None, I), ([], None, I)]
        if version == 5:
            inputs.append(self.constant(np.asarray(sigma, F), None, F))
            results.insert(1, ([most], None, F))
        self.several(getattr(B, f"NON_MAX_SUPPRESSION_V{version}"), inputs, results)
        if version == 5:
            numbers = [{"int": most}, *({"double": float(x)} for x in (iou, score, sigma))]
            self.kernel_calls.append(
                (
                    "non_max_suppression",
                    [corners, scores],
                    numbers,
                    12 * boxes + 4 * min(boxes, most),
                    self.operators[-1].outputs,
                )
            )

    def detect(self, boxes, classes, steps=0, dtype=F, background=1, extra=0, shapes=True, **given):
        """TFLite_Detection_PostProcess over anchors in a grid."""
        chosen = {
            "max_detections": 7,
            "max_classes_per_detection": 1,
            "detections_per_class": 5,
            "use_regular_nms": False,
            "nms_score_threshold": 0.25,
            "nms_iou_threshold": 0.5,
            "y_scale": 10.0,
            "x_scale": 10.0,
            "h_scale": 5.0,
            "w_scale": 5.0,
            **given,
        }
        scores = self.rng.uniform(0, 1, (SAMPLES, 1, boxes, classes + background))
        encoded = self.rng.normal(0, 5, (SAMPLES, 1, boxes, 4 + extra))
        anchors = np.stack(
            [
                np.arange(boxes) % 4 / 4,
                np.arange(boxes) // 4 / 4,
                np.full(boxes, 0.5),
                self.rng.choice([0, 0.25, 0.5], boxes),
            ],
            1,
        )
        if steps:
            scores = np.round(scores * steps) / steps
            encoded = np.round(encoded / 5) * 5
            encoded[..., 2:4] = 0
            scores[1] = 0.5
        scores[3] *= 0.3
        codes = {F: (None, None, None), U: ((0.1, 120), (1 / 256, 0), (1 / 128, 3))}[dtype]

        def coded(real, q):
            return real if q is None else np.clip(np.round(real / q[0]) + q[1], 0, 255)

        inputs = [
            self.input(coded(encoded, codes[0]), codes[0], dtype),
            self.input(coded(scores, codes[1]), codes[1], dtype),
            self.constant(coded(anchors, codes[2]), codes[2], dtype),
        ]
        rows = chosen["max_detections"] * chosen["max_classes_per_detection"]
        results = [[1, rows, 4], [1, rows], [1, rows], [1]] if shapes else [[]] * 4
        self.several(POSTPROCESS, inputs, [(shape, None, F) for shape in results])
        chosen["num_classes"] = classes
        self.operators[-1].customOptions = np.frombuffer(flexbuffers.Dumps(chosen), np.uint8)
        self.unwritten.append((self.operators[-1], chosen))
        if dtype is not F:
            return
        counts = ["max_detections", "max_classes_per_detection", "detections_per_class"]
        numbers = [
            *({"int": chosen[name]} for name in counts),
            {"bool": chosen["use_regular_nms"]},
            *({"double": chosen[f"nms_{name}_threshold"]} for name in ("score", "iou")),
            {"int": classes},
            {"doubles": [chosen[f"{name}_scale"] for name in "yxhw"]},
        ]
        merged = chosen["max_detections"] if chosen["use_regular_nms"] else 0
        self.kernel_calls.append(
            (
                "detection_postprocess",
                [encoded, scores, np.stack([anchors] * SAMPLES)],
                numbers,
                20 * boxes + 8 * (max(boxes, classes) + merged),
                self.operators[-1].outputs,
            )
        )

    def write_kernel_calls(self, path, made):
        """The first two samples of each call, as test/unit/kernels_test.cpp reads them."""
        arrays, calls = {}, []

        def tensor(values, dtype):
            arrays[f"b{len(arrays)}"] = np.asarray(values, dtype)
            return f"b{len(arrays) - 1}"

        for kernel, operands, numbers, scratch, outputs in self.kernel_calls:
            for sample in range(2):
                results = [made[f"tensor_{t}"][sample] for t in outputs]
                calls.append(
                    {
                        "name": f"{kernel}_{len(calls)}",
                        "kernel": f"deuteron::{kernel}.out",
                        "arguments": [{"tensor": tensor(x[sample], F)} for x in operands]
                        + numbers
                        + [{"scratch": scratch}],
                        "outputs": [tensor(x, x.dtype) for x in results],
                        "tolerance": 2e-6,  # exp of another library
                    }
                )
        np.savez_compressed(path.with_suffix(".npz"), **arrays)
        text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in calls)
        path.write_text(f"[\n{text}\n]\n")

    def clear_unwritten(self, path):
        """Zeros for what is no detection: LiteRT leaves there what was in the memory."""
        arrays = dict(np.load(path))
        for operator, chosen in self.unwritten:
            boxes, labels, scores, count = (arrays[f"tensor_{t}"] for t in operator.outputs)
            per_box = chosen["max_classes_per_detection"]
            written = min(per_box, chosen["num_classes"])
            for sample in range(SAMPLES):
                for row in range(boxes.shape[2]):
                    kept = row // per_box < count[sample, 0] and row % per_box < written
                    if chosen["use_regular_nms"]:
                        kept = row < count[sample, 0]
                    if not kept:
                        boxes[sample, 0, row] = labels[sample, 0, row] = scores[sample, 0, row] = 0
        np.savez_compressed(path, **arrays)


def cases(m):
    for version in (4, 5):
        for boxes, most, iou, score, sigma, steps in [
            (13, 5, 0.5, 0.25, 0, 8),
            (13, 20, 0.5, 0.5, 0.5, 8),
            (17, 17, 0.25, -1.0, 0.1, 4),
            (9, 6, 0.0, 0.0, 0, 4),
            (9, 12, 1.0, 0.125, 0.3, 8),
            (5, 7, 1.5, 0.2, 0, 0),
            (11, 4, 0.5, 1.0, 0, 8),
            (1, 3, 0.5, 0.1, 1.0, 0),
            (21, 8, 0.3, 0.1, 0.2, 0),
        ]:
            m.suppress(version, boxes, most, iou, score, sigma, steps)
    for dtype in (F, U):
        for steps in (0, 8):
            for regular in (False, True):
                m.detect(19, 3, steps, dtype, use_regular_nms=regular)
    m.detect(19, 5, 4, max_classes_per_detection=3)
    m.detect(11, 2, 4, max_classes_per_detection=4)  # more than there are classes
    m.detect(11, 17, 4, max_classes_per_detection=12, max_detections=3)
    m.detect(13, 4, 8, use_regular_nms=True, max_classes_per_detection=2, max_detections=4)
    m.detect(13, 4, 4, use_regular_nms=True, detections_per_class=2, max_detections=30)
    m.detect(13, 4, 4, use_regular_nms=True, max_detections=1)
    m.detect(13, 1, 8, background=0, max_detections=40)
    m.detect(7, 2, 8, extra=10, shapes=False)  # key points behind each box; no shapes in the file
    m.detect(7, 2, 8, nms_iou_threshold=1.0, nms_score_threshold=0.0)
    m.detect(7, 2, 8, nms_score_threshold=1.5)
    m.detect(16, 3, 2, nms_iou_threshold=1e-6, nms_score_threshold=0.5)
    m.detect(1, 1, 0, background=0, max_detections=1)
    m.detect(13, 3, 0, y_scale=6.0, x_scale=9.0, h_scale=4.0, w_scale=7.0)


def ssd():
    """Features of a 16 × 24 image, two anchors for each of 4 × 6 places, three classes, int8."""
    m = Detections("ssd", 5)
    m.operators, m.inputs, m.data, m.tensors, m.codes = [], [], [], [], []
    x = m.input(m.rng.integers(-128, 128, (SAMPLES, 1, 16, 24, 3)), (1 / 127, 0), np.int8)

    def layer(x, kernel, channels, q, stride, activation, gain=1):
        shape = (channels, kernel, kernel, m.shape(x)[3])
        weight = m.rng.integers(-64, 65, shape)
        if gain > 1:  # else one class would always win
            weight = weight - np.round(weight.mean((1, 2, 3), keepdims=True)).astype(int)
        scales = gain * m.rng.uniform(0.6, 1.2, channels) / (60 * np.sqrt(np.prod(shape[1:])))
        bias = m.rng.integers(-500, 500, channels)
        return m.convolution(x, weight, scales, bias, q, (stride, stride), activation=activation)

    x = layer(x, 3, 8, (0.02, -128), 2, RELU)
    x = layer(x, 3, 16, (0.02, -128), 2, RELU)
    places = int(np.prod(m.shape(x)[1:3])) * 2

    def head(columns, q):
        y = layer(x, 1, 2 * columns, q, 1, NONE, gain=30)
        return m.op(
            B.RESHAPE,
            [y, m.ints([1, places, columns])],
            [1, places, columns],
            q,
            options("Reshape", newShape=[1, places, columns]),
        )

    boxes = head(4, (0.06, 3))
    scores = head(4, (0.03, -20))
    scores = m.op(B.LOGISTIC, [scores], m.shape(scores), (1 / 256, -128))
    boxes = m.op(B.DEQUANTIZE, [boxes], m.shape(boxes), None, dtype=F)
    scores = m.op(B.DEQUANTIZE, [scores], m.shape(scores), None, dtype=F)
    at = np.arange(places // 2)
    extent = np.where(np.arange(places) % 2, 0.5, 0.3)
    anchors = np.stack(
        [np.repeat((at // 6 + 0.5) / 4, 2), np.repeat((at % 6 + 0.5) / 6, 2), extent, extent], 1
    )
    chosen = {
        "max_detections": 10,
        "max_classes_per_detection": 1,
        "use_regular_nms": False,
        "nms_score_threshold": 0.9,
        "nms_iou_threshold": 0.5,
        "num_classes": 3,
        "y_scale": 10.0,
        "x_scale": 10.0,
        "h_scale": 5.0,
        "w_scale": 5.0,
    }
    m.several(
        POSTPROCESS,
        [boxes, scores, m.constant(anchors, None, F)],
        [([], None, F)] * 4,  # no shapes, as in published files
    )
    m.operators[-1].customOptions = np.frombuffer(flexbuffers.Dumps(chosen), np.uint8)
    m.unwritten.append((m.operators[-1], chosen))
    m.write_to(HERE / "ssd.tflite", outputs=list(m.operators[-1].outputs))
    m.clear_unwritten(HERE / "ssd.npz")
    np.savez_compressed(HERE / "ssd_input.npz", input_0=m.data[0].transpose(0, 1, 4, 2, 3))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=HERE)
    parser.add_argument("--draws", type=int, default=1)
    args = parser.parse_args()
    model = Detections("detections", args.seed)
    for _ in range(args.draws):
        cases(model)
    model.write_to(args.folder / "detections.tflite")
    model.clear_unwritten(args.folder / "detections.npz")
    if args.folder == HERE:
        made = np.load(HERE / "detections.npz")
        model.write_kernel_calls(HERE.parent / "kernels" / "boxes.json", made)
        ssd()


if __name__ == "__main__":
    main()
