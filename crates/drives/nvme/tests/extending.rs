//! The command of `docs/guides/extending.md` is the file of the crate, registered as the page says;
//! what the other tests see of Verify is what a command of one's own has.

#[test]
fn the_page_shows_the_file_and_the_lines() {
    let page = include_str!("../../../../docs/guides/extending.md");
    let code = include_str!("../src/commands/verify.rs");
    assert!(page.contains(&format!("```rust\n{code}```")), "verify.rs is not as in the page");
    let registered = include_str!("../src/commands/mod.rs");
    for line in ["mod verify;", "verify::COMMAND,"] {
        assert!(page.contains(line) && registered.contains(line), "{line}");
    }
}
