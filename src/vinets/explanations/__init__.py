"""Why a network gave its answer."""
