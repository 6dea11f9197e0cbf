"""What many rooms need, a closed list: errors, digests, durable files, backoff, HTTP with retries.

Not a drawer: a helper used by one room lives in that room.
"""
