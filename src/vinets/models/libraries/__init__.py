"""Libraries of networks, one file each; an optional one is imported when it is first needed.

Names are looked up in the list of the library, so that a name never becomes a path, an address or
an arbitrary attribute.
"""
