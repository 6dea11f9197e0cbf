"""The official client's SharedInformer: seconds until its cache holds every Pod."""

import sys
import time

from kubernetes import client, config
from kubernetes.informer import SharedInformer
from report import report

config.load_kube_config(sys.argv[1])
informer = SharedInformer(client.CoreV1Api().list_namespaced_pod, namespace=sys.argv[2])
began = time.monotonic()
informer.start()
while len(informer.cache.list()) < int(sys.argv[3]):
    time.sleep(0.02)
report(len(informer.cache.list()), synced=time.monotonic() - began)
