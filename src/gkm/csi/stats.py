"""What kubelet asks of a published volume about once a minute: how full it is, and whether it is well."""

import os

from gkm.csi.describe import describe
from gkm.csi.ports import Events
from gkm.kubelet.protos import csi_pb2 as wire
from gkm.store.host import HostedView

_NEAR_BYTES = 1 << 20
"""ext4 refuses a large write as a whole (seen: 600 KiB are left when a write of 1 MiB fails on Linux 6.18)."""
_NEAR = 0.01
"""The part of bytes or files below which what is left is called nothing."""


def statistics(view: HostedView, *, mounted: bool, events: Events) -> wire.NodeGetVolumeStatsResponse:
    """The answer for `view`; tells the pod once it has used up what it may add. Blocks, raises `OSError`.

    Where the view is bounded the figures are its own: what the pod added. Else they are the disk's.
    """
    if not mounted:
        return wire.NodeGetVolumeStatsResponse(
            volume_condition=wire.VolumeCondition(
                abnormal=True, message="nothing is mounted any more: delete the pod to have it mounted afresh"
            )
        )
    # statvfs(3) of an overlay tells of the filesystem that holds its upper.
    got = os.statvfs(view.target)
    if view.bounded and _is_full(got):
        described = describe(view)
        text = f"has added all it may to {described.cache}: further kernels are not kept (ENOSPC)"
        events.pod(described.pod, "WriteLimitReached", text, warning=True)
    kinds = wire.VolumeUsage
    return wire.NodeGetVolumeStatsResponse(
        usage=[
            wire.VolumeUsage(
                unit=kinds.BYTES,
                total=got.f_blocks * got.f_frsize,
                available=got.f_bavail * got.f_frsize,
                used=(got.f_blocks - got.f_bfree) * got.f_frsize,
            ),
            wire.VolumeUsage(
                unit=kinds.INODES,
                total=got.f_files,
                available=got.f_favail,
                used=got.f_files - got.f_ffree,
            ),
        ],
        volume_condition=wire.VolumeCondition(abnormal=False, message="mounted"),
    )


def _is_full(got: os.statvfs_result) -> bool:
    bytes_left = got.f_bavail * got.f_frsize
    return (
        bytes_left < max(got.f_blocks * got.f_frsize * _NEAR, _NEAR_BYTES)
        or got.f_favail < got.f_files * _NEAR
    )
