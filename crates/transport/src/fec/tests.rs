//! The room by itself.

use std::time::Duration;

use proptest::prelude::*;
use tautline_codes::{
    CodingWindow, Encoder, ErasureCode, Limits, RepairId, Scheme, reed_solomon::ReedSolomon,
    rlc::Rlc, tetrys::Tetrys, xor::Xor,
};

use super::{feedback::Feedback, peer_decoder::PeerDecoder, redundancy::registry, *};
use crate::{
    error::Code,
    packet::Token,
    time::Instant,
    units::PathId,
    wire::{FecDecoder, FecScheme, Frame, Reader, Repair, SourceSymbol, Writer},
};

const PATH: PathId = PathId::ZERO;
const NOW: Instant = Instant::ZERO;

fn config(scheduler: &str) -> FecConfig {
    FecConfig {
        redundancy: registry::parse(scheduler).unwrap(),
        decode: true,
        ..FecConfig::default()
    }
}

fn sender_with(config: &FecConfig) -> FecSender {
    let peer = config.decoder_parameter().unwrap();
    let mut sender = FecSender::new(config, &peer, config.schemes[0]).unwrap();
    let state = PathState {
        smoothed_rtt: Duration::from_millis(80),
        ..PathState::default()
    };
    sender.on_path(PATH, state);
    sender
}

/// A sender that has sent `count` symbols of 100 bytes in packets of the same numbers.
fn sender_of(scheduler: &str, count: u64) -> FecSender {
    let mut sender = sender_with(&config(scheduler));
    for number in 0..count {
        send(&mut sender, number, 100);
    }
    sender
}

fn send(sender: &mut FecSender, number: u64, len: usize) {
    let symbol = vec![(number as u8).wrapping_add(1); len];
    assert_eq!(sender.on_source(PATH, number, &symbol), Some(number));
    let packet = Departure {
        path: PATH,
        number,
        at: NOW,
    };
    sender.on_packet_sent(packet, len, SentData::New);
    sender.ask(Occasion::SlotFree, NOW);
}

/// Sends the repair symbols that wait; the REPAIR frames' fields and symbols.
fn repairs(sender: &mut FecSender, payload: usize) -> Vec<((u64, u64, u64), Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(plan) = sender.next_repair(payload) {
        let mut symbol = vec![0; plan.symbol_len()];
        assert!(sender.write_repair(&plan, &mut symbol));
        let departure = Departure {
            path: PathId::ZERO,
            number: 0,
            at: NOW,
        };
        sender.on_repair(&plan, symbol.len() + 40, departure);
        all.push((plan.fields(), symbol));
    }
    all
}

// ---- Negotiation ----

fn decoder(schemes: &[(u64, u64)]) -> FecDecoder {
    let scheme = |&(id, parameter)| FecScheme { id, parameter };
    FecDecoder {
        window_symbols: 10,
        window_bytes: 10_000,
        max_symbol_bytes: 1_000,
        schemes: schemes.iter().map(scheme).collect(),
    }
}

#[test]
fn the_first_of_the_decoders_codes_that_the_encoder_has() {
    type Case<'a> = (&'a [(u64, u64)], &'a [u64], Option<Scheme>);
    let cases: [Case<'_>; 6] = [
        (&[(10, 15), (2, 0)], &[2, 10], Some(Scheme::Rlc(Rlc::DENSE))),
        (
            &[(2, 0), (10, 15)],
            &[10, 2],
            Some(Scheme::ReedSolomon(ReedSolomon)),
        ),
        (&[(1, 1)], &[1], Some(Scheme::Xor(Xor::PARITY))),
        (
            &[(77, 1 << 40), (11, 0)],
            &[11],
            Some(Scheme::Tetrys(Tetrys::VANDERMONDE)),
        ),
        // What both have and we do not know is what they use.
        (&[(77, 0), (11, 0)], &[77, 11], None),
        (&[(10, 15)], &[2], None),
    ];
    for (decodes, encodes, expected) in cases {
        assert_eq!(negotiate(Some(&decoder(decodes)), encodes), Ok(expected));
    }
    assert_eq!(negotiate(None, &[10]), Ok(None));
    for wrong in [(1, 0), (1, 1 << 16), (2, 1), (9, 16), (10, 300), (11, 1)] {
        let error = negotiate(Some(&decoder(&[wrong])), &[10]).unwrap_err();
        assert_eq!(error.code, Code::TRANSPORT_PARAMETER_ERROR, "{wrong:?}");
    }
}

#[test]
fn codes_have_names() {
    for (name, id, parameter) in [
        ("xor", 1, 1),
        ("xor:5", 1, 5),
        ("reed-solomon", 2, 0),
        ("rlc", 10, 15),
        ("rlc-gf2", 9, 7),
        ("tetrys", 11, 0),
    ] {
        let code = code_by_name(name).unwrap();
        assert_eq!(
            scheme_of(&code),
            Some(FecScheme { id, parameter }),
            "{name}"
        );
    }
    for name in ["", "rs", "xor:0", "xor:70000", "rlc:5", "tetrys:"] {
        let error = code_by_name(name).unwrap_err().to_string();
        assert!(error.contains("reed-solomon"), "{error}");
    }
}

#[test]
fn what_is_off_is_not_announced() {
    let off = FecConfig::default();
    assert_eq!(
        (off.decoder_parameter(), off.encoder_parameter()),
        (None, vec![])
    );
    let on = config("constant");
    assert_eq!(on.encoder_parameter(), [10, 11, 2, 1]);
    let with = FecConfig::with("constant:5,4").unwrap();
    assert!(with.encodes() && with.decoder_parameter().is_some());
    assert!(FecConfig::with("magic").is_err());
    let parameter = on.decoder_parameter().unwrap();
    assert_eq!(parameter.window_bytes, 256 * 1502);
    let deaf = FecConfig {
        schemes: Vec::new(),
        ..config("constant")
    };
    assert_eq!((deaf.decoder_parameter(), deaf.encodes()), (None, false));
}

#[test]
fn codes_are_announced_once_and_by_number() {
    let xor = |depth: u16| Scheme::Xor(Xor::interleaved(depth.try_into().unwrap()));
    let nameless = Scheme::Tetrys(Tetrys::RFC9407);
    let announced = |schemes: Vec<Scheme>| {
        let config = FecConfig {
            schemes,
            ..config("constant")
        };
        let decoder = config.decoder_parameter();
        let decodes = decoder.map(|decoder| {
            let schemes = decoder.schemes.into_iter();
            schemes.map(|s| (s.id, s.parameter)).collect::<Vec<_>>()
        });
        (decodes, config.encoder_parameter())
    };
    let both = Some(vec![(1, 4), (10, 15)]);
    let repeated = vec![xor(4), nameless, Scheme::Rlc(Rlc::DENSE), xor(1)];
    assert_eq!(announced(repeated), (both, vec![1, 10]));
    assert_eq!(announced(vec![nameless; 40]), (None, vec![]));
    let many = (1..100).map(xor).collect();
    assert_eq!(announced(many), (Some(vec![(1, 1)]), vec![1]));
    for (bytes, taken, encodes) in [
        (0, 1, false),
        (1, 1, false),
        (511, 511, false),
        (512, 512, true),
    ] {
        let config = FecConfig {
            max_symbol_bytes: bytes,
            ..config("constant")
        };
        let decoder = config.decoder_parameter().unwrap();
        assert_eq!(
            (decoder.max_symbol_bytes, config.encodes()),
            (taken, encodes)
        );
    }
}

