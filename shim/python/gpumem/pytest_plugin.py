"""A pytest plugin: markers that limit what a test takes of GPU memory, as pytest-memray's limit what it takes of the host's.

pytest finds it by the wheel's entry point; `--gpumem` (or `gpumem = true` in pytest.ini) switches it on, and markers do nothing without
it. pytest itself must run under gpumem: `gpumem run -- pytest --gpumem`. What is measured is the module's statistics: memory that the
driver's functions were asked for, on each device, while the body of the test ran; memory below a cache of PyTorch's or CuPy's is
that cache's. docs/pytorch.md has an example.
"""
import collections
import gc
import os
import re

import pytest

import gpumem

_units = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_most_devices = 64                      # numbers that are asked for
_bound = "exact to 1 % or 8 MiB, the larger"
_property = "gpumem"                    # of a test report, also in JUnit's XML

_Change = collections.namedtuple("_Change", "device low high observed")
_Change.__doc__ = """What one device held more than when the test began: the most of the test lies between low and high; observed is the
change of memory that no chain serves, of which only the end is known."""


def bytes_of(text):
    """"2 GiB" as bytes. ValueError: it is no size."""
    found = re.match(r"^\s*(\d+(?:\.\d+)?)\s*([kmgt]i?b|b)?\s*$", text if isinstance(text, str) else str(text), re.IGNORECASE | re.ASCII)
    if found is None:
        raise ValueError("{!r} is no size: a number and B, KiB, MiB, GiB, TiB, kB, MB, GB or TB, as \"2 GiB\"".format(text))
    return int(float(found.group(1)) * _units[(found.group(2) or "b").lower()])


def text_of(count):
    """Bytes as the report writes them."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= size:
            return "{:.2f} {}".format(count / size, unit)
    return "{} B".format(count)


def _why_not_loaded():
    """Empty where there is something to measure by; a library that is switched off counts nothing, and would pass every test."""
    if not gpumem.is_loaded():
        other = ", or LD_PRELOAD={}".format(gpumem.library) if os.path.exists(gpumem.library) else ""
        return "pytest does not run under gpumem: gpumem run -- pytest --gpumem" + other
    if os.environ.get("GPUMEM_DISABLE", "0") not in ("", "0"):
        return "GPUMEM_DISABLE is set: unset it"
    return ""


def _look():
    """The statistics of each device that was used; none before the first CUDA call."""
    seen = {}
    for device in range(_most_devices):
        try:
            seen[device] = gpumem.get_statistics(device)
        except ValueError:              # not used
            continue
        except gpumem.NotLoaded:        # no CUDA call yet
            break
    return seen


def _reset_peak(device):
    """Whether the highest of a device now begins at what is held now. Older libraries cannot: then it is the highest since the start."""
    reset = getattr(gpumem, "reset_peak", None)
    if reset is None:
        return False
    try:
        reset(device)
        return True
    except (gpumem.NotLoaded, ValueError):
        return False


class _Measurement:
    """What each device holds more than when this began."""

    def __init__(self):
        gc.collect()                    # what earlier tests left to be collected is not this test's
        self._before = _look()
        self._reset = {device for device in self._before if _reset_peak(device)}

    def changes(self):
        """At the end of the test's body. Without a peak of its own a test below the highest of an earlier one is known within bounds only."""
        return [self._of(device, now) for device, now in sorted(_look().items())]

    def _of(self, device, now):
        before = self._before.get(device)
        if before is None:              # first used by this test
            return _Change(device, now.peak_bytes, now.peak_bytes, now.observed_bytes)
        high = now.peak_bytes - before.current_bytes
        told = device in self._reset or now.peak_bytes > before.peak_bytes
        low = high if told else now.current_bytes - before.current_bytes
        return _Change(device, low, max(low, high), now.observed_bytes - before.observed_bytes)

    def kept(self):
        """Bytes and blocks that were taken and not given back, of each device; what is seen only counts as well."""
        gc.collect()
        found = []
        for device, now in sorted(_look().items()):
            before = self._before.get(device)
            more = now.current_bytes + now.observed_bytes - (before.current_bytes + before.observed_bytes if before else 0)
            # What a test gives back of others', a cache emptied, makes up for nothing on another device.
            found.append((device, max(0, more), now.current_count - (before.current_count if before else 0)))
        return found


class _Limit:
    """The two markers of one test, in bytes; None: without it."""

    def __init__(self, item):
        memory, leaks = item.get_closest_marker("limit_gpu_memory"), item.get_closest_marker("limit_gpu_leaks")
        self.memory = None if memory is None else _argument(memory)
        self.leaks = None if leaks is None else _argument(leaks, "0 B")

    def __bool__(self):
        return self.memory is not None or self.leaks is not None


def _argument(marker, without=None):
    if marker.kwargs or len(marker.args) > 1 or (not marker.args and without is None):
        raise TypeError("{} takes one argument, the size: @pytest.mark.{}(\"2 GiB\")".format(marker.name, marker.name))
    return bytes_of(marker.args[0] if marker.args else without)


