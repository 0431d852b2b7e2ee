"""Makes narrow.pt2 and narrow_trained.pt2, the two exports of python/examples/qat_narrow.py.

    python make_narrow.py [DEUTERON]
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "pt2"))
from make_pt2_cases import portable  # noqa: E402

deuteron = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/deuteron")
example = str(ROOT / "python/examples/qat_narrow.py")
with tempfile.TemporaryDirectory() as folder:
    subprocess.run(
        [sys.executable, example, "--deuteron", deuteron, "--output", folder], check=True
    )
    for name in ("narrow.pt2", "narrow_trained.pt2"):
        shutil.copy(Path(folder) / name, HERE / name)
        portable(HERE / name)
