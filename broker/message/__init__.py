"""Messages in memory and as records, which have the same bytes on the wire and on disk.

Duty: encode and decode records, read and write the property string, split and join batch bodies,
compose and parse message ids, compress and decompress bodies. No I/O.

Theory of operation: a broker never re-encodes a stored record: a pull response contains the
record as in the CommitLog. ``record`` declares that layout once, as a table, and compiles its
codecs from the table. A decoder takes any bytes-like buffer and a position and returns a value
or raises RemoteProtocolError with position and field; every length is checked against the
buffer before bytes are copied. ``peek_record``, for scans, reads only the fixed part and returns
None instead of raising. Properties are decoded at the first access; a single property can be read
without splitting the others.

Limits: property bytes 32767, topic 127 (v1) or 255 bytes (v2); decompression stops at the
caller's limit.

Start-up: lz4 and zstd are imported at the first use.

Sources: RocketMQ Message, MessageExt, MessageConst, MessageDecoder, MessageExtEncoder (5.x) and
CommitLog#doAppend (4.9), MessageClientIDSetter, CompressorFactory.
"""
