"""Reading the certificate: what is proven of a map, and on what grounds.

Run it anywhere: `python examples/reading_the_certificate.py`.
"""

import secondsight as ss

model = ss.load_model("efficientnet-lite0")
photograph = ss.example_photograph()

e = ss.explain(model, photograph)

# The optimum is at most `gap` above the objective of this map; over the objective, that is `relative_gap`.
proof = e.certificate
print(f"gap {proof.gap:.2e}, relative {proof.relative_gap:.2e}, after {e.products} products with the exact Hessian")
print(f"the certificate holds: {proof.holds} (the tolerance is {proof.tolerance:g})")

# The proof needs an upper bound of the Hessian's largest eigenvalue. By default it is estimated from products:
print(f"largest eigenvalue: {e.top_eigenvalue:.2f}, bound {proof.top_eigenvalue_bound:.2f} ({proof.basis})")

# The same gap says of which pixels it is proven that the *optimal* map is zero there, or that it is not.
support = proof.support
print(f"{support.zero.float().mean():.1%} of the entries are proven zero in the optimal map,")
print(f"{support.nonzero.float().mean():.2%} proven not zero, {support.undecided.float().mean():.2%} undecided")

# A tighter tolerance takes more products and decides more.
tight = ss.explain(model, photograph, ss.CASO(lambda1=e.lambda1, tolerance=1e-6)).certificate
print(f"tolerance 1e-6: gap {tight.relative_gap:.1e}, {tight.support.undecided.float().mean():.2%} undecided")

# Every map of the path can be certified, not only the chosen one.
whole = ss.explain(model, photograph, ss.CASO(certify="path"))
print(f"largest relative gap along the path: {max(point.relative_gap for point in whole.path):.1e}")

# A budget that is too small is no error: the map comes back, marked, with the reason in its notes.
poor = ss.explain(model, photograph, ss.CASO(max_products=1, tolerance=1e-9))
print(poor.certificate.holds, poor.notes)

# What is not proven: that the surrogate is the right question. It is the loss to second order around this very input.
