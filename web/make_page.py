"""Writes the page for browsers: one file with the compiled command and three models.

    web/make_page.py BUILD [OUTPUT]      BUILD has deuteron.js and deuteron.wasm

Standard library only.
"""
import base64
import gzip
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
BUILT_IN = [
    ("Digits (float, CNN)", ["digits_cnn/float.pt2", "digits_cnn/calibration.npz"]),
    ("Keywords (float, DS-CNN)", ["kws_dscnn/float.pt2", "kws_dscnn/calibration.npz"]),
    ("Keywords (int8, TensorFlow Lite)", ["mlperf_tiny/kws_dscnn_int8.tflite"]),
]
SCRIPTS = ["options.js", "engine.js", "page.js"]


def base64_of(data):
    return base64.b64encode(data).decode()


def built_in_models():
    models = [
        {
            "title": title,
            "files": [
                {"name": path.replace("/", "_"), "bytes": base64_of((MODELS / path).read_bytes())}
                for path in paths
            ],
        }
        for title, paths in BUILT_IN
    ]
    return json.dumps(models)


def script(name, text):
    if re.search(r"</script|<!--", text, re.IGNORECASE):
        sys.exit(f"{name} has text that ends a script of HTML")
    return text


def make(build):
    command = (build / "deuteron.js").read_text() + (HERE / "worker.js").read_text()
    cmake = (HERE.parent / "CMakeLists.txt").read_text()
    parts = {
        "style": (HERE / "page.css").read_text(),
        "version": re.search(r"project\(deuteron VERSION (\S+)", cmake)[1],
        "worker": script("worker", command),
        "wasm": base64_of(gzip.compress((build / "deuteron.wasm").read_bytes(), 9, mtime=0)),
        "models": script("models", built_in_models()),
        "scripts": "\n".join(script(name, (HERE / name).read_text()) for name in SCRIPTS),
    }
    page = (HERE / "page.html").read_text()
    # In one pass: what is put in may have braces of its own.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], page)


def main():
    build = Path(sys.argv[1])
    output = Path(sys.argv[2]) if len(sys.argv) > 2 else build / "deuteron.html"
    page = make(build).encode()
    output.write_bytes(page)
    print(
        f"{output}: {len(page) / 1e6:.2f} MB, compressed {len(gzip.compress(page, 9)) / 1e6:.2f} MB"
    )


if __name__ == "__main__":
    main()
