"""Choosing lambda1: how few pixels a map keeps.

Run it anywhere: `python examples/choosing_lambda1.py`. It writes sweep.png.
"""

import secondsight as ss

model = ss.load_model("efficientnet-lite0")
photograph = ss.example_photograph()

# By default the whole path is solved, and the knee of "gain kept against pixels kept" is taken.
e = ss.explain(model, photograph)
print(f"lambda1 = {e.lambda1:.3g}; from {e.lambda1_max:.3g} on every map is zero")
for point in e.path:
    mark = "  <- chosen" if point.lambda1 == e.lambda1 else ""
    print(f"  lambda1 {point.lambda1:8.4f}   zero {point.sparsity:6.1%}   objective {point.objective:.5f}{mark}")

# The rule of the paper, on its own grid of powers of ten.
paper = ss.explain(model, photograph, ss.CASO(lambda1="paper"))
print(f"the paper's rule takes {paper.lambda1:.3g}: {paper.sparsity:.1%} zero")

# Between 90 and 99 per cent zeros, please.
sparse = ss.explain(model, photograph, ss.CASO(sparsity_range=(0.9, 0.99), path_points=40))
print(f"within 90-99 %: lambda1 = {sparse.lambda1:.3g}, {sparse.sparsity:.1%} zero")

# A number of your own is best given as a share of lambda1_max, which depends on the picture.
half = ss.explain(model, photograph, ss.CASO(lambda1=e.lambda1_max / 2))
print(f"half of lambda1_max: {half.sparsity:.2%} zero")

# All of it as a picture: CAFO, CASO and the clipped gradient, at the paper's values and along the path.
ss.sweep(model, photograph).save("sweep.png")
