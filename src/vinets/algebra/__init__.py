"""Terms, borders, evaluation plans, polynomial sets and growing factorisations: pure tensors."""
