"""Attacks on files that strangers may send, and on the disk: ``make attacks`` runs them."""
