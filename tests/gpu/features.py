"""What torch_features.py, cupy_features.py and jax_features.py have in common: each feature is one line of what it computed.

A feature is a function of the file whose name begins with `feature_`; it returns numbers, which are rounded, since libraries choose
their kernels by what they measure. A feature that this machine's version lacks says so by raising Missing, with a reason that is the
same in each run. Run plain and preloaded by run.py, whose outputs must be equal.
"""
import sys
import warnings

warnings.filterwarnings("ignore")


class Missing(Exception):
    pass


def rounded(value):
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(rounded(each) for each in value) + "]"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def main(features):
    """argv: feature names; none: all of them. Ends with 1 where one failed, after all had their turn."""
    features = {name.removeprefix("feature_"): made for name, made in features.items() if name.startswith("feature_")}
    failed = 0
    for name in sys.argv[1:] or features:
        try:
            print(f"{name}: {rounded(features[name]())}", flush=True)
        except Missing as reason:
            print(f"{name}: not here: {reason}", flush=True)
        except Exception as fault:  # the next features have their turn
            failed += 1
            print(f"{name}: FAILED {type(fault).__name__}: {str(fault).splitlines()[0] if str(fault) else ''}", flush=True)
    sys.exit(1 if failed else 0)
