//! Why an address can't be listened on, and what to do about it.

use std::io;
use std::net::SocketAddr;

use procfs::net::TcpState;
use procfs::process::FDTarget;

/// What to do where the system refuses to listen on `address`. `setting` is what says it, up to the address, such as
/// `--amqp `.
pub(crate) fn advice(error: &io::Error, address: SocketAddr, setting: &str) -> Option<String> {
    let any = SocketAddr::new(address.ip(), 0);
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let holder = match holder(address) {
                Some((id, name)) => format!("process {id} ({name}) listens there"),
                None => "a process of another user or container listens there".to_owned(),
            };
            Some(format!("{holder}; `{setting}{any}` takes any free port"))
        }
        io::ErrorKind::AddrNotAvailable => Some(format!(
            "no interface of this machine has this address; `{setting}127.0.0.1:{port}` is for clients on this machine, \
             `{setting}0.0.0.0:{port}` for all",
            port = address.port()
        )),
        io::ErrorKind::PermissionDenied => {
            Some(format!("ports below 1024 take a privilege; `{setting}{any}` takes any free port above"))
        }
        _ => None,
    }
}

/// The process that listens on `address`, as far as this process may know: number and name.
fn holder(address: SocketAddr) -> Option<(i32, String)> {
    let sockets = [procfs::net::tcp(), procfs::net::tcp6()].into_iter().flatten().flatten();
    let inodes: Vec<u64> = sockets
        .filter(|socket| socket.state == TcpState::Listen && socket.local_address.port() == address.port())
        .filter(|socket| {
            let ip = socket.local_address.ip().to_canonical();
            ip == address.ip().to_canonical() || ip.is_unspecified() || address.ip().is_unspecified()
        })
        .map(|socket| socket.inode)
        .collect();
    procfs::process::all_processes().ok()?.flatten().find_map(|process| {
        let holds = process.fd().ok()?.flatten().any(
            |descriptor| matches!(descriptor.target, FDTarget::Socket(inode) if inodes.contains(&inode)),
        );
        holds.then_some((process.pid, process.stat().ok()?.comm))
    })
}
