"""gpumem: RAPIDS RMM's memory resources for unmodified CUDA programs.

The console script and `python -m gpumem` run the program; `library` is what LD_PRELOAD wants. In a program that runs under it the
functions below ask the library that is loaded, by ctypes; names are RMM's where RMM has one (rmm.statistics). Without it they raise
NotLoaded. Bytes everywhere; any thread.
"""
import contextlib
import ctypes
import json
import os
import sys
import typing

_folder = os.path.dirname(os.path.abspath(__file__))
program = os.path.join(_folder, "bin", "gpumem")
library = os.path.join(_folder, "lib", "gpumem", "libgpumem.so")
include = os.path.join(_folder, "include")    # of gpumem/gpumem.h, for compilers


class NotLoaded(RuntimeError):
    """gpumem is not preloaded, is disabled, or this process has made no CUDA call yet."""


class Statistics(typing.NamedTuple):
    """Of one device. `peak_bytes` is exact to 1 % or 8 MiB, the larger."""

    current_bytes: int      # requested by the program through chains, not yet given back
    peak_bytes: int         # the most since the start, or reset_peak
    current_count: int      # blocks
    total_count: int        # served since the start
    reserved_bytes: int     # taken from the driver by chains
    cached_bytes: int       # of it, idle
    observed_bytes: int     # by calls that no chain serves
    refusals: int           # for lack of memory


class _Figures(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "requested", "highest_requested", "reserved", "cached", "observed", "allocations", "frees", "refusals")]


def _function(name):
    loaded = ctypes.CDLL(None)
    try:
        return getattr(loaded, "gpumem_" + name)
    except AttributeError:
        if hasattr(loaded, "gpumem_api_version"):
            raise NotLoaded("the gpumem that is loaded is older than this: it has no " + name) from None
        raise NotLoaded("gpumem is not loaded: LD_PRELOAD={} or `gpumem run`".format(library)) from None


def _check(code, what):
    if code == 2:
        raise NotLoaded("gpumem has nothing to tell: it is disabled, or there was no CUDA call yet")
    if code != 0:
        raise ValueError("{}: gpumem.h's code {}".format(what, code))


def is_loaded():
    """Whether this process runs under gpumem."""
    try:
        return _function("api_version")() >= 1
    except NotLoaded:
        return False


def get_statistics(device=0):
    """The Statistics of a device, by its number in the driver. ValueError: no call has used it."""
    now = _Figures(size=ctypes.sizeof(_Figures))
    _check(_function("get_statistics")(ctypes.c_int(device), ctypes.byref(now)), "device {}".format(device))
    return Statistics(now.requested, now.highest_requested, now.allocations - now.frees, now.allocations, now.reserved,
                      now.cached, now.observed, now.refusals)


def trim():
    """Gives idle memory of the current device back to the driver, waiting for the work before its frees; bytes given back."""
    given = ctypes.c_uint64()
    _check(_function("trim")(ctypes.byref(given)), "trim, which needs a current context")
    return given.value


def reset_peak(device=0):
    """From here on peak_bytes of a device begins at what it holds now; the report keeps the highest of all."""
    _check(_function("reset_peak")(ctypes.c_int(device)), "device {}".format(device))


def get_report():
    """The report of this moment of the running process, otherwise as GPUMEM_JSON writes it at the end."""
    ask, needed = _function("get_report"), ctypes.c_size_t(1 << 16)
    while True:
        text = ctypes.create_string_buffer(needed.value + 4096)     # it may grow in between
        code = ask(text, ctypes.c_size_t(len(text)), ctypes.byref(needed))
        if code != 4:
            _check(code, "report")
            return json.loads(text.value.decode("utf-8", "replace"))


class phase(contextlib.ContextDecorator):
    """Names a part of the program's work: `with gpumem.phase("load"):`, or before a function `@gpumem.phase("load")`.

    The report says what memory the process held meanwhile, and its requests; phases in phases are nested, by thread. Numbers in the
    name are replaced by N. May come before the first CUDA call. Without the library nothing happens.
    """

    def __init__(self, name):
        self.name = str(name).encode("utf-8", "replace")

    def __enter__(self):
        try:
            _function("phase_begin")(ctypes.c_char_p(self.name))
        except NotLoaded:
            pass
        return self

    def __exit__(self, *exception):
        try:
            _function("phase_end")()
        except NotLoaded:
            pass
        return False


def main():
    sys.stdout.flush()
    os.execv(program, ["gpumem"] + sys.argv[1:])
