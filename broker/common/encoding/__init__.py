"""Encodings shared by the wire and the files: Java's JSON dialect, layout tables, CRC-32.

``java_json`` writes and reads JSON like fastjson 1.2, with ``java_json_reader`` for texts that the
standard parser refuses; ``layout`` declares binary fields; ``checksum`` computes CRC-32.
"""
