//! Access to what our listeners have noted of the connection that a request has come by.

use super::{Hangup, UnixPeer, Via};
use http::Extensions;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};

/// The handle that ends the connection; `None`: it is not one of our listeners'.
pub(super) fn hangup(extensions: &Extensions) -> Option<&Hangup> {
    let unix = extensions.get::<Via<UnixPeer>>().map(|via| &via.hangup);
    let tcp = || extensions.get::<Via<TcpConnectInfo>>().map(|via| &via.hangup);
    let tls = || extensions.get::<TlsConnectInfo<Via<TcpConnectInfo>>>();
    unix.or_else(tcp).or_else(|| tls().map(|tls| &tls.get_ref().hangup))
}
