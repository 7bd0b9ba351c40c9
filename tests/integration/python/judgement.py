"""The plugin's figures over a library that is made up, in one process with it: run by pytest from limits_of_tests.py."""
import pytest

import gpumem
from gpumem import pytest_plugin as plugin

MIB = 1 << 20


def statistics(current, peak, observed=0, count=1):
    return gpumem.Statistics(current * MIB, peak * MIB, count, count, 0, 0, observed * MIB, 0)


@pytest.fixture
def library(monkeypatch):
    """What a library says of device 1; set `now`, and `resets` where it can begin a peak anew."""
    class Library:
        now = None

        def resets(self):
            def reset(device):
                self.now = self.now._replace(peak_bytes=self.now.current_bytes)
            monkeypatch.setattr(gpumem, "reset_peak", reset, raising=False)

        def ask(self, device):
            if self.now is None:
                raise gpumem.NotLoaded("no call yet")
            if device != 1:
                raise ValueError(device)
            return self.now

    made = Library()
    monkeypatch.setattr(gpumem, "get_statistics", made.ask)
    monkeypatch.delattr(gpumem, "reset_peak", raising=False)
    return made


def measured(library, before, *then):
    library.now = before
    measurement = plugin._Measurement()
    for each in then:
        library.now = each
    return measurement.changes()


def test_the_first_use_of_a_device_is_the_tests_own(library):
    assert measured(library, None, statistics(1, 9)) == [(1, 9 * MIB, 9 * MIB, 0)]


def test_a_new_highest_is_exact(library):
    assert measured(library, statistics(2, 5), statistics(3, 9)) == [(1, 7 * MIB, 7 * MIB, 0)]


def test_below_an_earlier_highest_there_are_bounds(library):
    assert measured(library, statistics(2, 50), statistics(3, 50)) == [(1, 1 * MIB, 48 * MIB, 0)]


def test_a_peak_that_begins_anew_is_exact(library):
    library.resets()
    library.now = statistics(2, 50)
    measurement = plugin._Measurement()
    library.now = statistics(3, 7)
    assert measurement.changes() == [(1, 5 * MIB, 5 * MIB, 0)]


def test_what_is_certain_fails_and_what_is_not_warns():
    judge = plugin._judge_memory
    change = plugin._Change
    assert judge(10, [change(0, 10, 10, 0)]) == ("", "")
    assert "held 11 B more" in judge(10, [change(0, 11, 11, 0)])[0]
    assert "device 3, at its end" in judge(10, [change(3, 11, 99, 0)])[0]
    fault, doubt = judge(10, [change(0, 5, 11, 0)])
    assert fault == "" and "between 5 B and 11 B, its limit 10 B" in doubt
    assert "6 B of it by calls that no chain serves" in judge(10, [change(0, 5, 5, 6)])[0]
    assert "no chain serves" in judge(10, [change(0, 1, 1, 2)])[1]
    assert judge(10, [change(0, 1, 1, -5)]) == ("", "")
    assert judge(10, []) == ("", "")


@pytest.mark.parametrize("text, size", [("2 GiB", 2 << 30), ("24 MB", 24000000), ("24MB", 24000000), ("512", 512), (512, 512),
                                        ("1.5 kib", 1536), ("0 B", 0), ("3 TB", 3 * 10**12)])
def test_sizes(text, size):
    assert plugin.bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "2 gigs", "-1 B", "1 2 B", "2 GiB and more", None, True, "1e3 B", "nan", "2 GİB"])
def test_no_sizes(text):
    with pytest.raises(ValueError, match="is no size"):
        plugin.bytes_of(text)