// ---- Sending ----

#[test]
fn repair_symbols_rebuild_what_was_lost() {
    let mut sender = sender_of("constant:10,8", 8);
    let limits = config("constant").decoder_limits().unwrap();
    let mut receiver = FecReceiver::new(limits, Scheme::Rlc(Rlc::DENSE));
    for number in (0..8).filter(|number| ![2, 5].contains(number)) {
        let header = SourceSymbol::new(number, 1);
        let known = receiver.on_source(header, &[number as u8 + 1; 100]);
        assert_eq!(known, Ok(false));
    }
    let made = repairs(&mut sender, 1_300);
    assert_eq!(made.len(), 2);
    for ((first, count, key), symbol) in &made {
        assert_eq!((*first, *count), (0, 8));
        let repair = Repair {
            first: *first,
            count: *count,
            key: *key,
            symbol,
        };
        receiver.on_repair(&repair).unwrap();
    }
    for lost in [2, 5] {
        let (id, symbol) = receiver.next_recovered().unwrap();
        assert_eq!((id, symbol), (lost, &vec![lost as u8 + 1; 100][..]));
        receiver.on_recovered(id);
    }
    assert_eq!(receiver.next_recovered(), None);
    assert!(receiver.ack_due());
    // The packet itself comes late.
    let late = receiver.on_source(SourceSymbol::new(2, 1), &[3; 100]);
    assert_eq!(late, Ok(true));
}

/// The vector of docs/spec/fec.md.
#[test]
fn a_repair_symbol_has_the_bytes_of_the_specification() {
    let mut sender = sender_with(&config("constant:3,2"));
    sender.on_source(PATH, 0, &[0x10, 0x05]);
    sender.on_source(PATH, 1, &[0x1e]);
    sender.ask(Occasion::SlotFree, NOW);
    let made = repairs(&mut sender, 1_300);
    assert_eq!(made, [((0, 2, 0), vec![0x00, 0x64, 0x61, 0xbb])]);
}

/// One of the repair symbols in the table of docs/spec/fec.md: scheme and parameter, coefficients, the frame up
/// to Symbol Count, and what follows.
type Vector<'a> = ((u64, u64), [u8; 3], &'a [u8], [u8; 8]);

#[test]
fn repair_symbols_of_every_code_have_the_bytes_of_the_specification() {
    let sources = [&[0x10, 0x05][..], &[0x1e], &[0x05, 0x04, 0x09]];
    let at_301: &[u8] = &[0x6f, 0xe8, 0x41, 0x2d];
    let beyond_32_bits: &[u8] = &[0x6f, 0xe8, 0xc0, 0, 0, 1, 0, 0, 0, 3];
    let vectors: [Vector<'_>; 7] = [
        ((1, 2), [1, 0, 1], at_301, [3, 0, 5, 0, 1, 0x15, 0x01, 0x09]),
        (
            (2, 0),
            [127, 252, 126],
            at_301,
            [3, 1, 5, 0, 0x80, 0xc2, 0x7b, 0xa9],
        ),
        ((9, 7), [1, 1, 0], at_301, [3, 5, 5, 0, 3, 0x0e, 5, 0]),
        (
            (10, 15),
            [37, 225, 177],
            at_301,
            [3, 1, 5, 0, 0x65, 0xb4, 0x4f, 0x50],
        ),
        (
            (10, 7),
            [58, 0, 89],
            at_301,
            [3, 3, 5, 0, 0x9f, 0xa7, 0xab, 0xab],
        ),
        (
            (11, 0),
            [33, 21, 168],
            at_301,
            [3, 3, 5, 0, 0xb2, 0x83, 0x3f, 0x81],
        ),
        (
            (11, 0),
            [205, 38, 45],
            beyond_32_bits,
            [3, 3, 5, 0, 0xd6, 0x76, 0x6a, 0x58],
        ),
    ];
    let limits = Limits::new(16, 100).unwrap();
    for (code, coefficients, begin, end) in vectors {
        let scheme = negotiate(Some(&decoder(&[code])), &[code.0]);
        let scheme = scheme.unwrap().unwrap();
        let bytes = [begin, &end].concat();
        let frame = Frame::decode(&mut Reader::new(&bytes)).unwrap();
        let Frame::Repair(repair) = frame else {
            panic!("not a REPAIR");
        };
        let mut written = vec![0; frame.encoded_len()];
        frame.encode(&mut Writer::new(&mut written));
        assert_eq!(written, bytes, "{code:?}");

        let window = CodingWindow {
            first: repair.first,
            len: 3,
        };
        let key = repair.key as u32;
        let mut drawn = [0; 3];
        let id = RepairId { window, key };
        scheme.coefficients(id, &mut drawn).unwrap();
        assert_eq!(drawn, coefficients, "{code:?}");
        if repair.first == 301 {
            let mut encoder = Encoder::new(limits);
            (0..301).for_each(|_| assert!(encoder.push(&[1]).is_ok()));
            for source in sources {
                encoder.push(source).unwrap();
            }
            let mut symbol = [0; 5];
            assert_eq!(encoder.repair(&scheme, id, &mut symbol), Ok(5));
            assert_eq!(symbol, repair.symbol, "{code:?}");
        }
        // Each symbol that is in the sum is rebuilt from the others.
        for lost in (0..3).filter(|at| coefficients[*at] != 0) {
            let mut receiver = FecReceiver::new(limits, scheme);
            let mut arrive = |id: u64, symbol: &[u8]| {
                let header = SourceSymbol::new(id, 4);
                assert_eq!(receiver.id_of(header), id);
                receiver.on_source(header, symbol).unwrap();
            };
            // No ID of 4 bytes is clear from more than 2^31 symbols away.
            let far = [1 << 31, 1 << 32].into_iter();
            far.filter(|at| *at < repair.first)
                .for_each(|at| arrive(at, &[1]));
            for (id, source) in window.ids().zip(sources) {
                if id != repair.first + lost as u64 {
                    arrive(id, source);
                }
            }
            receiver.on_repair(&repair).unwrap();
            let rebuilt = (repair.first + lost as u64, sources[lost]);
            assert_eq!(receiver.next_recovered(), Some(rebuilt), "{code:?}");
        }
    }
}

#[test]
fn a_loss_waits_while_repair_symbols_are_under_way() {
    let mut sender = sender_of("constant:10,8", 8);
    // Nothing is under way yet.
    assert_eq!(sender.on_symbol_lost(NOW, 0), OnLoss::Resend);
    assert_eq!(repairs(&mut sender, 1_300).len(), 2);
    assert_eq!(sender.on_symbol_lost(NOW, 1), OnLoss::Wait);
    sender.wait(Token::MaxData);
    // Half a round trip.
    let until = NOW + Duration::from_millis(40);
    assert_eq!(sender.timer(), Some(until));
    assert!(sender.expire(NOW, |_| false).is_none());
    assert_eq!(
        sender.expire(until, |_| false).unwrap().as_slice(),
        [Token::MaxData]
    );
    assert_eq!((sender.timer(), sender.stats().retransmitted), (None, 2));
}

