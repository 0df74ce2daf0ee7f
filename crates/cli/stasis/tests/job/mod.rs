//! Jobs in guests that are to succeed.

use stasis_qemu_vm::{Job, Piece, Vm};

/// Runs a job with these files as its input; returns its output. It is to succeed.
pub fn succeed(vm: &mut Vm, job: &Job, mut files: &[u8]) -> String {
    let mut output = String::new();
    let outcome = vm.run(job, &mut files, &mut |piece| {
        if let Piece::Output(_, bytes) = piece {
            output += &String::from_utf8_lossy(bytes);
        }
    });
    let outcome = outcome.unwrap();
    eprintln!("{output}");
    assert_eq!((outcome.status, outcome.message.as_str()), (0, ""), "{output}");
    output
}
