//! Replays the fuzz corpus without a fuzzer.

use std::{fs, path::PathBuf};

use tautline_testkit::fuzz;

fn corpus_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// Every file under `fuzz/corpus/<target>/` holds the target's properties.
#[test]
fn every_input_of_the_corpus_holds() {
    for (target, body) in fuzz::TARGETS {
        let dir = corpus_dir().join(target);
        let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        let mut count = 0;
        for entry in entries {
            let path = entry.unwrap().path();
            eprintln!("{}", path.display());
            body(&fs::read(&path).unwrap());
            count += 1;
        }
        assert!(count > 0, "no corpus for {target}");
    }
}

/// No corpus without a target: such files would never be replayed.
#[test]
fn every_folder_of_the_corpus_has_a_target() {
    for entry in fs::read_dir(corpus_dir()).unwrap() {
        let name = entry.unwrap().file_name();
        let known = fuzz::TARGETS.iter().any(|(target, _)| name == *target);
        assert!(known, "fuzz/corpus/{} has no target", name.display());
    }
}

/// The seeds are part of the corpus, byte for byte.
#[test]
fn the_seeds_are_in_the_corpus() {
    for (target, _) in fuzz::TARGETS {
        for (name, bytes) in fuzz::seeds(target) {
            let path = corpus_dir().join(target).join(format!("seed_{name}"));
            let found = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert_eq!(
                found,
                bytes,
                "{} is out of date; see write_seeds",
                path.display()
            );
        }
    }
}

/// Writes the seeds: `cargo test -p tautline-testkit --test corpus -- --ignored write_seeds`.
#[test]
#[ignore = "changes files in the source tree"]
fn write_seeds() {
    for (target, _) in fuzz::TARGETS {
        let dir = corpus_dir().join(target);
        fs::create_dir_all(&dir).unwrap();
        for (name, bytes) in fuzz::seeds(target) {
            fs::write(dir.join(format!("seed_{name}")), bytes).unwrap();
        }
    }
}
