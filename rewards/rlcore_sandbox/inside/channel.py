"""Frames over a socket: a length, then that many bytes. Every read has a bound on its size and a deadline."""

from __future__ import annotations

import socket
import struct
import time

HEADER = struct.Struct("!Q")


class ChannelError(OSError):
    """The other side is gone, or sends what is no frame."""


class Channel:
    """One end of a connection. `limit` bounds what a frame may have, in bytes; `deadline` is a time.monotonic()."""

    def __init__(self, connection: socket.socket, limit: int, deadline: float | None = None) -> None:
        self.connection = connection
        self.limit = limit
        self.deadline = deadline

    def send(self, data: bytes) -> None:
        """Send one frame.

        Raises:
            ChannelError: the other side is gone, or did not read in time.
        """
        try:
            self._wait()
            self.connection.sendall(HEADER.pack(len(data)) + data)
        except TimeoutError as error:
            raise ChannelError("the other side did not read in time") from error
        except OSError as error:
            raise ChannelError(f"the other side is gone: {error}") from error

    def receive(self) -> bytes:
        """Return the next frame.

        Raises:
            ChannelError: it was not here in time, the connection has ended, or the frame is too large.
        """
        [length] = HEADER.unpack(self._exactly(HEADER.size))
        if length > self.limit:
            raise ChannelError(f"a frame of {length} bytes; allowed are {self.limit}")
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                self._wait()
                piece = self.connection.recv(min(count - len(data), 1 << 20))
            except TimeoutError as error:
                raise ChannelError("no answer in time") from error
            except OSError as error:
                raise ChannelError(f"the other side is gone: {error}") from error
            if not piece:
                raise ChannelError("the other side is gone")
            data += piece
        return bytes(data)

    def _wait(self) -> None:
        if self.deadline is not None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self.connection.settimeout(left)
