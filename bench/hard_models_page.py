"""docs/hard_models.md from bench/hard_models.json. Standard library only."""
import json
from pathlib import Path

from tables import table

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "bench/hard_models.json"
PAGE = ROOT / "docs/hard_models.md"
# Of bench/hard_models.py: the head of its column.
WAYS = {
    "neutron": "PT2E, Neutron",
    "xnnpack": "PT2E, XNNPACK",
    "edge": "AI Edge",
    "default": "default",
    "auto": "auto",
    "qat": "QAT",
}
OWN = ("default", "auto", "qat")
GOAL_DB, GOAL_POINTS = 35, 0.5


def recorded():
    return json.loads(RECORD.read_text())


def text_of(figures):
    """Decibels, accuracy or PSNR, and seconds."""
    if "failed" in figures:
        return "fails"
    words = []
    if "db" in figures:
        words.append("as float" if figures["db"] >= 99 else f"{figures['db']:.1f} dB")
    if "accuracy" in figures:
        words.append(f"{figures['accuracy']:.4f}")
    if "psnr" in figures:
        words.append(f"PSNR {figures['psnr']:.2f}")
    if "s" in figures:
        words.append(f"{figures['s']:.1f} s")
    return ", ".join(words)


def meets(found, way):
    """35 dB, or at most half a point lost where there are labels."""
    figures, of_float = found.get(way), found["float"]
    if figures is None:
        return False
    if "accuracy" in of_float:
        return 100 * (of_float["accuracy"] - figures["accuracy"]) <= GOAL_POINTS
    return figures["db"] >= GOAL_DB


def row(name, found):
    cells = [text_of(found.get(way, {})) for way in ("float", *WAYS)]
    cycles = [f"{found[way]['cycles']:,}" if way in found else "" for way in OWN]
    return [
        name,
        *cells,
        *cycles,
        ", ".join(WAYS[way] for way in OWN if meets(found, way)) or "none",
    ]


def page(results):
    heads = ["model", "float", *WAYS.values(), *(f"cycles, {WAYS[way]}" for way in OWN), "met by"]
    names = sorted(results)
    met = {way: sum(meets(results[name], way) for name in names) for way in OWN}
    count = {way: sum(way in results[name] for name in names) for way in OWN}
    failures = [
        f"* {name}, {WAYS[way]}: {found['failed']}"
        for name in names
        for way, found in sorted(results[name].items())
        if "failed" in found
    ]
    steps = [[name, "; ".join(results[name]["auto"].get("steps", [])) or "none"] for name in names]
    return (
        "\n\n".join(
            [
                "# Hard models",
                "<!-- Written by bench/hard_models.py. -->",
                (
                    "Models of `test/data/accuracy` that are small and hard to quantize: channels"
                    " decades apart, far channels behind normalizations, joined unlike ranges,"
                    " recurrences.\nEverybody calibrates on the same 32 samples and is judged on the"
                    " same 64 others. *dB*: SQNR against PyTorch's float outputs; then the share of"
                    " right\nclasses where there are labels, PSNR of images; then seconds of processor"
                    " time of the quantization, without imports. The nets are trained for seconds,"
                    "\nwhich is what their float accuracy shows."
                ),
                (
                    "* *PT2E*: torchao's flow with ExecuTorch's NeutronQuantizer or XNNPACKQuantizer"
                    " (weights per channel), run by PyTorch. *AI Edge*: AI Edge Quantizer's static"
                    " int8\n  over LiteRT Torch's conversion, run by LiteRT. AIMET was not measured."
                    " An operator that a quantizer does\n  not know stays float, as lstm's recurrence in"
                    " PT2E.\n* *default*, *auto*: `compile` and `compile"
                    " --accuracy auto`, without labels, run by the simulator; cycles are those of an"
                    " inference.\n* *QAT*: `qat-prepare`, plain, with `--equalize`, or with `--observer tail` too, whichever is nearest before training; 24 epochs over 380 images (or drawn"
                    " samples) towards the float model's outputs, of which the best on 64 others is"
                    " kept,\n  `compile`. The trained exports are in `test/data/accuracy/trained`.\n* *met by*: loses at most"
                    f" {GOAL_POINTS} points, or has {GOAL_DB} dB where there are no labels. An empty"
                    " cell was not measured."
                ),
                table(heads, [row(name, results[name]) for name in names]),
                f"Of {len(names)} models "
                + ", ".join(
                    f"{WAYS[way]} meets the goal for {met[way]}"
                    + (f" of {count[way]} measured" if count[way] < len(names) else "")
                    for way in OWN
                )
                + ".",
                "What `auto` keeps:",
                table(["model", "steps"], steps, words=2),
                *(["Other tools refuse:", "\n".join(failures)] if failures else []),
            ]
        )
        + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(recorded()))
