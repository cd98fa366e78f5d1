"""The network around an input as operators: its Jacobian, and the Hessian of the loss, by their products."""
