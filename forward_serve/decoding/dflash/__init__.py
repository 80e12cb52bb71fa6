"""The DFlash draft head: a small trunk that reads a target's layers and drafts a whole block in one forward."""

from forward_serve.decoding.dflash.head import DFlashHead
from forward_serve.decoding.dflash.pack import DFlashPack, open_pack

__all__ = ["DFlashHead", "DFlashPack", "open_pack"]
