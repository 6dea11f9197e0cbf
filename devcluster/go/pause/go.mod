module gkm.io/devcluster/pause

go 1.26.0
