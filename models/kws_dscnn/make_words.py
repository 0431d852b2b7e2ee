#!/usr/bin/env python3
"""Writes words.npz beside this file: the first recording of each of the ten words in test.npz, as
it comes, recognized or not.

`input` (10, 1, 49, 10) are MFCC features, `label` (10) class numbers, `word` (10, 8) their names as
ASCII, zeros behind. Needs numpy.
"""
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
WORDS = (
    "down",
    "go",
    "left",
    "no",
    "off",
    "on",
    "right",
    "stop",
    "up",
    "yes",
)  # classes 0 to 9; 10 is silence, 11 any other word

if __name__ == "__main__":
    with np.load(HERE / "test.npz") as arrays:
        inputs, labels = arrays["input"], arrays["label"]
    chosen = [int(np.flatnonzero(labels == number)[0]) for number in range(len(WORDS))]
    names = np.zeros((len(WORDS), 8), np.uint8)
    for row, word in zip(names, WORDS):
        row[: len(word)] = list(word.encode())
    np.savez(HERE / "words.npz", input=inputs[chosen], label=labels[chosen], word=names)
