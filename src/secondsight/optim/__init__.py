"""The solver: a gradient, an operator and a penalty in, certified maps out. It knows no network."""
