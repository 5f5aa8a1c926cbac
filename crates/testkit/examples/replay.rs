//! Runs one input of a fuzz target: `cargo run -p tautline-testkit --example replay -- pair FILE`.
//! A script of the pair is printed first; `'#7'` instead of a file is honest script 7,
//! and TAUTLINE_SAVE names a file to save it to.

use std::process::ExitCode;

use tautline_testkit::fuzz;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let [_, name, files @ ..] = args.as_slice() else {
        eprintln!("usage: replay TARGET FILE...");
        return ExitCode::FAILURE;
    };
    let Some((_, body)) = fuzz::TARGETS.iter().find(|(target, _)| target == name) else {
        eprintln!("no target is called {name}");
        return ExitCode::FAILURE;
    };
    for file in files {
        // An honest script is named by its number.
        let numbered = file
            .strip_prefix('#')
            .and_then(|number| number.parse().ok());
        let data =
            match numbered.map_or_else(|| std::fs::read(file), |n| Ok(fuzz::honest_script(n))) {
                Ok(data) => data,
                Err(error) => {
                    eprintln!("{file}: {error}");
                    return ExitCode::FAILURE;
                }
            };
        if let Some(to) = std::env::var_os("TAUTLINE_SAVE")
            && let Err(error) = std::fs::write(&to, &data)
        {
            eprintln!("{}: {error}", to.display());
        }
        if name == "pair" {
            println!("{}", fuzz::describe_pair(&data));
        }
        body(&data);
        println!("{file} holds");
    }
    ExitCode::SUCCESS
}
