//! Getting peers by the registries' own clients, and building them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::tools::{cargo, has, root, run};

/// Debian's name for the release whose programs speak HTTP/3.
const DEBIAN: &str = "trixie";
const ROOT_PACKAGES: &[&str] = &[
    "curl",
    "ca-certificates",
    "nginx-light",
    "ngtcp2-client",
    "ngtcp2-server",
];

/// Where programs are built and kept between runs.
pub(crate) struct Workshop {
    target: PathBuf,
    /// Build programs, rather than take those that are there.
    build: bool,
}

impl Workshop {
    /// Also makes a certificate for `localhost` and 127.0.0.1.
    pub(crate) fn open(build: bool) -> Result<Self> {
        let target = match std::env::var_os("TAUTLINE_INTEROP_TARGET") {
            Some(folder) => PathBuf::from(folder),
            None => root().join("interop").join("target"),
        };
        std::fs::create_dir_all(&target)?;
        let workshop = Self { target, build };
        workshop.install_debian_packages(&[("openssl", "openssl")])?;
        workshop.make_certificate()?;
        Ok(workshop)
    }

    /// The folder `interop/` of the repository.
    pub(crate) fn sources(&self) -> PathBuf {
        root().join("interop")
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.target.join("cert.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.target.join("key.pem")
    }

    /// Ten days at most, as browsers want it of certificates that nobody vouches for.
    fn make_certificate(&self) -> Result<()> {
        let mut openssl = Command::new("openssl");
        openssl
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
            ])
            .args(["-nodes", "-days", "10", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
            .arg(self.key())
            .arg("-out")
            .arg(self.certificate());
        output(&mut openssl).map(drop)
    }

    /// SHA-256 of the certificate's public key in Base64, as Chromium names keys.
    pub(crate) fn key_pin(&self) -> Result<String> {
        let script = "openssl x509 -in \"$0\" -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64";
        output(
            Command::new("sh")
                .args(["-c", script])
                .arg(self.certificate()),
        )
    }

    // ---- cargo ----

    pub(crate) fn build_ours(&self) -> Result<()> {
        self.build_package("interop-ours")?;
        self.build_package("interop-proxy")
    }

    pub(crate) fn build_package(&self, package: &str) -> Result<()> {
        if !self.build && self.program(package).is_file() {
            return Ok(());
        }
        let mut build = cargo();
        build
            .args([
                "build",
                "--release",
                "--locked",
                "--package",
                package,
                "--manifest-path",
            ])
            .arg(self.sources().join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&self.target);
        run(&mut build)
    }

    pub(crate) fn program(&self, package: &str) -> PathBuf {
        self.target.join("release").join(package)
    }

    /// The version of a crate in the lock file of `interop/`.
    pub(crate) fn locked_version(&self, library: &str) -> Option<String> {
        let lock = std::fs::read_to_string(self.sources().join("Cargo.lock")).ok()?;
        let start = lock.find(&format!("name = \"{library}\"\n"))?;
        let line = lock.get(start..)?.lines().nth(1)?;
        Some(
            line.trim_start_matches("version = ")
                .trim_matches('"')
                .to_owned(),
        )
    }

    // ---- Go ----

    pub(crate) fn go_program(&self) -> PathBuf {
        self.target.join("interop-go")
    }

    pub(crate) fn build_go(&self) -> Result<()> {
        self.install_debian_packages(&[("go", "golang-go")])?;
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(self.go_program()).arg(".");
        run(build.current_dir(self.sources().join("go")))
    }

    pub(crate) fn go_version(&self, module: &str) -> Option<String> {
        let mut list = Command::new("go");
        list.args(["list", "-m", "-f", "{{.Version}}", module]);
        output(list.current_dir(self.sources().join("go"))).ok()
    }

    // ---- Python ----

    pub(crate) fn python(&self) -> PathBuf {
        self.target.join("python").join("bin").join("python")
    }

    pub(crate) fn make_python(&self) -> Result<()> {
        if !self.python().is_file() {
            self.install_debian_packages(&[("python3", "python3-venv")])?;
            run(Command::new("python3")
                .args(["-m", "venv"])
                .arg(self.target.join("python")))?;
        }
        let mut install = Command::new(self.python());
        install
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "-r",
            ])
            .arg(self.sources().join("python").join("requirements.txt"));
        run(&mut install)
    }

    pub(crate) fn python_version(&self, package: &str) -> Option<String> {
        let script =
            "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))";
        output(Command::new(self.python()).args(["-c", script, package])).ok()
    }

    // ---- Debian ----

    /// Installs the packages of programs that are missing.
    pub(crate) fn install_debian_packages(&self, wanted: &[(&str, &str)]) -> Result<()> {
        let missing: Vec<&str> = wanted
            .iter()
            .filter(|(program, _)| !has(program))
            .map(|(_, package)| *package)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        if !has("apt-get") {
            bail!(
                "missing {}, and no apt-get to install it",
                missing.join(", ")
            );
        }
        run(Command::new("apt-get").args(["update", "-qq"]))?;
        let mut install = Command::new("apt-get");
        install
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(&missing);
        run(install
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null()))
    }

    pub(crate) fn debian_version(&self, package: &str) -> Option<String> {
        output(Command::new("dpkg-query").args(["-W", "-f", "${Version}", package])).ok()
    }

    fn debian_root(&self) -> PathBuf {
        self.target.join("debian")
    }

    /// A root of a newer Debian; nothing of the host is mounted into it.
    pub(crate) fn make_debian_root(&self) -> Result<()> {
        let (home, done) = (
            self.debian_root(),
            self.debian_root().join(".tautline-complete"),
        );
        if done.is_file() {
            return Ok(());
        }
        // A half-made root from an earlier attempt is of no use.
        let _ = std::fs::remove_dir_all(&home);
        self.install_debian_packages(&[("debootstrap", "debootstrap")])?;
        let mut make = Command::new("debootstrap");
        make.args(["--variant=minbase", DEBIAN])
            .arg(&home)
            .args(mirror());
        run(make.stdout(Stdio::null()))?;
        let resolver = Path::new("/etc/resolv.conf");
        if resolver.is_file() {
            std::fs::copy(resolver, home.join("etc").join("resolv.conf"))?;
        }
        let chroot = |arguments: &[&str]| {
            let mut command = Command::new("chroot");
            command
                .arg(&home)
                .args(arguments)
                .env("DEBIAN_FRONTEND", "noninteractive");
            run(command.stdout(Stdio::null()))
        };
        chroot(&["apt-get", "update", "-qq"])?;
        let install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"];
        chroot(&[&install[..], ROOT_PACKAGES].concat())?;
        std::fs::write(done, "")?;
        Ok(())
    }

    /// A program of the Debian root, with the libraries of that root but the files of the host.
    pub(crate) fn in_root(&self, program: &str) -> Command {
        let home = self.debian_root();
        let library = |folder: &str| {
            home.join(folder)
                .join("x86_64-linux-gnu")
                .display()
                .to_string()
        };
        let mut command = Command::new(home.join("lib64").join("ld-linux-x86-64.so.2"));
        command
            .arg("--library-path")
            .arg(format!("{}:{}", library("lib"), library("usr/lib")))
            .arg(home.join(program));
        command
    }

    pub(crate) fn root_version(&self, package: &str) -> Option<String> {
        let database = self.debian_root().join("var").join("lib").join("dpkg");
        let query = ["-W", "-f", "${Version}", package];
        output(
            Command::new("dpkg-query")
                .arg("--admindir")
                .arg(database)
                .args(query),
        )
        .ok()
    }
}

/// The package mirror of the host, if it names one.
fn mirror() -> Option<String> {
    let sources = std::fs::read_to_string("/etc/apt/sources.list.d/debian.sources").ok()?;
    let line = sources
        .lines()
        .find_map(|line| line.strip_prefix("URIs:"))?;
    line.split_whitespace().next().map(str::to_owned)
}

/// What a program prints; its error output is the error.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
