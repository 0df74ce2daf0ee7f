//! Builds a guest: `build AGENT CACHE [SUITE [KERNEL [PACKAGE...]]]`.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use stasis_guest_image::{build, Recipe};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut path = || {
        arguments
            .next()
            .map(PathBuf::from)
            .ok_or("usage: build AGENT CACHE [SUITE [KERNEL [PACKAGE...]]]")
    };
    let (agent, cache) = (path()?, path()?);
    let mut recipe = Recipe::default();
    recipe.suite = arguments.next().unwrap_or(recipe.suite);
    recipe.kernel = arguments.next().unwrap_or(recipe.kernel);
    let recipe = recipe.with_packages(arguments);
    let guest = build(&recipe, &agent, &cache, &AtomicBool::new(false), &mut |progress| {
        eprintln!("{:3.0} % {}", progress.fraction * 100.0, progress.step);
    })?;
    println!("{guest:#?}");
    Ok(())
}
