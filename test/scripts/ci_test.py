"""The last line of .ci/run, in a tree whose scripts and targets do nothing but what a test says."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = (
    "setup format cost_of_change check_commits fuzz fuzz_kernels generate_docs lint run_tests"
).split()
CHECKS = ("check_layers.py", "check_error_comments.py")
TARGETS = "build test test-interop test-browser test-upstream".split()
NEVER = "page for browsers (make test-web); simulator on 64-bit Arm"  # they have no time in CI


class LastLine(unittest.TestCase):
    def last_line(self, code, **does):
        """Of a run in which the scripts and targets do these shell commands."""
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder)
            (tree / ".ci").mkdir()
            (tree / "scripts").mkdir()
            shutil.copy(ROOT / ".ci/run", tree / ".ci/run")
            for name in SCRIPTS:
                path = tree / "scripts" / name
                path.write_text(f"#!/bin/bash\n{does.get(name, 'true')}\n")
                path.chmod(0o755)
            for name in CHECKS:
                (tree / "scripts" / name).write_text("")
            (tree / "Makefile").write_text(
                "".join(f"{name}:\n\t@{does.get(name, 'true')}\n" for name in TARGETS)
            )
            git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", tree]
            for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
                subprocess.run([*git, *words], check=True)
            (tree / "new.cpp").write_text("")
            for words in (["add", "-A"], ["commit", "-qm", "second"]):
                subprocess.run([*git, *words], check=True)
            environment = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
            done = subprocess.run(
                [tree / ".ci/run"], env=environment, capture_output=True, text=True
            )
            self.assertEqual(done.returncode != 0, code != 0, done.stdout + done.stderr)
            return done.stdout.splitlines()[-1]

    def test_names_what_has_no_time(self):
        line = self.last_line(0)
        self.assertTrue(line.startswith(f"== not run: {NEVER}"), line)

    def test_names_the_parts_that_stages_leave_out(self):
        line = self.last_line(0, test='echo "484 of 530 conformance cases" >>"$$DTR_NOT_RUN"')
        self.assertTrue(line.startswith("== not run: 484 of 530 conformance cases; "), line)

    def test_names_what_stands_behind_a_failure(self):
        line = self.last_line(1, generate_docs="false", setup='echo "a part" >>"$DTR_NOT_RUN"')
        self.assertTrue(
            line.startswith("== failed: generated pages; not run: a part; tests; "), line
        )
        for stage in (
            NEVER,
            "clang-tidy on changed sources",
            "live comparison with ExecuTorch",
            "libFuzzer, 60 s a target",
        ):
            self.assertIn(f"; {stage}", line)
        self.assertNotIn("set-up", line)

    def test_names_a_fuzzer_that_found_something(self):
        line = self.last_line(0, fuzz='[ "$1" = --check ]')
        self.assertIn("libFuzzer found something or did not build", line)


if __name__ == "__main__":
    unittest.main()
