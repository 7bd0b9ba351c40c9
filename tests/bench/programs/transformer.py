"""A mid-size transformer at work: prompts of changing length through 12 layers, one token at a time with a growing cache.

Weights are random and from a fixed seed: nothing is downloaded. Shapes change with each prompt, which is what makes
allocators work. bench.py chooses PyTorch's allocator by the environment. Prints the time of a prompt; 77 where there is no
torch or GPU.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "gpu"))
import turns
from torch_here import torch

WIDTH, HEADS, LAYERS, WORDS = 1024, 16, 12, 8192
torch.manual_seed(1)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.mix, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, past):
        batch, length, _ = x.shape
        split = lambda t: t.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
        query, key, value = map(split, self.mix(self.before(x)).chunk(3, dim=-1))
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=past is None)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(torch.nn.functional.gelu(self.up(self.between(x)))), (key, value)


words = torch.nn.Embedding(WORDS, WIDTH).cuda().half()
layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS)).cuda().half().eval()


def one_prompt(number):
    generator = torch.Generator().manual_seed(number)
    length, batch = 64 + 37 * (number % 13), 1 + number % 4
    tokens = torch.randint(0, WORDS, (batch, length), generator=generator).cuda()
    past = [None] * LAYERS
    for _ in range(16):
        x = words(tokens)
        for i, layer in enumerate(layers):
            x, past[i] = layer(x, past[i])
        tokens = (x[:, -1] @ words.weight.T).argmax(dim=-1, keepdim=True)
    return tokens


with torch.inference_mode():
    for number in range(6):
        one_prompt(number)
    torch.cuda.synchronize()
    last = turns.timed("transformer prompt", "ms", 24, lambda number: one_prompt(6 + number), torch.cuda.synchronize)
print("last tokens", last.flatten().tolist())
