"""What chosen fixes would have changed."""
