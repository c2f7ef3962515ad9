"""Sources of figures about nodes: what they cost, draw and emit."""
