"""gpumem.h over time: nothing that a program was built with is taken away, and program and library may be of different versions.

abi.py BUILD [test...]; see harness.main. tests/golden/abi keeps what the header declares, now (gpumem.h.txt) and in each version that went
out (gpumem.h.1.txt); headers and stand-in libraries of other versions are made from these lists.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness

ROOT = HERE.parent.parent.parent
HEADER = ROOT / "shim" / "include" / "gpumem" / "gpumem.h"
KEPT = ROOT / "tests" / "golden" / "abi"
STREAM = "typedef struct CUstream_st* gpumem_stream;"
LONGER = ["uint64_t later_one", "uint64_t later_two"]   # of a version that is not there yet

PROGRAM = r"""
#include <cuda_runtime_api.h>
#include <gpumem/gpumem.h>
#include <stdio.h>
#include <string.h>
int main(void) {
  struct { gpumem_statistics figures; unsigned char behind[64]; } all;
  void* block = NULL;
  printf("loaded %d, version %d\n", gpumem_is_loaded(), gpumem_is_loaded() ? gpumem_api_version() : 0);
  if (cudaMalloc(&block, 1 << 20) != 0) printf("no CUDA\n");
  memset(&all, 0xee, sizeof all);
  all.figures.size = sizeof all.figures;
  int const code = gpumem_get_statistics(0, &all.figures);
  printf("statistics %d, requested %llu", code, (unsigned long long)all.figures.requested);
  size_t told = all.figures.size, touched = 0, left = 0;
  for (size_t i = 0; i < sizeof all.behind; ++i) touched += all.behind[i] != 0xee;
  for (size_t i = told; i < sizeof all.figures; ++i) left += ((unsigned char*)&all.figures)[i] == 0xee;
  printf(", told %zu of %zu, behind them %zu touched, not told %zu left alone\n", told, sizeof all.figures, touched, left);
#ifdef GPUMEM_HAS
  printf("reset_peak %d, allocate %d, trim %d\n", GPUMEM_HAS(gpumem_reset_peak), GPUMEM_HAS(gpumem_allocate), GPUMEM_HAS(gpumem_trim));
#endif
  cudaFree(block);
  return 0;
}
"""
PYTHON = """
import ctypes, gpumem
block = ctypes.c_void_p()
ctypes.CDLL("libcudart.so.13").cudaMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 20))
print(gpumem.is_loaded(), gpumem.get_statistics().current_bytes)
try:
    print(gpumem.reset_peak())
except gpumem.NotLoaded as why:
    print(why)
"""


def declared(text):
    """What a header declares: functions, the fields of gpumem_statistics, codes."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return {"functions": [" ".join(line.split()) for line in re.findall(r"^GPUMEM_API ([^;]+);", text, re.MULTILINE)],
            "fields": re.findall(r"(\w+ \w+);", text[text.index("typedef struct gpumem_statistics"):text.index("} gpumem_statistics")]),
            "codes": [" ".join(each.split()) for each in re.findall(r"GPUMEM_\w+\s*=\s*\d+", text)]}


def read(name):
    lines = (KEPT / name).read_text().splitlines()
    return {"functions": [line for line in lines if "(" in line], "codes": [line for line in lines if " = " in line],
            "fields": [line for line in lines if "(" not in line and " = " not in line]}


def header_of(kept):
    functions = "".join(f"__attribute__((weak)) {each};\n" for each in kept["functions"])
    return (f"#include <stddef.h>\n#include <stdint.h>\n{STREAM}\nenum {{ {', '.join(kept['codes'])} }};\n"
            f"typedef struct gpumem_statistics {{ {'; '.join(kept['fields'])}; }} gpumem_statistics;\n{functions}"
            "static inline int gpumem_is_loaded(void) { return gpumem_api_version != NULL; }\n")


def library_of(kept, version):
    """In C: every function is there; the figures are 1, 2, 3..."""
    text = header_of(kept).replace("__attribute__((weak)) ", "") + "#include <string.h>\n"
    figures = ", ".join(str(i + 1) for i in range(len(kept["fields"]) - 1))
    for each in kept["functions"]:
        body = "return 2;"
        if "gpumem_api_version" in each:
            body = f"return {version};"
        elif "gpumem_get_statistics" in each:
            body = (f"gpumem_statistics told = {{sizeof told, {figures}}}; if (result->size < told.size) told.size = result->size; "
                    "memcpy(result, &told, told.size); return 0;")
        text += f"{each} {{ {body} }}\n"
    return text


def compile_c(folder, name, text, *flags):
    source, made = pathlib.Path(folder) / f"{name}.c", pathlib.Path(folder) / name
    source.write_text(text)
    done = subprocess.run(["cc", "-std=c99", "-D_GNU_SOURCE", "-fPIC", source, "-o", made, *flags], capture_output=True, text=True, timeout=60)
    harness.equal(done.returncode, 0, f"{name}: {done.stderr}")
    return str(made)


