"""The tree of errors. A class says whose fault it is, and so which exit code the command ends with.

DraftproofError
├── UsageError            the caller's: a wrong option, a file that is not what it should be
│   └── FileFormatError   a file of ours (recipe, plan, description, catalogue, recording) breaks its format
├── MachineError          the machine's: strace missing, ptrace forbidden, no free port
└── SubjectError          the subject's: it did not start, died, or does not speak its dialect
    └── StartError        the subject refused to start or was never ready

A message gives place, value seen, rule and fix, in this order.
"""


class DraftproofError(Exception):
    """Anything that this project raises on purpose."""


class UsageError(DraftproofError):
    """The caller asked for something that cannot be."""


class FileFormatError(UsageError):
    """A file of ours breaks its format; the message names file and key."""


class MachineError(DraftproofError):
    """The machine lacks or forbids something that the run needs; the message says what to install or allow."""


class SubjectError(DraftproofError):
    """The engine under test misbehaved outside of any check."""


class StartError(SubjectError):
    """The engine under test never became ready; the message carries its last 20 lines."""
