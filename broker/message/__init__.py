"""What a message is: in memory, on the wire and on disk, where its bytes are the same.

Duty: turn messages into stored records and back, read and write the property string, split and
join batch bodies, compose and parse message ids, (de)compress bodies. Pure: bytes in, values out.

Theory of operation: a broker never re-encodes what it stored: the record in the CommitLog is
the record in a pull answer. ``record`` declares that layout once, as a table, and compiles its
codecs from the table. A decoder takes any bytes-like buffer and a position and returns a value
or raises RemoteProtocolError with position and field; every length is checked against the
buffer before anything is copied. ``peek_record`` reads the fixed part only and answers None
instead of raising, for scans. Properties stay raw bytes until somebody asks; one property can be
peeked without splitting the rest.

Limits: property bytes 32767, topic 127 (v1) or 255 bytes (v2), a decompressed body is bounded by
the caller's limit before it is built.

Start-up: lz4 and zstd are imported when the first such body is met.

Sources: RocketMQ Message, MessageExt, MessageConst, MessageDecoder, MessageExtEncoder (5.x) and
CommitLog#doAppend (4.9), MessageClientIDSetter, CompressorFactory.
"""
