//! The modules of a guest's kernel for gdb: where each lies, and a file of its symbols and frames. Modules have no
//! file that gdb could read: their places are chosen as they are loaded.

use std::fmt::Write;

use super::target::Debuggee;

/// The modules of the kernel that thread `number` of gdb's is of, a line each: addresses of the code, and name.
pub(super) fn list(debuggee: &mut Debuggee, number: usize) -> Option<String> {
    debuggee.look_at_modules(number, |modules, _| {
        let mut text = String::new();
        for module in modules {
            let code = module.code();
            let _ = writeln!(text, "{:#x} {:#x} {}", code.start, code.end, module.name());
        }
        match text.is_empty() {
            true => "no module is loaded\n".to_owned(),
            false => text,
        }
    })
}

/// The file of one of them in hexadecimal.
pub(super) fn file(debuggee: &mut Debuggee, number: usize, name: &str) -> Option<String> {
    let file = debuggee.look_at_modules(number, |modules, memory| {
        let module = modules.iter().find(|module| module.name() == name)?;
        Some(module.symbol_file(memory))
    })??;
    let mut text = String::with_capacity(2 * file.len() + 1);
    for byte in file {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    Some(text)
}
