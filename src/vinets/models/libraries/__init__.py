"""Libraries of networks besides this package, one file each, imported when first needed.

Names are looked up in the list of the library, so that a name never becomes a path, an address or
an arbitrary attribute.
"""
