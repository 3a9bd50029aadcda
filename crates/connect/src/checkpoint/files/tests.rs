//! The file store: the suite of all stores, and what only files can suffer. Processes that write until they are killed
//! are this test binary itself, run for the one test that says what such a process does.

use std::env;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use units::Random;

use super::*;
use crate::checkpoint::suite::{self, win_all};

suite::of_store!({
    let folder = tempfile::tempdir().expect("a temporary folder");
    (FileCheckpointStore::open(folder.path()).expect("a folder that can be written"), folder)
});

fn group() -> ConsumerGroup {
    ConsumerGroup::new("localhost", "hub", "$Default")
}

fn checkpoint(sequence_number: i64) -> Checkpoint {
    let offset = Some(sequence_number.to_string());
    Checkpoint {
        group: group(),
        partition: PartitionId(0),
        sequence_number: Some(sequence_number),
        offset,
        log_id: None,
        etag: None,
    }
}

/// All checkpoints, without their ETags.
async fn list(store: &FileCheckpointStore) -> Vec<Checkpoint> {
    let listed = store.list_checkpoints(&group()).await;
    let listed = listed.expect("whole slots").into_iter();
    listed.map(|checkpoint| Checkpoint { etag: None, ..checkpoint }).collect()
}

fn claim(partition: u32, owner_id: &str) -> Ownership {
    let partition = PartitionId(partition);
    Ownership::new(group(), partition, owner_id)
}

#[tokio::test]
async fn another_process_goes_on_where_the_last_one_ended() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    let (mine, yours) = (open(), open());
    for sequence_number in 0..5 {
        mine.update_checkpoint(checkpoint(2 * sequence_number)).await.expect("written");
        yours.update_checkpoint(checkpoint(2 * sequence_number + 1)).await.expect("written");
        let listed = list(&mine).await;
        assert_eq!(listed, [checkpoint(2 * sequence_number + 1)]);
    }
}

#[tokio::test]
async fn files_that_are_not_named_after_a_partition_are_left_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    store.update_checkpoint(checkpoint(1)).await.expect("written");
    let checkpoints = folder.path().join("localhost/hub/$Default/checkpoint");
    std::fs::write(checkpoints.join("README"), "not a checkpoint").expect("written");
    assert_eq!(list(&store).await, [checkpoint(1)]);
}

#[tokio::test]
async fn a_damaged_checkpoint_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    store.update_checkpoint(checkpoint(1)).await.expect("written");
    let path = folder.path().join("localhost/hub/$Default/checkpoint/0");
    std::fs::write(&path, [b'x'; 512]).expect("written");
    let listed = store.list_checkpoints(&group()).await.expect_err("the file is damaged");
    assert!(listed.to_string().contains(&path.display().to_string()), "{listed}");
    assert!(store.update_checkpoint(checkpoint(2)).await.is_err(), "it is not overwritten either");
}