#[test]
fn what_was_recovered_is_delivered_before_and_after_its_loss() {
    let mut sender = sender_of("constant:10,8", 8);
    repairs(&mut sender, 1_300);
    assert_eq!(sender.on_symbol_lost(NOW, 3), OnLoss::Wait);
    sender.wait(Token::MaxData);
    let mut told = Vec::new();
    let ranges = [3..=4];
    sender
        .on_symbol_ack(4, ranges.into_iter(), |id, delivered| {
            told.push((id, delivered))
        })
        .unwrap();
    assert!(matches!(&told[..], [
        (3, Delivered::Tokens(tokens)),
        (4, Delivered::InPacket(PATH, 4)),
    ] if tokens.as_slice() == [Token::MaxData]));
    assert_eq!(sender.timer(), None);
    // Its packet is lost after all, to congestion control; nothing is sent again.
    assert_eq!(sender.on_symbol_lost(NOW, 4), OnLoss::Nothing);
    assert!(sender.on_symbol_acked(3), "reported before");
    // Told once more, it is no news.
    sender
        .on_symbol_ack(4, [3..=4].into_iter(), |_, _| panic!("no news"))
        .unwrap();
    let unsent = sender.on_symbol_ack(8, [8..=8].into_iter(), |_, _| {});
    assert_eq!(unsent.unwrap_err().code, Code::PROTOCOL_VIOLATION);
}

/// A peer may tell the same again and again, in a hundred frames to a packet: that costs no walk over all that is
/// remembered.
#[test]
fn what_is_told_again_is_not_walked_again() {
    const SENT: u64 = 10_000;
    const FRAMES: u64 = 1_000;
    let mut sender = sender_with(&config("constant"));
    for number in 0..SENT {
        sender.on_source(PATH, number, &[1]).unwrap();
    }
    let remembered = SENT - 8_192;
    for id in (0..SENT).step_by(3) {
        sender.on_symbol_acked(id);
    }
    let all = 0..=SENT - 1;
    let mut told = 0;
    sender
        .on_symbol_ack(SENT - 1, [all.clone()].into_iter(), |_, _| told += 1)
        .unwrap();
    let acked = (remembered..SENT).filter(|id| id % 3 == 0).count() as u64;
    assert_eq!(told, 8_192 - acked);
    let first = sender.looked_at();
    assert!(first <= 4 * 8_192, "{first}");
    for frame in 0..FRAMES {
        let from = remembered + frame * 7;
        for range in [all.clone(), from..=SENT - 1, from..=from] {
            sender
                .on_symbol_ack(SENT - 1, [range].into_iter(), |_, _| panic!("no news"))
                .unwrap();
        }
    }
    let again = sender.looked_at() - first;
    // 13 is the logarithm of what is remembered.
    assert!(again <= 2 * 13 * 3 * FRAMES, "{again}");
}

/// A queue that overflows loses far more than repair symbols make good for: all of that is sent again.
#[test]
fn no_more_repair_symbols_are_added_than_there_were() {
    let mut sender = sender_of("constant:12,10", 10);
    assert_eq!(repairs(&mut sender, 1_300).len(), 2);
    for id in 0..4 {
        assert_eq!(sender.on_symbol_lost(NOW, id), OnLoss::Wait);
        sender.wait(Token::MaxData);
    }
    assert_eq!(sender.on_symbol_lost(NOW, 4), OnLoss::Resend);
    for _ in 0..4 {
        assert!(
            sender.expire(NOW, |_| false).is_some(),
            "in vain for the others too"
        );
    }
    assert_eq!(sender.on_symbol_lost(NOW, 5), OnLoss::Resend);
    assert!(sender.timer().is_none());
    // Each run for itself.
    let mut sender = sender_of("constant:12,10", 10);
    assert_eq!(repairs(&mut sender, 1_300).len(), 2);
    for number in 10..20 {
        send(&mut sender, number, 100);
    }
    assert_eq!(repairs(&mut sender, 1_300).len(), 2);
    for id in (0..3).chain(10..14) {
        assert_eq!(sender.on_symbol_lost(NOW, id), OnLoss::Wait, "{id}");
    }
}

/// What overflows a queue has met the repair symbols behind it as well, unless the path is known to lose packets
/// without.
#[test]
fn nothing_waits_while_a_queue_overflows() {
    let mut sender = sender_of("constant:10,8", 8);
    repairs(&mut sender, 1_300);
    let queue = PathState {
        smoothed_rtt: Duration::from_millis(80),
        min_rtt: Duration::from_millis(60),
        calm_rtt: Duration::from_millis(90),
        ..PathState::default()
    };
    sender.on_path(PATH, queue);
    assert_eq!(sender.on_symbol_lost(NOW, 1), OnLoss::Resend);
    let calm = PathState {
        calm_rtt: Duration::from_millis(62),
        ..queue
    };
    sender.on_path(PATH, calm);
    assert_eq!(sender.on_symbol_lost(NOW, 2), OnLoss::Wait);
}

/// The peer's decoder keeps so many repair symbols at a time, whatever is sent.
#[test]
fn no_more_losses_wait_than_the_peer_can_rebuild_together() {
    for (window, most) in [(256, 32), (64, 16), (12, 12)] {
        let config = FecConfig {
            decoder_symbols: window,
            ..config("constant:100,50")
        };
        let mut sender = sender_with(&config);
        for number in 0..50 {
            send(&mut sender, number, 100);
        }
        repairs(&mut sender, 1_300);
        let first = 50 - u64::from(window.min(50));
        let waiting = (first..50).take_while(|id| sender.on_symbol_lost(NOW, *id) == OnLoss::Wait);
        assert_eq!(waiting.count(), most, "{window}");
    }
}

#[test]
fn losses_beyond_repair_symbols_are_made_up_for() {
    let mut sender = sender_of("constant:10,8", 8);
    repairs(&mut sender, 1_300);
    assert_eq!(sender.on_symbol_lost(NOW, 0), OnLoss::Wait);
    assert_eq!(sender.on_symbol_lost(NOW, 1), OnLoss::Wait);
    assert!(!sender.has_repairs());
    for id in 2..4 {
        assert_eq!(sender.on_symbol_lost(NOW, id), OnLoss::Wait);
    }
    assert_eq!(repairs(&mut sender, 1_300).len(), 2);
    // One of them is lost, so all are in vain.
    assert_eq!(sender.expire(NOW, |_| false), None);
    sender.on_repair_settled(3, false);
    for _ in 0..4 {
        assert!(sender.expire(NOW, |_| false).is_some());
    }
    assert_eq!(
        (sender.expire(NOW, |_| false), sender.timer()),
        (None, None)
    );
    // One more than those that are not lost.
    let mut sender = sender_of("constant:10,8", 8);
    repairs(&mut sender, 1_300);
    sender.on_repair_settled(0, true);
    assert_eq!(sender.on_symbol_lost(NOW, 0), OnLoss::Wait);
    sender.on_repair_settled(1, false);
    assert_eq!(sender.on_symbol_lost(NOW, 1), OnLoss::Wait);
    assert_eq!(repairs(&mut sender, 1_300).len(), 1);
}

