"""Memory that goes back: the rows of docs/decisions.md, each plain, with gpumem, over vmm, and with release_after = "never".

memory_returns.py BUILD [SECONDS [ROW,...]]: on a GPU, nothing else on it; SECONDS for each run with pauses (15). Prints one line a run; what the
program is for is in memory_returns.cu. With two GPUs also nccl_rounds.py.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
VMM = 'version = 1\n[route]\ndevice = ["pool", "vmm"]\n'
NEVER = 'version = 1\n[route]\ndevice = ["pool", "cuda"]\n[resource.pool]\nrelease_after = "never"\n'


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    seconds = sys.argv[2] if len(sys.argv) > 2 else "15"
    program = build / "gpu" / "memory_returns.static"
    with tempfile.TemporaryDirectory(prefix="gpumem-returns.") as name:
        folder = pathlib.Path(name)
        (folder / "never.toml").write_text(NEVER)
        (folder / "vmm.toml").write_text(VMM)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GPUMEM_") and key != "LD_PRELOAD"}
        ours = {**kept, "LD_PRELOAD": str(build / "libgpumem.so"), "GPUMEM_REPORT": str(folder / "report.%p.%x"), "GPUMEM_STATE_DIR": name}
        variants = {"plain": kept, "gpumem": ours, "vmm": {**ours, "GPUMEM_CONFIG": str(folder / "vmm.toml")},
                    "never": {**ours, "GPUMEM_CONFIG": str(folder / "never.toml")}}
        rows = (["facts"], ["back"], ["earned"], ["warm", "3"], ["pauses", seconds], ["partners", "100000"], ["nccl", "100000"])
        chosen = sys.argv[3].split(",") if len(sys.argv) > 3 else [arguments[0] for arguments in rows]
        for arguments in rows:
            for variant, env in variants.items():
                if arguments[0] not in chosen:
                    continue
                if arguments[0] == "facts" and variant != "plain":
                    continue
                command = [sys.executable, HERE / "nccl_rounds.py", arguments[1]] if arguments[0] == "nccl" else [program, *arguments]
                try:
                    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=90)
                    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
                    print(f"{' '.join(arguments)}, {variant}: code {done.returncode}; " + "; ".join(said), flush=True)
                except subprocess.TimeoutExpired:
                    print(f"{' '.join(arguments)}, {variant}: hangs", flush=True)


main()
