//! HTTP datagrams (RFC 9297).

use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h3::quic::{ConnectionErrorIncoming, StreamId};
use h3_datagram::{
    datagram::EncodedDatagram,
    quic_traits::{DatagramConnectionExt, RecvDatagram, SendDatagram, SendDatagramErrorIncoming},
};
use tautline::{ConnectionError, SendDatagramError};

use crate::{
    connection::{Connection, Waiting},
    error,
};

/// HTTP datagrams of a connection: each belongs to a request stream.
///
/// Does what `h3-datagram` 0.0.2 means to do: that release sends every datagram as if it belonged
/// to request stream 0 (see `docs/h3-gaps.md`), receiving is fine. Both ends must have enabled
/// datagrams in their settings (`enable_datagram`).
#[derive(Clone, Debug)]
pub struct HttpDatagrams {
    quic: tautline::Connection,
}

impl HttpDatagrams {
    /// Of this connection.
    pub fn new(quic: tautline::Connection) -> Self {
        Self { quic }
    }

    /// Queues a datagram that belongs to the request on `stream`.
    ///
    /// # Errors
    /// See [`SendDatagramError`]; a datagram given back by `QueueFull` bears its header already.
    pub fn send(&self, stream: StreamId, payload: &[u8]) -> Result<(), SendDatagramError> {
        let mut datagram = BytesMut::with_capacity(8 + payload.len());
        put_varint(&mut datagram, stream.into_inner() / 4);
        datagram.put_slice(payload);
        self.quic.send_datagram(datagram.freeze())
    }

    /// The next datagram with the stream of its request. Datagrams without a legal stream number
    /// close the connection with H3_DATAGRAM_ERROR. Cancel safe.
    ///
    /// # Errors
    /// When the connection ended.
    pub async fn receive(&self) -> Result<(StreamId, Bytes), ConnectionError> {
        loop {
            let mut datagram = self.quic.read_datagram().await?;
            let stream = take_varint(&mut datagram)
                .and_then(|quarter| quarter.checked_mul(4))
                .and_then(|number| StreamId::try_from(number).ok());
            match stream {
                Some(stream) => return Ok((stream, datagram)),
                None => {
                    let code = h3::error::Code::H3_DATAGRAM_ERROR.value();
                    self.quic.close(code, b"no stream number");
                }
            }
        }
    }
}

/// RFC 9000 s16.
fn put_varint(out: &mut BytesMut, value: u64) {
    match value {
        0..0x40 => out.put_u8(value as u8),
        0x40..0x4000 => out.put_u16(value as u16 | 0x4000),
        0x4000..0x4000_0000 => out.put_u32(value as u32 | 0x8000_0000),
        _ => out.put_u64(value | 0xc000_0000_0000_0000),
    }
}

fn take_varint(from: &mut Bytes) -> Option<u64> {
    let length = 1_usize << (from.first()? >> 6);
    if from.remaining() < length {
        return None;
    }
    let number = from.get_uint(length);
    Some(number & (u64::MAX >> (64 - 8 * length as u32 + 2)))
}

/// For `h3-datagram`.
#[derive(Clone, Debug)]
pub struct DatagramSender {
    quic: tautline::Connection,
}

/// For `h3-datagram`.
#[derive(Debug)]
pub struct DatagramReceiver {
    quic: tautline::Connection,
    next: Waiting<Bytes>,
}

impl<B: Buf> DatagramConnectionExt<B> for Connection {
    type SendDatagramHandler = DatagramSender;
    type RecvDatagramHandler = DatagramReceiver;

    fn send_datagram_handler(&self) -> DatagramSender {
        DatagramSender {
            quic: self.quic().clone(),
        }
    }

    fn recv_datagram_handler(&self) -> DatagramReceiver {
        DatagramReceiver {
            quic: self.quic().clone(),
            next: Waiting::default(),
        }
    }
}

impl<B: Buf> SendDatagram<B> for DatagramSender {
    fn send_datagram<T: Into<EncodedDatagram<B>>>(
        &mut self,
        data: T,
    ) -> Result<(), SendDatagramErrorIncoming> {
        let mut data = data.into();
        let datagram = data.copy_to_bytes(data.remaining());
        match self.quic.send_datagram(datagram) {
            // The trait knows no full queue; a datagram may be lost anyway.
            Ok(()) | Err(SendDatagramError::QueueFull(_)) => Ok(()),
            Err(SendDatagramError::TooLarge { .. }) => Err(SendDatagramErrorIncoming::TooLarge),
            Err(SendDatagramError::ConnectionLost(lost)) => Err(
                SendDatagramErrorIncoming::ConnectionError(error::connection(lost)),
            ),
            Err(_) => Err(SendDatagramErrorIncoming::NotAvailable),
        }
    }
}

impl RecvDatagram for DatagramReceiver {
    type Buffer = Bytes;

    fn poll_incoming_datagram(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, ConnectionErrorIncoming>> {
        let quic = &self.quic;
        let next = self.next.poll(cx, || {
            let quic = quic.clone();
            async move { quic.read_datagram().await }
        });
        Poll::Ready(ready!(next).map_err(error::connection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_value() {
        for value in [
            0,
            1,
            63,
            64,
            16_383,
            16_384,
            (1 << 30) - 1,
            1 << 30,
            (1 << 60) - 1,
        ] {
            let mut out = BytesMut::new();
            put_varint(&mut out, value);
            out.put_u8(7);
            let mut bytes = out.freeze();
            assert_eq!(take_varint(&mut bytes), Some(value));
            assert_eq!(&bytes[..], [7]);
        }
        assert_eq!(take_varint(&mut Bytes::from_static(&[0x40])), None);
        assert_eq!(take_varint(&mut Bytes::new()), None);
    }
}
