"""draftproof: the gate, the mutation run and the tools around them. Never imports the engine that it judges."""

import os

# Before numpy is first imported: fabrication is made of small products, which a second BLAS thread only slows down.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