/// Repair symbols over what has left the window would help nobody: everything goes out again.
#[test]
fn what_has_left_the_window_is_sent_again() {
    let narrow = FecConfig {
        encoder_symbols: 8,
        ..config("constant:10,8")
    };
    let mut sender = sender_with(&narrow);
    (0..8).for_each(|number| send(&mut sender, number, 100));
    repairs(&mut sender, 1_300);
    (8..12).for_each(|number| send(&mut sender, number, 100));
    assert_eq!(sender.on_symbol_lost(NOW, 0), OnLoss::Wait);
    assert_eq!(sender.on_symbol_lost(NOW, 1), OnLoss::Wait);
    assert_eq!(sender.on_symbol_lost(NOW, 2), OnLoss::Resend);
    assert!(sender.expire(NOW, |_| false).is_some() && sender.expire(NOW, |_| false).is_some());
}

#[test]
fn repair_symbols_that_help_nobody_are_not_sent() {
    let mut sender = sender_of("constant:10,8", 8);
    (0..8).for_each(|id| assert!(!sender.on_symbol_acked(id)));
    assert!(sender.has_repairs());
    assert_eq!(sender.next_repair(1_300), None);
    assert!(!sender.has_repairs());
}

#[test]
fn a_burst_ends_once() {
    let mut sender = sender_of("constant:10,8", 3);
    assert_eq!(sender.ask(Occasion::BurstEnd, NOW), Some((1, 3)));
    assert_eq!(sender.ask(Occasion::BurstEnd, NOW), None);
    send(&mut sender, 3, 100);
    assert_eq!(sender.ask(Occasion::BurstEnd, NOW), Some((1, 1)));
}

/// A scheduler that writes down what it is told of ends.
#[derive(Clone, Debug, Default)]
struct Told(std::sync::Arc<std::sync::Mutex<Vec<Ends>>>);

/// [`RedundancyView::stream_ends`] and `ends_in`.
type Ends = (bool, Option<u64>);

impl RedundancyScheduler for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn ask(&mut self, _: Occasion, view: &RedundancyView) -> Repairs {
        let told = (view.stream_ends, view.ends_in);
        self.0.lock().unwrap().push(told);
        Repairs::NONE
    }
}

impl redundancy::RedundancyFactory for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn build(&self) -> Box<dyn RedundancyScheduler> {
        Box::new(self.clone())
    }
}

#[test]
fn the_end_of_a_stream_is_told_until_the_next_symbol() {
    let told = Told::default();
    let mut config = config("none");
    config.redundancy = std::sync::Arc::new(told.clone());
    let mut sender = sender_with(&config);
    let outlook = Outlook {
        ends_in: Some(700),
        ..Outlook::default()
    };
    assert!(sender.protects(NOW, outlook));
    send(&mut sender, 0, 100);
    sender.on_stream_end();
    for occasion in [Occasion::SlotFree, Occasion::Feedback, Occasion::BurstEnd] {
        sender.look(Outlook::default());
        sender.ask(occasion, NOW);
    }
    send(&mut sender, 1, 100);
    let (ends, when) = (true, Some(700));
    let expected = [
        (false, when),
        (ends, when),
        (ends, when),
        // Nothing waits.
        (ends, None),
        (false, None),
    ];
    assert_eq!(*told.0.lock().unwrap(), expected);
}

/// What may end earlier than was told is asked about, whatever might have left plain.
#[test]
fn a_new_end_is_asked_about() {
    let mut sender = sender_with(&config("tail"));
    assert!(sender.heeds_ends());
    let outlook = Outlook {
        waiting_bytes: 100_000,
        congestion_window: 10_000,
        ..Outlook::default()
    };
    assert!(!sender.protects(NOW, outlook));
    assert!(sender.leaves_plain(1_000, || (10_000, false, 100_000)));
    sender.on_new_end();
    assert!(!sender.leaves_plain(1_000, || (10_000, false, 100_000)));
    let ends = Outlook {
        ends_in: Some(5_000),
        ..outlook
    };
    assert!(sender.protects(NOW, ends));
}

/// What waits may become less without leaving: a stream is reset, and what follows it is all there is.
#[test]
fn what_was_given_up_does_not_count_as_what_waits() {
    for name in ["quirl-object", "tail"] {
        let mut sender = sender_with(&config(name));
        let outlook = |waiting_bytes| Outlook {
            waiting_bytes,
            congestion_window: 10_000,
            ..Outlook::default()
        };
        assert!(!sender.protects(NOW, outlook(16_000_000)));
        assert!(
            sender.leaves_plain(1_000, || (10_000, false, 8_000)),
            "{name}"
        );
        sender.on_feedback(PathId::ZERO);
        assert!(
            !sender.leaves_plain(1_000, || (10_000, false, 8_000)),
            "{name}"
        );
        assert!(sender.protects(NOW, outlook(8_000)), "{name}");
    }
}

/// A scheduler that always wants to be asked at the beginning of time.
#[derive(Debug)]
struct Impatient;

impl RedundancyScheduler for Impatient {
    fn name(&self) -> &'static str {
        "impatient"
    }

    fn ask(&mut self, _: Occasion, _: &RedundancyView) -> Repairs {
        Repairs {
            count: u16::MAX,
            window: u16::MAX,
            behind: 0,
        }
    }

    fn timer(&self) -> Option<Instant> {
        Some(NOW)
    }
}

impl redundancy::RedundancyFactory for Impatient {
    fn name(&self) -> &'static str {
        "impatient"
    }

    fn build(&self) -> Box<dyn RedundancyScheduler> {
        Box::new(Self)
    }
}

#[test]
fn what_a_scheduler_wants_too_much_of_is_cut() {
    let mut config = config("constant");
    config.redundancy = std::sync::Arc::new(Impatient);
    let mut sender = sender_with(&config);
    send(&mut sender, 0, 10);
    // Asked once, it is not asked again for the same time.
    assert!(!sender.wants_to_be_asked(NOW) && sender.timer().is_none());
    (1..200).for_each(|number| send(&mut sender, number, 10));
    assert_eq!(repairs(&mut sender, 1_300).len(), 256);
}

#[test]
fn repair_symbols_at_the_end_cover_what_is_in_flight() {
    let mut sender = sender_of("quirl-object", 20);
    (0..10).for_each(|id| assert!(!sender.on_symbol_acked(id)));
    sender.on_symbol_acked(15);
    assert_eq!(sender.ask(Occasion::BurstEnd, NOW), Some((2, 10)));
}

