#!/usr/bin/env python3
"""Copies the cases that have a folder here again: make_subset.py SHARED/conformance. Archives are
deflated again, their content is the same."""
import shutil
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASES = [
    folder.name
    for folder in sorted(HERE.iterdir())
    if folder.is_dir() and not folder.name.startswith("own_")
]

for name in CASES:
    for source in sorted((Path(sys.argv[1]) / name).iterdir()):
        target = HERE / name / source.name
        target.parent.mkdir(exist_ok=True)
        if source.suffix not in (".pt2", ".npz"):
            shutil.copyfile(source, target)
            continue
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(
            target, "w", zipfile.ZIP_DEFLATED, compresslevel=9
        ) as new:
            for member in old.infolist():
                if "sample_inputs" not in member.filename:
                    new.writestr(
                        zipfile.ZipInfo(member.filename), old.read(member), zipfile.ZIP_DEFLATED
                    )
