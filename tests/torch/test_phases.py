"""Regions of `record_function` are phases in levee's recording."""

from __future__ import annotations

import json
import sys

from under_levee import launch

REGIONS = """
import threading
import levee
levee.install()
import torch
from torch.profiler import record_function

def held(mebibytes):
    return torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda")

kept = [held(1)]
with record_function("outer"):
    kept.append(held(3))
    with record_function("inner"):
        kept.append(held(5))
    kept.append(held(7))

# A region that ends on another thread, where it is none of the open ones.
begun = torch.ops.profiler._record_function_enter_new("begun elsewhere", None)

def end_it():
    with record_function("other"):
        torch.ops.profiler._record_function_exit._RecordFunction(begun)
        kept.append(held(11))

thread = threading.Thread(target=end_it)
thread.start()
thread.join()
levee.flush()
print(levee.trace_path())
"""


def test_blocks_are_held_by_the_region_that_asked_for_them(run) -> None:
    path = run(REGIONS).ok().out.strip()
    told = launch([sys.executable, "-m", "levee", "report", "--json", path], gpu=None).ok()
    (device,) = json.loads(told.out)["devices"]
    held = {row["origin"]: row["bytes"] >> 20 for row in device["holders_by_phase"]}
    assert held == {"outside any phase": 1, "outer": 3 + 7, "outer/inner": 5, "other": 11}


def test_nothing_is_kept_of_them_where_recording_is_off(run) -> None:
    ran = run(REGIONS, env={"LEVEE_RECORD": "0"}).ok()
    assert ran.out.strip() == "None"
