"""PyTorch tensors and events sent to another process and back. torch_sharing.py METHOD: spawn or forkserver.

Two small tensors, a slice of one and a large one go out by torch.multiprocessing; the child checks them and writes into
them; the child's own tensor comes back. The same blocks then go by plain CUDA IPC handles, which need no PyTorch on the
other side. What PyTorch refuses (with its cache off) must be refused alike. Run plain and preloaded by run.py.
"""
import ctypes
import sys

try:
    import torch
    import torch.multiprocessing as multiprocessing
except ImportError as missing:
    print(missing)
    sys.exit(77)

SIZES = (1000, 1000, 48 << 20)


class IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


def driver(name, *arguments):
    code = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    assert code == 0, f"{name} gave {code}"


def export(tensor):
    handle = IpcHandle()
    driver("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(tensor.data_ptr()))
    return ctypes.string_at(ctypes.byref(handle), 64)


def use_imported(raw, bytes_count, wanted, written):
    """Opens a handle, compares every byte, writes another, closes."""
    address, handle, host = ctypes.c_uint64(), IpcHandle(), (ctypes.c_ubyte * bytes_count)()
    ctypes.memmove(ctypes.byref(handle), raw, 64)
    driver("cuIpcOpenMemHandle_v2", ctypes.byref(address), handle, ctypes.c_uint(1))
    driver("cuMemcpyDtoH_v2", host, address, ctypes.c_size_t(bytes_count))
    equal = bytes(host) == bytes([wanted]) * bytes_count
    driver("cuMemsetD8_v2", address, ctypes.c_ubyte(written), ctypes.c_size_t(bytes_count))
    driver("cuCtxSynchronize")
    driver("cuIpcCloseMemHandle", address)
    return equal


def child(pipe):
    torch.zeros(1, device="cuda")
    own = torch.full((5000,), 77, dtype=torch.uint8, device="cuda")
    while True:
        what, *rest = pipe.recv()
        if what == "end":
            return
        if what == "tensor":
            tensor, wanted, written = rest
            equal = bool((tensor == wanted).all())
            tensor.fill_(written)
            torch.cuda.synchronize()
            del tensor, rest
            pipe.send(equal)
        elif what == "event":
            torch.cuda.Event.from_ipc_handle(torch.device("cuda:0"), rest[0]).synchronize()
            pipe.send(True)
        elif what == "return":
            torch.cuda.synchronize()
            try:
                pipe.send(own)
            except RuntimeError as refused:
                pipe.send(type(refused).__name__)
        elif what == "handle":
            pipe.send(use_imported(*rest))


def attempt(name, step):
    try:
        print(f"{name}: {step()}")
    except RuntimeError as refused:
        print(f"{name}: refused, {type(refused).__name__}")


def send(pipe, tensor, wanted, written):
    pipe.send(("tensor", tensor, wanted, written))
    equal = pipe.recv()
    return equal, bool((tensor == written).all())


def send_handle(pipe, tensor, wanted, written):
    pipe.send(("handle", export(tensor), tensor.numel(), wanted, written))
    equal = pipe.recv()
    return equal, bool((tensor == written).all())


def receive(pipe):
    pipe.send(("return",))
    answer = pipe.recv()
    return answer if isinstance(answer, str) else (bool((answer == 77).all()), answer.numel())


def event(pipe):
    made = torch.cuda.Event(interprocess=True)
    made.record()
    pipe.send(("event", made.ipc_handle()))
    return pipe.recv()


def main():
    if not torch.cuda.is_available():
        print("no CUDA device")
        sys.exit(77)
    context = multiprocessing.get_context(sys.argv[1])
    pipe, other = context.Pipe()
    process = context.Process(target=child, args=(other,))
    process.start()
    other.close()  # or the end of the child would not be noticed
    tensors = [torch.full((size,), 10 + i, dtype=torch.uint8, device="cuda") for i, size in enumerate(SIZES)]
    torch.cuda.synchronize()
    for i, tensor in enumerate(tensors):
        attempt(f"tensor of {SIZES[i]}", lambda: send(pipe, tensor, 10 + i, 20 + i))
    tensors[1].fill_(30)
    torch.cuda.synchronize()
    attempt("slice", lambda: send(pipe, tensors[1][100:900], 30, 31))
    print("around the slice:", int(tensors[1][:100].sum()), int(tensors[1][900:].sum()))
    attempt("event", lambda: event(pipe))
    attempt("tensor of the child", lambda: receive(pipe))
    # A block of its own each, or the handle would name PyTorch's segment.
    if torch.cuda.memory_reserved() == 0:
        for i, tensor in enumerate(tensors):
            tensor.fill_(40 + i)
            torch.cuda.synchronize()
            print(f"handle of {SIZES[i]}:", send_handle(pipe, tensor, 40 + i, 50 + i))
    pipe.send(("end",))
    process.join()
    print("child ended with", process.exitcode)


if __name__ == "__main__":
    main()
