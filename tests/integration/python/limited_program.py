"""Tests of a program that takes GPU memory by ctypes, with the markers of the plugin; limits_of_tests.py runs them in their order.

What each is to become stands in its name.
"""
import ctypes

import pytest

cuda = ctypes.CDLL("libcudart.so.13")
kept = []


def take(mib, function="cudaMalloc"):
    block = ctypes.c_void_p()
    more = (ctypes.c_uint(1),) if function == "cudaMallocManaged" else ()
    assert getattr(cuda, function)(ctypes.byref(block), ctypes.c_size_t(mib << 20), *more) == 0
    return block


def give(*blocks):
    for block in blocks:
        assert cuda.cudaFree(block) == 0


@pytest.mark.limit_gpu_memory("64 MiB")
def test_passes_before_any_cuda():
    pass


@pytest.mark.limit_gpu_memory("64 MiB")
def test_passes_within():
    give(take(40))


@pytest.mark.limit_gpu_memory("64 MiB")
def test_fails_above():
    give(take(40), take(40))


@pytest.mark.limit_gpu_memory("64 MiB")
def test_passes_below_an_earlier_highest():
    give(take(10))


@pytest.fixture
def model():
    block = take(200)
    yield block
    give(block)


@pytest.mark.limit_gpu_memory("64 MiB")
def test_passes_beside_a_fixture(model):
    give(take(30))


@pytest.mark.limit_gpu_memory("64 MiB")
def test_fails_beside_a_fixture(model):
    give(take(70))


@pytest.mark.limit_gpu_memory("64 MiB")
def test_fails_by_memory_that_is_only_seen():
    kept.append(take(80, "cudaMallocManaged"))


@pytest.mark.limit_gpu_leaks
def test_passes_giving_back():
    give(take(5))


@pytest.mark.limit_gpu_leaks
def test_fails_keeping():
    kept.extend([take(3), take(4)])


@pytest.mark.limit_gpu_leaks("8 MiB")
def test_passes_keeping_little():
    kept.append(take(7))


@pytest.mark.limit_gpu_leaks
@pytest.mark.limit_gpu_memory("1 MiB")
def test_fails_by_its_own_assertion():
    kept.append(take(2))
    assert kept == []


@pytest.mark.limit_gpu_memory("64 MiB")
@pytest.mark.limit_gpu_leaks("1 kB")
def test_fails_by_both():
    kept.append(take(300))


@pytest.mark.limit_gpu_memory("2 gigs")
def test_errors_by_its_size():
    pass


@pytest.mark.limit_gpu_memory
def test_errors_without_a_size():
    pass


def test_passes_without_a_marker():
    kept.append(take(500))
