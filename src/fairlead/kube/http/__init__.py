"""Requests and watches over HTTP, and what a broken one says about the request."""
