"""Pages of docs/ that name places in the code: the files and functions exist."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| [^|]+ \| `([\w/.]+)` \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)


class Places(unittest.TestCase):
    def test_the_life_of_an_operator_names_files_and_functions_that_exist(self):
        rows = ROW.findall((ROOT / "docs/life_of_an_operator.md").read_text())
        self.assertGreater(len(rows), 20)
        for file, functions in rows:
            self.assertTrue((ROOT / file).is_file(), file)
            for function in re.findall(r"`(\w+)`", functions):
                self.assertRegex(
                    (ROOT / file).read_text(), rf"\b{function}\b", f"{file} has no {function}"
                )

    def test_every_path_in_the_pages_exists(self):
        for page in sorted((ROOT / "docs").glob("*.md")) + [
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
        ]:
            for path in re.findall(
                r"`((?:device|compiler|host|tools|test|scripts|bench)/[\w./-]+)`", page.read_text()
            ):
                with self.subTest(page=page.name, path=path):
                    self.assertTrue(
                        (ROOT / path).exists() or re.search("NAME|TARGET|AREA", path),
                        f"{page.name} names {path}",
                    )

    def test_what_holds_a_figure_is_a_test(self):
        tests = {f"e2e_{each.stem}" for each in (ROOT / "test/e2e").glob("*.py")}
        for lists in (ROOT / "test").glob("**/CMakeLists.txt"):
            tests |= set(
                re.findall(
                    r"(?:add_test\(NAME|dtr_test\(|dtr_\w*test\w*\()\s*(\w+)", lists.read_text()
                )
            )
        rows = [
            line
            for line in (ROOT / "docs/figures.md").read_text().splitlines()
            if line.startswith("| ") and "held by" not in line
        ]
        self.assertGreater(len(rows), 40)
        for row in rows:
            held_by = row.rstrip("| ").split("|")[-1]
            for name in re.findall(r"`(\w+)`", held_by):
                self.assertIn(name, tests, row)

    def test_tables_have_no_gaps(self):
        """A row behind an empty line is text, not a row."""
        for page in sorted((ROOT / "docs").glob("*.md")):
            lines = page.read_text().splitlines()
            code = False
            for i, line in enumerate(lines):
                code ^= line.startswith("```")
                begins = not code and line.startswith("| ") and (i == 0 or not lines[i - 1].strip())
                with self.subTest(page=page.name, line=i + 1):
                    self.assertFalse(begins and not re.match(r"\|[ :|-]+$", lines[i + 1]))

    def test_the_glossary_is_sorted(self):
        words = re.findall(
            r"^\| ([a-z][\w ,-]*) \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE
        )[1:]
        self.assertGreater(len(words), 30)
        self.assertEqual(words, sorted(words))


class Verbs(unittest.TestCase):
    def test_every_verb_is_a_function_of_the_package(self):
        """What `make test-python` finds too, where the package is built."""
        verbs = re.findall(r"^DTR_VERB\((\w+)\)", (ROOT / "tools/verbs.inc").read_text(), re.M)
        self.assertGreater(len(verbs), 10)
        package = (ROOT / "python/deuteron/__init__.py").read_text()
        public = re.search(r"__all__ = \[(.*?)\]", package, re.S)[1]
        missing = [verb for verb in verbs if f'"{verb}"' not in public]
        self.assertEqual(missing, [], "CONTRIBUTING.md, Add a verb, 4")


if __name__ == "__main__":
    unittest.main()
