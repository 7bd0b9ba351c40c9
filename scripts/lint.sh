#!/usr/bin/env bash
# Checks the house rules that a machine can check: a head comment of 3 to 8 lines, at most 500 lines a file, no tabs, no
# trailing blanks, shellcheck where installed. clang-format (version 14; others format differently) is counted, and is a
# fault with --format; --fix formats. Called by test.sh; prints file:line: what for each fault, exits 1 when there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t files < <(git ls-files --cached --others --exclude-standard |
  grep -E '\.(hpp|h|cpp|c|cu|cuh|def|S|sh|py)$|^\.ci/run$' | grep -vE '(^|/)third_party/' || true)
present=()
for file in "${files[@]}"; do if [ -f "$file" ]; then present+=("$file"); fi; done

status=0
python3 - "${present[@]}" <<'PYTHON' || status=1
import re, sys

faults = 0


def fault(path, line, text):
    global faults
    faults += 1
    print(f"{path}:{line}: lint error: {text}")


def head_comment(path, lines):
    """Lines of the comment the file begins with, and the mark that opens it."""
    start = 1 if lines and lines[0].startswith("#!") else 0
    if path.endswith(".py") and len(lines) > start and lines[start].startswith('"""'):
        length = 1
        while '"""' not in lines[start + length - 1][3 if length == 1 else 0:]:
            length += 1
        return length
    mark = "#" if path.endswith((".sh", ".py", "run")) else ("//", "#", "/*", " *")
    length = 0
    for line in lines[start:]:
        if not line.startswith(mark) or line.startswith(("#include", "#pragma", "#if", "#define")):
            break
        length += 1
    return length


for path in sys.argv[1:]:
    text = open(path, encoding="utf-8", errors="replace").read()
    lines = text.splitlines()
    if len(lines) > 500:
        fault(path, len(lines), f"{len(lines)} lines, at most 500: split it")
    length = head_comment(path, lines)
    most = 20 if path.endswith(".def") else 10  # a list explains its columns
    if length == 0:
        fault(path, 1, "no head comment: 3 to 8 lines of what this is, who calls it, what must never happen here")
    elif length > most:
        fault(path, 1, f"head comment of {length} lines: at most 8, the rest belongs in a README")
    for number, line in enumerate(lines, 1):
        if "\t" in line and not path.endswith((".S", ".cfg")):
            fault(path, number, "a tab: use blanks")
        if line != line.rstrip():
            fault(path, number, "blanks at the end of the line")
        if re.search(r"\b(TODO|FIXME|XXX)\b", line) and not path.startswith("scripts/lint"):
            fault(path, number, "an unfinished note: finish it or file an issue")
    if text and not text.endswith("\n"):
        fault(path, len(lines), "no newline at the end of the file")
print(f"lint: {len(sys.argv) - 1} files read, {faults} faults")
sys.exit(1 if faults else 0)
PYTHON

shell_files=()
code_files=()
for file in "${present[@]}"; do
  case "$file" in
    *.sh|.ci/run) shell_files+=("$file") ;;
    *.hpp|*.h|*.cpp|*.c|*.cu|*.cuh) code_files+=("$file") ;;
  esac
done
for file in "${shell_files[@]}"; do bash -n "$file" || status=1; done
if command -v shellcheck >/dev/null 2>&1; then
  shellcheck -S warning "${shell_files[@]}" || status=1
else
  echo "lint: skipped shellcheck: not installed"
fi

formatter=""
for name in clang-format-14 clang-format; do
  if command -v "$name" >/dev/null 2>&1 && "$name" --version | grep -q 'version 14\.'; then formatter="$name"; break; fi
done
if [ -z "$formatter" ]; then
  echo "lint: skipped clang-format: version 14 is not installed"
elif [ "${1:-}" = "--fix" ]; then
  "$formatter" -i "${code_files[@]}"
elif ! "$formatter" --dry-run --Werror "${code_files[@]}" 2>/tmp/gpumem-format.$$; then
  grep -E 'error:' /tmp/gpumem-format.$$ | cut -d: -f1 | sort | uniq -c | sed 's/^/lint: clang-format: lines off in /'
  echo "lint: scripts/lint.sh --fix formats them"
  if [ "${1:-}" = "--format" ]; then status=1; fi
fi
rm -f /tmp/gpumem-format.$$
exit "$status"
