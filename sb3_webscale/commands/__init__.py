"""What the sub-commands of ``sb3-webscale`` do; each is imported only when it is called."""
