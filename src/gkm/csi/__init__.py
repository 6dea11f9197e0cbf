"""The CSI driver ``csi.gkm.io``: answers kubelet's calls to mount caches into pods, and nothing of registries."""
