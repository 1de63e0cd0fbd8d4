"""A page on this machine to explore plans and to certify them: `minsep serve`. It needs the extra `web`."""
