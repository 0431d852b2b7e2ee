"""Markdown tables and words that the sections of docs/performance.md share. Standard library
only."""


def table(head, rows, words=1):
    """The first `words` columns are text, the others figures."""
    align = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, align, *rows])


def verdict(met):
    return "yes" if met else "**no**"


def ratio(ours, theirs):
    return f"{ours / theirs:.2f}×"
