"""Terms, polynomials and the factorisations that decide which of them vanish: pure tensors."""
