"""The confirmation: reruns of the selection, test scores, and the retrieval gallery."""
