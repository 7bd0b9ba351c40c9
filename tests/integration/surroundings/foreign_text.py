"""What a program, a file or a foreign page holds reaches no terminal raw: no escape code, no U+009B, no turned writing.

foreign_text.py BUILD [test...]; see harness.main.
"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

EVIL = "\x1b]0;pwned\x07\x1b[31m\u009b31m\u202e"


def clean(text, what):
    raw = sorted({hex(ord(c)) for c in text if (ord(c) < 32 and c not in "\n\t") or 0x7f <= ord(c) < 0xa0 or c in "\u202e\u2028"})
    harness.equal(raw, [], f"control characters in {what}, {text[:300]!r}")


def test_names_of_the_program(build):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / f"p{EVIL.replace('/', '')}"
        program.symlink_to(build.program("runtime_loop.shared"))
        run = build.run([str(program), "5"], env={"LD_PRELOAD": str(build.library)})
        assert "=== gpumem" in run.stderr, f"no report: {run.stderr!r}"
        clean(run.stderr, "the report on stderr")


def test_names_in_messages_of_the_library(build):
    for variable in ("GPUMEM_REPORT", "GPUMEM_JSON", "GPUMEM_STATE_DIR", "GPUMEM_CONFIG", f"GPUMEM_{EVIL}"):
        run = build.run([build.program("runtime_loop.shared"), "5"],
                        env={"LD_PRELOAD": str(build.library), "GPUMEM_REPORT": "none", variable: f"/nowhere/{EVIL}/x"})
        assert "gpumem: " in run.stderr, f"no message about {variable!r}: {run.stderr!r}"
        clean(run.stderr, f"the message about {variable!r}")


def test_keys_of_a_configuration(build):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "evil.toml"
        for line in ("ini\x1b[31mtial = 50 MiB", '"ini\u009b31mtial" = 5', 'maximum_pool_size = "\u202e5"', "\u009b31m"):
            config.write_text(f'version = 1\n[route]\ndevice = ["pool", "cuda"]\n[resource.pool]\n{line}\n')
            run = build.run([build.program("runtime_loop.shared"), "5"], preload=True, env={"GPUMEM_CONFIG": str(config)})
            harness.equal(run.code, 78, f"exit code with {line!r}")
            clean(run.stderr, "the errors of a configuration")
            check = build.run([str(build.tool), "check", str(config)])
            clean(check.stdout + check.stderr, "gpumem check")


def page_of_a_killed_process(build, folder):
    os.mkdir(f"{folder}/state", 0o700)
    build.run([build.program("exits.shared"), "kill"],
              env={"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": f"{folder}/state", "GPUMEM_REPORT": "none"})
    pages = list(pathlib.Path(folder, "state").iterdir())
    harness.equal(len(pages), 1, "state pages of a killed process")
    return pages[0]


def test_the_version_of_a_foreign_page(build):
    with tempfile.TemporaryDirectory() as folder:
        page = page_of_a_killed_process(build, folder)
        content = bytearray(page.read_bytes())
        content[8:12] = (999).to_bytes(4, "little")
        at = content.index(b"0.1.0\0")
        evil = b"\x1b[2J\xc2\x9b31m\x07\0"
        content[at:at + len(evil)] = evil
        page.write_bytes(content)
        for arguments in ([str(page)], ["--list"], ["--last"]):
            run = build.run([str(build.tool), "report", *arguments], env={"GPUMEM_STATE_DIR": f"{folder}/state"})
            assert "999" in run.stdout + run.stderr, f"report {arguments} read another page: {run.stdout} {run.stderr}"
            clean(run.stdout + run.stderr, f"gpumem report {arguments}")


harness.main(globals())
