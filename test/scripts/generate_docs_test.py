"""scripts/generate_docs: transcripts are what the command prints now."""
import importlib.machinery
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
loader = importlib.machinery.SourceFileLoader("generate_docs", str(SCRIPTS / "generate_docs"))
generate_docs = importlib.util.module_from_spec(
    importlib.util.spec_from_loader(loader.name, loader)
)
loader.exec_module(generate_docs)

# Stands for the command: prints its arguments between other lines, and counts the calls in its
# folder.
COMMAND = """#!/bin/sh
[ "$1" != fail ] || { echo "error: no" >&2; exit 1; }
echo call >> calls
printf 'first\\n\\ntable of %s\\nrow 1   \\nload 3 ms of the computer that simulated\\nrow 2\\n\\n%s calls\\n' "$*" "$(grep -c call calls)"
"""


class Transcripts(unittest.TestCase):
    def page(self, marker, block="```text\nold\n```"):
        with tempfile.TemporaryDirectory() as folder:
            command = Path(folder) / "deuteron"
            command.write_text(COMMAND)
            command.chmod(0o755)
            return generate_docs.transcribed(
                "page.md", f"before\n{marker}\n{block}\nafter\n", Path(folder)
            )

    def test_the_block_becomes_the_output_without_times_of_the_computer(self):
        marker = "<!-- transcript: deuteron run a.pte -->"
        self.assertEqual(
            self.page(marker),
            (
                f"before\n{marker}\n```text\n$ deuteron run a.pte\n\nfirst\n\ntable of run a.pte\n"
                "row 1\nrow 2\n\n1 calls\n```\nafter\n"
            ),
        )

    def test_a_paragraph_or_lines_of_it(self):
        self.assertIn(
            "$ deuteron run\n\ntable of run\nrow 1\nrow 2\n```",
            self.page("<!-- transcript, paragraph ^table: deuteron run -->"),
        )
        self.assertIn(
            "$ deuteron run\n\nfirst\nrow 2\n```",
            self.page("<!-- transcript, lines ^first|2$: deuteron run -->"),
        )
        with self.assertRaises(SystemExit):
            self.page("<!-- transcript, lines ^third: deuteron run -->")

    def test_commands_share_a_folder_and_the_last_is_shown(self):
        self.assertIn(
            "$ deuteron b\n\n2 calls\n```",
            self.page("<!-- transcript, lines calls$: deuteron a && deuteron b -->"),
        )

    def test_a_command_that_fails_and_a_block_without_a_marker_are_errors(self):
        with self.assertRaisesRegex(SystemExit, "error: no"):
            self.page("<!-- transcript: deuteron fail -->")
        with self.assertRaisesRegex(SystemExit, "page.md: a block shows"):
            self.page("text", "```text\n$ deuteron run\n```")
        with self.assertRaisesRegex(SystemExit, "page.md: a block shows"):
            self.page("text", "    $ build/release/deuteron run")


if __name__ == "__main__":
    unittest.main()
