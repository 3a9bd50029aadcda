"""Backups: restic, pgBackRest and Barman, with a PostgreSQL cluster that is thrown away and comes back."""

import shutil

from conftest import output, same


def test_restic_keeps_forgets_prunes_and_restores(account, cloud, container, files, tmp_path):
    environment = cloud | {
        "AZURE_ACCOUNT_NAME": account.name,
        "AZURE_ACCOUNT_KEY": account.key,
        "RESTIC_REPOSITORY": f"azure:{container}:/",
        "RESTIC_PASSWORD": "secret",
        "RESTIC_CACHE_DIR": str(tmp_path / "cache"),
    }

    def restic(*arguments):
        return output(["restic", *arguments], environment)

    restic("init")
    restic("backup", files)
    shutil.rmtree(files / "3")
    (files / "new").write_bytes(b"new" * 1_000_000)
    restic("backup", files)
    restic("forget", "--keep-last=1", "--prune")
    restic("check", "--read-data")
    restic("restore", "latest", "--target", tmp_path / "restored")
    assert same(files, tmp_path / "restored" / files.relative_to("/"))
    with account.client() as client:
        blobs = list(client.get_container_client(container).list_blobs())
    assert not [blob.name for blob in blobs if blob.name.startswith("locks/")]


def test_pgbackrest_brings_a_cluster_back_that_was_killed(account, cluster, container):
    folder = cluster.folder
    config = folder / "pgbackrest.conf"
    config.write_text(
        f"""[global]
repo1-type=azure
repo1-azure-account={account.name}
repo1-azure-key={account.key}
repo1-azure-container={container}
repo1-azure-uri-style=path
repo1-storage-host=localhost
repo1-storage-port={account.port}
repo1-storage-ca-file={account.authority}
repo1-path=/repo
repo1-retention-full=1
repo1-bundle=y
log-path={folder}
lock-path={folder}
spool-path={folder}
start-fast=y
[main]
pg1-path={cluster.data}
pg1-socket-path={cluster.sockets}
pg1-user=postgres
"""
    )

    def pgbackrest(*arguments):
        return cluster.run(["pgbackrest", f"--config={config}", "--stanza=main", *arguments])

    archive = f"pgbackrest --config={config} --stanza=main archive-push %p"
    cluster.start(f"archive_mode = on\narchive_command = '{archive}'")
    pgbackrest("stanza-create")
    pgbackrest("check")
    cluster.query("CREATE TABLE kept (number bigint)")
    cluster.query("INSERT INTO kept SELECT generate_series(1, 100000)")
    pgbackrest("--type=full", "backup")
    cluster.query("INSERT INTO kept SELECT generate_series(100001, 200000)")
    pgbackrest("--type=incr", "backup")
    cluster.query("INSERT INTO kept SELECT generate_series(200001, 300000)")
    cluster.archive()
    pgbackrest("check")
    pgbackrest("--type=full", "backup")
    # The first of the full backups has expired with what belongs to it.
    assert pgbackrest("info").count("full backup:") == 1
    cluster.stop("immediate")
    shutil.rmtree(cluster.data)
    pgbackrest("restore")
    cluster.start("")
    assert cluster.query("SELECT count(*), sum(number) FROM kept") == f"300000|{300000 * 300001 // 2}"


def test_barman_keeps_restores_and_deletes_backups(account, cloud, cluster, container, python):
    environment = cloud | {"AZURE_STORAGE_CONNECTION_STRING": account.of_the_cloud}
    target = f"https://{account.host}/{container}/barman"

    def barman(name, *arguments):
        own = ["--cloud-provider=azure-blob-storage", *arguments]
        return cluster.run([python, "-m", f"barman.clients.{name}", *own], environment)

    archive = f"{python} -m barman.clients.cloud_walarchive --cloud-provider=azure-blob-storage {target} main %p"
    cluster.start(f"archive_mode = on\narchive_command = '{archive}'", environment)
    cluster.query("CREATE TABLE kept (number bigint)")
    cluster.query("INSERT INTO kept SELECT generate_series(1, 100000)")
    for _ in range(2):
        barman("cloud_backup", "--immediate-checkpoint", "-h", str(cluster.sockets), "-U", "postgres", target, "main")
    cluster.query("INSERT INTO kept SELECT generate_series(100001, 200000)")
    cluster.archive()
    listed = [line.split()[0] for line in barman("cloud_backup_list", target, "main").splitlines()[1:] if line.strip()]
    assert len(listed) == 2
    barman("cloud_backup_delete", "--backup-id", listed[0], target, "main")
    assert listed[0] not in barman("cloud_backup_list", target, "main")
    cluster.stop("immediate")
    shutil.rmtree(cluster.data)
    barman("cloud_restore", target, "main", listed[1], str(cluster.data))
    restore = f"{python} -m barman.clients.cloud_walrestore --cloud-provider=azure-blob-storage {target} main %f %p"
    (cluster.data / "recovery.signal").touch()
    cluster.start(f"restore_command = '{restore}'\narchive_mode = off", environment)
    assert cluster.query("SELECT count(*), sum(number) FROM kept") == f"200000|{200000 * 200001 // 2}"
