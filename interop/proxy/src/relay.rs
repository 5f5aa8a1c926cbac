//! Moving datagrams.

use std::{
    collections::BTreeMap,
    io,
    net::{SocketAddr, UdpSocket},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use anyhow::Result;

use crate::{
    Options,
    faults::{Direction, Fate, Lane},
    pipe::Pipe,
    watch::Watch,
};

const MAX_DATAGRAM: usize = 65_536;
const BUFFER_BYTES: usize = 4 << 20;

/// A relay that runs.
pub(crate) struct Relay {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    watch: Watch,
    to_server: Lane,
    to_client: Lane,
    /// The server's end of each client address.
    ways: BTreeMap<SocketAddr, Way>,
    rebinds_left: u64,
}

/// Towards the server on behalf of one client address.
struct Way {
    socket: Arc<UdpSocket>,
    bytes: u64,
}

/// What all threads know.
struct Fixed {
    listen: Arc<UdpSocket>,
    upstream: SocketAddr,
    rebind_every: Option<u64>,
    to_server: Pipe,
    to_client: Pipe,
}

fn socket(address: SocketAddr) -> io::Result<Arc<UdpSocket>> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
    // As large as the system lets us; its default loses bursts that the ends would not.
    let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    socket.bind(&address.into())?;
    Ok(Arc::new(socket.into()))
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts relaying on threads of its own.
pub(crate) fn start(options: Options) -> Result<Relay> {
    let shared = Arc::new(Mutex::new(Shared {
        watch: Watch::default(),
        to_server: Lane::new(options.faults.clone(), Direction::ToServer),
        to_client: Lane::new(options.faults, Direction::ToClient),
        ways: BTreeMap::new(),
        rebinds_left: options.rebinds,
    }));
    let pipe = || Pipe::new(options.delay, options.rate, options.queue);
    let fixed = Arc::new(Fixed {
        listen: socket(options.listen)?,
        upstream: options.upstream,
        rebind_every: options.rebind_every,
        to_server: pipe(),
        to_client: pipe(),
    });
    println!("LISTENING {}", fixed.listen.local_addr()?);
    let relay = Relay {
        shared: Arc::clone(&shared),
    };
    thread::spawn(move || from_clients(&fixed, &shared));
    Ok(relay)
}

impl Relay {
    pub(crate) fn print_facts(&self) {
        lock(&self.shared).watch.print();
    }
}

fn from_clients(fixed: &Arc<Fixed>, shared: &Arc<Mutex<Shared>>) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        // Errors of a UDP socket (a port that is closed) concern one datagram only.
        let Ok((len, from)) = fixed.listen.recv_from(&mut buffer) else {
            continue;
        };
        let Some(datagram) = buffer.get_mut(..len) else {
            continue;
        };
        let mut state = lock(shared);
        let known = state.ways.get(&from).map(|way| Arc::clone(&way.socket));
        let socket = match known.map_or_else(|| open(fixed, shared, from), Ok) {
            Ok(socket) => socket,
            Err(error) => {
                eprintln!("no socket for {from}: {error}");
                continue;
            }
        };
        state.ways.entry(from).or_insert_with(|| Way {
            socket: Arc::clone(&socket),
            bytes: 0,
        });
        state.watch.client_address(from, datagram);
        state.watch.datagram(Direction::ToServer, datagram);
        let fate = state.to_server.next();
        forward(
            fixed,
            &mut state.watch,
            Direction::ToServer,
            fate,
            datagram,
            &socket,
            fixed.upstream,
        );
    }
}

/// Opens a way to the server and relays what comes back on it.
fn open(
    fixed: &Arc<Fixed>,
    shared: &Arc<Mutex<Shared>>,
    client: SocketAddr,
) -> io::Result<Arc<UdpSocket>> {
    let socket = socket(SocketAddr::new(fixed.listen.local_addr()?.ip(), 0))?;
    let (fixed, shared, own) = (Arc::clone(fixed), Arc::clone(shared), Arc::clone(&socket));
    thread::spawn(move || from_server(&fixed, &shared, client, &own));
    Ok(socket)
}

fn from_server(
    fixed: &Arc<Fixed>,
    shared: &Arc<Mutex<Shared>>,
    client: SocketAddr,
    own: &Arc<UdpSocket>,
) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut since_rebind: u64 = 0;
    loop {
        let Ok((len, _)) = own.recv_from(&mut buffer) else {
            continue;
        };
        let Some(datagram) = buffer.get_mut(..len) else {
            continue;
        };
        let mut state = lock(shared);
        let Some(way) = state.ways.get_mut(&client) else {
            return;
        };
        if !Arc::ptr_eq(&way.socket, own) {
            // A NAT that forgot this mapping.
            state.watch.count("datagrams_to_forgotten_port", 1);
            continue;
        }
        way.bytes += len as u64;
        let bytes = way.bytes;
        since_rebind += 1;
        if state.watch_rebinds() {
            state.watch.count("datagrams_after_rebind", 1);
            if since_rebind == FOLLOWED {
                state.watch.count("rebinds_followed", 1);
            }
        }
        state.watch.datagram(Direction::ToClient, datagram);
        let fate = state.to_client.next();
        forward(
            fixed,
            &mut state.watch,
            Direction::ToClient,
            fate,
            datagram,
            &fixed.listen,
            client,
        );
        if fixed.rebind_every.is_some_and(|every| bytes >= every) && state.rebinds_left > 0 {
            state.rebinds_left -= 1;
            match open(fixed, shared, client) {
                Ok(socket) => {
                    state.ways.insert(client, Way { socket, bytes: 0 });
                    state.watch.count("rebinds", 1);
                }
                Err(error) => eprintln!("no rebinding: {error}"),
            }
        }
    }
}

/// Datagrams on a new port that show that the server went on there.
const FOLLOWED: u64 = 50;

impl Shared {
    fn watch_rebinds(&self) -> bool {
        self.watch.get("rebinds") > 0
    }
}

fn forward(
    fixed: &Fixed,
    watch: &mut Watch,
    direction: Direction,
    fate: Fate,
    datagram: &mut [u8],
    socket: &Arc<UdpSocket>,
    to: SocketAddr,
) {
    let mut copies = 1;
    let name = match fate {
        Fate::Pass => None,
        Fate::Drop => {
            copies = 0;
            Some("dropped")
        }
        Fate::Corrupt { draw } => {
            let at = draw as usize % datagram.len().max(1);
            if let Some(byte) = datagram.get_mut(at) {
                *byte ^= 1 << (draw >> 61);
            }
            Some("corrupted")
        }
        Fate::Duplicate => {
            copies = 2;
            Some("duplicated")
        }
    };
    if let Some(name) = name {
        watch.count(&format!("{name}_{}", direction.name()), 1);
    }
    let pipe = match direction {
        Direction::ToServer => &fixed.to_server,
        Direction::ToClient => &fixed.to_client,
    };
    for _ in 0..copies {
        if !pipe.send(datagram, socket, to) {
            watch.count(&format!("overflowed_{}", direction.name()), 1);
        }
    }
}
