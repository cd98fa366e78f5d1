# %% [markdown]
# # For users of Captum
#
# Your code and ours, side by side, on the same network and the same batch. The
# network takes normalised pictures, as yours does.

# %%
import matplotlib.pyplot as plt
import torch
from captum.attr import IntegratedGradients, Saliency
from captum.attr import visualization as viz

import secondsight as ss
from secondsight.captum import CAFO, CASO, SmoothCAFO

model = ss.load_model("efficientnet-lite0")
net = model.net  # any torch module: from a normalised batch to logits
pixels = model.load(ss.example_photograph())
x = ((pixels - model.mean) / model.std).float()[None].requires_grad_()
target = int(net.eval()(x).argmax())
model.labels[target]

# %% [markdown]
# ## One line of yours, one line of ours
#
# `attribute` takes what Captum's takes. The options of the method go to the
# constructor.

# %%
saliency = Saliency(net).attribute(x, target=target, abs=False)
integrated = IntegratedGradients(net).attribute(
    x, target=target, n_steps=20, internal_batch_size=10
)
cafo = CAFO(net, sign="score").attribute(x, target=target)
caso = CASO(net, sign="score").attribute(x, target=target)
smooth = SmoothCAFO(net, n=16, groups="window:8", sign="score").attribute(
    x, target=target
)

# %%
maps = {
    "Saliency": saliency,
    "Integrated Gradients": integrated,
    "CAFO": cafo,
    "CASO": caso,
    "SmoothCAFO, windows": smooth,
}
figure, axes = plt.subplots(1, len(maps), figsize=(12, 2.8), layout="constrained")
for axis, (name, attribution) in zip(axes, maps.items(), strict=True):
    viz.visualize_image_attr(
        attribution[0].permute(1, 2, 0).numpy(force=True),
        pixels.permute(1, 2, 0).numpy(),
        method="heat_map",
        sign="absolute_value",
        cmap="magma",
        plt_fig_axis=(figure, axis),
        title=name,
        use_pyplot=False,
    )

# %% [markdown]
# ## The sign
#
# Our maps raise the *loss*, so a positive attribution works against the target.
# `sign="score"` turns that round: positive speaks for the target, as Captum's
# pictures paint it.

# %%
against = CAFO(net).attribute(x, target=target)
assert torch.equal(against, -cafo)

# %% [markdown]
# ## What you get beside the map
#
# `return_explanations=True` adds an `Explanation` for each example: the
# certificate, the path of lambda1, notes. A batch takes its products together.

# %%
batch = torch.cat([x, x.flip(3)])
attributions, explanations = CASO(net).attribute(
    batch, target=target, return_explanations=True
)
for e in explanations:
    proof = e.certificate
    print(f"{e.sparsity:.1%} zero, {e.products} products")
    print(f"  certified: {proof.holds} ({proof.basis})")
