"""What happens at the end of a small card (2 GiB), under the allocator that PYTORCH_ALLOC_CONF names. Imported."""

import torch

from checks import check

MIB = 1 << 20
torch.cuda.init()


def block(mib):
    return torch.empty(mib * MIB, device="cuda", dtype=torch.uint8)


def stats():
    kept = torch.cuda.memory_stats()
    return {name: kept[name] for name in ("num_alloc_retries", "num_ooms")}


@check
def a_request_beyond_the_card_fails():
    before = stats()
    try:
        block(4096)
    except torch.OutOfMemoryError as error:
        text = str(error)
    after = stats()
    still_works = block(64).numel() == 64 * MIB
    return {
        "text": text,
        "ooms": after["num_ooms"] - before["num_ooms"],
        "still_works": still_works,
    }


@check
def the_cache_is_given_back_before_memory_runs_out():
    torch.cuda.empty_cache()
    before = stats()
    held = [block(300) for _ in range(4)]
    del held  # 1200 MiB cached in blocks of 300
    large = block(1500)
    after = stats()
    free, total = torch.cuda.mem_get_info()
    result = {
        "retries": after["num_alloc_retries"] - before["num_alloc_retries"],
        "ooms": after["num_ooms"] - before["num_ooms"],
        "used_mib": (total - free) // MIB,
    }
    del large
    torch.cuda.empty_cache()
    return result


@check
def capacity_is_enforced_to_the_last_block():
    torch.cuda.empty_cache()
    held = []
    try:
        while True:
            held.append(block(64))
    except torch.OutOfMemoryError:
        pass
    used = sum(t.numel() for t in held) // MIB
    held.clear()
    torch.cuda.empty_cache()
    return {"held_mib": used, "reserved_after": torch.cuda.memory_reserved() // MIB}


@check
def growing_blocks():
    """Reserved memory where each block is a little larger than the last: what expandable segments are for."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    for mib in range(100, 400, 20):
        block(mib)
    peak = torch.cuda.memory_stats()
    return {
        "reserved_mib": peak["reserved_bytes.all.peak"] // MIB,
        "allocated_mib": peak["allocated_bytes.all.peak"] // MIB,
        "segments": len(torch.cuda.memory_snapshot()),
    }