#[test]
fn the_peers_window_holds() {
    // 8 symbols of 102 bytes, but only 5 of them by bytes, then 3 by number.
    let mut sender = sender_of("constant:10,8", 8);
    assert!(sender.on_window(1, 8, 5 * 102).is_ok());
    let made = repairs(&mut sender, 1_300);
    assert_eq!(made[0].0.0..made[0].0.0 + made[0].0.1, 3..8);
    let mut sender = sender_of("constant:10,8", 8);
    assert!(sender.on_window(2, 3, 1 << 20).is_ok());
    // Older than the newest.
    assert!(sender.on_window(1, 8, 1 << 20).is_ok());
    assert_eq!(repairs(&mut sender, 1_300)[0].0.0, 5);
    assert!(sender.on_window(3, 0, 0).is_err());
    // No more than the handshake said, which is what the decoder has.
    let mut small = decoder(&[(10, 15)]);
    small.window_bytes = 5 * 102;
    let mut peer = PeerDecoder::new(&small);
    let announced = (peer.symbols(), peer.bytes(), peer.equations());
    assert!(peer.on_window(0, 1 << 40, 1 << 40).is_ok());
    assert_eq!((peer.symbols(), peer.bytes(), peer.equations()), announced);
}

/// No repair symbol can follow where the peer's window has no room for one symbol.
#[test]
fn a_window_without_room_for_a_symbol_leaves_packets_plain() {
    let payload = 1_400;
    // What the handshake said.
    let config = config("constant:10,8");
    let mut peer = config.decoder_parameter().unwrap();
    peer.window_bytes = 0;
    let sender = FecSender::new(&config, &peer, config.schemes[0]).unwrap();
    assert!(!sender.has_room(payload) && !sender.has_room(600));
    // What FEC_WINDOW says.
    let mut sender = sender_of("constant:10,8", 7);
    assert!(sender.has_room(payload));
    sender.on_window(1, 8, 0).unwrap();
    assert!(!sender.has_room(payload));
    // What left before is covered no more, and nobody waits for that.
    send(&mut sender, 7, 100);
    assert_eq!(sender.queued(), 2);
    assert!(repairs(&mut sender, payload).is_empty());
    assert_eq!(sender.on_symbol_lost(NOW, 0), OnLoss::Resend);
    assert!(!sender.probe(PATH, 1, 2));
    // It opens: for short packets, for all, and shuts by one byte.
    let header = SourceSymbol::encoded_len(usize::from(sender.next_header().bytes));
    let longest = (sender.packet_room(payload) - header) as u64;
    sender.on_window(2, 8, 1_000).unwrap();
    assert!(!sender.has_room(payload) && sender.has_room(800));
    sender.on_window(3, 8, longest + 2).unwrap();
    assert!(sender.has_room(payload));
    sender.on_window(4, 8, longest + 1).unwrap();
    assert!(!sender.has_room(payload));
    sender.on_window(5, 8, 8 * 1_502).unwrap();
    assert!(sender.has_room(payload));
    (8..16).for_each(|number| send(&mut sender, number, 100));
    assert_eq!(repairs(&mut sender, payload).len(), 2);
}

#[test]
fn symbols_from_before_the_mtu_shrank_are_left_out() {
    let mut sender = sender_with(&config("constant:10,8"));
    for number in 0..8 {
        send(&mut sender, number, if number < 3 { 1_400 } else { 1_100 });
    }
    let made = repairs(&mut sender, 1_150);
    assert_eq!(made.len(), 2);
    for ((first, count, _), symbol) in made {
        assert_eq!((first, count, symbol.len()), (3, 5, 1_102));
    }
}

#[test]
fn a_repair_symbol_over_the_longest_source_symbol_fits_a_packet() {
    for ids in [0, 60, 70, 20_000] {
        let mut sender = sender_with(&config("constant:2,1"));
        (0..ids).for_each(|id| {
            sender.on_source(PATH, id, &[1]).unwrap();
        });
        let payload = 1_400;
        let header = SourceSymbol::encoded_len(usize::from(sender.next_header().bytes));
        let longest = sender.packet_room(payload) - header;
        assert!(longest >= payload - 14 && longest >= sender.symbol_room(payload));
        sender.on_source(PATH, ids, &vec![1; longest]).unwrap();
        sender.ask(Occasion::SlotFree, NOW);
        assert!(sender.next_repair(payload).is_some());
    }
}

#[test]
fn what_would_be_cut_too_short_is_not_protected() {
    let towards = |theirs: u64, ours| {
        let ours = FecConfig {
            max_symbol_bytes: ours,
            ..config("constant")
        };
        let mut peer = decoder(&[(10, 15)]);
        peer.max_symbol_bytes = theirs;
        FecSender::new(&ours, &peer, ours.schemes[0])
    };
    for (theirs, ours) in [(1, 1_500), (511, 1_500), (1_500, 511), (1_500, 0)] {
        assert!(towards(theirs, ours).is_none(), "{theirs} {ours}");
    }
    for (theirs, ours) in [(512, 1_500), (1_500, 512), (u64::MAX, 1_500)] {
        let sender = towards(theirs, ours).unwrap();
        assert!(sender.has_room(1_159) && sender.has_room(560));
        // A path with less: plain, since all of it might be header.
        assert!((0..=512).all(|payload| !sender.has_room(payload)));
    }
}

#[test]
fn a_symbol_id_is_clear_however_many_overtake_its_packet() {
    let mut sender = sender_of("constant:2,1", 10);
    let limits = config("constant").decoder_limits().unwrap();
    let read_after = |header, newer| {
        let mut receiver = FecReceiver::new(limits, Scheme::Rlc(Rlc::DENSE));
        let newest = SourceSymbol::new(newer, 4);
        receiver.on_source(newest, &[1]).unwrap();
        receiver.id_of(header)
    };
    assert_eq!(read_after(sender.next_header(), 30_000), 10);
    let path = |id| PathOutlook {
        id: PathId(id),
        smoothed_rtt: Duration::ZERO,
        min_rtt: Duration::ZERO,
        calm_rtt: Duration::ZERO,
        probe_timeout: Duration::ZERO,
        one_way_delay: Duration::ZERO,
        congestion_window: 0,
        bytes_in_flight: 0,
        datagram_bytes: 1_200,
        slow_start: false,
    };
    sender.look_at_paths([0, 1].map(path).into_iter());
    assert_eq!(read_after(sender.next_header(), 8_000_000), 10);
}

#[test]
fn block_codes_count_keys_by_block() {
    let mut blocks = config("constant:5,3");
    blocks.schemes = vec![Scheme::ReedSolomon(ReedSolomon)];
    let mut sender = sender_with(&blocks);
    (0..6).for_each(|number| send(&mut sender, number, 10));
    let keys = |sender: &mut FecSender| -> Vec<_> {
        repairs(sender, 1_300)
            .iter()
            .map(|((first, _, key), _)| (*first, *key))
            .collect()
    };
    assert_eq!(keys(&mut sender), [(0, 0), (0, 1), (3, 0), (3, 1)]);
    // A code without a key for the second repair symbol sends one.
    blocks.schemes = vec![Scheme::Xor(Xor::PARITY)];
    let mut sender = sender_with(&blocks);
    (0..3).for_each(|number| send(&mut sender, number, 10));
    assert_eq!(keys(&mut sender), [(0, 0)]);
}

// ---- Receiving ----

