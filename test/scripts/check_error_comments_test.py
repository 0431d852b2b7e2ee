"""scripts/check_error_comments.py on small headers, right and wrong."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_error_comments  # noqa: E402


class ErrorComments(unittest.TestCase):
    def missing(self, header):
        text = "// A header.\n#pragma once\n\n" + header
        return [name for _, name in check_error_comments.undocumented(text)]

    def test_declarations_without_their_errors_are_found(self):
        self.assertEqual(self.missing("Result<int> read();\n"), ["read"])
        self.assertEqual(self.missing("// Reads it.\nResult<void> read(\n    int a);\n"), ["read"])
        self.assertEqual(self.missing("pte::Status load();\n"), ["load"])
        self.assertEqual(self.missing("// Errors: kA.\nint a();\n\nResult<int> b();\n"), ["b"])

    def test_comments_above_behind_and_of_a_block_count(self):
        self.assertEqual(self.missing("// Error: kA.\nResult<int> a();\nResult<int> b();\n"), [])
        self.assertEqual(self.missing("Result<int> a();  // fails if it is empty\n"), [])
        self.assertEqual(self.missing("// Errors of all functions: kA.\n\nResult<int> a();\n"), [])

    def test_private_and_overriding_functions_are_left_out(self):
        header = (
            "class A {\n public:\n  Result<int> a() const override;\n"
            " private:\n  struct B {\n    int c;\n  };\n  Result<int> b();\n};\n"
        )
        self.assertEqual(self.missing(header), [])
        self.assertEqual(self.missing(header + "\nResult<int> c();\n"), ["c"])


if __name__ == "__main__":
    unittest.main()
