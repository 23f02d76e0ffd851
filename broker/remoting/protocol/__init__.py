"""The wire: bytes in, commands and typed values out, no sockets, no clock.

The folder list is the pipeline::

    framing      stream of bytes     <-> frames            length, limits, foreign protocols
    serialize    header bytes        <-> RemotingCommand   JSON and ROCKETMQ header forms
    command      RemotingCommand, requests and responses
    codes        names of requests, responses, languages, versions
    rpc          the switchboard: for each request code its header and body types, who serves it
    header/      typed ext fields, one module per family
    body/        typed bodies, one module per family

Theory of operation: ``FrameDecoder`` checks every length before it keeps a byte for it, so a
hostile peer costs at most one frame of memory. Headers in the form every known client writes take
the msgspec path; what msgspec refuses (single quotes, numbers as text, raw control characters)
goes through the lenient reader of ``broker.common.java_json``. Unknown header fields, ext fields
and body fields survive a round trip.

A Java quirk is kept where a peer could see it: object and integer map keys in bodies, the ROCKETMQ
header's 16-bit code, booleans as text.

Limits: 16 MiB per frame, 0xFFFFFF bytes per header, 32767 as largest code in a ROCKETMQ header.

Import cost: ``codes``, ``command``, ``serialize`` and ``framing`` load msgspec and nothing else of
weight; header and body families load when ``rpc`` first names them.
"""
