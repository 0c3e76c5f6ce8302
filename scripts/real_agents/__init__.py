"""Real agents under agentctl."""
