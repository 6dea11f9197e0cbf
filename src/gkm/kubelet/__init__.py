"""The gRPC that kubelet speaks: vendored protos, a server on a unix socket, plugin registration."""
