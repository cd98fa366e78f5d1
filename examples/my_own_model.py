"""My own model: any PyTorch classifier, of pictures or of other numbers.

Run it anywhere: `python examples/my_own_model.py`. It writes my_own_model.png and features.png.
"""

import torch
from torch import nn

import secondsight as ss
from secondsight.captum import CASO

torch.manual_seed(0)

# A network of pictures. It takes normalised batches and gives logits (no softmax at the end); the Classifier does the
# normalisation, so maps live in pixels from 0 to 1.
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
    net, mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225], size=96, labels=["cat", "dog", "bird", "fish"]
)
e = ss.explain(model, ss.example_photograph(), target="cat")
print(f"{e.label}: {e.sparsity:.1%} zero, {e.curvature}, gap {e.certificate.relative_gap:.1e}")
e.save("my_own_model.png")

# A network of other numbers: say the shape of one input. The network comes back as it was, in training mode too.
table = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 3)).train()
tabular = ss.Classifier(table, input_shape=(12,), labels=["low", "middle", "high"])
rows = torch.randn(5, 12)
several = ss.explain(tabular, list(rows), ss.CASO(sparsity_range=(0.3, 1.0)))
print([(e.label, round(e.sparsity, 2), e.curvature) for e in several])
several[0].save("features.png")
assert table.training

# Features that belong together, such as the columns of one category, are zero together.
together = ss.explain(tabular, rows[0], ss.CASO(groups=torch.arange(12) // 4, sparsity_range=(0.0, 1.0)))
print(together.delta)

# The same methods under Captum's conventions.
attributions = CASO(table, lambda1=0.0).attribute(rows, target=2)
print(attributions.shape)
