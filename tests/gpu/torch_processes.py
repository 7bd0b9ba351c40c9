"""PyTorch in processes started the ways Python knows. torch_processes.py WAY: fork, fork-after, spawn or forkserver.

fork: the parent starts CUDA only after the children; fork-after: it has, so the child's first use is refused and the
parent goes on. Every process multiplies integers as floats, so that the sums are exact. Run plain and preloaded by run.py.
"""
import multiprocessing
import sys

try:
    import torch
except ImportError as missing:
    print(missing)
    sys.exit(77)


def work(seed):
    matrix = (torch.arange(512 * 512, device="cuda") % (seed + 7)).reshape(512, 512).double()
    for _ in range(20):
        matrix = (matrix @ matrix.t()) % 1000
    return int(matrix.sum())


def child(seed, results):
    try:
        results.send((seed, work(seed)))
    except RuntimeError as refused:
        results.send((seed, type(refused).__name__))


def run(method):
    context = multiprocessing.get_context(method)
    for seed in range(3):
        mine, theirs = context.Pipe()
        process = context.Process(target=child, args=(seed, theirs))
        process.start()
        print("child", *mine.recv())
        process.join()
        print("ended with", process.exitcode)


def main():
    way = sys.argv[1]
    if way != "fork" and not torch.cuda.is_available():
        print("no CUDA device")
        sys.exit(77)
    if way == "fork-after":
        print("parent before", work(9))
    run(way.split("-")[0])
    print("parent", work(9))


if __name__ == "__main__":
    main()