#[tokio::test]
async fn an_empty_checkpoint_is_an_error_that_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    store.update_checkpoint(checkpoint(1)).await.expect("written");
    drop(store);
    let path = folder.path().join("localhost/hub/$Default/checkpoint/0");
    std::fs::write(&path, "").expect("written");
    let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    let listed = store.list_checkpoints(&group()).await.expect_err("the file is damaged");
    let said = listed.to_string();
    assert!(said.contains(&path.display().to_string()), "{said}");
    assert!(said.contains("it is empty; restore it, or remove it"), "{said}");
    for outcome in [
        store.update_checkpoint(checkpoint(2)).await.err(),
        store.replace_checkpoint(checkpoint(2)).await.err(),
    ] {
        assert!(matches!(outcome, Some(StoreError::DamagedCheckpoint { .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn of_two_slots_the_sound_one_counts_whatever_happened_to_the_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    for sequence_number in 1..=2 {
        let written = store.update_checkpoint(checkpoint(sequence_number)).await;
        written.expect("written");
    }
    let path = folder.path().join("localhost/hub/$Default/checkpoint/0");
    let mut bytes = std::fs::read(&path).expect("a file");
    bytes[256..].fill(0);
    std::fs::write(&path, bytes).expect("written");
    assert_eq!(list(&store).await, [checkpoint(1)]);
}

#[tokio::test]
async fn an_empty_claim_has_no_owner() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    let won = win_all(&store, vec![claim(0, "before")]).await;
    assert_eq!(won.len(), 1);
    let path = folder.path().join("localhost/hub/$Default/ownership/0");
    std::fs::write(&path, "").expect("written");
    let listed = store.list_ownership(&group()).await.expect("listed");
    assert_eq!((listed.len(), &*listed[0].owner_id), (1, ""));
    let etag = listed[0].etag.clone();
    let claim = Ownership { etag, ..claim(0, "after") };
    let won = win_all(&store, vec![claim]).await;
    assert_eq!(won.len(), 1);
}

#[tokio::test]
async fn files_and_folders_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let top = folder.path().join("a/store");
    let store = FileCheckpointStore::open(&top).expect("a folder that can be written");
    store.lock(&group(), Usage::Partitions(&[PartitionId(0)])).expect("no other store has it");
    store.update_checkpoint(checkpoint(1)).await.expect("written");
    assert_eq!(win_all(&store, vec![claim(0, "me")]).await.len(), 1);
    let mut folders = vec![top];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let metadata = path.metadata().expect("it is there");
            let mode = metadata.permissions().mode() & 0o777;
            if metadata.is_dir() {
                assert_eq!(mode, 0o700, "{}", path.display());
                folders.push(path);
            } else {
                assert_eq!(mode, 0o600, "{}", path.display());
                files += 1;
            }
        }
    }
    assert_eq!(files, 4, "a checkpoint, a claim and two locks");
}

#[tokio::test]
async fn a_second_store_is_refused_by_name_unless_the_partitions_are_split() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    let (mine, yours) = (open(), open());
    let refused = |outcome: Result<(), StoreError>| {
        let said = outcome.expect_err("it is in use").to_string();
        let process = format!("in use by process {} ", std::process::id());
        assert!(said.contains(&process), "{said}");
        assert!(said.contains("ownership: {mode: greedy}"), "{said}");
    };
    mine.lock(&group(), Usage::Alone).expect("free");
    for usage in [Usage::Alone, Usage::Shared, Usage::Partitions(&[])] {
        refused(yours.lock(&group(), usage));
    }
    let another = ConsumerGroup::new("localhost", "hub", "another");
    yours.lock(&another, Usage::Alone).expect("free");
    drop(mine);
    let mine = open();
    mine.lock(&group(), Usage::Partitions(&[PartitionId(0), PartitionId(1)])).expect("free");
    yours.lock(&group(), Usage::Partitions(&[PartitionId(2)])).expect("another partition");
    refused(open().lock(&group(), Usage::Partitions(&[PartitionId(1)])));
    refused(open().lock(&group(), Usage::Alone));
}

#[tokio::test]
async fn a_lock_ends_with_its_store_though_a_child_process_has_a_copy_of_its_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    store.lock(&group(), Usage::Alone).expect("free");
    let copy = store.folder.locks.lock().expect("no panic")[0].0.try_clone().expect("a descriptor");
    drop(store);
    let another = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    another.lock(&group(), Usage::Alone).expect("free again");
    drop(copy);
}

#[test]
fn a_folder_that_cannot_be_made_is_reported_at_once() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let error = FileCheckpointStore::open(file.path().join("store")).expect_err("a file is no folder");
    assert!(matches!(error, StoreError::File { action: "create", .. }), "{error}");
}

#[tokio::test]
async fn a_claim_that_was_cut_short_before_it_had_its_name_changes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    let won = win_all(&store, vec![claim(0, "me")]).await;
    std::fs::write(folder.path().join("localhost/hub/$Default/ownership/.0.1-0"), "owner_id=yo")
        .expect("written");
    assert_eq!(store.list_ownership(&group()).await.expect("listed"), won);
    let etag = won[0].etag.clone();
    let renewed = win_all(&store, vec![Ownership { etag, ..claim(0, "me") }]).await;
    assert_eq!(store.list_ownership(&group()).await.expect("listed"), renewed);
}

