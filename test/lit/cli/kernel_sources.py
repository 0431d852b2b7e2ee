"""Prints the operators that an ETRecord names for each event of its first delegate, or for its call:
kernel_sources.py RECORD"""

import json
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as record:

    def member(name):
        return json.loads(record.read(name))["forward"]

    ours = json.loads(record.read("deuteron/operators_constants"))
    names = [source["name"] for source in ours["sources"]]
    delegates = member("delegate_map")
    calls = member("debug_handle_map")


def text(handles):
    return ", ".join(names[handle - 1] for handle in handles) or "none"


if delegates:
    for kernel, handles in next(iter(delegates.values()))["delegate_map"].items():
        print(f"{kernel}: {text(handles)}")
for handles in calls.values():
    if handles:
        print(f"the call: {text(handles)}")
