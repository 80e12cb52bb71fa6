"""certificate.json: what a fabricated container and its packs are certified for.

It belongs to the files beside it: fabricated on another machine, a container gets a certificate of its own.
"""

from __future__ import annotations

import msgspec

from harness.fabricate.model_certificate import ModelCertificate
from harness.fabricate.pack_certificate import PackCertificate
from harness.fabricate.sight import SightCertificate

FILE_NAME = "certificate.json"


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The container's certificate and those of the packs that were fitted to it."""

    recipe: str
    model: ModelCertificate
    packs: dict[str, PackCertificate]
    sight: SightCertificate = SightCertificate()
    sight_cpu_seconds: float = 0.0
    missed: dict[str, list[str]] = {}  # "streams", "container", "pack NAME" -> what each draw but the last missed