#[tokio::test]
async fn what_is_listed_while_others_claim_is_always_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    let claims = (0..8).map(|partition| claim(partition, "me")).collect();
    let mut held = win_all(&store, claims).await;
    let reader = store.clone();
    let reading = tokio::spawn(async move {
        for _ in 0..200 {
            let listed = reader.list_ownership(&group()).await.expect("listed");
            assert_eq!(listed.len(), 8);
        }
    });
    while !reading.is_finished() {
        held = win_all(&store, held).await;
        assert_eq!(held.len(), 8, "nobody else claims");
    }
    reading.await.expect("no panic");
}

#[tokio::test]
async fn who_replaces_a_checkpoint_after_another_process_took_over_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    let (mine, yours) = (open(), open());
    let replace = |store: &FileCheckpointStore, etag: Option<ETag>, sequence_number| {
        store.replace_checkpoint(Checkpoint { etag, ..checkpoint(sequence_number) })
    };
    let first = replace(&mine, None, 1).await.expect("nobody was there");
    let second = replace(&mine, Some(first), 2).await.expect("the newest");
    let found = yours.list_checkpoints(&group()).await.expect("listed");
    let taken = yours.replace_checkpoint(found[0].clone()).await;
    let taken = taken.expect("the newest");
    let refused = replace(&mine, Some(second), 3).await;
    assert!(matches!(refused, Err(StoreError::NotOwner { .. })), "{refused:?}");
    let newest = replace(&yours, Some(taken), 4).await.expect("the newest");
    assert_eq!(list(&mine).await, [checkpoint(4)]);
    // And back again.
    let back = replace(&mine, Some(newest.clone()), 4).await.expect("the newest");
    let refused = replace(&yours, Some(newest), 5).await;
    assert!(matches!(refused, Err(StoreError::NotOwner { .. })), "{refused:?}");
    replace(&mine, Some(back), 6).await.expect("the newest");
    let folder = folder.path().join("localhost/hub/$Default/checkpoint");
    assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 1);
}

/// A live owner writes again and again while another store takes its partition over, at moments that have nothing to do with
/// each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_owner_before_had_acknowledged_is_what_its_successor_takes_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    let replace = async |store: &FileCheckpointStore, sequence_number, etag| {
        store.replace_checkpoint(Checkpoint { etag, ..checkpoint(sequence_number) }).await
    };
    let mut owner = open();
    let mut etag = replace(&owner, 0, None).await.expect("there is none yet");
    let mut acknowledged = 0;
    for _ in 0..TAKEOVERS {
        let successor = open();
        let writing = tokio::spawn(async move {
            while let Ok(next) = replace(&owner, acknowledged + 1, Some(etag)).await {
                acknowledged += 1;
                etag = next;
                // As long as a takeover takes, or so: of those that are tried, some have a writing in their middle.
                std::thread::sleep(Duration::from_micros(300));
            }
            acknowledged
        });
        let taken_over = loop {
            let seen = successor.list_checkpoints(&group()).await.expect("whole slots").remove(0);
            let sequence_number = seen.sequence_number.expect("a position");
            if let Ok(etag) = replace(&successor, sequence_number, seen.etag).await {
                break (sequence_number, etag);
            }
        };
        acknowledged = writing.await.expect("it ends when it is refused");
        // The last writing may have been seen though it was not acknowledged.
        assert!((acknowledged..=acknowledged + 1).contains(&taken_over.0), "{acknowledged} {taken_over:?}");
        acknowledged = taken_over.0;
        etag = taken_over.1;
        owner = successor;
    }
}

#[tokio::test]
async fn a_version_whose_successor_was_interrupted_is_taken_over_or_shared_as_any_other() {
    for is_shared in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let open = || FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
        let (owner, next) = (open(), open());
        let etag = owner.replace_checkpoint(checkpoint(1)).await.expect("there is none yet");
        let etag = Some(etag);
        closing::close(&folder.path().join("localhost/hub/$Default/checkpoint/0")).expect("closed");
        let refused = owner.replace_checkpoint(Checkpoint { etag: etag.clone(), ..checkpoint(2) }).await;
        assert!(matches!(refused, Err(StoreError::NotOwner { .. })), "{refused:?}");
        match is_shared {
            true => next.update_checkpoint(checkpoint(3)).await.expect("nobody owns it"),
            false => {
                let taken_over = next.replace_checkpoint(Checkpoint { etag, ..checkpoint(3) }).await;
                taken_over.expect("the ETag is the current one");
            }
        }
        assert_eq!(list(&next).await, [checkpoint(3)]);
    }
}

