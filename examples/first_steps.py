"""First steps: one photograph, one map, and what can be said about it.

Run it anywhere: `python examples/first_steps.py`. It writes picture.png, first_steps.png and first_steps.npz.
"""

import secondsight as ss

# The network comes with the installation. `secondsight models` lists what else there is.
model = ss.load_model("efficientnet-lite0")
photograph = ss.example_photograph()

# A picture to look at: the regions that the decision hangs on. In a notebook, `picture` alone on a line shows it.
picture = ss.explain(model, photograph, "picture")
picture.save("picture.png")

# The paper's own objective, CASO, with its proof.
e = ss.explain(model, photograph)

print(f"The network sees a {e.label} (p = {e.probability:.2f}).")
print(f"{e.sparsity:.1%} of the pixels are exactly zero in the map.")
print(f"No other map is better by more than {e.certificate.relative_gap:.1e} of the objective ({e.certificate.basis}).")
print(e.second_order.sentence)

# The figure: input, CAFO, CASO, overlay, and maps along lambda1.
e.save("first_steps.png")

# Everything, to look at again later.
e.save("first_steps.npz")
again = ss.Explanation.load("first_steps.npz")
assert again.label == e.label

# The sign: positive pixels work against the class when they get brighter, negative ones when they get darker.
print(f"{(e.delta > 0).sum().item()} entries are positive, {(e.delta < 0).sum().item()} negative.")

# Another question: what speaks against "Egyptian cat"?
other = ss.explain(model, photograph, target="Egyptian cat")
print(f"{other.label}: p = {other.probability:.2f}")
