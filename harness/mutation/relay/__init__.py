"""The faulty relay: a process between client and subject that changes one thing. Standard library only, so that it starts fast."""
