"""Proves that the reuse test can fail: over a cache that is wrong on purpose the simulator must report hazards.

can_fail.py BUILD. Without it, a simulator that sees nothing would make every other comparison pass.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness


def test_unsafe_cache_is_caught(build):
    command = [build.program("reuse.shared"), "20"]
    plain = build.run(command)
    harness.equal(plain.code, 0, f"plain run: {plain.stderr}")
    unsafe = build.run(command, env={"LD_PRELOAD": str(build.folder / "programs" / "libunsafe_cache.so")})
    assert unsafe.code != 0, f"the unsafe cache was not caught: {unsafe.stdout}{unsafe.stderr}"
    assert "hazard" in unsafe.stderr or "wrong" in unsafe.stdout, f"caught, but not as a hazard: {unsafe.stderr}"


harness.main(globals())
