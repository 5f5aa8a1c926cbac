"""aioquic as an interop peer. Arguments and output: see interop/kit/src/lib.rs."""

import argparse
import asyncio
import os
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h0.connection import H0Connection
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import (
    ConnectionTerminated,
    HandshakeCompleted,
    ProtocolNegotiated,
)
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite

SERVER_NAME = "localhost"
TICKET_WAIT = 0.15
MIGRATE_AFTER_BYTES = 1 << 20
KEY_UPDATE_AFTER_BYTES = 1 << 19
STREAM_WINDOW = 1 << 20

facts = {}


def fact(name, count=1):
    facts[name] = facts.get(name, 0) + int(count)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["client", "server"])
    parser.add_argument("--listen", "--connect", dest="address", required=True)
    parser.add_argument("--cert", "--ca", dest="cert", required=True)
    parser.add_argument("--key")
    parser.add_argument("--www")
    parser.add_argument("--out")
    parser.add_argument("--paths")
    parser.add_argument("--case", default="transfer")
    parser.add_argument("--protocol", choices=["hq", "h3"], default="hq")
    parser.add_argument("--update-keys", action="store_true")
    args = parser.parse_args()
    host, port = args.address.rsplit(":", 1)
    args.host, args.port = host, int(port)
    return args


def configuration(args):
    config = QuicConfiguration(
        is_client=args.role == "client",
        alpn_protocols=["h3" if args.protocol == "h3" else "hq-interop"],
        server_name=SERVER_NAME,
        max_data=STREAM_WINDOW,
        max_stream_data=STREAM_WINDOW,
    )
    if args.case.startswith("v2"):
        config.supported_versions = [
            QuicProtocolVersion.VERSION_2,
            QuicProtocolVersion.VERSION_1,
        ]
        if args.case == "v2" and config.is_client:
            config.original_version = QuicProtocolVersion.VERSION_1
    if args.case == "chacha20":
        config.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    if os.environ.get("SSLKEYLOGFILE"):
        config.secrets_log_file = open(os.environ["SSLKEYLOGFILE"], "a")
    if config.is_client:
        config.load_verify_locations(args.cert)
    else:
        config.load_cert_chain(args.cert, args.key)
    return config


def read_below(root, path):
    with open(os.path.join(root, os.path.normpath("/" + path).lstrip("/")), "rb") as file:
        return file.read()


class Peer(QuicConnectionProtocol):
    """What both ends do with events."""

    args = None
    http = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.start_http()
        elif isinstance(event, HandshakeCompleted):
            fact("resumed", event.session_resumed)
            fact("early_accepted", event.early_data_accepted)
        elif isinstance(event, ConnectionTerminated):
            print(f"terminated: {event.error_code} {event.reason_phrase}", file=sys.stderr)
            self.ended(event)
        if self.http is not None:
            for http_event in self.http.handle_event(event):
                self.http_event_received(http_event)

    def start_http(self):
        if self.http is None:
            http = H3Connection if self.args.protocol == "h3" else H0Connection
            self.http = http(self._quic)

    def ended(self, event):
        pass


class Client(Peer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bodies = {}
        self.waiting = {}
        self.received = 0
        self.once = set()

    def get(self, path):
        stream = self._quic.get_next_available_stream_id()
        self.http.send_headers(
            stream,
            [
                (b":method", b"GET"),
                (b":scheme", b"https"),
                (b":authority", SERVER_NAME.encode()),
                (b":path", path.encode()),
            ],
            end_stream=True,
        )
        self.bodies[stream] = bytearray()
        self.waiting[stream] = asyncio.get_running_loop().create_future()
        return self.waiting[stream], stream

    def ended(self, event):
        for waiter in self.waiting.values():
            if not waiter.done():
                waiter.set_exception(ConnectionError(f"closed: {event.reason_phrase}"))

    def http_event_received(self, event):
        if isinstance(event, DataReceived):
            self.bodies[event.stream_id] += event.data
            self.received += len(event.data)
            self.at_points()
        waiter = self.waiting.get(event.stream_id)
        if event.stream_ended and waiter is not None and not waiter.done():
            waiter.set_result(None)

    def at_points(self):
        if self.args.update_keys and self.args.case == "keyupdate":
            self.at(KEY_UPDATE_AFTER_BYTES, self.update_keys)
        if self.args.case == "migration":
            self.at(MIGRATE_AFTER_BYTES, self.migrate)

    def at(self, point, action):
        if self.received >= point and action not in self.once:
            self.once.add(action)
            action()

    def update_keys(self):
        self._quic.request_key_update()
        fact("updates_asked_for")

    def migrate(self):
        asyncio.ensure_future(self.move())

    async def move(self):
        old = self._transport
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, local_addr=("::", 0))
        self._quic.change_connection_id()
        old.close()
        fact("migrations")
        self.transmit()


async def visit(args, config, paths, early, last):
    def save_ticket(ticket):
        config.session_ticket = ticket

    if early and config.session_ticket is None:
        raise RuntimeError("no ticket arrived")
    async with connect(
        args.host,
        args.port,
        configuration=config,
        create_protocol=Client,
        session_ticket_handler=save_ticket,
        wait_connected=not early,
    ) as client:
        client.start_http()
        waiting = [(path, *client.get(path)) for path in paths]
        client.transmit()
        for path, waiter, stream in waiting:
            await waiter
            with open(os.path.join(args.out, path.lstrip("/")), "wb") as file:
                file.write(client.bodies.pop(stream))
        if not last:
            await asyncio.sleep(TICKET_WAIT)


async def run_client(args):
    with open(args.paths) as file:
        paths = file.read().split()
    config = configuration(args)
    if args.case in ("resumption", "zerortt"):
        await visit(args, config, paths[:1], False, False)
        await visit(args, config, paths[1:], args.case == "zerortt", True)
    else:
        await visit(args, config, paths, False, True)


class Server(Peer):
    def http_event_received(self, event):
        if not isinstance(event, HeadersReceived):
            return
        path = dict(event.headers).get(b":path", b"").decode()
        try:
            status, body = b"200", read_below(self.args.www, path)
        except OSError as error:
            print(f"request: {error}", file=sys.stderr)
            status, body = b"404", b""
        self.http.send_headers(event.stream_id, [(b":status", status)])
        self.http.send_data(event.stream_id, body, end_stream=True)
        self.transmit()


async def run_server(args):
    tickets = {}
    server = await serve(
        args.host,
        args.port,
        configuration=configuration(args),
        create_protocol=Server,
        session_ticket_fetcher=lambda label: tickets.pop(label, None),
        session_ticket_handler=lambda ticket: tickets.__setitem__(ticket.ticket, ticket),
        retry=args.case == "retry",
    )
    print(f"LISTENING {args.address}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


def main():
    args = arguments()
    Peer.args = args
    try:
        asyncio.run(run_client(args) if args.role == "client" else run_server(args))
    finally:
        for name, count in sorted(facts.items()):
            print(f"FACT {name} {count}")


if __name__ == "__main__":
    main()
