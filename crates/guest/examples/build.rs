//! Builds the default guest: `build AGENT CACHE [PACKAGE...]`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut path =
        || arguments.next().map(PathBuf::from).ok_or("usage: build AGENT CACHE [PACKAGE...]");
    let (agent, cache) = (path()?, path()?);
    let recipe = stasis_guest::build::Recipe::default().with_packages(arguments);
    let guest = stasis_guest::build::build(&recipe, &agent, &cache, &mut |progress| {
        eprintln!("{:3.0} % {}", progress.fraction * 100.0, progress.step);
    })?;
    println!("{guest:#?}");
    Ok(())
}
