"""What each check needs to be asked: pure functions from a fixture to the starts and requests of a plan."""
