"""Python code that takes blocks of distinct sizes and tells from where: python_program.py MODE [LIBRARY].

Prints a JSON object: of each size the frames, innermost first, as Python itself knows them: [[file, line, function], ...].
"""
import ctypes
import json
import os
import sys
import threading
import time

KIB = 1 << 10
cuda = ctypes.CDLL("libcudart.so")
truth = {}
blocks = []


def note(size):
    """The frames of the caller's caller."""
    frame, frames = sys._getframe(1), []
    while frame is not None:
        frames.append([frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name])
        frame = frame.f_back
    truth[size] = frames
    return ctypes.c_size_t(size)


def take(size):
    block = ctypes.c_void_p()
    code = cuda.cudaMalloc(ctypes.byref(block), note(size))
    blocks.append(block)
    return code


class Layer:
    def forward(self, size):
        return [
            take(size),
            take(size + KIB),

            take(
                size + 2 * KIB),
        ]

    def __call__(self, size):
        return self._call_impl(size)

    def _call_impl(self, size):  # as PyTorch calls its layers: left out
        return self.forward(size)


def größe_nehmen(size):
    try:
        raise ValueError
    except ValueError:
        take(size)
    finally:
        take(size + KIB)


def numbers(size):
    yield take(size)
    received = yield take(size + KIB)
    take(received)


def deep(size, depth):
    if depth == 0:
        return take(size)
    return deep(size, depth - 1)


def frames():
    Layer()(100 * KIB)
    größe_nehmen(200 * KIB)
    some = numbers(300 * KIB)
    next(some), next(some)
    try:
        some.send(302 * KIB)
    except StopIteration:
        pass
    [take(n) for n in (400 * KIB,)]
    (lambda size: take(size))(500 * KIB)
    list(map(take, [510 * KIB]))
    sorted([3], key=lambda n: take((520 + n) * KIB))
    deep(600 * KIB, 3)
    deep(610 * KIB, 200)
    exec(compile("\n" * 70000 + "take(620 * 1024)", "a far line.py", "exec"), globals())
    # A long function: its table of lines is read in several pieces.
    body = "".join(f"    x{i} = [{i},\n{i}]\n" for i in range(3000))
    exec(compile(f"def long():\n{body}    take(630 * 1024)\n{body}    take(631 * 1024)\nlong()", "/tmp/" + "ordner/" * 40 + "длинный.py", "exec"), globals())
    for _ in range(5):
        exec("take(640 * 1024)", globals())
        cuda.cudaFree(blocks.pop())
    thread = threading.Thread(target=take, args=(700 * KIB,), name="worker")
    thread.start()
    thread.join()


def native(library):
    frames()
    held = ctypes.CDLL(library)
    held.take_on_own_thread.argtypes = [ctypes.c_size_t, ctypes.c_char_p]
    held.take_on_own_thread.restype = ctypes.c_ulonglong
    assert held.take_on_own_thread(900 * KIB, b"pt_autograd_0") != 0


def subinterpreter():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = __import__(name)
            break
        except ImportError:
            interpreters = None
    if interpreters is None:
        print("null")
        sys.exit(0)
    take(100 * KIB)
    for how in ({"options": {"isolated": False}}, {"kind": ("legacy",)}, {}):
        try:
            one = interpreters.create(*how.get("kind", ()), **how.get("options", {}))
            break
        except TypeError:
            pass
    text = f"import ctypes\ncuda = ctypes.CDLL('libcudart.so')\nb = ctypes.c_void_p()\ncuda.cudaMalloc(ctypes.byref(b), ctypes.c_size_t({200 * KIB}))"
    run = getattr(interpreters, "run_string", None) or interpreters.exec
    run(one, text)
    interpreters.destroy(one)


def unrest():
    """Threads, forks, an exec, code that comes and goes, daemon threads at the end."""
    ends = time.monotonic() + 1.5
    stop = threading.Event()

    take(100 * KIB)  # stays, so that the report has a place to name

    def work(number):
        while not stop.is_set():
            names = {}
            exec(f"def f{number}(n):\n    return g(n)\n\ndef g(n):\n    block = ctypes.c_void_p()\n"
                 "    cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(n))\n    cuda.cudaFree(block)\n",
                 {"ctypes": ctypes, "cuda": cuda}, names)
            scope = {**names, "ctypes": ctypes, "cuda": cuda}
            exec(f"g(1 << 20)", scope)

    def short():
        block = ctypes.c_void_p()
        cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(4096))
        cuda.cudaFree(block)

    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(6)]
    for worker in workers:
        worker.start()
    while time.monotonic() < ends:
        children = [threading.Thread(target=short) for _ in range(4)]
        for child in children:
            child.start()
        pid = os.fork()
        if pid == 0:
            if len(children) % 2:
                os.execv(sys.executable, [sys.executable, "-c", "pass"])
            os._exit(0)
        os.waitpid(pid, 0)
        for child in children:
            child.join()
    # The daemon threads are at work while the interpreter ends. Not those of 3.10: it lets them into an interpreter that it has
    # freed (take_gil) as long as the process has not ended; where a destructor waits 20 ms it crashes in 28 of 40 runs without us.
    if sys.version_info[:2] == (3, 10):
        stop.set()
        for worker in workers:
            worker.join()


if sys.argv[1] == "native":
    native(sys.argv[2])
else:
    {"frames": frames, "subinterpreter": subinterpreter, "unrest": unrest}[sys.argv[1]]()
print(json.dumps(truth))
