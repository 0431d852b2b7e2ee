"""scripts/not_run on logs of ctest."""
import importlib.util
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "scripts/not_run"
LOADER = SourceFileLoader("not_run", str(PATH))
not_run = importlib.util.module_from_spec(importlib.util.spec_from_loader("not_run", LOADER))
LOADER.exec_module(not_run)


def log(*tests):
    """(build, name, output) of tests as ctest writes them."""
    return "".join(
        f'{i}/{len(tests)} Testing: {name}\n{i}/{len(tests)} Test: {name}\nCommand:'
        f' "/w/build/{build}/test/unit/test_{name}"\nDirectory:'
        f' /w/build/{build}/test/unit\nOutput:\n{"-" * 58}\n{output}\n<end of output>\nTest'
        ' Passed.\n'
        for i, (build, name, output) in enumerate(tests, 1)
    )


class ClosingLine(unittest.TestCase):
    def expect(self, wanted, *tests, builds=("release", "asan")):
        self.assertEqual(wanted, not_run.closing_line(not_run.left_out(log(*tests)), builds))

    def test_nothing_is_left_out(self):
        self.expect("not run: nothing", ("release", "ir", "[  PASSED  ] 9 tests."))

    def test_skips_of_googletest_are_counted_by_program(self):
        self.expect(
            "not run: 9 tests of test_accuracy, 1 test of test_layout (release)",
            ("release", "accuracy", "[  PASSED  ] 3 tests.\n[  SKIPPED ] 9 tests."),
            ("release", "layout", "\x1b[32m[  SKIPPED ] \x1b[m1 test."),
        )

    def test_what_a_test_says_itself_is_named(self):
        self.expect(
            "not run: 484 of 530 conformance cases (no DEUTERON_SHARED) (release asan)",
            (
                "asan",
                "conformance",
                "NOT RUN: 484 of 530 conformance cases (no DEUTERON_SHARED)\n46 of 530 cases",
            ),
            (
                "release",
                "conformance",
                "NOT RUN: 484 of 530 conformance cases (no DEUTERON_SHARED)",
            ),
        )

    def test_builds_are_told_apart(self):
        self.expect(
            "not run: 2 tests of test_ir (release); 484 of 530 conformance cases (asan)",
            ("release", "ir", "[  SKIPPED ] 2 tests."),
            ("asan", "conformance", "NOT RUN: 484 of 530 conformance cases"),
        )

    def test_words_inside_of_a_line_do_not_count(self):
        self.expect(
            "not run: nothing", ("release", "ir", "it prints NOT RUN: and [  SKIPPED ] 2 tests.")
        )


if __name__ == "__main__":
    unittest.main()
