use super::{Has, answers, check};
use crate::{
    access::tests::{
        certificate, config, grant,
        server::{Answer, access, answer, serve_tcp},
    },
    config::{Config, Grantee, Role},
};
use rcgen::{CertificateParams, CertifiedIssuer, DnType, KeyPair, SanType};
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};
use tokio::sync::watch;
use tonic::{
    Code,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, ServerTlsConfig},
};

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn params(common: Option<&str>, dns: &[&str]) -> CertificateParams {
    let dns: Vec<_> = dns.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(dns).expect("DNS names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(common) = common {
        params.distinguished_name.push(DnType::CommonName, common);
    }
    params
}

fn authority() -> Issuer {
    let mut params = params(Some("authority"), &[]);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, key()).expect("an authority")
}

fn identity(issuer: &Issuer, common: Option<&str>, dns: &[&str]) -> Identity {
    let key = key();
    let leaf = params(common, dns).signed_by(&key, issuer).expect("a certificate");
    Identity::from_pem(leaf.pem(), key.serialize_pem())
}

fn root(issuer: &Issuer) -> Certificate {
    Certificate::from_pem(issuer.pem())
}

/// A client with this identity; `None`: it is refused before it can call.
async fn connect(address: SocketAddr, ca: &Issuer, identity: Option<Identity>) -> Option<Channel> {
    let mut tls = ClientTlsConfig::new().ca_certificate(root(ca)).domain_name("daemon.test");
    if let Some(identity) = identity {
        tls = tls.identity(identity);
    }
    let endpoint = Endpoint::from_shared(format!("https://{address}")).expect("an address");
    endpoint.tls_config(tls).expect("the keys are good").connect().await.ok()
}

async fn all(address: SocketAddr, ca: &Issuer, identity: Identity) -> BTreeMap<String, Answer> {
    let channel = connect(address, ca, Some(identity)).await.expect("its certificate is good");
    answers(&channel).await
}

/// A server, and the sender that changes its configuration.
async fn server(ca: &Issuer) -> (SocketAddr, watch::Sender<Arc<Config>>) {
    let config = config(vec![
        grant(certificate("viewer.test"), Role::Viewer),
        grant(certificate("the operator"), Role::Operator),
        grant(certificate("admin.test"), Role::Admin),
        grant(Grantee::Uid(12_001), Role::Admin),
        grant(Grantee::Spiffe("spiffe://test/ns/web/sa/operator".to_owned()), Role::Operator),
    ]);
    let (access, sender) = access(config);
    let own = identity(ca, Some("daemon"), &["daemon.test"]);
    let tls = ServerTlsConfig::new().identity(own).client_ca_root(root(ca));
    (serve_tcp(Some(tls), access).await, sender)
}

#[tokio::test]
async fn certificates_may_call_what_they_were_granted() {
    let ca = authority();
    let (address, _config) = server(&ca).await;
    for (common, dns, name, has) in [
        (Some("viewer.test"), &[][..], "cert:viewer.test", Has::Viewer),
        (Some("the operator"), &[], "cert:the operator", Has::Operator),
        (Some("host"), &["other.test", "admin.test"], "cert:admin.test", Has::Admin),
        (None, &["viewer.test"], "cert:viewer.test", Has::Viewer),
        (Some("stranger"), &["stranger.test"], "cert:stranger", Has::Nothing),
        (Some("uid:0"), &[], "cert:uid:0", Has::Nothing),
        (Some("uid:12001"), &[], "cert:uid:12001", Has::Nothing),
        (None, &["*.test"], "cert:*.test", Has::Nothing),
        (None, &[], "cert:", Has::Nothing),
    ] {
        let identity = identity(&ca, common, dns);
        check(name, has, &all(address, &ca, identity.clone()).await);
        no_more(&connect(address, &ca, Some(identity)).await.expect("it was good"), has).await;
    }
}

/// A certificate with this common name and these URIs.
fn svid(issuer: &Issuer, common: Option<&str>, uris: &[&str]) -> Identity {
    let (key, mut params) = (key(), params(common, &[]));
    let uri = |uri: &&str| SanType::URI((*uri).try_into().expect("ASCII"));
    params.subject_alt_names = uris.iter().map(uri).collect();
    let leaf = params.signed_by(&key, issuer).expect("a certificate");
    Identity::from_pem(leaf.pem(), key.serialize_pem())
}

#[tokio::test]
async fn a_spiffe_id_is_the_only_uri_of_a_certificate() {
    let ca = authority();
    let (address, _config) = server(&ca).await;
    let id = "spiffe://test/ns/web/sa/operator";
    let other = "spiffe://test/other";
    for (common, uris, name, has) in [
        (None, &[id][..], id, Has::Operator),
        (Some("host"), &[id], id, Has::Operator),
        (Some("viewer.test"), &[id], "cert:viewer.test", Has::Viewer),
        (None, &[other], other, Has::Nothing),
        (None, &[id, other], "cert:", Has::Nothing),
        (None, &["https://test/ns/web/sa/operator"], "cert:", Has::Nothing),
        (Some(id), &[], "cert:spiffe://test/ns/web/sa/operator", Has::Nothing),
    ] {
        check(name, has, &all(address, &ca, svid(&ca, common, uris)).await);
    }
}

/// Checks that calls without a rule are refused.
async fn no_more(channel: &Channel, has: Has) {
    let unknown = ["/", "/numaloc.v1.MigrationService/Nuke", "/numaloc.v2.MigrationService/GetJob"];
    for path in unknown {
        let (code, message) = answer(channel, path).await;
        let refused =
            if has == Has::Nothing { Code::PermissionDenied } else { Code::Unimplemented };
        assert_eq!(code, refused, "{path}: {message}");
        assert!(!message.contains("reached"), "{path}: {message}");
    }
}

#[tokio::test]
async fn a_new_configuration_holds_on_open_connections() {
    let ca = authority();
    let (address, sender) = server(&ca).await;
    let identity = identity(&ca, Some("viewer.test"), &["second.test"]);
    let channel = connect(address, &ca, Some(identity)).await.expect("its certificate is good");
    let second = |role| vec![grant(certificate("second.test"), role)];
    check("cert:viewer.test", Has::Viewer, &answers(&channel).await);
    for (grants, name, has) in [
        (second(Role::Operator), "cert:second.test", Has::Operator),
        (second(Role::Admin), "cert:second.test", Has::Admin),
        (Vec::new(), "cert:viewer.test", Has::Nothing),
    ] {
        sender.send(config(grants)).expect("it listens");
        check(name, has, &answers(&channel).await);
    }
}

#[tokio::test]
async fn without_a_certificate_of_our_authority_nothing_is_called() {
    let (ca, other) = (authority(), authority());
    let (address, _config) = server(&ca).await;
    let forged = identity(&other, Some("admin.test"), &["admin.test"]);
    for identity in [None, Some(forged)] {
        // With TLS 1.3 the client learns only at its first call that it was refused.
        if let Some(channel) = connect(address, &ca, identity).await {
            for path in super::api().into_keys() {
                let (code, message) = answer(&channel, &path).await;
                assert!(!message.contains("reached"), "{path}: {message}");
                assert!(
                    matches!(code, Code::Unknown | Code::Unavailable),
                    "{path}: {code} {message}"
                );
            }
        }
    }
    // The server still works: a valid certificate passes.
    check(
        "cert:admin.test",
        Has::Admin,
        &all(address, &ca, identity(&ca, Some("admin.test"), &[])).await,
    );
}
