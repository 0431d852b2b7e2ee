#!/usr/bin/env python3
"""Makes described.tflite beside this file: a classifier of four numbers with a signature, and the
metadata that MediaPipe's own writer gives it: normalization, and the names of its classes as an
attached file.

    make_described.py MEDIAPIPE      the folder of an unpacked mediapipe wheel (1.2.2)

needs what make_vectors.py needs. Of the package only the writer is loaded; its native part, which
computes the version of the reader that is needed, is replaced by that version.
"""
import sys
import types
from pathlib import Path

import flatbuffers
import numpy as np

from make_vectors import HERE, schema
from operator_cases import B, F, Cases, options


def writer(folder):
    sys.path.insert(0, folder)
    native = "mediapipe.tasks.cc.metadata.python"
    for name in (
        "mediapipe",
        "mediapipe.tasks",
        "mediapipe.tasks.python",
        "mediapipe.tasks.cc",
        "mediapipe.tasks.cc.metadata",
        native,
    ):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(Path(folder, *name.split(".")))]
    version = types.ModuleType("_pywrap_metadata_version")
    version.GetMinimumMetadataParserVersion = lambda metadata: "1.5.0"
    sys.modules[native]._pywrap_metadata_version = version
    sys.modules[f"{native}._pywrap_metadata_version"] = version
    from mediapipe.tasks.python.metadata.metadata_writers import image_classifier, metadata_writer

    return image_classifier.MetadataWriter, metadata_writer.Labels


def main():
    path = HERE / "described.tflite"
    m = Cases("described", 1)
    m.operators.clear(), m.inputs.clear(), m.data.clear(), m.tensors.clear(), m.codes.clear()
    x = m.x((1, 2, 2, 3))
    weight = m.constant(m.rng.uniform(-1, 1, (3, 12)), None, F)
    m.op(B.FULLY_CONNECTED, [x, weight], [1, 3], None, options("FullyConnected"), F)
    m.write_to(path, evaluated=False)

    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = "classify", 0
    signature.inputs, signature.outputs = [], []
    graph = model.subgraphs[0]
    for of, name, tensor in (
        (signature.inputs, "image", graph.inputs[0]),
        (signature.outputs, "score", graph.outputs[0]),
    ):
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = name, int(tensor)
        of.append(entry)
    model.signatureDefs = [signature]
    builder = flatbuffers.Builder(1 << 12)
    builder.Finish(model.Pack(builder), b"TFL3")

    metadata_writer, labels = writer(sys.argv[1])
    made = metadata_writer.create(
        builder.Output(),
        [127.5, 127, 126.5],
        [127.5, 128, 128.5],
        labels().add(["sun", "rain", "snow"]),
    )
    path.write_bytes(bytes(made.populate()[0]))
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    sys.exit(main())
