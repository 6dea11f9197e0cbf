"""The cluster side: resolve, judge, grant, deliver and aggregate, for GKMCache and ClusterGKMCache alike."""
