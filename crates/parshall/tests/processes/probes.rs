//! `parshall health` and `parshall wait`: what containers are probed by, and what keeps them running.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, kill_process};

use crate::serving::{Serving, outcome, parshall};
use crate::stop_signals::stop_signals;

/// Answers one request with `answer`, and returns the URL and, once it is answered, the request's first line.
fn answering(answer: &str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = answer.to_owned();
    let asked = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let length = socket.read(&mut request).unwrap();
        socket.write_all(answer.as_bytes()).unwrap();
        let request = std::str::from_utf8(&request[..length]).unwrap();
        request.lines().next().unwrap().to_owned()
    });
    (url, asked)
}

fn answer(status: &str, text: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len())
}

#[test]
fn health_of_a_service_is_asked_by_url_and_by_port() {
    let serving = Serving::start(&["--hub", "orders:2"]);
    let url = serving.announced("Health").strip_suffix("/health").unwrap().to_owned();
    let port = url.rsplit_once(':').unwrap().1;
    let ready = (Some(0), "ready\n".to_owned(), String::new());
    assert_eq!(outcome(&mut parshall(&["health", "--url", &url])), ready);
    assert_eq!(outcome(&mut parshall(&["health", "--port", port])), ready);
    assert_eq!(outcome(parshall(&["health"]).env("PARSHALL_HEALTH_PORT", port)), ready);
    let alive = outcome(&mut parshall(&["health", "--live", "--port", port]));
    assert_eq!(alive, (Some(0), "ok\n".to_owned(), String::new()));
}

#[test]
fn health_of_a_process_that_is_not_ready_has_status_1_and_the_reasons() {
    let reasons = "not ready\nsink: connection:refused: nothing listens at localhost:5672";
    let (url, asked) = answering(&answer("503 Service Unavailable", reasons));
    let (status, stdout, stderr) = outcome(&mut parshall(&["health", "relay", "--url", &url]));
    assert_eq!((status, stdout, stderr), (Some(1), format!("{reasons}\n"), String::new()));
    assert_eq!(asked.join().unwrap(), "GET /ready HTTP/1.1");
}

#[test]
fn health_that_cannot_be_asked_has_status_3() {
    let (url, asked) = answering(&answer("404 Not Found", "not found\n"));
    let (status, _, stderr) = outcome(&mut parshall(&["health", "--live", "--url", &url]));
    assert_eq!(status, Some(3));
    assert!(stderr.contains("status 404 Not Found, expected 200 or 503"), "{stderr}");
    assert_eq!(asked.join().unwrap(), "GET /live HTTP/1.1");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let silent = outcome(&mut parshall(&["health", "--port", &port, "--timeout", "100ms"]));
    assert_eq!(silent.0, Some(3));
    assert!(silent.2.contains("has not answered within 100 ms"), "{}", silent.2);

    drop(listener);
    let (status, _, stderr) = outcome(&mut parshall(&["health", "--port", &port]));
    assert_eq!(status, Some(3));
    assert!(stderr.contains("can't be reached") && stderr.contains("--url or --port"), "{stderr}");

    let (status, _, stderr) = outcome(&mut parshall(&["health", "--url", "https://localhost"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("this is not a URL such as http://127.0.0.1:5300"), "{stderr}");
}

#[test]
fn wait_ends_with_the_signals_to_stop_and_reaps_processes_that_others_have_left() {
    let program = env!("CARGO_BIN_EXE_parshall");
    for signal in stop_signals() {
        // The shell becomes the program, and leaves it a child.
        let script = format!("sleep 0.1 & echo $!; exec '{program}' wait");
        let mut waiting =
            Command::new("/bin/sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut child = String::new();
        BufReader::new(waiting.stdout.take().unwrap()).read_line(&mut child).unwrap();
        let child = Path::new("/proc").join(child.trim());
        while child.exists() {
            thread::sleep(Duration::from_millis(10));
        }
        kill_process(Pid::from_child(&waiting), signal).unwrap();
        assert_eq!(waiting.wait().unwrap().code(), Some(0), "{signal:?}");
    }
}