#[test]
fn what_the_receiver_refuses_and_what_it_ignores() {
    let limits = Limits::new(16, 100).unwrap();
    let receiver = || FecReceiver::new(limits, Scheme::ReedSolomon(ReedSolomon));
    let repair = |first, count, key, symbol| Repair {
        first,
        count,
        key,
        symbol,
    };
    let refused = [
        repair(0, 17, 0, &[0; 10][..]),
        repair(0, 1 << 20, 0, &[0; 10]),
        repair(0, 4, 1 << 40, &[0; 10]),
        repair(0, 4, 252, &[0; 10]),
        repair(0, 4, 0, &[0; 1]),
        repair(0, 4, 0, &[0; 103]),
    ];
    for bad in refused {
        let error = receiver().on_repair(&bad).unwrap_err();
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION, "{bad:?}");
    }
    let long = receiver().on_source(SourceSymbol::new(0, 1), &[0; 101]);
    assert_eq!(long.unwrap_err().code, Code::PROTOCOL_VIOLATION);

    // A length that does not fit, padding that is not zero, a known symbol that is longer.
    let mut receiver = receiver();
    receiver
        .on_repair(&repair(0, 1, 0, &[0, 101, 1, 2]))
        .unwrap();
    receiver.on_repair(&repair(1, 1, 0, &[0, 1, 1, 2])).unwrap();
    receiver.on_packet_end();
    receiver
        .on_source(SourceSymbol::new(2, 1), &[7; 50])
        .unwrap();
    receiver.on_repair(&repair(2, 2, 0, &[0; 20])).unwrap();
    receiver.on_packet_end();
    assert_eq!(receiver.next_recovered(), None);
    assert_eq!(receiver.stats().ignored, 3);
    // Far ahead, and what is then too old.
    receiver
        .on_repair(&repair(1 << 61, 4, 0, &[0; 20]))
        .unwrap();
    receiver.on_repair(&repair(4, 1, 0, &[0, 1, 9])).unwrap();
    assert_eq!((receiver.stats().useful, receiver.stats().wasted), (1, 1));
}

/// A packet full of repair symbols next to empty is no way to make others work.
#[test]
fn no_more_than_a_few_repair_symbols_of_a_packet_are_used() {
    let limits = Limits::new(16, 100).unwrap();
    let mut receiver = FecReceiver::new(limits, Scheme::ReedSolomon(ReedSolomon));
    for key in 0..20 {
        let repair = Repair {
            first: 0,
            count: 16,
            key,
            symbol: &[0; 10],
        };
        receiver.on_repair(&repair).unwrap();
        if key == 9 {
            receiver.on_packet_end();
        }
    }
    let stats = receiver.stats();
    assert_eq!((stats.repairs_received, stats.ignored), (20, 16));
}

#[test]
fn recovered_symbols_are_told_three_times() {
    let mut feedback = Feedback::default();
    assert!(!feedback.is_due() && !feedback.has_news());
    for id in [7, 3, 8, 4, 3] {
        feedback.on_recovered(id);
    }
    let ranges = |feedback: &Feedback| feedback.ranges().collect::<Vec<_>>();
    assert!(feedback.is_due());
    feedback.on_told(2);
    feedback.on_recovered(5);
    assert_eq!(ranges(&feedback), [7..=8, 3..=5]);
    feedback.on_told(2);
    assert!(!feedback.is_due());
    feedback.on_told(2);
    assert_eq!(ranges(&feedback), [5..=5]);
    feedback.on_told(1);
    assert!(!feedback.has_news());
    (0..10_000).for_each(|id| feedback.on_recovered(2 * id));
    assert_eq!(ranges(&feedback).len(), 256);
}

/// What a frame has no room for stays due, and the next frame begins with it.
#[test]
fn what_does_not_fit_is_told_next() {
    let mut feedback = Feedback::default();
    for id in [1, 2, 5, 8, 9] {
        feedback.on_recovered(id);
    }
    let ranges = |feedback: &Feedback| feedback.ranges().collect::<Vec<_>>();
    feedback.on_told(0);
    assert_eq!(ranges(&feedback), [8..=9, 5..=5, 1..=2]);
    assert!(feedback.is_due());
    feedback.on_told(1);
    assert_eq!(ranges(&feedback), [5..=5, 1..=2]);
    // What is recovered meanwhile waits for its turn, where it is above.
    feedback.on_recovered(12);
    feedback.on_told(1);
    assert_eq!(ranges(&feedback), [1..=2]);
    feedback.on_told(1);
    assert!(feedback.is_due());
    assert_eq!(ranges(&feedback), [12..=12, 8..=9, 5..=5, 1..=2]);
    feedback.on_told(1);
    assert!(!feedback.is_due());
    // Each is told three times, whatever frame names it.
    let mut told = std::collections::BTreeMap::new();
    while feedback.has_news() {
        for range in ranges(&feedback).into_iter().take(2) {
            range.for_each(|id| *told.entry(id).or_insert(1) += 1);
        }
        feedback.on_told(2);
    }
    assert_eq!(told, [1, 2, 5, 8, 9, 12].map(|id| (id, 3)).into());
    // Those that had no room are forgotten before their turn: there is still something to tell.
    (0..4).for_each(|id| feedback.on_recovered(2 * id));
    feedback.on_told(2);
    (10..400).for_each(|id| feedback.on_recovered(2 * id));
    assert!(feedback.is_due() && ranges(&feedback).len() == 256);
}

proptest! {
    /// Whatever a peer sends: no panic, and no more memory than the limits say.
    #[test]
    fn any_symbols_in_any_order(
        symbols in prop::collection::vec(
            (0u64..60, 1u64..20, 0u64..300, prop::collection::vec(any::<u8>(), 1..60), any::<bool>()),
            0..200,
        ),
    ) {
        let limits = Limits::new(16, 64).unwrap();
        let mut receiver = FecReceiver::new(limits, Scheme::Rlc(Rlc::DENSE));
        let mut recovered = 0;
        for (id, count, key, symbol, is_source) in symbols {
            if is_source {
                let _ = receiver.on_source(SourceSymbol::new(id, 1 + id as usize % 4), &symbol);
            } else {
                let _ = receiver.on_repair(&Repair { first: id, count, key, symbol: &symbol });
            }
            while let Some((id, symbol)) = receiver.next_recovered() {
                prop_assert!(symbol.len() <= 64);
                receiver.on_recovered(id);
                recovered += 1;
            }
        }
        prop_assert_eq!(receiver.stats().recovered, recovered);
    }

    /// What SYMBOL_ACK tells is told once, whatever was told or acknowledged before.
    #[test]
    fn reports_are_told_once(
        steps in prop::collection::vec((0u8..4, 0u64..60, 0u64..60), 0..200),
    ) {
        let mut sender = sender_with(&config("constant"));
        let mut sent = 0;
        let mut settled = std::collections::BTreeSet::new();
        for (what, from, len) in steps {
            match what {
                0 => {
                    for _ in 0..=len % 5 {
                        sender.on_source(PATH, sent, &[1]).unwrap();
                        sent += 1;
                    }
                }
                1 => {
                    sender.on_symbol_acked(from);
                    settled.extend(Some(from).filter(|id| *id < sent));
                }
                2 => {
                    sender.on_symbol_lost(NOW, from);
                }
                _ if from + len < sent => {
                    let mut told = Vec::new();
                    let range = from..=from + len;
                    sender
                        .on_symbol_ack(from + len, [range.clone()].into_iter(), |id, _| told.push(id))
                        .unwrap();
                    let news: Vec<_> = range.filter(|id| settled.insert(*id)).collect();
                    prop_assert_eq!(told, news);
                }
                _ => {}
            }
        }
    }

    /// Any fates in any order, told more than once: the sender stays consistent.
    #[test]
    fn any_feedback_in_any_order(
        steps in prop::collection::vec((0u8..7, 0u64..40), 0..300),
    ) {
        let mut sender = sender_with(&config("constant:6,4"));
        let mut sent = 0;
        let mut now = NOW;
        for (what, id) in steps {
            now += Duration::from_millis(1);
            match what {
                0 | 1 => {
                    send(&mut sender, sent, 20 + id as usize);
                    sent += 1;
                }
                2 => {
                    sender.on_symbol_acked(id);
                }
                3 => {
                    if sender.on_symbol_lost(now, id) == OnLoss::Wait {
                        sender.wait(Token::MaxData);
                    }
                }
                4 => {
                    let _ = sender.on_symbol_ack(id, [id / 2..=id].into_iter(), |_, _| {});
                }
                5 => {
                    repairs(&mut sender, 200);
                    sender.on_repair_settled(id, id % 2 == 0);
                }
                _ => {
                    while let Some(tokens) = sender.expire(now, |_| false) {
                        prop_assert!(tokens.len() <= 1);
                    }
                    sender.on_feedback(PATH);
                }
            }
        }
        now += Duration::from_secs(1);
        while sender.expire(now, |_| false).is_some() {}
        prop_assert_eq!(sender.timer(), None);
    }
}

