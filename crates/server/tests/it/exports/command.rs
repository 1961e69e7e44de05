//! The file of `sluice export --output`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::harness::{Backend, Server};

crate::on_every_backend!(an_output_is_a_file_of_its_own);

async fn export(server: &Server, output: &Path) -> Result<String, String> {
    let output = output.to_str().unwrap();
    let args =
        ["export", "--project", "1", "--format", "jsonl", "--since", "1h", "--output", output];
    let done = server.cli(&args, &[]).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if done.status.success() { Ok(text(done.stdout)) } else { Err(text(done.stderr)) }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn an_output_is_a_file_of_its_own(backend: Backend) {
    let server = Server::start(&backend).await;
    let key = server.key();
    let trace = key.trace().await;
    key.execute(&trace, "Hello.").await.ok(200);
    let folder = server.data().parent().unwrap().join("exports");
    fs::create_dir(&folder).unwrap();
    let (output, other) = (folder.join("steps.jsonl"), folder.join("other"));

    // The file takes neither mode nor place from what lies at its name, or at the one that it had on the way.
    fs::write(&other, "kept").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o666)).unwrap();
    for name in ["steps.jsonl", "steps.jsonl.part"] {
        symlink(&other, folder.join(name)).unwrap();
    }
    export(&server, &output).await.unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
    assert!(!output.is_symlink());
    assert_eq!(mode(&output), 0o600);
    let exported = fs::read_to_string(&output).unwrap();
    assert_eq!(exported.lines().count(), 1, "{exported}");

    fs::set_permissions(&output, fs::Permissions::from_mode(0o644)).unwrap();
    export(&server, &output).await.unwrap();
    assert_eq!((mode(&output), fs::read_to_string(&output).unwrap()), (0o600, exported));

    // A folder, as a device, is not replaced.
    let refused = export(&server, &folder).await.unwrap_err();
    assert!(refused.contains("it is not a regular file"), "{refused}");
    let device = folder.join("device");
    std::os::unix::fs::symlink("/dev/null", &device).unwrap();
    let refused = export(&server, &device).await.unwrap_err();
    assert!(refused.contains("it is not a regular file") && device.is_symlink(), "{refused}");
    fs::remove_file(&device).unwrap();
    let refused = export(&server, &folder.join("missing/steps")).await.unwrap_err();
    assert!(refused.contains("cannot be written"), "{refused}");
    let mut left: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["other", "steps.jsonl", "steps.jsonl.part"], "nothing is left over");
}
