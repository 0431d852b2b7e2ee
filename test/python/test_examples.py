"""The notebooks of examples/ run from top to bottom, cell by cell, as a reader would run them."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_there_are_four():
    assert len(NOTEBOOKS) == 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path):
    notebook = json.loads(path.read_text())
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    source = "\n\n".join("".join(cell["source"]) for cell in cells)
    if "import torch" in source:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    # Each cell's last expression is shown, as a notebook does: its _repr_html_ must work.
    runner = f"""
import ast, json, sys
names = {{"__name__": "__main__"}}
for number, source in enumerate(json.loads({json.dumps(json.dumps(["".join(c["source"]) for c in cells]))})):
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {{number}}", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), f"cell {{number}}", "eval"), names)
        html = getattr(value, "_repr_html_", lambda: None)()
        print(f"[{{number}}]", len(html) if html else value)
"""
    environment = {**os.environ, "DEUTERON_EXAMPLES": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", runner],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3000:]
