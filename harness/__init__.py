"""draftproof: the gate, the mutation run and the tools around them. Never imports the engine that it judges."""
