# %% [markdown]
# # Your own network
#
# Any PyTorch classifier, of pictures or of other numbers.

# %%
import torch
from torch import nn

import secondsight as ss

_ = torch.manual_seed(0)

# %% [markdown]
# ## A network of pictures
#
# It takes normalised batches and gives logits, without a softmax at the end. The
# `Classifier` does the normalisation, so maps live in pixels from 0 to 1.

# %%
net = nn.Sequential(
    nn.Conv2d(3, 16, 5, stride=2),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3, stride=2),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(4),
    nn.Flatten(),
    nn.Linear(512, 4),
)
model = ss.Classifier(
    net,
    mean=[0.485, 0.456, 0.406],
    std=[0.229, 0.224, 0.225],
    size=96,
    labels=["cat", "dog", "bird", "fish"],
)
e = ss.explain(model, ss.example_photograph(), target="cat")
print(f"{e.label}: {e.sparsity:.1%} zero, {e.curvature}")
print(f"certified: {e.certificate.holds} ({e.certificate.basis})")
e

# %% [markdown]
# The network is not trained, so the map means nothing yet. What counts is that it
# runs.
#
# ## A network of other numbers
#
# Say the shape of one input. The network comes back as it was, in training mode
# too.

# %%
table = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 3)).train()
tabular = ss.Classifier(table, input_shape=(12,), labels=["low", "middle", "high"])
rows = torch.randn(5, 12)
several = ss.explain(tabular, list(rows), ss.CASO(sparsity_range=(0.3, 1.0)))
assert table.training
for one in several:
    print(f"{one.label:7} {one.sparsity:.0%} zero, {one.curvature} Hessian")
several[0]

# %% [markdown]
# ## Features that belong together
#
# The columns of one category are zero together, or not at all.

# %%
together = ss.explain(
    tabular,
    rows[0],
    ss.CASO(groups=torch.arange(12) // 4, sparsity_range=(0.0, 1.0)),
)
together.delta.reshape(3, 4)

# %% [markdown]
# ## Many inputs
#
# `explain_batches` takes a batch tensor or a DataLoader, and gives one result after
# the other, so that memory does not grow.

# %%
for one in ss.explain_batches(tabular, torch.randn(4, 12), "cafo"):
    print(one.label, f"{one.sparsity:.0%}")
