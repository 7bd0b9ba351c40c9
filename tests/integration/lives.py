"""Runs a program in a later life of its contexts: after others of each device that were used and ended (earlier_life.cpp, preloaded).

Used by programs/compare.py, random/transcripts.py and lives/; runs nothing by itself.
"""
import pathlib
import re
import tempfile

import harness

LIBRARY = "programs/libearlier_life.so"


def environment(build, lives, library=None, noted=False, exports=True):
    """`library`: gpumem's, None: a plain run. `noted`: of a program whose blocks the simulated CUDA is told of."""
    libraries = [*([library] if library else []), LIBRARY]
    return {"LD_PRELOAD": ":".join([*build.first, *(str(build.folder / each) for each in libraries)]), "EARLIER_LIVES": str(lives),
            "EARLIER_LIFE_NOTES": "1" if noted else None, "EARLIER_LIFE_EXPORTS": "1" if exports else None}


def can_export(config):
    """Whether memory of this chain can be shared by legacy IPC."""
    return config is None or not re.search(r'^device = .*"(vmm|cuda_async|system|managed)"', pathlib.Path(config).read_text(), re.MULTILINE)


def run_both(build, command, lives, surroundings, env, library="libgpumem.so"):
    """Plain and preloaded, and what the earlier lives of the latter asked for, by process."""
    what = {"noted": not command[0].endswith(".driver"),  # what uses the runtime notes its blocks
            "exports": can_export(env.get("GPUMEM_CONFIG"))}
    plain = build.run(command, env={**surroundings, **environment(build, lives, **what)})
    with tempfile.TemporaryDirectory(prefix="gpumem-lives.") as folder:
        path = pathlib.Path(folder) / "counts"
        preloaded = build.run(command, preload=True, env={**surroundings, **environment(build, lives, library, **what),
                                                          "EARLIER_LIFE_COUNTS": str(path), **env})
        counts = harness.own_counts(path.read_text().replace(" counts:", "\ncounts:") if path.exists() else "")
    assert counts, f"no earlier life was there: {preloaded.stderr[-2000:]}"
    return plain, preloaded, counts
