"""scripts/cost_of_change on small trees: what counts as a file of an operator, and the budget."""
import importlib.machinery
import importlib.util
import unittest
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "scripts/cost_of_change"
LOADER = importlib.machinery.SourceFileLoader("cost_of_change", str(PATH))
SPEC = importlib.util.spec_from_loader("cost_of_change", LOADER)
cost = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(cost)

KERNELS = "device/runtime/kernels/portable/kernels.inc"
TREE = {
    "compiler/ops/frob.cpp": 'constinit const OpDef kFrob = unary_op<f>(\n    {.name = "aten.frob"});\n',
    "compiler/ops/view.cpp": 'constinit const OpDef kView{\n    .name = "aten.view"};\n',
    "compiler/quantizer/int8_patterns.cpp": "Pattern{&ops::kView, moves},\n",
    "compiler/transforms/fold.cpp": "if (op.def == &ops::kFrob) return;\n",
    "compiler/backends/neutron/lowering/view.cpp": "{&ops::kView, any_layout, lower},\n",
    "compiler/backends/neutron_ir/movement.cpp": "{&ops::kView, any_layout, reshape},\n",
    "compiler/backends/portable/comment.cpp": "// {&ops::kFrob, of old}\n",
    "compiler/frontends/pt2/shapes.cpp": 'making("aten.view.default", kView, view),\n',
    "device/runtime/kernels/cortex_m/kernels.inc": "",
    KERNELS: 'DTR_KERNEL(frob_out, "aten::frob.out", unary)\n',
    "device/runtime/kernels/portable/unary.cpp": "Error frob_out() {}\n",
    "test/data/kernels/make_elementwise_cases.py": 'NAMES = ["frob"]\n',
    "test/data/conformance/make_own.py": "torch.frob(x)\n",
    "test/unit/some_test.cpp": 'emit("aten.frob")\n',
}


class Tree(cost.Sources):
    def __init__(self, texts):
        self.names, self.texts = sorted(texts), dict(texts)

    def text(self, name):
        if name.endswith(".cpp"):
            return "\n".join(line.partition("//")[0] for line in self.texts[name].split("\n"))
        return self.texts[name]


class CostOfChange(unittest.TestCase):
    def test_files_of_operators(self):
        found = {name: (kind, *files) for kind, name, *files in cost.operators(Tree(TREE))}
        kind, files, tests = found["aten.frob"]
        self.assertEqual(kind, "operator, a function of one element")
        unary = "device/runtime/kernels/portable/unary.cpp"
        self.assertEqual(files, ["compiler/ops/frob.cpp", KERNELS, unary])
        self.assertEqual(
            sorted(tests),
            [
                "test/data/conformance/make_own.py",
                "test/data/kernels/make_elementwise_cases.py",
            ],
        )
        kind, files, tests = found["aten.view"]
        self.assertEqual(kind, "operator, structural")
        self.assertEqual(
            files,
            [
                "compiler/backends/neutron/lowering/view.cpp",
                "compiler/backends/neutron_ir/movement.cpp",
                "compiler/frontends/pt2/shapes.cpp",
                "compiler/ops/view.cpp",
                "compiler/quantizer/int8_patterns.cpp",
            ],
        )
        self.assertEqual(tests, [])

    def test_budget(self):
        element = "operator, a function of one element"
        self.assertIsNone(cost.over(element, ["a", "b", "c", "d"], ["t", "u"]))
        self.assertIn("at most 6 in all", cost.over(element, ["a", "b", "c", "d"], ["t", "u", "v"]))
        self.assertIn("at most 8", cost.over("command of the NPU", list("abcdefghi"), []))
        self.assertIn("at most 1", cost.over("target", ["a", "b"], []))
        self.assertIn("1 test files, at most 0", cost.over("target", ["a"], ["t"]))

    def test_rows_for_other_runtimes_are_told_apart(self):
        ir = "compiler/backends/neutron_ir/movement.cpp"
        self.assertIsNone(cost.over("target", ["a", ir], []))
        self.assertEqual(cost.count_text(["a", ir], []), "1 source (+ 1 for other runtimes)")


if __name__ == "__main__":
    unittest.main()
