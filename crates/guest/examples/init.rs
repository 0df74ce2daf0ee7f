//! The agent alone, to be tried as a guest's `/init`.

fn main() {
    stasis_guest::agent::main()
}