// ---- Codes that rebuild less ----

/// A sender with this code that has sent nine symbols and `count` repair symbols over them.
fn sender_by(code: &str, count: u16) -> FecSender {
    let config = FecConfig {
        schemes: vec![code_by_name(code).unwrap()],
        ..config(&format!("constant:{},9", 9 + count))
    };
    let mut sender = sender_with(&config);
    (0..9).for_each(|number| send(&mut sender, number, 100));
    assert_eq!(repairs(&mut sender, 1_300).len(), usize::from(count));
    sender
}

/// A block code has 256 symbols, and makes as many repair symbols of a longer flight over its end.
#[test]
fn long_flights_have_as_many_with_block_codes() {
    for flight in [100, 225, 226, 240, 255, 256, 300] {
        let made = |code: &str| {
            let config = FecConfig {
                schemes: vec![code_by_name(code).unwrap()],
                ..config(&format!("constant:{},{flight}", flight + 30))
            };
            let mut sender = sender_with(&config);
            (0..flight).for_each(|number| send(&mut sender, number, 100));
            repairs(&mut sender, 1_300)
        };
        let (blocks, rateless) = (made("reed-solomon"), made("rlc"));
        assert_eq!((blocks.len(), rateless.len()), (30, 30), "{flight}");
        // All over one window, which ends with the flight.
        let window = |((first, len, _), _): &((u64, u64, u64), Vec<u8>)| (*first, *len);
        let (first, len) = window(&blocks[0]);
        assert!(blocks.iter().all(|repair| window(repair) == (first, len)));
        assert_eq!(first + len, flight);
        assert_eq!(len, flight.min(226));
    }
}

#[test]
fn what_parity_cannot_rebuild_does_not_wait() {
    let mut sender = sender_by("xor:3", 3);
    assert_eq!(sender.on_symbol_lost(NOW, 0), OnLoss::Wait);
    // Of another group, beside it.
    assert_eq!(sender.on_symbol_lost(NOW, 1), OnLoss::Wait);
    // Two of one group: neither has a hope, the others have.
    assert_eq!(sender.on_symbol_lost(NOW, 3), OnLoss::Resend);
    assert!(sender.expire(NOW, |_| false).is_some() && sender.expire(NOW, |_| false).is_none());
    // A lost repair symbol is missed by its own group.
    sender.on_repair_settled(2, false);
    assert!(sender.expire(NOW, |_| false).is_none());
    sender.on_repair_settled(1, false);
    assert!(sender.expire(NOW, |_| false).is_some());
    // Two sums were sent, and the third group has none.
    let mut sender = sender_by("xor:3", 2);
    assert_eq!(sender.on_symbol_lost(NOW, 2), OnLoss::Resend);
    assert_eq!(sender.on_symbol_lost(NOW, 4), OnLoss::Wait);
}

#[test]
fn of_random_sums_more_are_needed() {
    let mut sender = sender_by("rlc-gf2", 1);
    assert_eq!(sender.on_symbol_lost(NOW, 0), OnLoss::Resend);
    let mut sender = sender_by("rlc-gf2", 5);
    assert_eq!(sender.on_symbol_lost(NOW, 0), OnLoss::Wait);
    assert_eq!(sender.on_symbol_lost(NOW, 1), OnLoss::Wait);
    assert_eq!(
        sender.on_symbol_lost(NOW, 2),
        OnLoss::Resend,
        "three of five"
    );
    // All came, and it was not reported.
    let mut sender = sender_by("rlc-gf2", 4);
    assert_eq!(sender.on_symbol_lost(NOW, 0), OnLoss::Wait);
    (0..3).for_each(|number| sender.on_repair_settled(number, true));
    assert!(sender.expire(NOW, |_| false).is_none());
    sender.on_repair_settled(3, true);
    assert!(sender.expire(NOW, |_| false).is_some());
}

// ---- The loss monitor ----

#[test]
fn gilberts_probabilities_are_found() {
    let mut monitor = LossMonitor::default();
    // p = 1/50, q = 1/2 by a fixed pattern: runs of 1, 1 and 4 losses in 300 packets.
    for number in 0..30_000u64 {
        monitor.on_sent(number);
    }
    let lost = |number: u64| matches!(number % 300, 50 | 150 | 250..=253);
    // Losses become known after later packets have arrived.
    for chunk in 0..30 {
        let numbers = chunk * 1000..(chunk + 1) * 1000;
        numbers
            .clone()
            .filter(|n| !lost(*n))
            .rev()
            .for_each(|n| monitor.on_acked(n));
        numbers
            .filter(|n| lost(*n))
            .for_each(|n| monitor.on_lost(n));
        monitor.review();
    }
    let estimate = monitor.estimate();
    let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.1;
    assert!(near(estimate.rate, 0.02), "{estimate:?}");
    assert!(
        near(estimate.loss_after_arrival, 3.0 / 294.0),
        "{estimate:?}"
    );
    assert!(near(estimate.arrival_after_loss, 0.5), "{estimate:?}");
    assert!(near(estimate.burst_mean, 2.0), "{estimate:?}");
    assert!(near(estimate.burst_deviation, 2f64.sqrt()), "{estimate:?}");
    assert!(estimate.rate_low < 0.02 && 0.02 < estimate.rate_high);
    assert!(estimate.packets > 2_000.0 && estimate.rate_high < 0.03);
    let within = |(low, high): (f64, f64), value: f64| low < value && value < high;
    let (p, q) = (
        estimate.loss_after_arrival_within(),
        estimate.arrival_after_loss_within(),
    );
    assert!(within(p, 3.0 / 294.0) && p.1 < 0.02, "{p:?}");
    assert!(within(q, 0.5) && q.0 > 0.3, "{q:?}");
    let mean = estimate.burst_mean_within();
    assert!(within(mean, 2.0) && mean.0 >= 1.0, "{mean:?}");
    let nothing = LossMonitor::default().estimate();
    assert_eq!(nothing.loss_after_arrival_within(), (0.0, 1.0));
    assert_eq!(nothing.arrival_after_loss_within(), (0.0, 1.0));
    assert_eq!(nothing.burst_mean_within(), (1.0, f64::INFINITY));
    assert_eq!(nothing.residual_within(), (0.0, 1.0));
}

