//! Where roles run, and what is wrong with saying so.

use lab::results::Role;
use lab::scenario::CaseOptions;

use super::{cases, told};

const LAUNCHED: &str = "\
roles:
  load: {launch: [ssh, vm1, --]}
  relay: {launch: [kubectl, exec, -i, pod, --], program: /opt/parshall}
embedded: {listen: 0.0.0.0, advertise: lab.example}
";

#[test]
fn a_role_is_started_by_its_command_and_only_the_program_of_that_is_in_the_results() {
    let case = &cases(&format!("scenario: s\n{LAUNCHED}"), &CaseOptions::default()).unwrap()[0];
    let roles = &case.parameters.roles;
    assert_eq!(roles.load.as_ref().unwrap().command(Role::Load).join(" "), "ssh vm1 -- parshall role load");
    let relay = roles.relay.as_ref().unwrap().command(Role::Relay);
    assert_eq!(relay.join(" "), "kubectl exec -i pod -- /opt/parshall role relay");
    assert_eq!(roles.launched().map(|(role, _)| role).collect::<Vec<_>>(), [Role::Load, Role::Relay]);
    let params = serde_json::to_string(&case.params()).unwrap();
    assert!(params.contains("\"launch\":[\"ssh\"]") && !params.contains("vm1"), "{params}");
    let json = serde_json::to_string(&case.parameters).unwrap();
    assert_eq!(serde_json::from_str::<lab::scenario::Parameters>(&json).unwrap(), case.parameters);
    let usual = &cases("scenario: s\n", &CaseOptions::default()).unwrap()[0];
    assert!(!usual.params().contains_key("roles"));
}

#[test]
fn what_a_role_elsewhere_can_not_have_is_refused_at_its_place() {
    for (argument, message) in [
        ("roles.load.launch=[]", "`roles.load.launch`: must be a program and its arguments"),
        ("roles.load.launch=['']", "`roles.load.launch`: must be a program and its arguments"),
        ("roles.load.launch=ssh", "roles.load.launch"),
        ("roles.load.start=now", "roles.load.start"),
        ("roles.service={launch: [env]}", "roles.service"),
        ("roles.sink={program: parshall}", "`roles.sink` lacks the key `launch`"),
        (
            "roles.load.program='my program'",
            "`roles.load.program`: a shell on the other machine might change it",
        ),
        (
            "roles.load.program='$(reboot)'",
            "`roles.load.program`: a shell on the other machine might change it",
        ),
        ("limits.load={cores: 1}", "`roles.load`: the lab limits processes of its own machine only"),
        ("sut={command: [x]}", "`roles.relay`: a command in the relay's place runs on the lab's machine"),
        ("relay.ownership.mode=greedy", "`roles.relay`: its instances share claims and checkpoints"),
        ("embedded.advertise='two words'", "`embedded.advertise`: can't be a host"),
        ("embedded.listen=lab.example", "embedded.listen"),
    ] {
        let error = told(LAUNCHED, &[argument]);
        assert!(error.contains(message), "{argument}: {error}");
        assert!(error.contains("s.yaml:") || error.contains("--set"), "at its place: {error}");
    }
    let launched =
        |role: &str, rest: &str| told(&format!("roles: {{{role}: {{launch: [env]}}}}\n{rest}"), &[]);
    let namespace = "target: {connection_string: 'Endpoint=sb://x;SharedAccessKeyName=a;SharedAccessKey=b'";
    for (role, rest, message) in [
        ("hub", &format!("{namespace}}}")[..], "only the embedded service is a process of the lab"),
        ("sink", &format!("{namespace}, certificate_authority: ca.pem}}"), "is on the lab's machine"),
        (
            "hub",
            "embedded: {durable: true}",
            "the data directory of a durable service is on the lab's machine",
        ),
        ("relay", "sut: {transport: tls}", "the certificate is on the lab's machine"),
        (
            "relay",
            "topology: {entities: {in: {hub: events}}, load: in, sink: in, measure: load}",
            "`roles.relay`: the topology has no pipeline",
        ),
        (
            "sink",
            "topology: {entities: {in: {hub: events}}, load: in, sink: {from: in, tls: true}, measure: sink}",
            "`roles.sink`: the certificate is on the lab's machine",
        ),
        (
            "sink",
            "topology: {entities: {in: {hub: events}}, load: {to: in, tls: true}, sink: in, measure: load}\n\
             embedded: {listen: 10.0.0.1}",
            "the certificate is on the lab's machine",
        ),
        ("load", "embedded: {advertise: x}", "`embedded.advertise`: the service listens on the loopback"),
        ("load", "embedded: {listen: 0.0.0.0}", "`embedded.listen`: no client can connect to this address"),
        ("load", "sut: {transport: tls}\nembedded: {listen: 10.0.0.1}", "`embedded.listen`: over TLS"),
    ] {
        let error = launched(role, rest);
        assert!(error.contains(message), "{role}, {rest}: {error}");
    }
}
