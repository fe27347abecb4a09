//! Certificates for a server, created by the `openssl` program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::process;

/// The certificate that a server presents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Certificate {
    /// It has expired.
    Expired,
    /// It is issued to `other.example`.
    OtherHost,
    /// It is issued to `127.0.0.1` and `localhost`.
    #[default]
    Valid,
}

/// Whether a server requires a certificate from its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientCertificate {
    /// It does not.
    #[default]
    NotAsked,
    /// It refuses clients without one.
    Required,
}

/// The files of a server's certificates, all in PEM.
///
/// The authority is created for this one server, so a client that trusts another server's authority
/// does not trust this server.
#[derive(Clone, Debug)]
pub struct Tls {
    folder: PathBuf,
}

impl Tls {
    /// Creates an authority, the server's certificate and one for a client in `folder`.
    pub(crate) fn make(folder: &Path, certificate: Certificate) -> Result<Self> {
        let folder = folder.join("tls");
        fs::create_dir_all(folder.join("issued")).map_err(Error::io("make the folder for TLS"))?;
        let tls = Self { folder };
        tls.write("index.txt", "")?;
        tls.write("openssl.cnf", CONFIG)?;
        let authority = [
            &REQUEST[..],
            &["-x509", "-days", "2", "-subj", "/CN=tenure test authority"],
        ]
        .concat();
        tls.openssl(
            &[
                &authority[..],
                &[
                    "-extensions",
                    "authority",
                    "-keyout",
                    "ca.key",
                    "-out",
                    "ca.crt",
                ],
            ]
            .concat(),
        )?;
        let (hosts, days) = match certificate {
            Certificate::Expired => (HERE, OVER),
            Certificate::OtherHost => ("DNS:other.example", TODAY),
            Certificate::Valid => (HERE, TODAY),
        };
        tls.issue("server", hosts, days)?;
        tls.issue("client", "DNS:client.example", TODAY)?;
        Ok(tls)
    }

    /// Returns the certificate of the authority, which clients must trust.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// Returns a client certificate that the server accepts.
    pub fn client_certificate(&self) -> PathBuf {
        self.folder.join("client.crt")
    }

    /// Returns the private key of the client certificate.
    pub fn client_key(&self) -> PathBuf {
        self.folder.join("client.key")
    }

    /// Returns the certificate that the server presents.
    pub(crate) fn server_certificate(&self) -> PathBuf {
        self.folder.join("server.crt")
    }

    /// Returns the private key of the server's certificate.
    pub(crate) fn server_key(&self) -> PathBuf {
        self.folder.join("server.key")
    }

    /// Creates a key and a certificate signed by the authority.
    fn issue(&self, who: &str, hosts: &str, days: [&str; 4]) -> Result<()> {
        let (key, request, certificate) = (
            format!("{who}.key"),
            format!("{who}.csr"),
            format!("{who}.crt"),
        );
        let extensions = format!("{who}.ext");
        self.write(&extensions, &format!("subjectAltName={hosts}\n{LEAF}"))?;
        let subject = format!("/CN={who}");
        self.openssl(
            &[
                &REQUEST[..],
                &["-subj", &subject, "-keyout", &key, "-out", &request],
            ]
            .concat(),
        )?;
        let sign = [
            "ca",
            "-batch",
            "-notext",
            "-config",
            "openssl.cnf",
            "-in",
            &request,
        ];
        self.openssl(
            &[
                &sign[..],
                &["-out", &certificate, "-extfile", &extensions],
                &days,
            ]
            .concat(),
        )
    }

    fn openssl(&self, args: &[&str]) -> Result<()> {
        let program = process::find("openssl", "openssl")?;
        let output = Command::new(program)
            .args(args)
            .current_dir(&self.folder)
            .output();
        let output = output.map_err(Error::io("run openssl"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Program {
            program: format!("openssl {}", args.join(" ")),
            log: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.folder.join(name), text).map_err(Error::io(format!("write {name}")))
    }
}

/// Elliptic curves, because their keys are fast to create.
const REQUEST: [&str; 8] = [
    "req",
    "-new",
    "-nodes",
    "-config",
    "openssl.cnf",
    "-newkey",
    "ec",
    "-pkeyopt=ec_paramgen_curve:prime256v1",
];

/// The names by which tests reach a server.
const HERE: &str = "IP:127.0.0.1,DNS:localhost";

/// Valid from well before now, in case the machine's clock is set back a little.
const TODAY: [&str; 4] = [
    "-startdate",
    "20200101000000Z",
    "-enddate",
    "20991231000000Z",
];

const OVER: [&str; 4] = [
    "-startdate",
    "20200101000000Z",
    "-enddate",
    "20200102000000Z",
];

const LEAF: &str = "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n\
                    extendedKeyUsage=serverAuth,clientAuth\n";

/// In OpenSSL 3.0, `openssl ca` is the only way to choose both dates, and it needs this
/// configuration.
const CONFIG: &str = "\
[req]
distinguished_name = nothing
[nothing]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[ca]
default_ca = here
[here]
database = index.txt
new_certs_dir = issued
certificate = ca.crt
private_key = ca.key
default_md = sha256
policy = anyone
rand_serial = yes
[anyone]
commonName = supplied
";
