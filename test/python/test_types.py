"""The package is typed: mypy --strict has nothing to say, of it and of code that uses it."""
import pathlib
import subprocess
import sys

import pytest

import deuteron

pytest.importorskip("mypy", reason="mypy is not installed")
ROOT = pathlib.Path(__file__).resolve().parents[2]

USES = """
import numpy
import deuteron

program = deuteron.compile("m.pt2", calibration=[numpy.zeros(3)], keep_off=["conv2d"])
verified: deuteron.Verification = program.verify("x.npz", samples=2)
tuned = deuteron.compile("m.pt2", "c.npz", accuracy="auto", data={"x": [1]}, max_loss=0.5, seconds=9)
steps: list[deuteron.AccuracyStep] = tuned.accuracy.steps if tuned.accuracy else []
worst: deuteron.Layer | None = verified.first_bad
page: str = program.profile().to_html("r.html")
trace: bytes = program.profile(numpy.zeros(3)).to_etdump()
figures: dict[str, object] = dict(deuteron.eval(program, "t.npz"))
try:
    deuteron.load("m.pte")
except deuteron.Error as error:
    print(error.id, error.place.file, error.reason, error.fix)
"""
WRONG = """
import deuteron

deuteron.compile("m.pt2", keep_off=3)
count: int = deuteron.load("m.pte").pte
"""


def mypy(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


@pytest.mark.plain
def test_the_package_is_strict():
    result = mypy("--config-file", "pyproject.toml", "python/deuteron")
    assert result.returncode == 0, result.stdout


@pytest.mark.plain
def test_users_are_checked(tmp_path):
    assert (pathlib.Path(deuteron.__file__).parent / "py.typed").exists()
    (tmp_path / "uses.py").write_text(USES)
    (tmp_path / "wrong.py").write_text(WRONG)
    result = mypy("--config-file", "pyproject.toml", tmp_path / "uses.py")
    assert result.returncode == 0, result.stdout
    result = mypy("--config-file", "pyproject.toml", tmp_path / "wrong.py")
    assert result.stdout.count("error:") == 2, result.stdout


def test_the_stub_has_what_the_extension_has():
    """Every name of the extension is in _deuteron.pyi, and every name there is in the extension."""
    import ast

    from deuteron import _deuteron

    tree = ast.parse((ROOT / "python/deuteron/_deuteron.pyi").read_text())
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    names |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    assert names == {name for name in dir(_deuteron) if not name.startswith("_")}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = {each.name for each in node.body}
            kind = getattr(_deuteron, node.name)
            assert methods == {name for name in dir(kind) if not name.startswith("_")}