/// What is of no use if it is sent again waits for as long as a repair symbol may still bring it; and what was said to be
/// missed and came all the same is not counted as missed.
#[test]
fn what_is_useless_to_send_again_waits_for_the_last_repair_symbol() {
    let mut sender = sender_of("constant:10,8", 8);
    repairs(&mut sender, 1_300);
    assert_eq!(sender.on_symbol_lost(NOW, 0), OnLoss::Wait);
    sender.wait(Token::MaxData);
    let until = sender.timer().unwrap();
    assert_eq!(sender.expire(until, |_| true), None);
    let until = sender.timer().unwrap();
    assert_eq!(sender.expire(until, |_| true), None);
    let until = sender.timer().unwrap();
    sender.on_repair_settled(0, true);
    sender.on_repair_settled(1, false);
    assert!(sender.expire(until, |_| true).is_some());
    sender.on_feedback(PathId::ZERO);
    let residual = sender.loss(PathId::ZERO);
    assert_eq!(residual.residual, 1.0, "{residual:?}");
    sender
        .on_symbol_ack(0, std::iter::once(0..=0), |_, _| ())
        .unwrap();
    sender.on_feedback(PathId::ZERO);
    assert_eq!(sender.loss(PathId::ZERO).residual, 0.0);
}

/// Rows of arrivals are counted at once; how long they are says nothing else.
#[test]
fn rows_count_as_their_packets_do() {
    let play = |every: u64| {
        let mut monitor = LossMonitor::default();
        for number in 0..6_000u64 {
            // Numbers of packets that ask for no answer are left out.
            let sent = number + number / 7;
            monitor.on_sent(sent);
            if number % 331 < 3 || number % 457 == 1 {
                monitor.on_lost(sent);
            } else {
                monitor.on_acked(sent);
            }
            if number % every == every - 1 || number % 100 == 99 {
                monitor.review();
            }
        }
        monitor.estimate()
    };
    let (one, many) = (play(1), play(100));
    for (one, many) in [
        (one.packets, many.packets),
        (one.rate, many.rate),
        (one.loss_after_arrival, many.loss_after_arrival),
        (one.arrival_after_loss, many.arrival_after_loss),
        (one.burst_mean, many.burst_mean),
        (one.burst_deviation, many.burst_deviation),
        (one.after_loss, many.after_loss),
        (one.now.0, many.now.0),
        (one.now.1, many.now.1),
    ] {
        assert!((one / many - 1.0).abs() < 1e-9, "{one} {many}");
    }
}

#[test]
fn an_unknown_path() {
    let mut monitor = LossMonitor::default();
    monitor.review();
    let estimate = monitor.estimate();
    assert_eq!((estimate.packets, estimate.rate), (0.0, 0.0));
    assert_eq!((estimate.rate_low, estimate.rate_high), (0.0, 1.0));
    // Packets whose fate is open say nothing, nor do those nobody has heard of.
    monitor.on_sent(5);
    monitor.on_acked(6);
    monitor.review();
    assert_eq!(monitor.estimate().packets, 0.0);
}

#[test]
fn congestion_that_nobody_forecast_is_told_apart() {
    let ms = Duration::from_millis;
    let play = |rtt: u64| {
        let mut monitor = LossMonitor::default();
        monitor.on_path(ms(100), ms(100), 50_000);
        (0..200).for_each(|number| monitor.on_sent(number));
        (0..50).for_each(|number| monitor.on_acked(number));
        monitor.review();
        monitor.on_path(ms(100), ms(rtt), 100_000);
        for number in 50..200u64 {
            if number.is_multiple_of(5) {
                monitor.on_lost(number);
            } else {
                monitor.on_acked(number);
            }
        }
        monitor.on_path(ms(100), ms(101), 50_000);
        monitor.review();
        let estimate = monitor.estimate();
        assert!(!estimate.tense);
        (estimate.now.0.round(), estimate.now.1.round())
    };
    // Losses behind a queue are congestion's, with all that left beside them.
    let (losses, packets) = play(180);
    assert!(losses == 0.0 && (45.0..=50.0).contains(&packets));
    // Without one they are the path's.
    let (losses, packets) = play(101);
    assert!((28.0..=30.0).contains(&losses) && packets > 190.0);
}

/// A window as large as at the last loss says nothing while its owner has too little to send to fill it.
#[test]
fn an_idle_window_is_not_a_full_one() {
    let ms = Duration::from_millis;
    let mut monitor = LossMonitor::default();
    (0..100).for_each(|number| monitor.on_sent(number));
    monitor.on_path(ms(100), ms(180), 50_000);
    (0..99).for_each(|number| monitor.on_acked(number));
    monitor.on_lost(99);
    monitor.review();
    for (filled, tense) in [(50_000, true), (40_000, true), (5_000, false)] {
        monitor.on_path(ms(100), ms(101), filled);
        monitor.review();
        assert_eq!(monitor.estimate().tense, tense, "{filled}");
    }
    // What leaves meanwhile and arrives is what congestion spared.
    (100..200).for_each(|number| monitor.on_sent(number));
    (100..200).for_each(|number| monitor.on_acked(number));
    monitor.on_path(ms(100), ms(180), 5_000);
    monitor.review();
    let estimate = monitor.estimate();
    assert!(estimate.tense);
    assert_eq!(estimate.calm.0, 0.0);
    assert!((185.0..=199.0).contains(&estimate.calm.1));
}

/// What is acknowledged after it was declared lost was reordered: before its loss is counted, and after.
#[test]
fn reordering_is_no_loss() {
    let mut monitor = LossMonitor::default();
    for number in 0..100 {
        monitor.on_sent(number);
        if number % 10 == 0 {
            monitor.on_lost(number);
        } else {
            monitor.on_acked(number);
        }
    }
    monitor.on_late(90);
    monitor.review();
    let known = monitor.estimate();
    assert!((known.rate - 0.09).abs() < 0.001, "{known:?}");
    for number in (0..90).step_by(10) {
        monitor.on_late(number);
    }
    // More than were lost; nothing that is known of.
    monitor.on_late(0);
    let none = monitor.estimate();
    assert!(none.rate < 1e-9 && none.now.0 < 1e-9, "{none:?}");
    assert!((none.packets - known.packets).abs() < 1e-6);
}
