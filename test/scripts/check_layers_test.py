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

    def test_a_folder_sees_itself_and_what_stands_above(self):
        self.allowed("ir/graph.cpp", "ir/graph.h")
        self.allowed("ops/relu.cpp", "ir/graph.h")
        self.allowed("compiler/compile.cpp", "backends/neutron/backend.h")
        self.allowed("program/writer.cpp", "abi/pte/program_generated.h")

    def test_a_folder_does_not_see_what_stands_below(self):
        self.refused("ir/graph.cpp", "ops/ops.h", "stands below")
        self.refused("abi/npu/microcode.h", "numerics/requantize.h", "stands below")
        self.refused("compiler/compile.cpp", "tools/main.h", "stands below")
        self.refused("quantizer/observer.cpp", "test/unit/data.h", "stands below")

    def test_device_code_sees_two_folders(self):
        self.allowed("runtime/kernels/portable/add.cpp", "runtime/tensor.h")
        self.allowed("runtime/loader.cpp", "abi/pte/program.h")
        self.refused("runtime/loader.cpp", "support/result.h", "sees only")
        self.allowed("simulator/core/decoder.cpp", "numerics/requantize.h")
        self.refused("simulator/core/decoder.cpp", "simulator/host/loops.h", "sees only")
        self.refused("simulator/core/decoder.cpp", "ir/graph.h", "sees only")

    def test_commands_print_by_one_function(self):
        for line in ('  fmt::print("{}", name);', "  std::cout << name;", '  std::fprintf(stderr, "%s", name);', '  printf("%s", name);'):
            self.assertIn("tools/print.h", check_layers.print_error("tools/run.cpp", line) or "")
            self.assertIn("do not print", check_layers.print_error("ir/graph.cpp", line) or "")
            self.assertIsNone(check_layers.print_error("tools/print.h", line))
            self.assertIsNone(check_layers.print_error("bench/utilization.cpp", line))
        for line in ('  tools::print("{}", name);', "  std::snprintf(text, 4, name);", "  // fmt::print writes past it"):
            self.assertIsNone(check_layers.print_error("tools/run.cpp", line))

    def test_the_simulator_shares_nothing_with_the_compiler(self):
        self.allowed("simulator/host/memory.cpp", "support/result.h")
        self.refused("simulator/host/memory.cpp", "backends/neutron/encode/encoder.h", "does not use")

    def test_backends_do_not_know_each_other(self):
        self.allowed("backends/neutron/lowering/conv.cpp", "backends/neutron/layout/solver.h")
        self.allowed("backends/neutron/lowering/conv.cpp", "backends/common.h")
        self.refused("backends/portable/lower.cpp", "backends/neutron/backend.h", "does not know")

    def test_tests_and_tools_are_free(self):
        self.allowed("test/unit/simulator_test.cpp", "backends/neutron/encode/encoder.h")
        self.allowed("tools/run.cpp", "runtime/loader.h")

    def test_quotes_start_at_the_root(self):
        self.refused("ir/graph.cpp", "graph.h", "repository root")
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
        files = {"ir/CMakeLists.txt": "dtr_library(ir SOURCES graph.cpp)", "ir/graph.cpp": '#include "support/result.h"\n', "support/result.h": "\n",
                 "test/CMakeLists.txt": "dtr_test(a SOURCES ${CMAKE_SOURCE_DIR}/test/unit/a.cpp)", "test/unit/a.cpp": ""}
        self.assertEqual(self.check(files), ([], []))

    def test_findings_name_file_and_line(self):
        errors, _ = self.check({"ir/CMakeLists.txt": "graph.cpp", "ir/graph.cpp": '\n#include <vector>\n#include "ops/ops.h"\n'})
        self.assertEqual(len(errors), 1)
        self.assertTrue(errors[0].startswith("ir/graph.cpp:3:"))

    def test_a_source_that_cmake_does_not_list(self):
        errors, _ = self.check({"ir/CMakeLists.txt": "graph.cpp  # not_graph.cpp", "ir/graph.cpp": "", "ir/not_graph.cpp": ""})
        self.assertEqual(errors, ["ir/not_graph.cpp:1: no CMakeLists.txt lists it"])

    def test_lengths(self):
        errors, warnings = self.check({"ir/long.h": "\n" * 601, "ir/longer.h": "\n" * 801, "ir/table.inc": "\n" * 900, "ir/x_generated.h": "\n" * 900})
        self.assertEqual([e.split(":")[0] for e in errors], ["ir/longer.h"])
        self.assertEqual([w.split(":")[0] for w in warnings], ["ir/long.h"])

    def test_builds_are_left_out(self):
        self.assertEqual(self.check({"build/release/ir/a.cpp": "", ".cache/ir/a.cpp": ""}), ([], []))


if __name__ == "__main__":
    unittest.main()
