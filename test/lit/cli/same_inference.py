"""What verbs say of one inference, in their text or their JSON, is the same: same_inference.py FILE
FILE..."""
import json
import re
import sys
from pathlib import Path

FIELDS = (
    "clock_hz",
    "cpu_cycles",
    "total_cycles",
    "milliseconds",
    "time_error_percent",
    "npu_error_percent",
    "cpu_error_percent",
    "time_known",
    "time_error_reason",
)


def said(path):
    text = Path(path).read_text()
    if text.startswith("{"):
        document = json.loads(text)
        return [document[field] for field in FIELDS]
    (sentence,) = re.findall(r"(?:about )?[\d,]+ cycles.* = .* ms .* at \d+ MHz", text)
    return sentence


first, *others = map(said, sys.argv[1:])
print(first)
sys.exit(any(other != first for other in others))
