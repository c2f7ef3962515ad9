"""Resource claims and their devices: the objects of resource.k8s.io."""