#[tokio::test]
async fn a_killed_writer_leaves_its_last_checkpoint_or_the_one_after() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = FileCheckpointStore::open(folder.path()).expect("a folder that can be written");
    let mut random = Random::from_seed(20);
    let mut last_known = -1;
    for _ in 0..20 {
        let (mut child, lines) = run_process("a_process_that_writes_checkpoints", folder.path(), "");
        let count = 1 + random.below(200) as usize;
        let written = lines.lines().map_while(Result::ok).filter_map(|line| said(&line, "written "));
        last_known = written.take(count).last().unwrap_or(last_known);
        child.kill().expect("it runs until it is killed");
        child.wait().expect("it was started here");
        let listed = store.list_checkpoints(&group()).await.expect("a whole slot");
        let [Checkpoint { sequence_number: Some(sequence_number), offset, .. }] = &listed[..] else {
            panic!("one checkpoint, not {listed:?}");
        };
        assert!(
            *sequence_number >= last_known,
            "{sequence_number} was stored, {last_known} had been written"
        );
        assert_eq!(offset.as_deref(), Some(&*sequence_number.to_string()));
        last_known = *sequence_number;
    }
}

#[tokio::test]
async fn processes_that_claim_at_once_do_not_both_win() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut processes: Vec<_> = (0..4)
        .map(|number| run_process("a_process_that_claims", folder.path(), &format!("process {number}")))
        .collect();
    let mut won: Vec<u32> = Vec::new();
    for (child, lines) in &mut processes {
        let lines = lines.lines().map_while(Result::ok);
        won.extend(lines.filter_map(|line| said::<u32>(&line, "won ")));
        assert!(child.wait().expect("it was started here").success());
    }
    won.sort_unstable();
    assert_eq!(won, (0..64).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_process_that_writes_checkpoints() {
    let Some((folder, _)) = this_process() else {
        return;
    };
    let store = FileCheckpointStore::open(folder).expect("a folder that can be written");
    let newest = store.list_checkpoints(&group()).await.expect("a whole slot");
    let first = newest.first().and_then(|checkpoint| checkpoint.sequence_number).map_or(0, |last| last + 1);
    for sequence_number in first.. {
        store.update_checkpoint(checkpoint(sequence_number)).await.expect("written");
        let mut output = std::io::stdout().lock();
        // The reader kills this process; until then there is one.
        writeln!(output, "written {sequence_number}").expect("somebody reads");
    }
}

#[tokio::test]
async fn a_process_that_claims() {
    let Some((folder, owner_id)) = this_process() else {
        return;
    };
    let store = FileCheckpointStore::open(folder).expect("a folder that can be written");
    for partition in 0..64 {
        for won in win_all(&store, vec![claim(partition, &owner_id)]).await {
            writeln!(std::io::stdout().lock(), "won {}", won.partition).expect("somebody reads");
        }
    }
}

/// Runs one test of this binary in a process of its own; the test finds the folder and the argument in its environment.
fn run_process(test: &str, folder: &Path, argument: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(env::current_exe().expect("a test binary"))
        .args(["--exact", &format!("checkpoint::files::tests::{test}"), "--nocapture", "--test-threads=1"])
        .env(FOLDER_VARIABLE, folder)
        .env(ARGUMENT_VARIABLE, argument)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a test binary that can be run again");
    let output = BufReader::new(child.stdout.take().expect("a pipe was asked for"));
    (child, output)
}

/// The number that a process said on a line; the test harness may have begun the line with words of its own.
fn said<T: std::str::FromStr>(line: &str, word: &str) -> Option<T> {
    line.split_once(word)?.1.parse().ok()
}

fn this_process() -> Option<(PathBuf, String)> {
    Some((env::var_os(FOLDER_VARIABLE)?.into(), env::var(ARGUMENT_VARIABLE).ok()?))
}

const FOLDER_VARIABLE: &str = "PARSHALL_TEST_STORE_FOLDER";
const ARGUMENT_VARIABLE: &str = "PARSHALL_TEST_STORE_ARGUMENT";

/// Without the closing, one in about twenty loses what was acknowledged.
const TAKEOVERS: usize = 500;
