"""What controller-runtime is to Go: client, reflectors, queues, controllers, a manager, leader election.

In its words, and knowing nothing of GKM. An API server's state is mirrored into stores by reflectors,
changes become keys in a queue, and a controller's reconcile function brings the world in line with what the
store says about one key. Everything is level-based: what happened does not matter, only what is.
"""
