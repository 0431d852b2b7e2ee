#!/usr/bin/env python3
"""Makes digits.onnx, the model of models/digits_cnn/float.pt2 as torch.onnx exports it, and
digits_qdq.onnx, the same quantized by ONNX Runtime (QDQ). Needs torch, onnxscript, onnxruntime."""
from pathlib import Path

import numpy as np
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

HERE = Path(__file__).resolve().parent
MODEL = HERE.parent.parent.parent / "models" / "digits_cnn"


class Samples(CalibrationDataReader):
    def __init__(self, name, samples):
        self.rest = iter([{name: sample[None]} for sample in samples])

    def get_next(self):
        return next(self.rest, None)


def main():
    program = torch.export.load(MODEL / "float.pt2")
    samples = np.load(MODEL / "calibration.npz")
    name = samples.files[0]
    made = torch.onnx.export(program, dynamo=True, opset_version=18, input_names=[name])
    made.model.doc_string = None
    for node in made.model.graph:
        node.metadata_props.clear()
    made.save(HERE / "digits.onnx", external_data=False)
    quantize_static(
        HERE / "digits.onnx",
        HERE / "digits_qdq.onnx",
        Samples(name, samples[name]),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
    )


if __name__ == "__main__":
    main()
