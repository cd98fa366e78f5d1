# %% [markdown]
# # The certificate
#
# What is proven of a map, and on what grounds.

# %%
import warnings

import matplotlib.pyplot as plt

import secondsight as ss

model = ss.load_model("efficientnet-lite0")
photograph = ss.example_photograph()
e = ss.explain(model, photograph)
proof = e.certificate

# %% [markdown]
# ## The gap
#
# The optimum is at most `gap` above the objective of this map; over the objective,
# that is `relative_gap`.

# %%
print(
    f"the certificate holds: {proof.holds} (the tolerance is {proof.tolerance:g})"
)
print(f"relative gap within it: {proof.relative_gap <= proof.tolerance}")
print(f"after {e.products} products")

# %% [markdown]
# ## What it rests on
#
# The proof needs an upper bound of the Hessian's largest eigenvalue. By default it
# is estimated from products. A few products more make its error probability known.

# %%
print(f"largest eigenvalue: {e.top_eigenvalue:.1f}")
print(f"bound {proof.top_eigenvalue_bound:.1f} ({proof.basis})")
sure = ss.explain(model, photograph, ss.CASO(bound="probable"))
bound = sure.certificate.top_eigenvalue_bound
print(f"bound {bound:.1f} ({sure.certificate.basis}), {sure.products} products")

# %% [markdown]
# ## Which pixels are settled
#
# The same gap proves of single pixels that the *optimal* map is zero there, or that
# it is not. A tighter tolerance takes more products and decides more.

# %%
tight = ss.explain(
    model, photograph, ss.CASO(lambda1=e.lambda1, tolerance=1e-6)
).certificate
for name, one in (("tolerance 1e-4", proof), ("tolerance 1e-6", tight)):
    zero, nonzero, open_ = (
        m.float().mean()
        for m in (one.support.zero, one.support.nonzero, one.support.undecided)
    )
    print(
        f"{name}: {zero:.1%} proven zero, {nonzero:.2%} proven not zero,"
        f" {open_:.2%} undecided"
    )

# %%
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
masks = {
    "proven zero": proof.support.zero,
    "proven not zero": proof.support.nonzero,
    "undecided": proof.support.undecided,
}
for axis, (name, mask) in zip(axes, masks.items(), strict=True):
    axis.imshow(mask.float().mean(0), cmap="gray", vmin=0, vmax=1)
    axis.set_title(name)
    axis.axis("off")

# %% [markdown]
# ## The whole path
#
# Every map of the path can be certified, not only the chosen one.

# %%
whole = ss.explain(model, photograph, ss.CASO(certify="path"))
assert all(
    point.relative_gap <= whole.certificate.tolerance for point in whole.path
)
print(f"all {len(whole.path)} maps are certified, after {whole.products} products")

# %% [markdown]
# ## A budget that is too small
#
# It is no error: the map comes back, marked, with the reason in its notes.

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ss.SecondsightWarning)
    poor = ss.explain(model, photograph, ss.CASO(max_products=1, tolerance=1e-9))
print(poor.certificate.holds)
for note in poor.notes:
    print("note:", note)

# %% [markdown]
# What is not proven: that the surrogate is the right question. It is the loss to
# second order around this very input.
