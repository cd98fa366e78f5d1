# %% [markdown]
# # Comparing methods
#
# The same photograph by several methods, with what each map proves.

# %%
import secondsight as ss

model = ss.load_model("efficientnet-lite0")
photograph = ss.example_photograph()

# %% [markdown]
# ## Side by side
#
# `clipped-gradient` keeps the largest pixels of the gradient, as many as CASO
# keeps. It is the honest rival: any map becomes sparse if small values are cut off.

# %%
methods = [
    "gradient",
    "clipped-gradient",
    "cafo",
    "caso",
    "smoothgrad(n=10)",
    "picture",
]
comparison = ss.compare(model, photograph, methods)
comparison

# %%
for entry in comparison.rows[0]:
    e = entry.explanation
    proof = (
        f"certified ({e.certificate.basis})"
        if isinstance(e, ss.SparseExplanation)
        else "nothing proven"
    )
    print(f"{entry.method:18} {e.zero_pixels:6.1%} of the pixels are zero, {proof}")

# %% [markdown]
# ## Is CASO more than CAFO?
#
# The angle between the two, without sparsity, says whether second order matters. It
# depends on c1: a large one mutes the Hessian.

# %%
for c1 in (1.0, 10.0, 100.0):
    e = ss.explain(model, photograph, ss.CASO(c1=c1))
    second = e.second_order
    print(
        f"c1 = {c1:5}: {second.angle:4.1f} degrees (to within {second.error:.1f})"
    )

# %% [markdown]
# ## Along lambda1
#
# CAFO, CASO and the clipped gradient at equal sparsity, at the values of the
# paper's tables and along the automatic path.

# %%
ss.sweep(model, photograph)
