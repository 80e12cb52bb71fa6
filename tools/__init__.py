"""What is run by hand or by night beside the tests."""
