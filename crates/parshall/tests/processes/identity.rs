//! The program with an identity instead of a key, against a running `parshall serve` that issues the tokens: each command, each
//! protocol, each member of the chain, and what is said where there is none.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::serving::{outcome, parshall, serve};

/// A service that is there for a shell, and the variables that the shell has.
struct Development {
    child: Child,
    variables: BTreeMap<String, String>,
}

impl Development {
    fn start(arguments: &[&str]) -> Self {
        let entities =
            ["--hub", "orders:2", "--hub", "copies:2", "--queue", "work", "--kafka", "127.0.0.1:0"];
        let script = ["--blob", "127.0.0.1:0", "--", "/bin/sh", "-c", "env; echo; read line"];
        let mut child = serve(&[&entities, arguments, &script].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let pairs = lines.take_while(|line| !line.is_empty()).map(|line| {
            let (name, value) = line.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        });
        let variables = pairs.collect();
        Self { child, variables }
    }

    fn of(&self, name: &str) -> &str {
        &self.variables[name]
    }

    /// The namespace's name, for plain TCP.
    fn namespace(&self) -> String {
        format!("{};UseDevelopmentEmulator=true", self.host())
    }

    /// Host and port of plain TCP.
    fn host(&self) -> &str {
        self.host_of("PARSHALL_CONNECTION_STRING")
    }

    fn host_of(&self, variable: &str) -> &str {
        let rest = self.of(variable).strip_prefix("Endpoint=sb://").unwrap();
        rest.split('/').next().unwrap()
    }

    /// The URL of the storage account.
    fn account(&self) -> &str {
        let string = self.of("PARSHALL_STORAGE_CONNECTION_STRING");
        string.split("BlobEndpoint=").nth(1).unwrap().split(';').next().unwrap()
    }

    /// A command that has these of the variables.
    fn command(&self, arguments: &[&str], names: &[&str]) -> Command {
        let mut command = parshall(arguments);
        command.envs(names.iter().map(|name| (*name, self.of(name))));
        command
    }

    /// A command with a managed identity.
    fn managed(&self, arguments: &[&str]) -> Command {
        let mut command =
            self.command(arguments, &[&MANAGED[..], &["PARSHALL_KAFKA_BOOTSTRAP_SERVERS"]].concat());
        command.env("EVENT_HUBS_FULLY_QUALIFIED_NAMESPACE", self.namespace());
        command.env("SERVICE_BUS_FULLY_QUALIFIED_NAMESPACE", self.namespace());
        command
    }
}

impl Drop for Development {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

const MANAGED: [&str; 2] = ["IDENTITY_ENDPOINT", "IDENTITY_HEADER"];

/// Runs a command with this input, and gives what it prints.
fn fed(mut command: Command, input: &str) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{stdout}{stderr}");
    stdout
}

fn done(mut command: Command) -> String {
    let (status, stdout, stderr) = outcome(&mut command);
    assert_eq!(status, Some(0), "{stderr}");
    stdout
}

#[test]
fn commands_use_an_identity_over_every_protocol() {
    let service = Development::start(&["--amqp", "127.0.0.1:0", "--dev-identity"]);
    for protocol in ["amqp", "http", "kafka"] {
        let event = format!("{{\"by\":\"{protocol}\"}}\n");
        fed(service.managed(&["send", "orders", "--protocol", protocol]), &event);
    }
    for protocol in ["amqp", "kafka"] {
        let seen = done(service.managed(&["tail", "orders", "--from", "first", "--protocol", protocol]));
        assert_eq!(seen.lines().count(), 3, "{seen}");
    }
    let named = ["--fully-qualified-namespace", &service.namespace()];
    fed(service.command(&[&["send", "work"], &named[..]].concat(), &MANAGED), "{}\n");
    let seen = done(service.command(&[&["peek", "work"], &named[..]].concat(), &MANAGED));
    assert_eq!(seen.lines().count(), 1, "{seen}");
    let hubs = done(service.managed(&["hub", "list"]));
    assert!(hubs.contains("copies") && hubs.contains("orders"), "{hubs}");
    done(service.managed(&["queue", "create", "more"]));
    let queues = done(service.managed(&["queue", "list"]));
    assert!(queues.contains("more") && queues.contains("work"), "{queues}");
}

#[test]
fn a_relay_carries_with_short_tokens_and_keeps_checkpoints_in_blobs() {
    let service =
        Development::start(&["--amqp", "127.0.0.1:0", "--dev-identity", "--dev-token-lifetime", "2 s"]);
    let folder = tempfile::tempdir().unwrap();
    let (namespace, account) = (service.namespace(), service.account());
    let path = folder.path().join("mine.yaml");
    let relay_between = |source: &str, sink: &str| {
        let text = format!(
            "source: {source}\nsink: {sink}\ncheckpoint: {{store: {{blob: {{account_url: '{account}', container: kept, \
             create: true}}}}}}\n"
        );
        fs::write(&path, text).unwrap();
        let mut command = service.managed(&["relay", path.to_str().unwrap()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let hub =
        |name: &str| format!("{{event_hubs: {{fully_qualified_namespace: '{namespace}', hub: {name}}}}}");
    let bootstrap = service.of("PARSHALL_KAFKA_BOOTSTRAP_SERVERS");
    let topic = format!(
        "{{kafka: {{bootstrap: '{bootstrap}', topic: copies, properties: {{security.protocol: sasl_plaintext, \
         sasl.mechanism: OAUTHBEARER}}}}}}"
    );
    let mut carried = 0;
    for sink in [hub("copies"), topic] {
        let mut relay = relay_between(&hub("orders"), &sink);
        let mut lines = BufReader::new(relay.stdout.take().unwrap()).lines();
        let running = lines.any(|line| line.unwrap() == "Running.");
        if !running {
            panic!("{}", String::from_utf8(relay.wait_with_output().unwrap().stderr).unwrap());
        }
        // Sent one by one, with a key: only the relay asks for tokens, one for each of its scopes, over several of their lives.
        let until = issued(&service) + 6;
        while issued(&service) < until {
            fed(service.command(&["send", "orders"], &["EVENT_HUBS_CONNECTION_STRING"]), "{}\n");
            carried += 1;
        }
        let last = ["tail", "copies", "--from", "first", "--follow", "--count", &carried.to_string()];
        assert_eq!(done(service.managed(&last)).lines().count(), carried);
        kill_process(Pid::from_child(&relay), Signal::TERM).unwrap();
        let ended = relay.wait_with_output().unwrap();
        let log = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(0), "{log}");
        assert!(!log.contains(" WARN ") && !log.contains(" ERROR "), "{log}");
    }
}

/// How many tokens the issuer has given.
fn issued(service: &Development) -> u64 {
    let url = service.of("PARSHALL_METRICS_URL").trim_start_matches("http://");
    let address = url.split('/').next().unwrap();
    let answer = exchange(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let line = answer.lines().find(|line| line.starts_with("parshall_identity_tokens_issued_total")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn exchange(address: &str, request: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_application_a_workload_and_a_command_line_have_tokens_too() {
    let folder = tempfile::tempdir().unwrap();
    let tls = folder.path().join("tls");
    let service = Development::start(&[
        "--amqp",
        "127.0.0.1:0",
        "--dev-identity",
        "--dev-identity-tls",
        "127.0.0.1:0",
        "--amqps",
        "127.0.0.1:0",
        "--tls-directory",
        tls.to_str().unwrap(),
    ]);
    // Over TLS, as with the cloud.
    let host = service.host_of("PARSHALL_TLS_CONNECTION_STRING");
    let send = ["send", "orders", "--fully-qualified-namespace", host];
    let authority = service.of("PARSHALL_CERTIFICATE_AUTHORITY");
    let application = ["AZURE_AUTHORITY_HOST", "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"];
    let mut command = service.command(&send, &application);
    command.env("SSL_CERT_FILE", authority);
    fed(command, "{}\n");

    let token = folder.path().join("federated");
    fs::write(&token, service.of("AZURE_CLIENT_SECRET")).unwrap();
    let mut command = service.command(&send, &application[..3]);
    command.env("SSL_CERT_FILE", authority).env("AZURE_FEDERATED_TOKEN_FILE", &token);
    fed(command, "{}\n");

    // What stands for `az` gives a token that it was given before, and only for the scope that it is for.
    let endpoint = service.of("IDENTITY_ENDPOINT").trim_start_matches("http://");
    let (address, path) = endpoint.split_once('/').unwrap();
    let secret = service.of("IDENTITY_HEADER");
    let request = format!(
        "GET /{path}?api-version=2019-08-01&resource=https%3A%2F%2Feventhubs.azure.net HTTP/1.1\r\nHost: localhost\r\n\
         X-IDENTITY-HEADER: {secret}\r\nConnection: close\r\n\r\n"
    );
    let answer = exchange(address, &request);
    let json: serde_json::Value = serde_json::from_str(&answer[answer.find('{').unwrap()..]).unwrap();
    let printed = serde_json::json!({
        "accessToken": json["access_token"],
        "expires_on": json["expires_on"].as_str().unwrap().parse::<i64>().unwrap(),
        "tokenType": "Bearer",
    });
    let az = folder.path().join("az");
    let script = format!(
        "#!/bin/sh\n[ \"$*\" = 'account get-access-token -o json --scope https://eventhubs.azure.net/.default' ] \
         && echo '{printed}'\n"
    );
    fs::write(&az, script).unwrap();
    fs::set_permissions(&az, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = service.command(&send, &[]);
    command.env("SSL_CERT_FILE", authority).env("AZURE_TOKEN_CREDENTIALS", "dev").env("PATH", folder.path());
    fed(command, "{}\n");
    let mut seen = service.command(&["tail", "orders", "--from", "first"], &MANAGED);
    seen.env("EVENT_HUBS_FULLY_QUALIFIED_NAMESPACE", service.namespace());
    assert_eq!(done(seen).lines().count(), 3);
}

#[test]
fn who_has_no_identity_or_would_send_its_token_in_the_clear_is_told_what_to_do() {
    let mut text = String::new();
    let mut say = |title: &str, mut command: Command| {
        let (status, stdout, stderr) = outcome(&mut command);
        text.push_str(&format!("# {title}\n{stdout}{stderr}exit status: {}\n\n", status.unwrap()));
    };
    let namespace = ["--fully-qualified-namespace", "orders.servicebus.windows.net"];
    let with = |arguments: &[&str], name: &str, value: &str| {
        let mut command = parshall(arguments);
        command.env(name, value);
        command
    };
    let list = [&["hub", "list"], &namespace[..]].concat();
    let mut nobody = with(&list, "AZURE_TOKEN_CREDENTIALS", "dev");
    say("nobody is signed in", {
        nobody.env("PATH", "/nowhere");
        nobody
    });
    say("an application without a tenant", with(&list, "AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential"));
    say("no such member", with(&list, "AZURE_TOKEN_CREDENTIALS", "Mine"));
    let plain = "orders.servicebus.windows.net;UseDevelopmentEmulator=true";
    say("in the clear", parshall(&["hub", "list", "--fully-qualified-namespace", plain]));
    let key = "Endpoint=sb://localhost/;SharedAccessKeyName=a;SharedAccessKey=b";
    say("a key as a name", with(&["queue", "list"], "SERVICE_BUS_FULLY_QUALIFIED_NAMESPACE", key));
    let both = [&list[..], &["--connection-string", key]].concat();
    say("both", parshall(&both));
    insta::assert_snapshot!("identity", text);
}
