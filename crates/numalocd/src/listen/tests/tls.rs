//! Client certificates, with keys made for the test.

use super::*;
use crate::{access::Via, tls::Tls};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tonic::transport::{
    Certificate, ClientTlsConfig, Identity,
    server::{TcpConnectInfo, TlsConnectInfo},
};

/// A certificate authority that signs for servers and clients.
struct CertificateAuthority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl CertificateAuthority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Makes a key and a certificate for it.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn certificate_only(request: Request<()>) -> Result<Request<()>, Status> {
    let info = request.extensions().get::<TlsConnectInfo<Via<TcpConnectInfo>>>();
    let certificates = info.and_then(TlsConnectInfo::peer_certs).unwrap_or_default();
    if certificates.is_empty() { Err(Status::permission_denied("who?")) } else { Ok(request) }
}

#[tokio::test]
async fn only_certificates_of_the_clients_authority_get_in() {
    let directory = tempfile::tempdir().unwrap();
    let (servers, clients, others) = (
        CertificateAuthority::new("servers"),
        CertificateAuthority::new("clients"),
        CertificateAuthority::new("others"),
    );
    let (certificate, key) = servers.sign("localhost");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let tls = Tls {
        certificate: file("server.pem", &certificate),
        key: file("server.key", &key),
        client_ca: file("clients.pem", &clients.pem),
    };
    let tcp = Some("127.0.0.1:0".parse().unwrap());
    let config = Listen { tcp, tls: Some(tls), ..at(&directory, "n.sock") };
    let listeners = Listeners::open(&config, Passed::default()).await.unwrap();
    let address = listeners.tcp_addresses()[0];
    let (stop, served) = serving(listeners, |mut server| {
        let (_, health) = tonic_health::server::health_reporter();
        server.add_service(tonic::service::interceptor::InterceptedService::new(
            health,
            certificate_only,
        ))
    });

    let call = async |tls: ClientTlsConfig| {
        let tls = tls.ca_certificate(Certificate::from_pem(&servers.pem)).domain_name("localhost");
        let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
        match endpoint.tls_config(tls).unwrap().connect().await {
            Ok(channel) => ask(channel).await,
            Err(error) => Err(Status::from_error(error.into())),
        }
    };
    let with = |(certificate, key): (String, String)| {
        ClientTlsConfig::new().identity(Identity::from_pem(certificate, key))
    };
    assert_eq!(call(with(clients.sign("node-agent"))).await.unwrap(), 1);
    assert!(call(with(others.sign("node-agent"))).await.is_err(), "another authority's");
    let anonymous = call(ClientTlsConfig::new()).await.unwrap_err();
    // The handshake fails already, not only the service's check.
    assert_ne!(anonymous.code(), tonic::Code::PermissionDenied);
    let plain = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let plain = async { ask(plain.connect().await.map_err(|_| Status::unknown(""))?).await };
    assert!(plain.await.is_err(), "no TLS");
    // The server still works after these failures.
    assert_eq!(call(with(clients.sign("node-agent"))).await.unwrap(), 1);
    stop.send(()).unwrap();
    served.await.unwrap();
}

#[tokio::test]
async fn keys_are_read_again_while_connections_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new, clients) = (
        CertificateAuthority::new("old"),
        CertificateAuthority::new("new"),
        CertificateAuthority::new("clients"),
    );
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let write = |(certificate, key): &(String, String)| {
        (file("server.pem", certificate), file("server.key", key))
    };
    let (certificate, key) = write(&old.sign("localhost"));
    let tls = Tls { certificate, key, client_ca: file("clients.pem", &clients.pem) };
    let tcp = Some("127.0.0.1:0".parse().unwrap());
    let config = Listen { tcp, tls: Some(tls.clone()), ..at(&directory, "n.sock") };
    let listeners = Listeners::open(&config, Passed::default()).await.unwrap();
    let (address, keys) = (listeners.tcp_addresses()[0], listeners.keys().unwrap());
    let (stop, served) = serving(listeners, health);
    let connect = async |authority: &CertificateAuthority, (certificate, key): (String, String)| {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&authority.pem))
            .identity(Identity::from_pem(certificate, key))
            .domain_name("localhost");
        let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
        endpoint.tls_config(tls).unwrap().connect().await
    };
    let open = connect(&old, clients.sign("agent")).await.unwrap();
    assert_eq!(ask(open.clone()).await.unwrap(), 1);

    let renewed = new.sign("localhost");
    write(&renewed);
    assert!(connect(&new, clients.sign("agent")).await.is_err(), "nobody has read it yet");
    keys.read_again(&tls).unwrap();
    assert_eq!(ask(open).await.unwrap(), 1, "an open connection has ended");
    let channel = connect(&new, clients.sign("agent")).await.unwrap();
    assert_eq!(ask(channel).await.unwrap(), 1);
    assert!(connect(&old, clients.sign("agent")).await.is_err());

    // Wrong files change nothing, and the error names the problem.
    let wrong = [
        ("server.key", new.sign("localhost").1, "key"),
        ("server.pem", "nothing".to_owned(), "server.pem"),
        ("clients.pem", "-----BEGIN CERTIFICATE-----\nx".to_owned(), ""),
    ];
    for (name, text, words) in wrong {
        let before = fs::read(directory.path().join(name)).unwrap();
        file(name, &text);
        let error = keys.read_again(&tls).unwrap_err();
        assert!(error.to_string().contains(words), "{name}: {error}");
        assert!(connect(&new, clients.sign("agent")).await.is_ok(), "{name}");
        fs::write(directory.path().join(name), before).unwrap();
    }
    // The authority for client certificates is replaced.
    file("clients.pem", &old.pem);
    keys.read_again(&tls).unwrap();
    let channel = connect(&new, old.sign("agent")).await.unwrap();
    assert_eq!(ask(channel).await.unwrap(), 1);
    stop.send(()).unwrap();
    served.await.unwrap();
}
