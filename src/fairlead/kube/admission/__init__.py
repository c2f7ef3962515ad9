"""What happens to a pod before it is stored: variables put in, nonsense refused."""
