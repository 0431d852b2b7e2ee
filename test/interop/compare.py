"""The measure of both directions: integer tensors equal, float ones within 2^-20 of the largest
magnitude."""
import numpy as np

LIMIT = 2.0**-20


def difference(got, wanted):
    """Of the largest magnitude; infinite where dtype, shape or integers differ, or only one side is
    finite."""
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return float("inf")
    if got.size == 0 or np.array_equal(got, wanted, equal_nan=got.dtype.kind == "f"):
        return 0.0
    if got.dtype.kind != "f":
        return float("inf")
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    largest = np.abs(b[finite]).max()
    return float(np.abs(a[finite] - b[finite]).max() / largest) if largest else float("inf")
