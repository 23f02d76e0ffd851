"""The wire protocol: bytes in, commands and typed values out, no sockets, no clock.

The modules in the order of processing::

    framing      stream of bytes     <-> frames            length, limits, foreign protocols
    serialize    header bytes        <-> RemotingCommand   JSON and ROCKETMQ header forms
    command      RemotingCommand, requests and responses
    codes        names of requests, responses, languages, versions
    rpc          the RPC table: types, serving roles and access level of each request code
    header/      typed ext fields, one module per family
    body/        typed bodies, one module per family

Theory of operation: ``FrameDecoder`` checks every length before it buffers data, so a hostile peer
uses at most the memory of one frame. Headers in the form that all known clients write are decoded
by msgspec (fast path). Headers that msgspec rejects (single quotes, numbers as text, raw control
characters) are decoded by slower readers; the slowest one, the tolerant reader of
``broker.common.encoding.java_json``, takes a hundred times as long and accepts at most 4 KiB. A
``$ref`` is resolved in bodies only. Unknown header fields, ext fields and body fields survive a
round trip.

Java quirks visible to a peer are kept: object and integer map keys in bodies, the ROCKETMQ
header's 16-bit code, booleans as text.

Limits: 16 MiB per frame, 256 KiB per header, 1 MiB per JSON body of a request, 32767 as largest
code in a ROCKETMQ header.

Import cost: ``codes``, ``command``, ``serialize`` and ``framing`` import no large package except
msgspec; header and body families are imported at their first use through ``rpc``.
"""
