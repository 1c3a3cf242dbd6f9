//! Sockets that cannot be made.

use super::*;

/// The kubelet makes the directory of a pod's mount if that comes first, and it belongs to root then.
#[tokio::test]
async fn an_additional_socket_that_cannot_be_made_leaves_the_others_to_their_clients() {
    let directory = tempfile::tempdir().unwrap();
    let sockets = vec![further(&directory, "a/n.sock", 0o660), further(&directory, "file", 0o660)];
    let config = Listen { sockets, ..at(&directory, "n.sock") };
    fs::write(&config.sockets[1].path, "precious").unwrap();
    let listeners = Listeners::open(&config, Passed::default()).await.unwrap();
    let [missing] = listeners.missing() else { panic!("{:?}", listeners.missing()) };
    let path = config.sockets[1].path.display().to_string();
    assert!(missing.contains(&path) && missing.contains("exists and is not a socket"), "{missing}");
    let (stop, served) = serving(listeners, health);
    for path in [&config.socket, &config.sockets[0].path] {
        assert_eq!(health_at(path).await.unwrap(), 1);
    }
    stop.send(()).unwrap();
    served.await.unwrap();
    assert_eq!(fs::read_to_string(&config.sockets[1].path).unwrap(), "precious");
}

#[tokio::test]
async fn without_its_main_socket_none_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let sockets = vec![further(&directory, "a/n.sock", 0o660)];
    let config = Listen { sockets, ..at(&directory, "n.sock") };
    fs::write(&config.socket, "precious").unwrap();
    let error = Listeners::open(&config, Passed::default()).await.unwrap_err();
    assert!(matches!(error, ListenError::NotASocket { .. }), "{error}");
    assert!(!config.sockets[0].path.exists());
}
