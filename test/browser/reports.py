"""The reports that report_test.py opens: of programs, and of the same data changed."""
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MODELS = {"digits_cnn": "test.npz", "ic_resnet8": "calibration.npz", "kws_dscnn": "test.npz"}
HOSTILE = "<img src=x onerror=\"document.title='broken'\"></script><b>"


class Reports:
    """Writes NAME.html and NAME.json to a folder."""

    def __init__(self, deuteron, folder):
        self.binary, self.folder = deuteron, folder

    def deuteron(self, *words):
        done = subprocess.run(
            [self.binary, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode > 1 or (done.returncode == 1 and words[0] != "verify"):
            sys.exit(f"test-browser: deuteron {' '.join(map(str, words))} failed:\n{done.stdout}")

    def make_report(self, name):
        model, data = ROOT / "models" / name, MODELS[name]
        file = lambda suffix: self.folder / f"{name}{suffix}"
        self.deuteron(
            "compile",
            model / "float.pt2",
            "--calibrate",
            model / "calibration.npz",
            "-o",
            file(".pte"),
            "--report-json",
            file(".compile.json"),
        )
        self.deuteron(
            "run",
            file(".pte"),
            "--input",
            model / data,
            "--samples",
            1,
            "--profile",
            file(".etdump"),
        )
        self.deuteron(
            "verify",
            file(".pte"),
            "--against",
            model / "float.pt2",
            "--data",
            model / data,
            "--json",
            file(".verify.json"),
        )
        self.deuteron(
            "profile",
            file(".etdump"),
            "--program",
            file(".pte"),
            "--html",
            file(".html"),
            "--json",
            file(".json"),
            "--compile-report",
            file(".compile.json"),
            "--verify",
            file(".verify.json"),
        )

    def make_quantized_report(self):
        """Of a model that its exporter quantized in part: some of its operators stay on the CPU."""
        file = lambda suffix: self.folder / f"quantized{suffix}"
        self.deuteron(
            "compile",
            ROOT / "models" / "digits_cnn" / "quantized.pt2",
            "-o",
            file(".pte"),
            "--report-json",
            file(".compile.json"),
        )
        self.deuteron(
            "profile",
            file(".pte"),
            "--html",
            file(".html"),
            "--json",
            file(".json"),
            "--compile-report",
            file(".compile.json"),
        )

    def with_profile(self, source, name, change):
        """A report like `source` with its data changed."""
        page = (self.folder / f"{source}.html").read_text()
        profile = change(json.loads((self.folder / f"{source}.json").read_text()))
        data = json.dumps(profile).replace("<", "\\u003c")
        page = re.sub(
            r'(id="profile-data">).*?(</script>)',
            lambda found: found[1] + data + found[2],
            page,
            count=1,
            flags=re.DOTALL,
        )
        (self.folder / f"{name}.html").write_text(page)
        (self.folder / f"{name}.json").write_text(json.dumps(profile))


def hostile(profile):
    for part in ("rows", "sources", "tensors", "memory"):
        for entry in profile[part]:
            entry["name"] = HOSTILE
            for field in ("op", "module", "source_line", "kernels", "layout", "place"):
                if field in entry:
                    entry[field] = HOSTILE
    return profile | {"program": HOSTILE}


def bare(profile):
    for row in profile["rows"]:
        row.update(
            sources=[],
            name=row["kernels"],
            op="",
            module="",
            source_line="",
            macs=0,
            limited_by="",
            utilization=0,
        )
    del profile["flash_bytes"]
    return profile | {"sources": [], "memory": [], "tensors": []}