def _judge_memory(limit, changes):
    """(fault, warning): at most one is no empty text."""
    for one in changes:
        low = one.low + max(0, one.observed)
        if low > limit:
            what = "held {} more than when it began".format(text_of(low))
            if one.observed > 0:
                what += ", {} of it by calls that no chain serves".format(text_of(one.observed))
            how = _bound if one.low == one.high else "at its end; in between it may have been more"
            return "Test was limited to {} of GPU memory but {} (device {}, {})".format(text_of(limit), what, one.device, how), ""
    for one in changes:
        if one.high + max(0, one.observed) > limit:
            return "", ("device {}: the most that the test held is between {} and {}, its limit {}: an earlier test held more, and this "
                        "library has one highest for the process; run the test alone, or with a newer gpumem"
                        ).format(one.device, text_of(one.low), text_of(one.high), text_of(limit))
        if one.observed > 0:
            return "", ("device {}: {} were taken by calls that no chain serves; of such memory only the end of the test is known, not the "
                        "most").format(one.device, text_of(one.observed))
    return "", ""


def _judge_leaks(limit, kept):
    total = sum(more for _, more, _ in kept)
    if total <= limit:
        return ""
    parts = ["device {}: {} in {} block{}".format(device, text_of(more), blocks, "" if blocks == 1 else "s")
             for device, more, blocks in kept if more > 0]
    return "Test was allowed to leak {} of GPU memory but did not give back {} ({})".format(text_of(limit), text_of(total), "; ".join(parts))


def _holders():
    """Who holds the memory now, from the report; empty where that cannot be had."""
    lines = []
    try:
        report = gpumem.get_report()
        for device in report["devices"]:
            for library in device.get("libraries", []):
                routed = library["routed_bytes"]
                observed = library["observed_bytes"]
                if routed + observed > 0:
                    name = os.path.basename(library.get("path") or "") or "unknown"
                    lines.append("device {}  {:<40} {:>12} now".format(device["device"], name, text_of(routed + observed)))
    except (gpumem.NotLoaded, ValueError, KeyError, TypeError):
        pass
    if not lines:
        return ""
    return "\n".join(lines + ["by code: a chain with \"tracking\", or gpumem run --record"])


def pytest_addoption(parser):
    group = parser.getgroup("gpumem", "GPU memory of tests, by gpumem")
    group.addoption("--gpumem", action="store_true", default=False, help="enforce the markers limit_gpu_memory and limit_gpu_leaks")
    group.addoption("--gpumem-not-loaded", choices=("error", "skip"), default=None,
                    help="what becomes of a marked test where pytest does not run under gpumem (default: error)")
    parser.addini("gpumem", "as --gpumem", type="bool", default=False)
    parser.addini("gpumem_not_loaded", "as --gpumem-not-loaded", default="error")


def _is_on(config):
    return config.getoption("--gpumem") or config.getini("gpumem")


def pytest_configure(config):
    config.addinivalue_line("markers", "limit_gpu_memory(size): fail the test if it holds more GPU memory than size at any time")
    config.addinivalue_line("markers", "limit_gpu_leaks(size=\"0 B\"): fail the test if it does not give back more GPU memory than size")
    if _is_on(config) and config.getini("gpumem_not_loaded") not in ("error", "skip"):
        raise pytest.UsageError("gpumem_not_loaded is {!r}: error or skip".format(config.getini("gpumem_not_loaded")))


def pytest_report_header(config):
    if not _is_on(config):
        return None
    return "gpumem: " + (_why_not_loaded() or "GPU memory of marked tests is limited")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if not _is_on(item.config) or not _Limit(item):
        return
    why = _why_not_loaded()
    if not why:
        return
    if (item.config.getoption("--gpumem-not-loaded") or item.config.getini("gpumem_not_loaded")) == "skip":
        pytest.skip(why)
    pytest.fail(why, pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    limit = _Limit(item) if _is_on(item.config) else None
    if not limit:
        yield
        return
    measurement = _Measurement()
    outcome = yield
    if outcome.excinfo is not None:     # it failed by itself; what an exception's frames hold is no leak
        return
    faults = []
    if limit.memory is not None:
        changes = measurement.changes()
        fault, doubt = _judge_memory(limit.memory, changes)
        faults += [fault] if fault else []
        if doubt:
            item.warn(pytest.PytestWarning("{}: {}".format(item.name, doubt)))
        low, high = (max([bound(one) + max(0, one.observed) for one in changes] or [0])
                     for bound in (lambda one: one.low, lambda one: one.high))
        held = text_of(low) if low == high else "{} to {}".format(text_of(low), text_of(high))
        item.user_properties.append((_property, "held {} of {}".format(held, text_of(limit.memory))))
    if limit.leaks is not None:
        kept = measurement.kept()
        fault = _judge_leaks(limit.leaks, kept)
        faults += [fault] if fault else []
        item.user_properties.append((_property, "kept {} of {}".format(text_of(sum(more for _, more, _ in kept)), text_of(limit.leaks))))
    if faults:
        item.gpumem_faults = faults
        holders = _holders()
        if holders:
            item.add_report_section("call", "gpumem", holders)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    faults = getattr(item, "gpumem_faults", None)
    if call.when == "call" and faults and report.passed:
        report.outcome = "failed"
        report.longrepr = "\n".join(faults)


def pytest_terminal_summary(terminalreporter, config):
    if not _is_on(config):
        return
    rows = [(report.nodeid, value) for reports in terminalreporter.stats.values() for report in reports
            if getattr(report, "when", "") == "call" for name, value in report.user_properties if name == _property]
    if not rows:
        return
    terminalreporter.section("GPU memory, {}".format(_bound))
    for test, value in sorted(rows):
        terminalreporter.write_line("{:<32} {}".format(value, test))
