"""Writes the arrays of an .npz as raw files: raw.py FILE.npz FOLDER → FOLDER/00.bin, 01.bin, …"""

import sys
import zipfile
from pathlib import Path

folder = Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
with zipfile.ZipFile(sys.argv[1]) as arrays:
    for i, name in enumerate(sorted(arrays.namelist())):
        content = arrays.read(name)
        header = 10 + int.from_bytes(content[8:10], "little")
        (folder / f"{i:02}.bin").write_bytes(content[header:])
