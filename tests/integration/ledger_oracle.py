"""The ledger of a report against what the simulated driver knows, device by device, to the byte.

Used by harness.py and everything that compares programs. The simulated driver writes what it holds at its end
(GPUMEM_SIMULATED_LEDGER); a process that ends past its destructors wrote nothing, and is compared with nothing.
"""
HELD = ("plain", "managed", "pooled", "array", "virtual")
SOURCES = ("cuda", "cuda_async", "vmm", "managed", "cuda_async_managed", "system")
TOLERANCE = 8 << 20  # of a peak, or one percent


def on_device(chain):
    return chain["route"] != "host"


def of_the_host(report, device):
    """Bytes that chains of this device reserved from the host: the driver knows nothing of them."""
    return sum(node["now_bytes"] for chain in report["chains"] if on_device(chain) and chain["device"] == device
               for node in chain["nodes"] if node["type"] == "system")


def may_lie_elsewhere(report, device):
    """Chains of this device hold memory that need not be on it: managed, or the host's."""
    return any(node["type"] in ("managed", "cuda_async_managed", "system") for chain in report["chains"]
               if on_device(chain) and chain["device"] == device for node in chain["nodes"])


def ends_with_contexts(report, device):
    """Contexts ended, and had memory: that of cuMemAlloc is theirs, of pools and mappings the process's."""
    return calls_of(report, "cuCtxDe", "cuDevicePrimaryCtxRe", "cuGreenCtxDestroy") != 0 and any(
        node["type"] == "cuda" for chain in report["chains"] if chain["device"] == device for node in chain["nodes"])


def calls_of(report, *symbols):
    return sum(hook["calls"] for hook in report["intercept"]["hooks"] if hook["symbol"].startswith(symbols))


