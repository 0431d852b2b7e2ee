"""test/mutants/run.py finds entries that no longer fit the sources."""
import importlib.util
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
specification = importlib.util.spec_from_file_location("run", ROOT / "test/mutants/run.py")
run = importlib.util.module_from_spec(specification)
specification.loader.exec_module(run)


def entry(**changes):
    table = {
        "id": "X1",
        "file": "a.cpp",
        "find": "a + b",
        "replace": "a - b",
        "breaks": "sums",
        "test": "ops Sum.*",
    }
    return run.Mutant("area", table | changes)


class StaleEntries(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name)
        (root / "test/unit").mkdir(parents=True)
        (root / "test/lit").mkdir()
        (root / "test/lit/sum.ir").write_text("// RUN: deuteron-opt %s | FileCheck %s\n")
        (root / "a.cpp").write_text(
            "int f() { return a + b; }\nint g() { return c + c + c + 1; }\n"
        )
        tests = root / "test/unit/CMakeLists.txt"
        tests.write_text("dtr_test(ops SOURCES sum_test.cpp DEPENDS dtr_ops)\n")
        (root / "test/unit/sum_test.cpp").write_text("TEST(Sum, Adds) {\nTEST_P(Sums, Add) {\n")
        before = run.SOURCE
        self.addCleanup(lambda: setattr(run, "SOURCE", before))
        run.SOURCE = root
        run.tests_of.__defaults__[0].clear()
        self.addCleanup(run.tests_of.__defaults__[0].clear)

    def test_an_entry_that_fits(self):
        for test in (
            "ops Sum.Adds",
            "ops Sum.*",
            "ops *Sums.Add*:Sum.Adds",
            "lit sum.ir",
            "ctest golden",
            "compile ops sum_test.cpp",
        ):
            self.assertIsNone(entry(test=test).stale(), test)

    def test_text_must_occur_once(self):
        self.assertIn("occurs 0 times", entry(find="a * b").stale())
        self.assertIn("occurs 3 times", entry(find="c +").stale())
        self.assertIn("does not exist", entry(file="b.cpp").stale())
        self.assertIn("the text itself", entry(replace="a + b").stale())

    def test_the_test_must_exist(self):
        self.assertIn("no test Sum.Subtracts", entry(test="ops Sum.Adds:Sum.Subtracts").stale())
        self.assertIn("no test Sum.Adds", entry(test="other Sum.Adds").stale())
        self.assertIn("does not exist", entry(test="lit other.ir").stale())
        self.assertIn("CTEST_TARGETS", entry(test="ctest other").stale())
        self.assertIn("does not exist", entry(test="compile ops other.cpp").stale())

    def test_targets(self):
        self.assertEqual(entry().targets(), ["test_ops"])
        self.assertEqual(entry(test="lit sum.ir").targets(), ["deuteron-opt"])
        self.assertEqual(
            entry(test="compile ops sum_test.cpp").targets(),
            ["test/unit/CMakeFiles/test_ops.dir/sum_test.cpp.o"],
        )

    def test_keys(self):
        with self.assertRaises(SystemExit):
            run.Mutant("area", {"id": "X1"})
        with self.assertRaises(SystemExit):
            entry(why="typing error")


if __name__ == "__main__":
    unittest.main()
