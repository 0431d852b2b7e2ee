"""lit configuration. In RUN lines: deuteron, deuteron-opt, FileCheck, not, count are on the path;
%source is the repository, %shared the full data set."""
import os
from pathlib import Path

import lit.formats

parameters = lit_config.params  # noqa: F821 (given by lit)
config.name = "deuteron"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".ir", ".test"]  # noqa: F821
config.test_source_root = str(Path(__file__).parent)  # noqa: F821
config.test_exec_root = str(Path(parameters["tools"]) / "lit")  # noqa: F821
config.environment["PATH"] = ":".join(
    [parameters["tools"], parameters["llvm"], "/usr/bin", "/bin"]
)  # noqa: F821
config.environment["DEUTERON_CHECKED"] = "1"  # noqa: F821
config.environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "")  # noqa: F821
config.substitutions += [
    ("%source", str(Path(__file__).resolve().parents[2])),
    ("%shared", parameters.get("shared", "")),
]  # noqa: F821
if parameters.get("shared"):
    config.available_features.add("shared")  # noqa: F821
