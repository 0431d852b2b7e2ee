"""scripts/check_diagnostics.py on small tables, right and wrong."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_diagnostics  # noqa: E402

GOOD = 'DTR_DIAGNOSTIC(kBadShape, "bad-shape", "The shape is wrong. Say \\"why\\".")\n'


class Table(unittest.TestCase):
    def check(self, table, code="kBadShape kOther", test="bad-shape other", backend=""):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {
                "compiler/support/diagnostics.inc": table,
                "compiler/ir/a.cpp": code,
                "compiler/backends/b.cpp": backend,
                "test/unit/a.cpp": test,
            }.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_diagnostics.findings(Path(folder))

    def refused(self, reason, *arguments, **named):
        self.assertEqual([reason in error for error in self.check(*arguments, **named)], [True])

    def test_a_good_table(self):
        self.assertEqual(
            self.check(
                "// comment\n"
                + GOOD
                + 'DTR_DIAGNOSTIC(kOther, "other", "In "\n               "two parts.")\n'
            ),
            [],
        )

    def test_order_and_repetition(self):
        self.refused("not sorted", 'DTR_DIAGNOSTIC(kOther, "other", "Text.")\n' + GOOD)
        self.refused("occurs twice", GOOD + GOOD)

    def test_names(self):
        self.refused("differ", 'DTR_DIAGNOSTIC(kOther, "bad-shape", "Text.")\n')
        self.assertTrue(
            any(
                "kebab-case" in e
                for e in self.check('DTR_DIAGNOSTIC(kOther, "bad_shape", "Text.")\n')
            )
        )
        self.refused("no sentence", 'DTR_DIAGNOSTIC(kOther, "other", "text")\n')

    def test_every_row_is_used_and_tested(self):
        self.refused("not used", GOOD, code="kOther")
        self.refused("no test", GOOD, test="kBadShapes bad-shape-too")
        self.assertEqual(self.check(GOOD, test='{"id": "bad-shape"}'), [])

    def test_every_reason_is_tested(self):
        self.refused(
            "reason npu-flavour", GOOD, backend='Check{"npu-flavour", "the NPU has no flavour"}'
        )
        self.assertEqual(
            self.check(
                GOOD,
                backend='Check{"npu-flavour"}',
                test='bad-shape "npu-flavour: the NPU has no flavour"',
            ),
            [],
        )

    def test_a_row_of_another_form_is_an_error_of_its_own(self):
        with self.assertRaises(AssertionError):
            self.check("DTR_DIAGNOSTIC(kOther, other)\n")


if __name__ == "__main__":
    unittest.main()
