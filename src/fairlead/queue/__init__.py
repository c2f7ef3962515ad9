"""Who is next: order, backoff, and what wakes a waiting pod."""
