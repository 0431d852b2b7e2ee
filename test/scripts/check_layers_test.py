"""scripts/check_layers.py on small trees, right and wrong."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_layers  # noqa: E402


class IncludeOrder(unittest.TestCase):
    def allowed(self, file, header):
        self.assertIsNone(check_layers.include_error(file, header))

    def refused(self, file, header, reason):
        self.assertIn(reason, check_layers.include_error(file, header) or "")

    def test_a_room_sees_itself_and_what_its_row_names(self):
        self.allowed("compiler/ir/graph.cpp", "compiler/ir/graph.h")
        self.allowed("compiler/ops/relu.cpp", "compiler/ir/graph.h")
        self.allowed("compiler/pipeline/compile.cpp", "compiler/backends/neutron/backend.h")
        self.allowed("compiler/program/writer.cpp", "device/pte/program_generated.h")
        self.allowed("host/session/session.cpp", "device/runtime/method.h")

    def test_a_room_does_not_see_what_stands_below(self):
        self.refused("compiler/ir/graph.cpp", "compiler/ops/ops.h", "may not include compiler/ops/")
        self.refused(
            "device/numerics/requantize.h", "device/npu/microcode.h", "may not include device/npu/"
        )
        self.refused(
            "compiler/recipes/recipe.cpp",
            "compiler/pipeline/compile.h",
            "may not include compiler/pipeline/",
        )
        self.refused("compiler/pipeline/compile.cpp", "tools/main.h", "does not see tools/")
        self.refused("compiler/quantizer/observer.cpp", "test/unit/data.h", "does not see test/")

    def test_wings_look_to_the_left(self):
        self.refused("device/runtime/loader.cpp", "compiler/support/result.h", "may not include")
        self.refused("compiler/pipeline/compile.cpp", "host/session/session.h", "may not include")
        self.assertEqual(check_layers.table_errors(), [])
        for room in check_layers.ROOMS:
            for other in check_layers.ROOMS:
                if check_layers.may_see(room, other):
                    self.assertLessEqual(
                        *(check_layers.WINGS.index(name.split("/")[0]) for name in (other, room))
                    )

    def test_the_simulated_npu_sees_its_format_alone(self):
        self.allowed("device/simulator/decoder.cpp", "device/npu/microcode.h")
        self.refused(
            "device/simulator/decoder.cpp", "device/pte/verified_file.h", "may not include"
        )
        self.refused("device/simulator/decoder.cpp", "host/simulator/loops.h", "may not include")
        self.refused(
            "host/simulator/memory.cpp",
            "compiler/backends/neutron/encode/encoder.h",
            "may not include",
        )

    def test_commands_print_by_one_function(self):
        for line in (
            '  fmt::print("{}", name);',
            "  std::cout << name;",
            '  std::fprintf(stderr, "%s", name);',
            '  printf("%s", name);',
        ):
            self.assertIn("tools/print.h", check_layers.print_error("tools/run.cpp", line) or "")
            self.assertIn(
                "do not print", check_layers.print_error("compiler/ir/graph.cpp", line) or ""
            )
            self.assertIsNone(check_layers.print_error("tools/print.h", line))
            self.assertIsNone(check_layers.print_error("bench/utilization.cpp", line))
        for line in (
            '  tools::print("{}", name);',
            "  std::snprintf(text, 4, name);",
            "  // fmt::print writes past it",
        ):
            self.assertIsNone(check_layers.print_error("tools/run.cpp", line))

    def test_backends_do_not_know_each_other(self):
        self.allowed(
            "compiler/backends/neutron/lowering/conv.cpp",
            "compiler/backends/neutron/layout/solver.h",
        )
        self.refused(
            "compiler/backends/portable/lower.cpp",
            "compiler/backends/neutron/backend.h",
            "may not include",
        )

    def test_tests_and_tools_are_free(self):
        self.allowed("test/unit/simulator_test.cpp", "compiler/backends/neutron/encode/encoder.h")
        self.allowed("tools/run.cpp", "device/runtime/loader.h")

    def test_quotes_start_at_the_root(self):
        self.refused("compiler/ir/graph.cpp", "graph.h", "repository root")
        self.refused("test/unit/ir_test.cpp", "gtest/gtest.h", "repository root")


class Tree(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_layers.findings(Path(folder))

    def test_a_clean_tree(self):
        files = {
            "compiler/ir/CMakeLists.txt": "dtr_library(ir SOURCES graph.cpp)",
            "compiler/ir/graph.cpp": '#include "compiler/support/result.h"\n',
            "compiler/support/result.h": "\n",
            "test/CMakeLists.txt": "dtr_test(a SOURCES ${CMAKE_SOURCE_DIR}/test/unit/a.cpp)",
            "test/unit/a.cpp": "",
        }
        self.assertEqual(self.check(files), ([], []))

    def test_findings_name_file_and_line(self):
        errors, _ = self.check(
            {
                "compiler/ir/CMakeLists.txt": "graph.cpp",
                "compiler/ir/graph.cpp": '\n#include <vector>\n#include "compiler/ops/ops.h"\n',
            }
        )
        self.assertEqual(len(errors), 1)
        self.assertTrue(errors[0].startswith("compiler/ir/graph.cpp:3:"))

    def test_a_file_outside_of_the_rooms(self):
        errors, _ = self.check({"compiler/misc/a.h": ""})
        self.assertEqual(errors, ["compiler/misc/a.h:1: no room of ROOMS has it"])

    def test_the_page_names_every_room(self):
        row = "".join(
            f"| `{room}/` | subject | file |\n" for room in [*check_layers.ROOMS, "tools"]
        )
        self.assertEqual(self.check({"docs/architecture.md": row}), ([], []))
        errors, _ = self.check(
            {"docs/architecture.md": row.replace("| `host/firmware/`", "| `host/other/`")}
        )
        self.assertEqual([e.split(":")[0] for e in errors], ["docs/architecture.md"])

    def test_a_source_that_cmake_does_not_list(self):
        errors, _ = self.check(
            {
                "compiler/ir/CMakeLists.txt": "graph.cpp  # not_graph.cpp",
                "compiler/ir/graph.cpp": "",
                "compiler/ir/not_graph.cpp": "",
            }
        )
        self.assertEqual(errors, ["compiler/ir/not_graph.cpp:1: no CMakeLists.txt lists it"])

    def test_lengths(self):
        errors, warnings = self.check(
            {
                "compiler/ir/long.h": "\n" * 601,
                "compiler/ir/longer.h": "\n" * 801,
                "compiler/ir/table.inc": "\n" * 900,
                "compiler/ir/x_generated.h": "\n" * 900,
            }
        )
        self.assertEqual([e.split(":")[0] for e in errors], ["compiler/ir/longer.h"])
        self.assertEqual([w.split(":")[0] for w in warnings], ["compiler/ir/long.h"])

    def test_builds_are_left_out(self):
        self.assertEqual(
            self.check({"build/release/compiler/ir/a.cpp": "", ".cache/compiler/ir/a.cpp": ""}),
            ([], []),
        )


if __name__ == "__main__":
    unittest.main()
