"""Modules that a test may do without, or that take long to load: asked for where they are used.

Tests run without `site` (tests/CMakeLists.txt), so that packages are not on the path by themselves.
"""
import importlib
import pathlib
import site
import sys

FETCHED = pathlib.Path(__file__).resolve().parents[2] / "build-headers" / "python"  # scripts/from_pypi.py


def first_of(*names):
    """The first of these modules that is there, or None."""
    for place in [str(FETCHED), *site.getsitepackages()]:
        if place not in sys.path:
            sys.path.append(place)
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:  # not there, or half of it
            pass
    return None


def read_toml(path):
    return first_of("tomllib", "tomli").loads(path.read_text())  # tomli before Python 3.11
