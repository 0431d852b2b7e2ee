"""scripts/fuzz: what it reads from libFuzzer's log, and that the page has the figures of the
ledger."""
import importlib.machinery
import importlib.util
import unittest
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "scripts/fuzz"
loader = importlib.machinery.SourceFileLoader("fuzz", str(PATH))
fuzz = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz", loader))
loader.exec_module(fuzz)

DONE = """#2\tINITED cov: 812 ft: 900 corp: 2/20b exec/s: 0 rss: 60Mb
#512\tNEW    cov: 1024 ft: 1900 corp: 9/90b lim: 4 exec/s: 0 rss: 60Mb
stat::number_of_executed_units: 777
depth: 775 inputs: decoded 383 (49.4 %, floor 35 %), executed 97 (12.5 %, floor 35 %)
"""


class Log(unittest.TestCase):
    def test_of_a_run(self):
        self.assertEqual(
            fuzz.read_log(DONE), {"executions": 777, "coverage": 1024, "counted": 775, "deep": 97}
        )

    def test_of_a_run_that_crashed(self):
        crashed = DONE[: DONE.index("stat::")]
        self.assertEqual(
            fuzz.read_log(crashed), {"executions": 512, "coverage": 1024, "counted": 0, "deep": 0}
        )

    def test_of_nothing(self):
        self.assertEqual(
            fuzz.read_log(""), {"executions": 0, "coverage": 0, "counted": 0, "deep": 0}
        )


class Result(unittest.TestCase):
    def row(self, **changes):
        return {
            "target": "a",
            "executions": 5,
            "cpu_seconds": 2.0,
            "coverage": 3,
            "counted": 5,
            "deep": 4,
            "seeds": 2,
            "findings": [],
            "ended": "",
        } | changes

    def good(self, *rows):
        totals = fuzz.Totals(ledger=False)
        for row in rows:
            totals.add(row)
        return totals.report()

    def test_what_fails(self):
        self.assertTrue(self.good(self.row(), self.row(counted=0, deep=0, seeds=0)))
        self.assertTrue(self.good(self.row(counted=10_000_000)))
        self.assertFalse(self.good(self.row(deep=2)))
        self.assertFalse(self.good(self.row(), self.row(findings=["crash-1"])))
        self.assertFalse(self.good(self.row(ended="status 1")))


class Page(unittest.TestCase):
    def test_has_the_figures_of_the_ledger(self):
        self.assertEqual(
            fuzz.page_with(fuzz.PAGE.read_text(), fuzz.table(fuzz.read_ledger())),
            fuzz.PAGE.read_text(),
        )

    def test_names_every_target(self):
        text = fuzz.PAGE.read_text()
        self.assertEqual([name for name in fuzz.targets() if f"| `{name}` |" not in text], [])


if __name__ == "__main__":
    unittest.main()
