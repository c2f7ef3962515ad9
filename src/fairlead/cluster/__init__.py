"""What is where: columns of nodes, what is taken on each, and who took it."""
