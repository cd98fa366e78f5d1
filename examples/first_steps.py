# %% [markdown]
# # First steps
#
# One photograph, one map, and what can be said about it. The network, EfficientNet-
# Lite0, and the photograph come with the installation.

# %%
import secondsight as ss

model = ss.load_model("efficientnet-lite0")
photograph = ss.example_photograph()
model

# %% [markdown]
# ## A picture to look at
#
# `picture` shows the regions that the decision hangs on. An explanation alone on a
# line shows its figure.

# %%
picture = ss.explain(model, photograph, "picture")
picture

# %% [markdown]
# ## The paper's objective, with its proof
#
# `caso` is the default: the sparse perturbation that raises the loss of the class
# most.

# %%
e = ss.explain(model, photograph)
e

# %%
print(f"The network sees a {e.label} (p = {e.probability:.2f}).")
print(f"{e.sparsity:.1%} of the pixels are exactly zero in the map.")
print(f"The certificate holds: {e.certificate.holds}.")
print(f"What it rests on: {e.certificate.basis}.")
print(e.second_order.sentence)

# %% [markdown]
# ## The sign
#
# Positive entries work against the class when the pixel gets brighter, negative
# ones when it gets darker.

# %%
print(f"{(e.delta > 0).sum().item()} entries are positive,")
print(f"{(e.delta < 0).sum().item()} are negative.")

# %% [markdown]
# ## Another question
#
# What would make "Egyptian cat" even less likely?

# %%
other = ss.explain(model, photograph, target="Egyptian cat")
print(f"{other.label}: p = {other.probability:.2f}, {other.sparsity:.1%} zero")

# %% [markdown]
# ## How few pixels?
#
# The whole path of lambda1 has been solved, and the knee of "gain kept against
# pixels kept" was taken. A share of the largest lambda1 asks for fewer pixels or
# more.

# %%
print(f"lambda1 = {e.lambda1:.3g}; from {e.lambda1_max:.3g} on every map is zero")
for point in e.path[::3]:
    print(f"  lambda1 {point.lambda1:8.4f}   zero {point.sparsity:6.1%}")
few = ss.explain(model, photograph, ss.CASO(lambda1="30%"))
print(f"30% of the largest: {few.sparsity:.2%} zero")

# %% [markdown]
# ## Everything, to look at again later

# %%
e.save("first_steps.npz")
again = ss.Explanation.load("first_steps.npz")
assert again.label == e.label
assert (again.delta == e.delta).all()
for note in again.notes:
    print("note:", note)