def device_faults(report, device, known, noted, peaks):
    ledger, ordinal = device["now"], device["device"]
    faults = []

    def same(what, ours, truth):
        if ours != truth:
            faults.append(f"device {ordinal}: {what}: {ours:,} in the report, {truth:,} in truth ({ours - truth:+,})")

    held = sum(known[kind] for kind in HELD)
    same("reserved and seen", ledger["reserved_bytes"] + ledger["observed_bytes"], held + of_the_host(report, ordinal))
    # No more than there ever was: memory that goes to another owner is never counted for both. Only what ends with a context
    # is: until its end is known the ledger has it, and the driver may have handed it out.
    at_peak, most = device.get("at_peak"), known["most_in_use"]
    certain = not may_lie_elsewhere(report, ordinal) and not ends_with_contexts(report, ordinal)
    if certain and at_peak is not None and at_peak["reserved_bytes"] > most:
        same("reserved at the peak", at_peak["reserved_bytes"], most)
    # What the program itself has: noted above the driver, but arrays and virtual memory.
    noted = noted and known["most_live"] != 0
    if noted and not calls_of(report, "cuMemCreate"):
        same("requested and seen", ledger["requested_bytes"] + ledger["observed_bytes"], known["live"] + known["array"])
    if peaks and noted and device["highest_observed_bytes"] == 0 and not calls_of(report, "cuMemCreate", "cuArray", "cuMemAllocPitch"):
        highest, most = device["highest_requested_bytes"], known["most_live"]
        if abs(highest - most) > max(TOLERANCE, most // 100):
            same("the highest requested", highest, most)
    # Who holds it, added up. At the highest: within one percent below it.
    libraries = device["libraries"]
    same("routed of all libraries", sum(library["routed_bytes"] for library in libraries), ledger["requested_bytes"])
    same("observed of all libraries", sum(library["observed_bytes"] for library in libraries), ledger["observed_bytes"])
    if peaks and noted and not calls_of(report, "cuMemCreate", "cuArray", "cuMemAllocPitch"):
        at_highest, most = sum(library["at_highest_bytes"] for library in libraries), known["most_live"]
        if abs(at_highest - most) > max(TOLERANCE, most // 100) + most // 50:
            same("of all libraries at the highest", at_highest, most)
    return faults


def tops_of(chain):
    """The resource that hands out what the program has, if the chain has one: its first, or over the driver alone `direct`."""
    nodes = [node for node in chain["nodes"] if node["type"] != "rule"]
    return [node for node in nodes if node["type"] == "direct" or nodes[0]["type"] not in SOURCES][:1]


def request_faults(node):
    """What was neither a hit nor failed had to be asked of upstream; of a fallback's chains none is. `prefetch` counts its calls there."""
    rest = node["requests"] - node["hits"] - node["failed"]
    most = 0 if node["type"] == "chain" else node["upstream"]
    if node["type"] in (*SOURCES, "pinned_host", "rule", "prefetch") or 0 <= rest <= most:
        return []
    return [f"{node['name']}: of {node['requests']:,} requests {node['hits']:,} were hits and {node['failed']:,} failed, and upstream was "
            f"asked {node['upstream']:,} times"]


def chain_faults(report):
    """Each block is counted once on its way down and once on its way back: by every resource, and in the ledger."""
    faults = []
    for chain in report["chains"]:
        for node in chain["nodes"]:
            faults += request_faults(node)
            if node["given_back_bytes"] > node["handed_out_bytes"]:
                faults.append(f"{chain['route']} of device {chain['device']}: {node['name']}: {node['given_back_bytes']:,} bytes given "
                              f"back of {node['handed_out_bytes']:,}")
    for device in report["devices"]:
        chains = [chain for chain in report["chains"] if on_device(chain) and chain["device"] == device["device"]]
        tops = [top for chain in chains for top in tops_of(chain)]
        sources = [node for chain in chains for node in chain["nodes"] if node["type"] in SOURCES]
        now, counted = device["now"], device["counters"]

        def of(nodes, *keys):
            return sum(node[key] for node in nodes for key in keys)

        def left(what):
            return counted[f"allocated_{what}"] - counted[f"freed_{what}"] - counted[f"lost_{what}"]

        for what, ours, truth in (
                ("bytes that the tops have out", of(tops, "now_bytes"), now["requested_bytes"] + now["rounding_bytes"]),
                ("bytes that the sources hold", of(sources, "now_bytes"), now["reserved_bytes"]),
                ("requests of the tops", of(tops, "requests") - of(tops, "failed"), counted["allocated_blocks"]),
                ("bytes handed out by the tops", of(tops, "handed_out_bytes"), counted["allocated_handed_bytes"]),
                ("bytes given back to the tops", of(tops, "given_back_bytes"), counted["freed_handed_bytes"] + counted["lost_handed_bytes"]),
                ("blocks that live", left("blocks"), device["live_blocks"]),
                ("bytes requested of them", left("requested_bytes"), now["requested_bytes"]),
                ("bytes handed out of them", left("handed_bytes"), now["requested_bytes"] + now["rounding_bytes"])):
            if ours != truth:
                faults.append(f"device {device['device']}, {[node['name'] for node in tops]}: {what}: {ours:,}, in the ledger {truth:,}")
    return faults


def faults_of(report, known, noted=True, peaks=True):
    """`known`: what the simulated driver of that process wrote, or None. `noted`: the program's allocations and frees are. `peaks`:
    not where threads allocate side by side: what is on its way at the highest may be a block of each, of any size."""
    if report["end"]["kind"] != "exit":
        return []
    faults = chain_faults(report)
    if known is None:
        return faults
    seen = {device["device"]: device for device in report["devices"]}
    for truth in known:
        device = seen.get(truth["ordinal"])
        if device is not None:
            faults += device_faults(report, device, truth, noted, peaks)
        elif sum(truth[kind] for kind in HELD) != 0:
            faults.append(f"device {truth['ordinal']} holds memory and is not in the report: {truth}")
    return faults
