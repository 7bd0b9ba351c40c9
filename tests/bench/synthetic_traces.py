"""Writes the stand-ins for recorded traces: synthetic_traces.py FOLDER. Deterministic; rerun only to change them.

synthetic_training: a network whose activations are kept forward and dropped backward, with temporaries and an optimizer,
batch size changing. synthetic_inference: prompts on two streams with caches that grow token by token. Sizes follow what
such programs ask for; they are no recordings, and their names say so.
"""
import gzip
import pathlib
import random
import sys


class Trace:
    def __init__(self):
        self.lines, self.made = ["# gpumem trace 1"], 0

    def allocate(self, size, stream=None):
        self.lines.append(f"a {self.made} {size}" + ("" if stream is None else f" {stream}"))
        self.made += 1
        return self.made - 1

    def free(self, number, stream=None):
        self.lines.append(f"f {number}" + ("" if stream is None else f" {stream}"))

    def temporary(self, size, stream=None):
        self.free(self.allocate(size, stream), stream)

    def write(self, path):
        path.write_bytes(gzip.compress(("\n".join(self.lines) + "\n").encode(), 9, mtime=0))


def training(seed=1, steps=40, layers=24, width=1024):
    trace, choose = Trace(), random.Random(seed)
    weights = [width * width * 4, width * 4] * layers
    for size in weights:                                    # weights and the optimizer's two moments
        for _ in range(3):
            trace.allocate(size)
    for _ in range(steps):
        batch = choose.choice((64, 96, 128, 160, 256))
        kept = []
        for layer in range(layers):                         # forward: activations stay, workspaces go
            kept += [trace.allocate(batch * width * 4), trace.allocate(batch * width * 4)]
            if layer % 3 == 0:
                trace.temporary(choose.choice((1 << 20, 8 << 20)) + 512 * choose.randrange(64))
        kept.append(trace.allocate(4))
        gradients = []
        for _ in range(layers):                             # backward: gradients come, activations go
            flowing = trace.allocate(batch * width * 4)
            gradients += [trace.allocate(width * width * 4), trace.allocate(width * 4)]
            trace.free(kept.pop())
            trace.free(kept.pop())
            trace.free(flowing)
        for gradient in gradients:
            trace.temporary(width * width * 4)
            trace.free(gradient)
        for number in kept:
            trace.free(number)
    return trace


def inference(seed=2, prompts=60, layers=12, width=1024):
    trace, choose = Trace(), random.Random(seed)
    for _ in range(layers):
        trace.allocate(12 * width * width * 2)
    for prompt in range(prompts):
        stream, batch, length = prompt % 2, choose.randint(1, 4), choose.randint(32, 512)
        cache = [trace.allocate(batch * length * width * 2, stream) for _ in range(2 * layers)]
        for token in range(choose.randint(4, 12)):
            for i in range(2 * layers):                     # a longer copy, then the old one goes
                longer = trace.allocate(batch * (length + token + 1) * width * 2, stream)
                trace.temporary(batch * width * 8, stream)
                trace.free(cache[i], stream)
                cache[i] = longer
            trace.temporary(batch * 32768 * 2, stream)
        for number in cache:
            trace.free(number, stream)
    return trace


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    training().write(folder / "synthetic_training.trace.gz")
    inference().write(folder / "synthetic_inference.trace.gz")
