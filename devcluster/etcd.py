"""What a test does to etcd behind the API server's back, through etcd's JSON gateway."""

from devcluster.api import Endpoint


def compact(etcd: Endpoint) -> int:
    """Forget all revisions but the newest, and return that one.

    A list continued with a token from before, and a watch from before that is not in the API server's own
    cache any more, is then answered with 410 Gone. The cache holds recent history: restart the API server as
    well to see 410 for a watch at once.
    """
    # Keys are base64 in JSON. Nothing has the key of one zero byte: the answer is a header with the revision.
    header = etcd.json("POST", "/v3/kv/range", {"key": "AA=="})["header"]
    revision = int(header["revision"])
    etcd.json("POST", "/v3/kv/compaction", {"revision": str(revision), "physical": True})
    return revision