def program(build, folder, header):
    include = pathlib.Path(folder) / "include" / "gpumem"
    include.mkdir(parents=True)
    (include / "gpumem.h").write_text(header)
    cuda = re.search(r"^GPUMEM_CUDA_HEADERS:\w+=(.*)$", (build.folder / "CMakeCache.txt").read_text(), re.M)
    return compile_c(folder, "asks", PROGRAM, "-pie", f"-I{include.parent}", "-isystem", cuda.group(1), f"-L{build.simulated}", "-l:libcudart.so.13",
                     f"-Wl,-rpath-link,{build.simulated}")


def test_the_header_declares_what_is_kept(build):
    now = declared(HEADER.read_text())
    kept = "\n".join([*now["functions"], *now["fields"], *now["codes"]]) + "\n"
    harness.equal(kept, (KEPT / "gpumem.h.txt").read_text(), "gpumem.h.txt: a program that was built before would break, or the list is to be made longer")


def test_only_additions_since_each_version(build):
    now = read("gpumem.h.txt")
    versions = sorted(KEPT.glob("gpumem.h.*.txt"))
    assert versions, "no version is kept"
    for path in versions:
        then = read(path.name)
        harness.equal([each for each in then["functions"] + then["codes"] if each not in now["functions"] + now["codes"]], [],
                      f"{path.name}: taken away or changed")
        harness.equal(now["fields"][:len(then["fields"])], then["fields"], f"{path.name}: fields of gpumem_statistics")
    version = int(re.search(r"GPUMEM_API_VERSION (\d+)", HEADER.read_text()).group(1))
    newest = read(versions[-1].name)
    assert version > len(versions) or now == newest, f"the header is no longer that of version {version}: raise it"


def test_an_older_program_with_this_library(build):
    with tempfile.TemporaryDirectory() as folder:
        asks = program(build, folder, header_of(read("gpumem.h.1.txt")))
        size = 8 * len(read("gpumem.h.1.txt")["fields"])
        version = re.search(r"GPUMEM_API_VERSION (\d+)", HEADER.read_text()).group(1)
        outcome = build.run([asks], preload=True)
        harness.equal((outcome.code, outcome.stdout),
                      (0, f"loaded 1, version {version}\nstatistics 0, requested 1048576, told {size} of {size}, behind them 0 touched, "
                          "not told 0 left alone\n"), outcome.stderr)


def test_this_program_with_an_older_library(build):
    with tempfile.TemporaryDirectory() as folder:
        then, now = read("gpumem.h.1.txt"), read("gpumem.h.txt")
        old, size = 8 * len(then["fields"]), 8 * len(now["fields"])
        library = compile_c(folder, "old.so", library_of(then, 1), "-shared")
        asks = program(build, folder, HEADER.read_text())
        outcome = build.run([asks], env={"LD_PRELOAD": library})
        harness.equal((outcome.code, outcome.stdout),
                      (0, f"loaded 1, version 1\nstatistics 0, requested 1, told {old} of {size}, behind them 0 touched, "
                          f"not told {size - old} left alone\nreset_peak 0, allocate 0, trim 1\n"), outcome.stderr)
        env = {"PYTHONPATH": str(ROOT / "shim" / "python"), "PYTHONDONTWRITEBYTECODE": "1", "LD_PRELOAD": library}
        outcome = build.run([sys.executable, "-c", PYTHON], env=env)
        harness.equal((outcome.code, outcome.stdout), (0, "True 1\nthe gpumem that is loaded is older than this: it has no reset_peak\n"), outcome.stderr)


def test_this_program_with_a_newer_library(build):
    with tempfile.TemporaryDirectory() as folder:
        now = read("gpumem.h.txt")
        size = 8 * len(now["fields"])
        later = {**now, "fields": now["fields"] + LONGER, "functions": now["functions"] + ["int gpumem_of_later(int device)"]}
        library = compile_c(folder, "new.so", library_of(later, 99), "-shared")
        asks = program(build, folder, HEADER.read_text())
        outcome = build.run([asks], env={"LD_PRELOAD": library})
        harness.equal((outcome.code, outcome.stdout),
                      (0, f"loaded 1, version 99\nstatistics 0, requested 1, told {size} of {size}, behind them 0 touched, not told 0 left "
                          "alone\nreset_peak 1, allocate 1, trim 1\n"), outcome.stderr)


def test_a_newer_program_with_this_library(build):
    with tempfile.TemporaryDirectory() as folder:
        now = read("gpumem.h.txt")
        size = 8 * len(now["fields"])
        asks = program(build, folder, header_of({**now, "fields": now["fields"] + LONGER}))
        outcome = build.run([asks], preload=True)
        assert outcome.code == 0 and f"requested 1048576, told {size} of {size + 16}, behind them 0 touched, not told 16 left alone" in outcome.stdout, \
            outcome.stdout + outcome.stderr


harness.main(globals())
